"""What the pickler is given for objects without a rule of their own: checked, so that an object
which describes itself wrongly fails here, alone, and not inside the pickler.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import functools
import pathlib
import pickle
import struct
import sys
import types
import typing
import uuid
from typing import TYPE_CHECKING, Any

from cloudpickle import cloudpickle

from . import kinds, rebuild
from .buffers import address_of
from .placeholders import Loss, Lost, loss_of

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


#: Types whose own description never fails, so that the C pickler may do their objects alone.
SAFE: frozenset[type] = frozenset(
    (
        *(complex, range, slice, types.SimpleNamespace, uuid.UUID),
        *(collections.deque, collections.OrderedDict, collections.defaultdict),
        *(collections.Counter, decimal.Decimal, fractions.Fraction),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
        *(pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    )
)
_NAMED_CODE: Any = vars(collections.namedtuple("_NAMED", ()))["__getnewargs__"].__code__


def is_named_tuple(cls: type) -> bool:
    """Whether `cls` is a namedtuple, or inherits all of how it is pickled from one."""
    if not issubclass(cls, tuple) or cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    code = getattr(getattr(cls, "__getnewargs__", None), "__code__", None)
    own = [name for name in _OWN if getattr(cls, name, None) is not getattr(object, name, None)]
    return code is _NAMED_CODE and not own and not _hides_class(cls)


_OWN = ("__reduce__", "__getstate__", "__getnewargs_ex__", "__setstate__")


def _hides_class(cls: type) -> bool:
    """Whether asking an object for its `__class__` runs the user's code."""
    return any("__class__" in vars(base) for base in cls.__mro__ if base is not object)


def _iterates_itself(cls: type) -> bool:
    """A list or dictionary whose items no code of its own gives out; or neither."""
    if issubclass(cls, list):
        return cls.__iter__ is list.__iter__
    return not issubclass(cls, dict) or (cls.items, cls.__iter__) == (dict.items, dict.__iter__)


def is_plain(cls: type) -> bool:
    """Whether object's own reduce applies, so that the C pickler may do it alone."""
    if _hides_class(cls) or not _iterates_itself(cls):
        return False
    for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        if getattr(cls, name, None) is not getattr(object, name, None):
            return False
    if cls in cloudpickle.Pickler.dispatch_table or hasattr(cls, "__getnewargs__"):
        return False
    return not hasattr(cls, "__getnewargs_ex__")


def answers_all(cls: type) -> bool:
    """Whether objects answer for attributes that they have not, and so for `__setstate__`."""
    own = any("__getattr__" in vars(base) for base in cls.__mro__)
    return own and not hasattr(cls, "__setstate__")


def has_dictionary(cls: type) -> bool:
    """Whether `__dict__` of an object is what it seems to be, and may be asked for."""
    if type(cls.__getattribute__) is not types.WrapperDescriptorType:
        return False  # one of the user's
    kinds = {type(vars(base)["__dict__"]) for base in cls.__mro__ if "__dict__" in vars(base)}
    return kinds == {types.GetSetDescriptorType}


class _Alone:
    """Nobody else holds the dictionary of one."""


def _references_of_dictionary() -> int:
    alone: Any = _Alone()
    alone.attribute = None
    return sys.getrefcount(alone.__dict__)


#: What sys.getrefcount says of the dictionary of an instance that nobody else holds.
ALONE = _references_of_dictionary()


def reduce_sharing(writer: GraphWriter, obj: Any) -> Any:
    """A plain object whose dictionary others hold as well (`vars(obj)` has a name, objects share
    one, it is the object itself): it comes back as the same one."""
    attributes = obj.__dict__
    rv = obj.__reduce_ex__(5)
    state = rv[2] if len(rv) > 2 else None
    slots = state[1] if type(state) is tuple and len(state) == 2 else None
    return (*rv[:2], (attributes, slots), *(rv[3:5] or (None, None)), rebuild.set_dictionary)


def reduce_answering(writer: GraphWriter, obj: Any) -> Any:
    """Plain objects whose `__getattr__` must not be asked for `__setstate__` at load."""
    if has_dictionary(type(obj)) and sys.getrefcount(obj.__dict__) > ALONE:
        return reduce_sharing(writer, obj)
    rv = obj.__reduce_ex__(5)
    if len(rv) < 3 or rv[2] is None:
        return rv
    return (*rv[:3], *(rv[3:5] or (None, None)), rebuild.set_state)


def reduce_guarded(writer: GraphWriter, obj: Any) -> Any:
    """What the object's own reduce says, or a placeholder."""
    return writer.guarded(obj)


def reduce_kernels_own(writer: GraphWriter, obj: Any) -> Reduced:
    """A part of ipykernel that the new kernel has no equal of: never copied over its own."""
    what = f"a {type(obj).__module__}.{type(obj).__qualname__}"
    return writer.lost_leaf(obj, Loss(what, "it belongs to the process of the kernel"))


def reduce_known_kind(writer: GraphWriter, obj: Any) -> Any:
    """A placeholder: objects of this kind are never kept."""
    return writer.lost_leaf(obj, kinds.loss_for(obj))


def reduce_lost(writer: GraphWriter, obj: Lost) -> Any:
    """A placeholder of an earlier checkpoint stays what it is, with its first reason."""
    loss = loss_of(obj)
    writer.losses[id(obj)] = loss
    writer.record.losses.append((obj, loss))
    return rebuild.lost, loss.arguments()


def reduce_weakref(writer: GraphWriter, ref: Any) -> Any:
    """A weak reference to what it refers to, now, with its callback."""
    target = ref()
    if target is None:
        return rebuild.weak_reference, ()
    callback = ref.__callback__
    return rebuild.weak_reference, (target,) if callback is None else (target, callback)


