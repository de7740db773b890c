"""Objects that look into another one: views of a dictionary, read-only proxies of it.

They come back looking into the restored one, never at a copy. What the graph calls to make them
again is here as well: names and arguments are part of the format.
"""

from __future__ import annotations

import builtins
import collections
import gc
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]

_PLAIN: dict[Any, Any] = {}
_ORDERED: Any = collections.OrderedDict()
#: Type of a view -> the method of a dictionary that gives it.
_METHODS: dict[type, str] = {
    type(getattr(empty, name)()): name
    for empty in (_PLAIN, _ORDERED)
    for name in ("keys", "values", "items")
}


def register(writer: GraphWriter) -> None:
    """Teach `writer` these types."""
    writer.handlers[types.MappingProxyType] = reduce_proxy
    for cls in _METHODS:
        writer.handlers[cls] = reduce_view


def reduce_view(writer: GraphWriter, view: Any) -> Any:
    """d.keys(), d.values() or d.items()."""
    (mapping,) = gc.get_referents(view)
    return dictionary_view, (mapping, _METHODS[type(view)])


def dictionary_view(mapping: Any, method: str) -> Any:
    """The view of `mapping` that `method` gives."""
    owner: Any = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    return getattr(owner, method)(mapping)


def reduce_proxy(writer: GraphWriter, proxy: Any) -> Any:
    """A read-only proxy: of the attributes of a class, or of a mapping."""
    (mapping,) = gc.get_referents(proxy)
    if type(mapping) is dict:
        for name in ("__dict__", "__weakref__"):
            owner = getattr(mapping.get(name), "__objclass__", None)
            if isinstance(owner, type) and gc.get_referents(vars(owner)) == [mapping]:
                return builtins.vars, (owner,)
        if "__module__" in mapping and "__qualname__" not in mapping and "__doc__" in mapping:
            return types.MappingProxyType, (dict(mapping),)  # of a class that cannot be told
    return types.MappingProxyType, (mapping,)
