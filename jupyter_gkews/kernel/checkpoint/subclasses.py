"""Subclasses of the builtin containers and values that have code of their own for being made or
filled: written as what they hold, and filled by the builtin's own methods.

Pickle would call that code: a `__setitem__` that refuses or counts, an `__init__` or `__new__`
that wants other arguments. None of it runs here, neither at a save nor at a load.
"""

from __future__ import annotations

import collections
import enum
from typing import TYPE_CHECKING, Any, Callable

from . import attributes, rebuild

if TYPE_CHECKING:
    from .graph import GraphWriter

#: What a class must have from its builtin base, so that contents and attributes are all it is.
_PICKLING = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")
#: What pickle calls to fill an object, or to read what it holds.
_FILLING: dict[type, tuple[str, ...]] = {
    collections.OrderedDict: ("__init__", "__setitem__", "items", "__iter__"),
    collections.defaultdict: ("__init__", "__setitem__", "items", "__iter__"),
    collections.Counter: ("__init__", "__setitem__", "items", "__iter__", "update"),
    dict: ("__setitem__", "items", "__iter__"),
    list: ("append", "extend", "__iter__"),
    bytearray: ("__init__", "__iter__"),
    collections.deque: ("__init__", "append", "extend", "__iter__"),
    set: ("__init__", "add", "update", "__iter__"),
    frozenset: ("__init__", "__iter__"),
    tuple: (),
    str: (),
    bytes: (),
    int: (),
    float: (),
    complex: (),
}

#: What else these hold.
_OPTION: dict[type, str] = {
    collections.deque: "maxlen",
    collections.defaultdict: "default_factory",
}


def _value(base: type, obj: Any) -> Any:
    """What an immutable object holds, as an object of exactly `base`."""
    if base in (tuple, bytes):
        return base.__getitem__(obj, slice(None))
    if base is frozenset:
        return frozenset(frozenset.__iter__(obj))
    exact: dict[type, Callable[[Any], Any]] = {
        str: str.__str__,
        int: int.__int__,
        float: float.__float__,
        complex: complex.__pos__,
    }
    return exact[base](obj)


def _contents(base: type, obj: Any) -> Any:
    """What a container holds, as a builtin one: a list, or for mappings a dictionary."""
    if issubclass(base, dict):
        pairs = dict.items(obj)
        if base is collections.OrderedDict:  # its own order, which move_to_end changes
            pairs = collections.OrderedDict.items(obj)
        return dict(pairs)
    if base in (list, bytearray):
        return base.__getitem__(obj, slice(None))
    return list(base.__iter__(obj))  # type: ignore[attr-defined]


def base_of(cls: type) -> type | None:
    """The builtin whose contents and attributes are all that an object of `cls` is, if code of the
    class stands in the way of pickle; else None."""
    if issubclass(cls, enum.Enum):
        return None
    base = next((base for base in _FILLING if issubclass(cls, base)), None)
    if base is None or cls is base or cls.__module__ == base.__module__ != "__main__":
        return None
    named = base is tuple and hasattr(cls, "_fields")
    for name in _PICKLING:
        if named and name == "__getnewargs__" and _is_generated(cls):
            continue
        if getattr(cls, name, None) is not getattr(base, name, None):
            return None
    if named:
        return tuple if "__new__" in _above_fields(cls) else None
    names = ("__new__", *_FILLING[base])
    if any(getattr(cls, name) is not getattr(base, name) for name in names):
        return base
    return None


def _is_generated(cls: type) -> bool:
    """Whether a named tuple's `__getnewargs__` is the one that collections made."""
    code = getattr(getattr(cls, "__getnewargs__", None), "__code__", None)
    return code is vars(collections.namedtuple("_NAMED", ()))["__getnewargs__"].__code__


def _above_fields(cls: type) -> set[str]:
    """The names that subclasses of the named tuple itself define."""
    names: set[str] = set()
    for part in cls.__mro__:
        if "_fields" in vars(part):
            break
        names.update(vars(part))
    return names


def reduce(base: type, writer: GraphWriter, obj: Any) -> Any:
    """An object of a class of which `base_of` says `base`."""
    state = _attributes(obj)
    if base in (tuple, frozenset, str, bytes, int, float, complex):
        made = (make, (type(obj), base, _value(base, obj)))
        return made if state is None else (*made, state, None, None, set_attributes)
    option = None
    if base in _OPTION:  # asked of the builtin: the class may have another of the name
        option = vars(base)[_OPTION[base]].__get__(obj)
    contents = _contents(base, obj)
    return make_empty, (type(obj), base), (base, contents, option, state), None, None, fill


def _attributes(obj: Any) -> Any:
    """Its dictionary and slots, as pickle has them: None, a dictionary, or a pair."""
    own, slots = attributes.held(obj)
    return (own or None, slots) if slots else own or None


# ---- at a load ----


def make(cls: Any, base: Any, value: Any) -> Any:
    """An immutable object that holds `value`."""
    return base.__new__(cls, value)


def make_empty(cls: Any, base: Any) -> Any:
    """A container with nothing in it."""
    made = base.__new__(cls)
    if base is collections.OrderedDict or base is set or base is list:
        base.__init__(made)
    return made


def fill(made: Any, contents: tuple[Any, Any, Any, Any]) -> None:
    """Put in what it held (`reduce`), and its attributes."""
    base, items, option, state = contents
    if base is collections.deque:
        collections.deque.__init__(made, items, option)
    elif base is collections.defaultdict:
        collections.defaultdict.__init__(made, option)
        dict.update(made, items)
    elif base is collections.OrderedDict:
        for key, value in items.items():
            collections.OrderedDict.__setitem__(made, key, value)
    elif issubclass(base, dict):
        dict.update(made, items)
    elif base in (list, bytearray):
        base.extend(made, items)
    else:
        set.update(made, items)
    if state is made:  # a dictionary whose items are its attributes
        object.__setattr__(made, "__dict__", made)
    elif state is not None:
        set_attributes(made, state)


def set_attributes(made: Any, state: Any) -> None:
    """Its dictionary and slots; a `__setstate__` of its class, which is there for this, gets them
    instead."""
    if getattr(type(made), "__setstate__", None) is not None:
        rebuild.set_state(made, state)
        return
    own, slots = state if isinstance(state, tuple) else (state, None)
    attributes.put(made, own, slots)
