"""Lets a kernel import cloudpickle from where the server has it, if its own environment has none.

Finds that one name and nothing else of the folder: the server's other packages may be for another
Python. Last on sys.meta_path, so the kernel's own copy always wins, also one installed later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_NAMES = frozenset(("cloudpickle",))


class PurePythonFinder:
    """A finder (importlib.abc.MetaPathFinder) for the names above in `folders`."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = list(folders)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of one of the names; None for anything else."""
        if fullname not in _NAMES:
            return None
        return PathFinder.find_spec(fullname, self.folders, target)


def install(folders: Sequence[str]) -> None:
    """Find the names in `folders` from now on, in this process."""
    if folders:
        sys.meta_path.append(PurePythonFinder(folders))


def folders() -> list[str]:
    """What was given to `install`: for a child process that shall import the same."""
    found: list[str] = []
    for finder in sys.meta_path:
        if isinstance(finder, PurePythonFinder):
            found += finder.folders
    return found