def reduce_weakproxy(writer: GraphWriter, proxy: Any) -> Any:
    """A weak proxy of what it stands for, now. It is asked nothing that it would pass on but the
    one bound method that tells whose it is; a dead one stays dead."""
    try:
        target = proxy.__repr__.__self__
    except ReferenceError:
        return rebuild.dead_proxy, ()
    return rebuild.weak_proxy, (target,)


def reduce_weak_dict(writer: GraphWriter, mapping: Any) -> Any:
    """A weak dictionary: its live items, held as weakly as before."""
    return type(mapping), (), None, None, iter(list(mapping.items()))


def reduce_weak_set(writer: GraphWriter, members: Any) -> Any:
    """A WeakSet: its live members."""
    return type(members), (), list(members) or None, None, None, rebuild.fill_weak_set


def reduce_memoryview(writer: GraphWriter, view: memoryview) -> Any:
    """A view of bytes that another object holds: the same bytes of the restored object."""
    whole = memoryview(view.obj)
    if view.obj is None or not whole.contiguous:
        raise pickle.PicklingError("it is a view with gaps")
    if not view.contiguous:
        return rebuild.memory_view_with_gaps, _gaps(view, whole)
    start = address_of(view) - address_of(whole)
    same = (view.format, view.shape) == (whole.format, whole.shape)
    args = (view.obj, start, view.nbytes, None if same else view.format, view.shape)
    return rebuild.memory_view, (*args, view.readonly)


def _gaps(view: memoryview, whole: memoryview) -> Reduced:
    """A view that leaves items out: as the slice that makes it again."""
    assert view.strides is not None
    cast = whole.cast("B").cast(view.format) if whole.format != view.format else whole  # type: ignore[call-overload]
    if view.ndim != 1 or cast.ndim != 1:
        raise pickle.PicklingError("it is a view with gaps in several dimensions")
    first = (address_of(view) - address_of(whole)) // view.itemsize
    step = view.strides[0] // view.itemsize
    stop: int | None = first + step * len(view)
    if stop is not None and stop < 0:
        stop = None
    form = None if cast is whole else view.format
    return (view.obj, form, first, stop, step, view.readonly)


def reduce_new_type(writer: GraphWriter, new_type: Any) -> Any:
    """typing.NewType made in a cell; one of a module is found there."""
    if new_type.__module__ != "__main__":
        return NotImplemented
    return typing.NewType, (new_type.__name__, new_type.__supertype__)


def reduce_parameter(writer: GraphWriter, parameter: Any) -> Any:
    """typing.ParamSpec or TypeVarTuple made in a cell; one of a module is found there."""
    if parameter.__module__ != "__main__":
        return NotImplemented
    options = {
        name: value
        for name in ("bound", "covariant", "contravariant")
        if (value := getattr(parameter, f"__{name}__", None))
    }
    return rebuild.type_parameter, (type(parameter), parameter.__name__, options)


def reduce_struct(writer: GraphWriter, layout: struct.Struct) -> Reduced:
    """struct.Struct: its format is all."""
    return struct.Struct, (layout.format,)


def register(writer: GraphWriter) -> None:
    """Teach `writer` the types of the standard library that have no description of their own."""
    writer.handlers[struct.Struct] = reduce_struct
    for name in ("ParamSpec", "TypeVarTuple"):
        if hasattr(typing, name):  # 3.10, 3.11
            writer.handlers[getattr(typing, name)] = reduce_parameter


def checked(obj: Any, rv: Any) -> Reduced:
    """`rv` if the pickler can use it. What would fail inside the pickler must fail here, where
    only this object is lost."""
    if not isinstance(rv, tuple) or not 2 <= len(rv) <= 6:
        raise pickle.PicklingError("its __reduce__ returned no usable description")
    func, args = rv[:2]
    if not callable(func):
        raise pickle.PicklingError("its __reduce__ names something that cannot be called")
    if not isinstance(args, tuple):
        raise pickle.PicklingError("its __reduce__ returned no arguments")
    name = getattr(func, "__name__", "")
    if name in ("__newobj__", "__newobj_ex__"):
        hides = _hides_class(type(obj))  # the pickler would ask it for its __class__
        if not args or args[0] is not type(obj) or not (hides or obj.__class__ is args[0]):
            raise pickle.PicklingError("its __reduce__ makes an object of another class")
        if name == "__newobj_ex__" and not (
            len(args) == 3 and isinstance(args[1], tuple) and isinstance(args[2], dict)
        ):
            raise pickle.PicklingError("its __reduce__ returned no usable arguments")
        if hides and name == "__newobj__":
            rv = (rebuild.new_object, *rv[1:])
        elif hides:
            func, args = functools.partial(rebuild.new_object, args[0], *args[1], **args[2]), ()
            rv = (func, args, *rv[2:])
        func, args = rv[:2]
    if len(rv) <= 3:
        return tuple(rv)
    rest = list(rv[2:]) + [None] * (6 - len(rv))
    state, items, pairs, setter = rest
    if setter is not None and not callable(setter):
        raise pickle.PicklingError("its __reduce__ returned a state setter that cannot be called")
    if items is not None:
        items = iter(list(items))
    if pairs is not None:
        pairs = [(key, value) for key, value in pairs]
        pairs = iter(pairs)
    return (func, args, state, items, pairs, setter)


def one_line(error: BaseException) -> str:
    """The first line of an error, short."""
    text = str(error).strip().split("\n")[0] or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
