"""Numpy arrays that stand on memory of other objects: arrays of objects and their views, arrays
on a bytearray, an array.array or a memory map, masked arrays, flat iterators.

Only looked at if the process has imported numpy; never copies data. What the graph calls to make
them again is here as well: names and arguments are part of the format.
"""

from __future__ import annotations

import array as array_module
import gc
import mmap
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from .buffers import address_of

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]

#: Owners of memory that arrays may stand on and that the pickler writes with their bytes. (bytes
#: cannot change: whoever stands on them shares nothing that shows.)
OWNERS = (bytearray, array_module.array, mmap.mmap)


def reduce_shared(array: Any, held: dict[int, bool]) -> Reduced | None:
    """An exact array whose memory is that of another object in the graph; None for all others.
    `held`: by id of a map, whether anybody but arrays knows it; kept during a pass."""
    owner = _owner(array, held)
    if owner is None:
        return _on_objects(array)
    start = _address(array) - address_of(owner) if array.size else 0
    writeable = bool(array.flags.writeable)
    args = (owner, array.dtype, array.shape, start, array.strides, writeable)
    return on_buffer, args


def _owner(array: Any, held: dict[int, bool]) -> Any:
    """The bytearray (or the like) at the end of the bases of an array, if anybody else knows it.

    One that only the array holds (safetensors makes such) is memory like any other; so is a map
    that only arrays hold: what they show may be weights in a file, which are referred to.
    """
    numpy: Any = sys.modules["numpy"]
    holder, name = array, "base"
    while isinstance(holder.base, numpy.ndarray):
        holder = holder.base
    if type(holder) is numpy.memmap:  # rebuilders/memory_maps.py
        return None
    if type(holder.base) is memoryview:
        holder, name = holder.base, "obj"
    known = _is_owner(type(getattr(holder, name))) and _references(holder, name) > _HIDDEN
    if known and type(getattr(holder, name)) is mmap.mmap:
        key = id(getattr(holder, name))
        if key not in held:
            held[key] = _is_held(getattr(holder, name))
        known = held[key]
    return getattr(holder, name) if known else None


def _is_held(owner: Any) -> bool:
    """Whether anything but arrays (and views that only they have) refers to it. The garbage
    collector knows all holders but arrays and frames."""
    level = [owner]
    while level:
        found = [holder for holder in gc.get_referrers(*level) if holder is not level]
        level = [holder for holder in found if type(holder) in _VIEWS]
        if len(level) < len(found):
            return True
        del found  # or the next look would find it
    return False


_VIEWS = (memoryview, *map(type, gc.get_referents(memoryview(b""))))


def _is_owner(cls: type) -> bool:
    # an array or a structure of ctypes: their common base has no name to be found by
    return cls in OWNERS or any(base.__module__ == "_ctypes" for base in cls.__mro__)


def _references(holder: Any, name: str) -> int:
    owner = getattr(holder, name)
    return sys.getrefcount(owner)


#: What _references counts where nobody but the holder refers to the owner.
_HIDDEN = _references(memoryview(bytearray(1)), "obj")


def bounds(array: Any) -> tuple[int, int]:
    """First and one-past-last address of what the array looks at."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def on_buffer(owner: Any, dtype: Any, shape: Any, start: int, strides: Any, writeable: bool) -> Any:
    """An array on the memory of `owner`, from byte `start` on."""
    numpy: Any = sys.modules["numpy"]
    made = numpy.ndarray(shape, dtype, owner, start, strides)
    if not writeable:
        made.flags.writeable = False
    return made


# ---- arrays of objects ----


def _on_objects(array: Any) -> Reduced | None:
    """A view of an array of objects: a place in the array that owns them."""
    numpy: Any = sys.modules["numpy"]
    root = array.base
    if type(root) is not numpy.ndarray or not root.dtype.hasobject or not array.size:
        return None
    while type(root.base) is numpy.ndarray:
        root = root.base
    contiguous = root.flags.c_contiguous or root.flags.f_contiguous
    if root.base is not None or not contiguous:
        return None
    start = _address(array) - _address(root)
    writeable = bool(array.flags.writeable)
    return on_objects, (root, array.dtype, array.shape, start, array.strides, writeable)


def on_objects(root: Any, dtype: Any, shape: Any, start: int, strides: Any, writeable: bool) -> Any:
    """An array on the memory of `root`, an array of objects, from byte `start` on."""
    numpy: Any = sys.modules["numpy"]
    flat = root.reshape(-1, order="C" if root.flags.c_contiguous else "F")
    first, within = divmod(start, root.itemsize)
    if within or dtype != root.dtype:
        flat = flat.getfield(dtype, within)
    made = numpy.lib.stride_tricks.as_strided(flat[first:], shape, strides)
    if not writeable:
        made.flags.writeable = False
    return made


# ---- classes of numpy that describe themselves by a copy of their bytes ----


def is_masked(cls: Any) -> bool:
    """Whether `cls` is pickled as masked arrays are: all but the data stands in its attributes."""
    masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is None or not issubclass(cls, masked):
        return False
    own = (cls.__reduce__, cls.__setstate__, cls.__getstate__)
    return own == (masked.__reduce__, masked.__setstate__, masked.__getstate__)


def reduce_flat_iterator(writer: GraphWriter, flat: Any) -> Reduced:
    """`array.flat`, at its place."""
    return flat_iterator, (flat.base, flat.index)


def flat_iterator(base: Any, index: int) -> Any:
    """`base.flat` after `index` steps."""
    made = base.flat
    for _ in islice(made, index):
        pass
    return made
