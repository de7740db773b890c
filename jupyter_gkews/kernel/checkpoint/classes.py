"""How the objects of each class are written: by which handler, or by what they say of themselves.

Decided once a class. It writes nothing and changes no object.
"""

from __future__ import annotations

import functools
import importlib.machinery
import pickle
import sys
import types
import typing
import weakref
from typing import TYPE_CHECKING, Any, Callable

from cloudpickle import cloudpickle

from . import (
    enums,
    exceptions,
    frames,
    functions,
    identities,
    kinds,
    left_out,
    live_views,
    patches,
    rebuild,
    rebuilders,
    reduction,
    shell_magics,
    subclasses,
    tensors,
)
from .placeholders import Lost
from .reduction import reduce_sharing
from .singletons import is_kernels_own

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]
Handler = Callable[["GraphWriter", Any], Any]


def register(writer: GraphWriter) -> None:
    """Teach `writer` all classes whose objects have a rule of their own."""
    writer.handlers.update(
        {
            types.FunctionType: functions.reduce_function,
            types.CellType: functions.reduce_cell,
            types.CodeType: functions.reduce_code,
            types.ModuleType: functions.reduce_module,
            functools.partialmethod: functions.reduce_partial_method,
            weakref.ref: reduction.reduce_weakref,
            weakref.ProxyType: reduction.reduce_weakproxy,
            weakref.CallableProxyType: reduction.reduce_weakproxy,
            weakref.WeakValueDictionary: reduction.reduce_weak_dict,
            weakref.WeakKeyDictionary: reduction.reduce_weak_dict,
            weakref.WeakSet: reduction.reduce_weak_set,
            Lost: reduction.reduce_lost,
            memoryview: reduction.reduce_memoryview,
            importlib.machinery.ModuleSpec: identities.reduce_spec,
        }
    )
    if isinstance(typing.NewType, type):  # a function up to Python 3.9
        writer.handlers[typing.NewType] = reduction.reduce_new_type
    enums.register(writer)
    tensors.register(writer)
    frames.register(writer)
    exceptions.register(writer)
    live_views.register(writer)
    reduction.register(writer)
    rebuilders.register(writer)
    shell_magics.register(writer)


def handler_of(writer: GraphWriter, cls: type, obj: Any) -> Handler | None:
    """The handler of a class, decided once: None leaves its objects to the C pickler."""
    if issubclass(cls, type):
        return functions.reduce_class
    for base, handler in writer.base_handlers:
        if issubclass(cls, base):
            return handler
    if kinds.known_kind(cls):
        return reduction.reduce_known_kind
    if is_kernels_own(cls):
        return reduction.reduce_kernels_own
    if tensors.is_parametrized(cls):
        return tensors.reduce_parametrized
    for base in (types.ModuleType, types.FunctionType):
        if issubclass(cls, base):
            return writer.handlers[base]
    known = cls in cloudpickle.Pickler.dispatch_table
    builtin = None if known else subclasses.base_of(cls)
    if builtin is not None:
        return functools.partial(subclasses.reduce, builtin)
    safe = cls in reduction.SAFE and cls not in writer.singleton_types
    if safe or reduction.is_named_tuple(cls):
        return None
    if reduction.is_plain(cls) and cls not in writer.singleton_types:
        try:
            obj.__reduce_ex__(5)
        except Exception:
            return reduction.reduce_guarded
        if reduction.answers_all(cls):
            return reduction.reduce_answering
        shared = writer.dictionaries_named or identities.names_dictionary(cls)
        return reduce_sharing if shared and reduction.has_dictionary(cls) else None
    return reduction.reduce_guarded


def own_reduce(writer: GraphWriter, obj: Any) -> Any:
    """What an object says of itself, checked. Raises what its code raises, PicklingError."""
    cls = type(obj)
    reduce = cloudpickle.Pickler.dispatch_table.get(cls)
    rv = reduce(obj) if reduce is not None else obj.__reduce_ex__(5)
    if isinstance(rv, str):
        return _global(writer, obj, rv)
    rv = reduction.checked(obj, rv)
    if reduce is None:
        rv, told = left_out.watched(obj, rv, writer.left_out)
        if told:
            writer.note_rebuilt(told, obj)
    return rv


def _global(writer: GraphWriter, obj: Any, path: str) -> Reduced:
    """An object that says it is found under `path` in a module."""
    names = [getattr(obj, "__module__", None), type(obj).__module__.split(".")[0]]
    for name in [*names, pickle.whichmodule(obj, path)]:  # type: ignore[attr-defined]
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is None or name == "__main__":
            continue
        try:
            found = rebuild.attribute(module, path)
        except AttributeError:
            continue
        if found is obj:
            return rebuild.attribute, (module, path)
    replaced = patches.original(obj, writer.user_ns)
    if replaced is not None:
        return rebuild.attribute, replaced
    raise pickle.PicklingError(f"it is not found as {path!r} in its module")
