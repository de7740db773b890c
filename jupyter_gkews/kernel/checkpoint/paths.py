"""Finds which names hold an object, and the path to it as a user would write it.

Only looks; it runs no code of the objects it looks through.
"""

from __future__ import annotations

import gc
import types
from typing import Any

from . import functions
from .placeholders import Loss


def holders(
    losses: list[tuple[Any, Loss]], names: dict[str, Any], budget: int
) -> dict[str, list[tuple[str, Loss]]]:
    """Which names hold a lost object, with the path to it: {"runs": [("runs[1]", loss)]}.

    Looks through lists, tuples, dictionaries and instances, at most `budget` objects in all; a
    loss that is not found so (it was inside the state of another object) is left out.
    """
    wanted = {id(obj): loss for obj, loss in losses}
    found: dict[str, list[tuple[str, Loss]]] = {}
    for name, value in names.items():
        seen: set[int] = set()
        queue: list[tuple[Any, str]] = [(value, name)]
        for obj, path in queue:
            if id(obj) in seen:
                continue
            seen.add(id(obj))
            loss = wanted.get(id(obj))
            if loss is not None:
                found.setdefault(name, []).append((path, loss))
                continue
            budget -= 1
            if budget < 0:
                return found
            queue.extend(_parts(obj, path))
    return found


_ATOMS = (int, float, complex, str, bytes, type(None), types.ModuleType, type)


def _parts(obj: Any, path: str) -> list[tuple[Any, str]]:
    if isinstance(obj, _ATOMS):
        return []
    parts: list[tuple[Any, str]] = []
    if isinstance(obj, (list, tuple)):
        parts = [(part, f"{path}[{i}]") for i, part in enumerate(obj) if gc.is_tracked(part)]
    elif isinstance(obj, dict):
        for key, part in obj.items():
            parts.append((part, f"{path}[{key!r}]" if isinstance(key, (str, int)) else path))
    elif isinstance(obj, (set, frozenset)):
        parts = [(part, path) for part in obj]
    elif isinstance(obj, types.FunctionType):
        for cell in obj.__closure__ or ():
            parts += [(content, f"{path} (closure)") for content in functions.cell_content(cell)]
    try:
        attributes = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return parts
    if isinstance(attributes, dict):
        parts += [(part, f"{path}.{name}") for name, part in attributes.items()]
    return parts
