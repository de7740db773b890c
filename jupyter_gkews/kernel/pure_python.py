"""Lets a kernel import cloudpickle from where the server has it, if its own environment has none.

Finds that one name and nothing else of the folder: the server's other packages may be for another
Python. The kernel's own copy wins, also one installed later, unless it is too old for us.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_NAMES = frozenset(("cloudpickle",))
#: The first major version that we can work with.
_MAJOR = 3


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
    if not folders:
        return
    finder = PurePythonFinder(folders)
    if _too_old():
        sys.meta_path.insert(0, finder)
    else:
        sys.meta_path.append(finder)


def _too_old() -> bool:
    """Whether this environment has a copy that is too old (read, not imported)."""
    with contextlib.suppress(OSError, ValueError, ImportError):
        spec = PathFinder.find_spec("cloudpickle")
        if spec is not None and spec.origin:
            with open(spec.origin, encoding="utf-8") as file:
                version = re.search(r"""__version__\s*=\s*["'](\d+)\.""", file.read())
            return version is not None and int(version[1]) < _MAJOR
    return False


def folders() -> list[str]:
    """What was given to `install`: for a child process that shall import the same."""
    found: list[str] = []
    for finder in sys.meta_path:
        if isinstance(finder, PurePythonFinder):
            found += finder.folders
    return found
