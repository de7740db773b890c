"""How exceptions go into a graph: with cause, context, notes and attributes, without a traceback.

Their own __init__ is not called again: what they were raised with is often not what it takes.
What the graph calls to make them again is here as well: names and arguments are part of the
format.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]

_HEAPTYPE = 1 << 9
_LINKS = ("__cause__", "__context__", "__suppress_context__")


def register(writer: GraphWriter) -> None:
    """Teach `writer` exceptions of every class."""
    writer.base_handlers.append((BaseException, reduce_exception))


def reduce_exception(writer: GraphWriter, error: BaseException) -> Any:
    """The class, what it was raised with, its attributes, and the exceptions it hangs together
    with."""
    cls = type(error)
    base = _builtin_base(cls)
    if error.__traceback__ is not None:
        writer.note_rebuilt("an exception comes back without its traceback", error)
    if getattr(cls, "__reduce_ex__", None) is not object.__reduce_ex__ or _describes_itself(cls):
        return NotImplemented
    described: Any = base.__reduce__(error)
    state: dict[str, Any] = {
        name: getattr(error, name) for name in _LINKS if getattr(error, name, None)
    }
    own = described[2] if len(described) > 2 else None
    if own is not None:
        state["state"] = own
    args = (cls, base, described[1], error.args)
    return exception, args, state or None, None, None, set_exception if state else None


def _builtin_base(cls: type) -> Any:
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAPTYPE)


def _describes_itself(cls: Any) -> bool:
    """Whether code of the user's (or of a library) says how to pickle it."""
    names = ("__reduce__", "__setstate__", "__getstate__")
    found = (getattr(cls, name, None) for name in names)
    return any(isinstance(each, types.FunctionType) for each in found)


def exception(cls: Any, base: Any, given: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """An exception of class `cls`, made as its built-in `base` is from what it was `given`."""
    made = base.__new__(cls, *given)
    base.__init__(made, *given)
    if made.args != args:
        made.args = args
    return made


def set_exception(error: Any, state: dict[str, Any]) -> None:
    """Give an exception what hangs on it."""
    own = state.pop("state", None)
    if own is not None:
        BaseException.__setstate__(error, own)
    suppressed = state.pop("__suppress_context__", False)
    for name, value in state.items():
        setattr(error, name, value)
    error.__suppress_context__ = suppressed
