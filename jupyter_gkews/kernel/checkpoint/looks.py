"""How objects of each kind look to a fingerprint: which of their parts are said, and in what order.

Only parts that come back by themselves: an object whose class decides how it is pickled is named
by its class alone, unless the class is a well-known one. It runs no code of the user's.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import importlib.machinery
import pathlib
import re
import sys
import types
import uuid
import weakref
from dataclasses import dataclass
from typing import Any, Callable

from .attributes import default_state, slots_of

#: Values that are the same wherever they are equal.
ATOMS = frozenset((int, float, complex, bool, type(None), str, bytes))


@dataclass(frozen=True)
class Look:
    """`open(prints, obj, cls)` says an object; of an `atom`, `write(obj)` is all there is."""

    open: Callable[[Any, Any, type], None]
    atom: bool = False
    write: Callable[[Any], str] = repr


def digest(data: Any) -> str:
    """Bytes in a word."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _text(obj: Any) -> str:
    if len(obj) < 64:
        return f"s{obj}"
    return f"s {len(obj)} {digest(obj.encode('utf-8', 'surrogatepass'))}"


def _bytes(obj: Any) -> str:
    return f"b{len(obj)} {digest(obj)}"


def _number(obj: int) -> str:
    return f"i{obj:x}"  # decimal digits are bounded, and slow where there are many


def _never(prints: Any, obj: Any, cls: type) -> None:
    raise AssertionError("an atom is written")


