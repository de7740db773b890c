"""Finds which names hold an object, and the path to it as a user would write it.

Only looks; it runs no code of the objects it looks through.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from .collector import collector_held
from .functions import cell_content
from .placeholders import Loss
from .rebuilders.result_caches import cached_entries
from .singletons import process_objects

#: Lost parts of one name that are told each with its path.
PATHS = 10
#: How much quicker than step by step many objects are looked through at once.
_AT_ONCE = 8
#: Objects of a name up to which it is looked through step by step where the quick look misled.
_FEW = 100_000


def holders(
    losses: list[tuple[Any, Loss]],
    names: dict[str, Any],
    budget: int,
    user_ns: dict[str, Any],
    check: Callable[[], None] = lambda: None,
) -> dict[str, list[tuple[str, Loss]]]:
    """Which names hold a lost object, with the path to it: {"runs": [("runs[1]", loss)]}.

    Looks through lists, tuples, dictionaries and instances, at most `budget` objects in all, and
    never through `user_ns`: what it holds has names of its own. A loss that is not found so (it
    was inside the state of another object) is left out. After `PATHS` losses in one name, all
    further ones share one path: "runs (950 more parts)". `check()` is called often and may raise.
    """
    with collector_held():
        return _holders(losses, names, budget, user_ns, check)


def _holders(
    losses: list[tuple[Any, Loss]],
    names: dict[str, Any],
    budget: int,
    user_ns: dict[str, Any],
    check: Callable[[], None],
) -> dict[str, list[tuple[str, Loss]]]:
    wanted = {id(obj): loss for obj, loss in losses}
    ids = frozenset(wanted)
    tracked = all(gc.is_tracked(obj) for obj, _ in losses)
    found: dict[str, list[tuple[str, Loss]]] = {}
    # The shell and the namespace hold everything, but are not saved as a part of anything.
    skip = {*process_objects(), id(user_ns)}
    skip.update(id(getattr(module, "__dict__", None)) for module in list(sys.modules.values()))
    quick = budget * _AT_ONCE
    for name, value in names.items():
        levels = _levels(value, ids, skip, quick, tracked, check)
        size = sum(map(len, levels))
        quick -= size
        if quick < 0:
            break
        if not any(not ids.isdisjoint(level) for level in levels):
            # What holds nothing lost in one name holds nothing lost in others.
            skip.update(*levels)
            continue
        holding = _holding(levels, wanted)
        parts, more, steps = _search(name, value, wanted, skip, holding, budget)
        if not parts and size <= _FEW:
            parts, more, steps = _search(name, value, wanted, skip, None, budget)
        budget -= steps
        if parts:
            rest = f"{name} ({len(more)} more part{'s' if len(more) > 1 else ''})"
            found[name] = parts + [(rest, loss) for loss in more]
        if budget < 0:
            break
    return found


def _levels(
    value: Any,
    wanted: frozenset[int],
    skip: set[int],
    budget: int,
    tracked: bool,
    check: Callable[[], None],
) -> list[dict[int, Any]]:
    """All that `value` can reach, by id, level by level: more than what is saved with it, as the
    collector sees it, but at the speed of C. Nothing is looked for behind something lost."""
    seen: set[int] = set()
    levels: list[dict[int, Any]] = []
    reached = [value]
    while reached and budget >= 0:
        check()
        # In the order in which they were met, which is how they lie in memory.
        level = dict(zip(map(id, reached), reached))
        dull = {cls for cls in set(map(type, level.values())) if issubclass(cls, _ATOMS)}
        if dull or not seen.isdisjoint(level) or not skip.isdisjoint(level):
            level = {
                key: obj
                for key, obj in level.items()
                if type(obj) not in dull and key not in seen and key not in skip
            }
        seen.update(level)
        levels.append(level)
        budget -= len(level)
        inner: Iterable[Any] = level.values()
        if not wanted.isdisjoint(level):
            inner = [obj for key, obj in level.items() if key not in wanted]
        reached = gc.get_referents(*inner)
        if tracked:
            reached = list(filter(gc.is_tracked, reached))
    return levels


def _holding(levels: list[dict[int, Any]], wanted: Mapping[int, Loss]) -> set[int]:
    """Ids of what is on a shortest way to something lost."""
    holding: set[int] = set()
    below: set[int] = set()
    for level in reversed(levels):
        here = {key for key in level if key in wanted}
        if below:
            get = gc.get_referents
            here.update(
                key for key, obj in level.items() if not below.isdisjoint(map(id, get(obj)))
            )
        holding |= here
        below = here
    return holding


def _search(
    name: str,
    value: Any,
    wanted: Mapping[int, Loss],
    skip: set[int],
    holding: set[int] | None,
    budget: int,
) -> tuple[list[tuple[str, Loss]], list[Loss], int]:
    """Paths to what is lost in one name, step by step as a user would take them, through objects
    in `holding`; the losses beyond `PATHS`; and how many objects were looked at."""
    seen: set[int] = set()
    parts: list[tuple[str, Loss]] = []
    more: list[Loss] = []
    looked = 0
    # (object, position of its holder in this list, step from the holder to it)
    queue: list[tuple[Any, int, str]] = [(value, -1, name)]
    for position, (obj, _, _) in enumerate(queue):
        if id(obj) in seen or id(obj) in skip:
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
        looked += 1
        if looked > budget:
            break
        try:
            for part, step in _parts(obj):
                if holding is None or id(part) in holding:
                    queue.append((part, position, step))
        except RuntimeError:  # a thread of the user's changes it meanwhile
            continue
    return parts, more, looked


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

_ATOMS = (bool, int, float, complex, str, bytes, type(None), types.ModuleType, type)


def _parts(obj: Any) -> list[tuple[Any, str]]:
    # By the real type: isinstance would ask a proxy's __class__, which is the user's code.
    cls = type(obj)
    if issubclass(cls, _ATOMS):
        return []
    parts: list[tuple[Any, str]] = []
    if issubclass(cls, (list, tuple)):
        parts = [(part, f"[{i}]") for i, part in enumerate(obj) if type(part) not in _ATOMS]
    elif issubclass(cls, dict):
        for key, part in obj.items():
            parts.append((part, f"[{key!r}]" if isinstance(key, (str, int)) else ""))
    elif issubclass(cls, (set, frozenset)):
        parts = [(part, "") for part in obj]
    elif issubclass(cls, types.FunctionType):
        for cell in obj.__closure__ or ():
            parts += [(content, " (closure)") for content in cell_content(cell)]
    elif cls is functools._lru_cache_wrapper:
        for args, kwargs, result in cached_entries(obj) or ():
            parts += [(each, " (an argument)") for each in (*args, *kwargs.values())]
            parts.append((result, " (a cached result)"))
    try:
        attributes = object.__getattribute__(obj, "__dict__")
    except Exception:  # a property of that name, a lazy object of C
        return parts
    if isinstance(attributes, dict):
        left = _LEFT if any(b.__module__.startswith(_LEAVING) for b in cls.__mro__) else ()
        parts += [(part, f".{name}") for name, part in attributes.items() if name not in left]
    return parts
