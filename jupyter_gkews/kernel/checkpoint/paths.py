"""Finds which names hold an object, and the path to it as a user would write it.

Only looks; it runs no code of the objects it looks through.
"""

from __future__ import annotations

import gc
import types
from typing import Any

from . import functions
from .placeholders import Loss
from .singletons import process_objects

#: Lost parts of one name that are told each with its path.
PATHS = 50


def holders(
    losses: list[tuple[Any, Loss]], names: dict[str, Any], budget: int, user_ns: dict[str, Any]
) -> dict[str, list[tuple[str, Loss]]]:
    """Which names hold a lost object, with the path to it: {"runs": [("runs[1]", loss)]}.

    Looks through lists, tuples, dictionaries and instances, at most `budget` objects in all, and
    never through `user_ns`: what it holds has names of its own. A loss that is not found so (it
    was inside the state of another object) is left out. After `PATHS` losses in one name, all
    further ones share one path: "runs (950 more parts)".
    """
    wanted = {id(obj): loss for obj, loss in losses}
    found: dict[str, list[tuple[str, Loss]]] = {}
    # The shell and the namespace hold everything, but are not saved as a part of anything.
    process = {*process_objects(), id(user_ns)}
    for name, value in names.items():
        seen = set(process)
        parts: list[tuple[str, Loss]] = []
        more: list[Loss] = []
        # (object, position of its holder in this list, step from the holder to it)
        queue: list[tuple[Any, int, str]] = [(value, -1, name)]
        for position, (obj, _, _) in enumerate(queue):
            if id(obj) in seen:
                continue
            seen.add(id(obj))
            loss = wanted.get(id(obj))
            if loss is not None:
                if len(parts) < PATHS:
                    parts.append((_path(queue, position), loss))
                else:
                    more.append(loss)
                if len(parts) + len(more) == len(wanted):
                    break
                continue
            budget -= 1
            if budget < 0:
                break
            try:
                queue.extend((part, position, step) for part, step in _parts(obj))
            except RuntimeError:  # a thread of the user's changes it meanwhile
                continue
        if parts:
            rest = f"{name} ({len(more)} more part{'s' if len(more) > 1 else ''})"
            found[name] = parts + [(rest, loss) for loss in more]
        if budget < 0:
            break
    return found


def _path(queue: list[tuple[Any, int, str]], position: int) -> str:
    """The steps from the name to an object; the middle of a long way is left out."""
    steps = []
    while position >= 0:
        _, position, step = queue[position]
        steps.append(step)
    steps.reverse()
    if len(steps) > 12:
        steps[6:-5] = [" ... "]
    return "".join(steps)


#: Attributes that a rebuilt object leaves behind: who waited for it, and in which event loop.
_LEFT = frozenset(("_loop", "_waiters", "_getters", "_putters"))
_LEAVING = ("asyncio.", "threading", "queue")

_ATOMS = (int, float, complex, str, bytes, type(None), types.ModuleType, type)


def _parts(obj: Any) -> list[tuple[Any, str]]:
    # By the real type: isinstance would ask a proxy's __class__, which is the user's code.
    cls = type(obj)
    if issubclass(cls, _ATOMS):
        return []
    parts: list[tuple[Any, str]] = []
    if issubclass(cls, (list, tuple)):
        parts = [(part, f"[{i}]") for i, part in enumerate(obj) if gc.is_tracked(part)]
    elif issubclass(cls, dict):
        for key, part in obj.items():
            parts.append((part, f"[{key!r}]" if isinstance(key, (str, int)) else ""))
    elif issubclass(cls, (set, frozenset)):
        parts = [(part, "") for part in obj]
    elif issubclass(cls, types.FunctionType):
        for cell in obj.__closure__ or ():
            parts += [(content, " (closure)") for content in functions.cell_content(cell)]
    try:
        attributes = object.__getattribute__(obj, "__dict__")
    except Exception:  # a property of that name, a lazy object of C
        return parts
    if isinstance(attributes, dict):
        left = _LEFT if any(b.__module__.startswith(_LEAVING) for b in cls.__mro__) else ()
        parts += [(part, f".{name}") for name, part in attributes.items() if name not in left]
    return parts