def _list(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.then_all(obj, len(obj))


def _sequence(prints: Any, obj: Any, cls: type) -> None:
    """A subclass of list or tuple, by the elements that the base class sees."""
    base = list if issubclass(cls, list) else tuple
    prints.say(cls.__qualname__)
    _attributes(prints, obj, cls)
    prints.then_all(base.__iter__(obj), base.__len__(obj))


def _mapping(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    _attributes(prints, obj, cls)
    prints.then_mapping(obj)


def _weak_collection(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)  # how many live in it depends on the collector, here and there


def _default_dict(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.then_mapping(obj)
    prints.then(obj.default_factory)


def _set(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.without_order(obj)


def _byte_array(prints: Any, obj: Any, cls: type) -> None:
    prints.say("bytearray", len(obj), digest(obj))


def _class(prints: Any, obj: Any, cls: type) -> None:
    if _found_by_name(obj):
        root = obj.__module__.split(".")[0]
        prints.say("class of", root)
        # Not by which name: tqdm.auto.tqdm is another class where there is no notebook.
        if root == "builtins" or root in getattr(sys, "stdlib_module_names", ()):
            prints.say(obj.__name__)
        return
    prints.say("class", obj.__name__, [base.__name__ for base in obj.__mro__])
    own = {name: part for name, part in vars(obj).items() if not name.startswith("_")}
    if issubclass(obj, enum.Enum):
        own.update(obj.__members__)
    for name in sorted(own, reverse=True):
        prints.then(name, own[name])


def _module(prints: Any, obj: Any, cls: type) -> None:
    prints.say("module", obj.__name__)


def _spec(prints: Any, obj: Any, cls: type) -> None:
    """A module's: that of the module which is there, and its import has filled in the rest."""
    prints.say("spec", obj.name, obj.origin)


def _found_by_name(obj: Any) -> bool:
    """Whether a function or class is one of a module: it then comes back as the module has it."""
    name = obj.__module__
    return name != "__main__" and isinstance(name, str) and name in sys.modules


def _function(prints: Any, obj: Any, cls: type) -> None:
    prints.say("function", obj.__name__)
    if _found_by_name(obj):
        return
    if obj.__dict__:
        prints.then_mapping(obj.__dict__)
    for cell in reversed(obj.__closure__ or ()):
        prints.then(cell)
    prints.then(obj.__code__, obj.__defaults__, obj.__kwdefaults__)


def _cell(prints: Any, obj: Any, cls: type) -> None:
    prints.say("cell")
    try:
        content = obj.cell_contents
    except ValueError:
        prints.say("empty")
    else:
        prints.then(content)


def _code(prints: Any, obj: Any, cls: type) -> None:
    prints.say("code", obj.co_name, digest(obj.co_code), obj.co_names, obj.co_varnames)
    prints.then_all(obj.co_consts, len(obj.co_consts))


def _method(prints: Any, obj: Any, cls: type) -> None:
    prints.say("method", obj.__func__.__name__)
    prints.then(obj.__self__)


def _wrapped(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.then(obj.__func__)


def _property(prints: Any, obj: Any, cls: type) -> None:
    prints.say("property")
    prints.then(obj.fget, obj.fset, obj.fdel)


def _partial(prints: Any, obj: Any, cls: type) -> None:
    prints.say("partial")
    prints.then(obj.func, obj.args, obj.keywords)


def _weak(prints: Any, obj: Any, cls: type) -> None:
    prints.say("weak reference")
    target = obj()
    if target is None:
        prints.say("dead")
    else:
        prints.then(target, obj.__callback__)


def by_text(prints: Any, obj: Any, cls: type) -> None:
    """What is all in its text."""
    prints.say(cls.__qualname__, obj)


def _by_repr(prints: Any, obj: Any, cls: type) -> None:
    prints.say(repr(obj))


def _slice(prints: Any, obj: Any, cls: type) -> None:
    prints.say("slice")
    prints.then(obj.start, obj.stop, obj.step)


def _pattern(prints: Any, obj: Any, cls: type) -> None:
    prints.say("pattern", obj.pattern, obj.flags)


def _iterator(prints: Any, obj: Any, cls: type) -> None:
    prints.say("iterator")  # may come back as another kind of iterator over the same rest


def _member(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, obj.__dict__.get("_name_"))
    if _found_by_name(cls):
        return
    given = ("_name_", "__objclass__", "_sort_order_")
    own = {key: part for key, part in obj.__dict__.items() if key not in given}
    for key in sorted(own, reverse=True):
        prints.then(key, own[key])


def _error(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.then(obj.args)


def _instance(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    _attributes(prints, obj, cls)


def _attributes(prints: Any, obj: Any, cls: type) -> None:
    """The instance dictionary and the slots, read as the default pickling does."""
    for member in slots_of(cls).values():
        try:
            part = member.__get__(obj, cls)
        except AttributeError:
            prints.say("unset")
        else:
            prints.then(part)
    if cls.__dictoffset__:
        attributes = object.__getattribute__(obj, "__dict__")
        if not isinstance(attributes, dict) or prints.attributes(attributes):
            return
        if attributes:
            prints.then_mapping(attributes)


_SIMPLE = (
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePosixPath,
    type(pathlib.Path()),
    uuid.UUID,
    range,
)

#: By exact class.
LOOKS: dict[type, Look | None] = {
    int: Look(_never, True, _number),
    float: Look(_never, True),
    complex: Look(_never, True),
    bool: Look(_never, True),
    type(None): Look(_never, True),
    str: Look(_never, True, _text),
    bytes: Look(_never, True, _bytes),
    type(...): Look(_never, True),
    type(NotImplemented): Look(_never, True),
    bytearray: Look(_byte_array),
    list: Look(_list),
    tuple: Look(_list),
    collections.deque: Look(_list),
    dict: Look(_mapping),
    collections.OrderedDict: Look(_mapping),
    collections.Counter: Look(_mapping),
    collections.defaultdict: Look(_default_dict),
    weakref.WeakKeyDictionary: Look(_weak_collection),
    weakref.WeakValueDictionary: Look(_weak_collection),
    weakref.WeakSet: Look(_weak_collection),
    set: Look(_set),
    frozenset: Look(_set),
    types.FunctionType: Look(_function),
    types.CellType: Look(_cell),
    types.CodeType: Look(_code),
    types.MethodType: Look(_method),
    staticmethod: Look(_wrapped),
    classmethod: Look(_wrapped),
    property: Look(_property),
    functools.partial: Look(_partial),
    weakref.ref: Look(_weak),
    slice: Look(_slice),
    re.Pattern: Look(_pattern),
    importlib.machinery.ModuleSpec: Look(_spec),
    **dict.fromkeys(_SIMPLE, Look(_by_repr)),
}


def look_of(cls: type, rebuilt: tuple[type, ...]) -> Look | None:
    """How objects of a class look that library_looks.py does not know; None if there is nothing to
    say of them but the class.

    `rebuilt`: classes whose attributes say nothing about whether an object came back.
    """
    if issubclass(cls, type):
        return Look(_class)
    if issubclass(cls, types.ModuleType):
        return Look(_module)
    if hasattr(cls, "__next__"):
        return Look(_iterator)
    if issubclass(cls, enum.Enum):
        return Look(_member)
    if issubclass(cls, BaseException):
        return Look(_error)
    if issubclass(cls, rebuilt) or not default_state(cls):
        return None
    if issubclass(cls, dict):
        return Look(_mapping)
    if issubclass(cls, (list, tuple)):
        return Look(_sequence)
    if issubclass(cls, (int, float, complex, str, bytes, set, frozenset, bytearray)):
        return None
    return Look(_instance)
