"""Puts back what cells had changed in modules of others (patches.py), when all else is loaded.

Each change is tried alone; it never raises and looks for no changes itself.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

from .patches import NOTHING, read
from .placeholders import Lost


def put(saved: Mapping[str, Any]) -> list[str]:
    """Do to the modules of this process what `patches.take` found. Returns sentences about what
    failed."""
    problems = []

    def attempt(module: str, path: str, change: Any) -> None:
        try:
            importlib.import_module(module)
            change()
        except Exception as error:
            problems.append(
                f"{module}.{path}, which a cell had changed: {type(error).__name__}: {error}"
            )

    for module, path in saved.get("deleted", ()):
        attempt(module, path, lambda m=module, p=path: _delete(m, p))
    for module, path, content in saved.get("contents", ()):
        if type(content) is not Lost:
            attempt(module, path, lambda m=module, p=path, c=content: _fill(read(m, p), c))
    for module, path, value in saved.get("values", ()):
        if type(value) is not Lost:
            attempt(module, path, lambda m=module, p=path, v=value: _set(m, p, v))
    for module, path, key, value in saved.get("items", ()):
        if type(value) is not Lost and type(key) is not Lost:
            attempt(module, path, lambda m=module, p=path, k=key, v=value: _put_item(m, p, k, v))
    return problems


def _put_item(module: str, path: str, key: Any, value: Any) -> None:
    read(module, path)[key] = value


def _owner(module: str, path: str) -> tuple[Any, str]:
    owner, _, name = path.rpartition(".")
    return (read(module, owner) if owner else sys.modules[module]), name


def _set(module: str, path: str, value: Any) -> None:
    owner, name = _owner(module, path)
    if read(module, path) is not value:
        setattr(owner, name, value)


def _delete(module: str, path: str) -> None:
    owner, name = _owner(module, path)
    if read(module, path) is not NOTHING:
        delattr(owner, name)


def _fill(target: Any, content: Any) -> None:
    if type(target) is not type(content):
        raise TypeError("it is of another type here")
    if target is content:
        return
    target.clear()
    if type(target) in (list, deque):
        target.extend(content)
    else:
        target.update(content)
