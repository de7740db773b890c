"""Classes of enumerations made by cells, and the members of all enumerations.

A member comes back with all that it held, and no code of the user's runs to make it again. What
the graph calls is here as well: names and arguments are part of the format.
"""

from __future__ import annotations

import datetime
import enum
from typing import TYPE_CHECKING, Any, Callable

from . import attributes, rebuild
from .making_classes import library_owner, quiet_subclassing

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]

#: What the metaclass gives a member, and gives it again.
_GIVEN = frozenset(("_name_", "_value_", "__objclass__", "_sort_order_"))
#: What this module or the metaclass puts into a class only because of how it is made here.
_OURS = ("__init__", "__new_member__", "__reduce_ex__")
_DATES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


def _all_of(sequence: Any) -> Callable[[Any], Any]:
    return lambda member: sequence.__getitem__(member, slice(None))


#: Builtin types whose objects cannot change -> what a member derived from one holds.
_CONTENT: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: _all_of(bytes),
    tuple: _all_of(tuple),
    frozenset: lambda member: frozenset(list(frozenset.__iter__(member))),
}
#: Those that can -> how they are filled.
_FILL: dict[type, Callable[[Any, Any], Any]] = {
    list: list.extend,
    dict: dict.update,
    set: set.update,
    bytearray: bytearray.extend,
}


def reduce_enum(cls: type, kept: dict[str, Any], slots: Any, qualname: str) -> Reduced:
    """A class of an enumeration, by value. `kept`: the attributes that cloudpickle would keep."""
    members: dict[str, Any] = cls.__members__  # type: ignore[attr-defined]
    kept = {key: value for key, value in kept.items() if key not in members}
    known: dict[int, int] = {}
    aliases = [known.setdefault(id(member), at) for at, member in enumerate(members.values())]
    flags = issubclass(cls, enum.Flag)
    values = [m._value_ if flags else None for m in members.values()]
    contents = [_content(m) for m in members.values()]
    # None: the usual one, which has another name up to Python 3.10
    metaclass = None if type(cls) is enum.EnumMeta else type(cls)
    args = (metaclass, cls.__name__, cls.__bases__, qualname, cls.__module__)
    made = (list(members), aliases, values, contents, getattr(cls, "_boundary_", None))
    first = {at: m for at, m in enumerate(members.values()) if aliases[at] == at}
    names = list(members)
    held = {names[at]: (m._value_, *_state(m)) for at, m in first.items()}
    found = vars(cls).get("_value2member_map_", {})
    more = [
        (key, m._name_)
        for key, m in found.items()
        if m._name_ in held and key is not m._value_ and key != m._value_
    ]
    state = {"attributes": kept, "slots": slots, "members": held, "by_value": more}
    return enum_class, (*args, *made), state, None, None, set_enum


def _content(member: Any) -> Any:
    """What must be known to make a member: (a builtin type, arguments of its __new__)."""
    for base in type(member).__mro__:
        if base in _CONTENT:
            return base, (_CONTENT[base](member),)
        if base in _DATES:
            return base, tuple(base.__reduce__(member)[1])
        if base in _FILL:
            return base, ()
    return object, ()


def _state(member: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Attributes, slots and items of a member."""
    own, slots = attributes.held(member)
    own = {key: value for key, value in own.items() if key not in _GIVEN}
    base: Any = next((base for base in type(member).__mro__ if base in _FILL), None)
    items: Any = None
    if base is dict:
        items = dict(dict.items(member))
    elif base is not None:
        items = list(base.__iter__(member))
    return own, slots, items


def register(writer: GraphWriter) -> None:
    """Teach `writer` the members of enumerations."""
    writer.base_handlers.append((enum.Enum, reduce_member))


def reduce_member(writer: GraphWriter, member: Any) -> Any:
    """A member by its name: its value need not find it (a `__new__` may change it)."""
    cls = type(member)
    name = vars(member).get("_name_")
    members = vars(cls).get("_member_map_", {})
    if not isinstance(name, str) or members.get(name) is not member:
        return NotImplemented  # a combination of flags
    return enum_member, (cls, name)


# ---- called by the graph ----


def enum_member(cls: Any, name: str) -> Any:
    """The member `name` of an enumeration."""
    return cls._member_map_[name]


def enum_class(
    metaclass: Any,
    name: str,
    bases: tuple[Any, ...],
    qualname: str,
    module: str,
    names: list[str],
    aliases: list[int],
    values: list[Any],
    contents: list[Any],
    boundary: Any,
) -> Any:
    """An enumeration whose members are there, but have not all that they held (set_enum).

    By position of each of `names`: `aliases` says whose it is another name for, `values` the
    value where the metaclass counts with it (flags), `contents` what its builtin base holds.
    """
    positions = iter(range(len(names)))

    def new(cls: Any, *_args: Any) -> Any:
        at = aliases[next(positions)]
        base, args = contents[at]
        made = base.__new__(cls, *args)
        made._value_ = at if values[at] is None else values[at]
        return made

    metaclass = metaclass or enum.EnumMeta
    namespace = library_owner(metaclass, "__prepare__").__prepare__(name, bases)
    namespace["__new__"] = new
    namespace["__init__"] = lambda self, *args: None
    for at, each in enumerate(names):
        namespace[each] = aliases[at] if values[at] is None else values[at]
    options = {}
    if boundary is not None and any(hasattr(base, "_boundary_") for base in bases):
        options["boundary"] = boundary
    # the metaclass makes the members as well, and sets attributes of theirs
    with quiet_subclassing(bases, metaclass, ("__setattr__",)):
        new_class = library_owner(metaclass, "__new__").__new__
        made = new_class(metaclass, name, bases, namespace, **options)
        made.__module__, made.__qualname__ = module, qualname
    return made


def set_enum(cls: Any, state: dict[str, Any]) -> None:
    """Give an enumeration and its members what they held."""
    own = dict(state["attributes"])
    for name in _OURS:
        if name in vars(cls) and name not in own:
            type.__delattr__(cls, name)
    if "_hashable_values_" in own and "_hashable_values_" not in vars(cls):
        del own["_hashable_values_"]
    rebuild.set_class(cls, (own, state["slots"]))
    by_value = cls._value2member_map_
    by_value.clear()
    for name, (value, held, slots, items) in state["members"].items():
        member = cls._member_map_[name]
        attributes.put(member, {"_value_": value, **held}, slots)
        if items is not None:
            base = next(base for base in cls.__mro__ if base in _FILL)
            _FILL[base](member, items)
        _enter(by_value, value, member)
    for value, name in state["by_value"]:
        _enter(by_value, value, cls._member_map_[name])
    if "_hashable_values_" in vars(cls):
        type.__setattr__(cls, "_hashable_values_", list(by_value))


def _enter(by_value: dict[Any, Any], value: Any, member: Any) -> None:
    try:
        by_value.setdefault(value, member)
    except TypeError:  # an unhashable value is looked for among all members
        return
