"""The attributes of an object as they lie in it: its dictionary, and slots by their descriptors.

Neither reading nor putting them back runs code of the user's: no `__getattr__`, no `__setattr__`,
no property.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping
from typing import Any


@functools.lru_cache(maxsize=4096)
def slots_of(cls: Any) -> dict[str, Any]:
    """The slots of a class and its bases: by name (a private one's as it is stored), the
    descriptor of the first class that has one."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if "__slots__" in vars(base):
            for name, part in vars(base).items():
                if type(part) is types.MemberDescriptorType:
                    found.setdefault(name, part)
    return found


def held(obj: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dictionary of an object, the very one ({} if it has none), and what its slots hold."""
    cls: Any = type(obj)
    slots = {}
    for name, member in slots_of(cls).items():
        try:
            slots[name] = member.__get__(obj, cls)
        except AttributeError:
            continue
    return (_dictionary(obj) if cls.__dictoffset__ else {}), slots


def put(obj: Any, attributes: Mapping[str, Any] | None, slots: Mapping[str, Any] | None) -> None:
    """Give an object what `held` found. Raises AttributeError where its class has no such slot."""
    if attributes:
        own = _dictionary(obj)
        dict.update(own, {_interned(name): value for name, value in attributes.items()})
    cls: Any = type(obj)
    for name, value in (slots or {}).items():
        member = slots_of(cls).get(name)
        if member is not None:
            member.__set__(obj, value)
        else:  # its class has another shape by now
            object.__setattr__(obj, name, value)


def _dictionary(obj: Any) -> dict[str, Any]:
    cls: Any = type(obj)
    member = _dictionary_of(cls)
    found: dict[str, Any]
    # without one: a class that has hidden it altogether
    found = member.__get__(obj, cls) if member else object.__getattribute__(obj, "__dict__")
    return found


@functools.lru_cache(maxsize=4096)
def _dictionary_of(cls: Any) -> Any:
    """What reads the dictionary of an object, past a property of the name."""
    for base in cls.__mro__:
        found = vars(base).get("__dict__")
        if type(found) is types.GetSetDescriptorType:
            return found
    return None


def _interned(name: Any) -> Any:
    return sys.intern(name) if type(name) is str else name


def default_state(cls: type) -> bool:
    """Whether dictionary, slots and elements are all the state: nothing overrides how it is
    pickled. A named tuple's own methods say the same."""
    for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"):
        if getattr(cls, name, None) is not getattr(object, name, None):
            return False
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return True
    return not hasattr(cls, "__getnewargs__") and not hasattr(cls, "__getnewargs_ex__")
