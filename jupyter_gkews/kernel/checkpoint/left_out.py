"""What an object's own `__getstate__` or `__reduce__` leaves out of its attributes: looked for
where the object comes back, and told. It changes nothing of what is written or made.

Only of classes of the user's: those of libraries know what they can do without.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from . import rebuild
from .attributes import held
from .user_modules import is_library_file

Reduced = tuple[Any, ...]
_DESCRIBING = ("__reduce_ex__", "__reduce__", "__getstate__")


def watched(obj: Any, rv: Reduced, known: dict[Any, Any]) -> tuple[Reduced, str]:
    """`rv`, so that a load tells which attributes of `obj` it had not; and the sentence where that
    is certain already, else "". `known`: what the same pass has used before."""
    cls = type(obj)
    try:
        method = known[cls]
    except KeyError:
        method = known[cls] = _method(cls)
    if method is None:
        return rv, ""
    func, args, state, items, pairs, setter = (*rv, None, None, None, None)[:6]
    had = attributes(obj)
    given = _given(state)
    names = tuple(
        name
        for name, value in had.items()
        if given is None or name not in given or (given[name] is None and value is not None)
    )
    if not names:
        return rv, ""
    makes = getattr(func, "__name__", "") in ("__newobj__", "__newobj_ex__", "new_object")
    new: Any = cls.__new__
    plain = makes and setter is None and new is object.__new__
    certain = plain and given is not None and not hasattr(cls, "__setstate__")
    names = known.setdefault(names, names)  # one tuple, written once
    watching = (state, names, method, setter)
    rv = (func, args, watching, items, pairs, rebuild.set_described)
    return rv, sentence(method, names) if certain else ""


def sentence(method: str, names: tuple[str, ...]) -> str:
    """As the user reads it beside the variable."""
    shown = ", ".join(repr(name) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"its own {method} leaves out {shown}{more}"


def gone(obj: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `names` that an object which came back has not, or of which it has nothing."""
    has = attributes(obj)
    return tuple(name for name in names if has.get(name) is None)


def _method(cls: type) -> str | None:
    """The method by which a class of the user's decides what of its objects is written."""
    for name in _DESCRIBING:
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        if owner is not object:
            return name if _is_users(owner) else None
    return None


def _is_users(cls: type) -> bool:
    if cls.__module__ == "__main__":
        return True
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:  # ours, wherever it lies
        return False
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return isinstance(path, str) and not is_library_file(path)


def attributes(obj: Any) -> dict[str, Any]:
    """What an object holds by name: dictionary and slots. Not what it computes again by itself."""
    cls = type(obj)
    own, slots = held(obj)
    return {
        name: value
        for name, value in {**own, **slots}.items()
        if type(name) is str and not _computes(cls, name)
    }


def _computes(cls: type, name: str) -> bool:
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    return owner is not None and isinstance(vars(owner)[name], functools.cached_property)


def _given(state: Any) -> dict[str, Any] | None:
    """The attributes in a state of the usual form; None if it has another."""
    if state is None:
        return {}
    if type(state) is dict:
        return state
    if type(state) is tuple and len(state) == 2:
        parts = [part for part in state if part is not None]
        if all(type(part) is dict for part in parts):
            return {name: value for part in parts for name, value in part.items()}
    return None
