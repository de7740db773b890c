"""Where the memory of a checkpoint lies in this process, and how arrays on it look.

Tells for an address which part of which block it is: the same in the kernel and in a test load,
so that a view on the wrong memory, at the wrong place or with other strides is seen without
reading it. Of the bytes it takes samples; their hashes are checked elsewhere.
"""

from __future__ import annotations

import bisect
import ctypes
import hashlib
from typing import Any

from . import arrays
from .buffers import Layout
from .chunks import CHUNK

#: Up to this size (bytes) memory that is not the checkpoint's is compared whole.
WHOLE = 1 << 20
_SAMPLE = 16
#: Kinds of numpy types of which `dtype.str` tells everything.
_TOLD = frozenset("biufcmMSUO")


class Places:
    """Ranges of memory, each with the (block, offset) at which the checkpoint has it.

    A range that one object alone looks at has no place: it comes back with memory of its own.
    """

    def __init__(self) -> None:
        self._spaces: dict[str, list[tuple[int, int, int, int, bool]]] = {}

    def add(
        self, address: int, nbytes: int, block: int, offset: int, space: str, seen: bool
    ) -> None:
        """`nbytes` bytes at `address` are those at `offset` of `block`; `seen`: they can be
        looked at in the kernel as well as in a test load."""
        self._spaces.setdefault(space, []).append((address, nbytes, block, offset, seen))

    def sort(self) -> Places:
        """Itself, once everything is added."""
        for rows in self._spaces.values():
            rows.sort()
        return self

    def find(self, address: int, space: str = "") -> tuple[int, int, int, bool] | None:
        """(block, offset of the range, offset within the range, seen) of an address."""
        rows = self._spaces.get(space, [])
        at = bisect.bisect_right(rows, (address, 1 << 62, 0, 0, False)) - 1
        if at < 0 or address >= rows[at][0] + rows[at][1]:
            return None
        start, _, block, offset, seen = rows[at]
        return block, offset, address - start, seen


def of_layout(layout: Layout) -> Places:
    """The places of what is about to be written."""
    without = {(block, offset) for block, offset, _, own in layout.views if own} | layout.copied
    places = Places()
    for number, block in enumerate(layout.blocks):
        for piece in block.pieces:
            if (number, piece.offset) not in without:
                where = piece.address, piece.nbytes, number, piece.offset
                places.add(*where, piece.space, not piece.space)
    for reference, offset, space, address, nbytes in layout.elsewhere:
        places.add(address, nbytes, -1 - reference, offset, space, not space)
    return places.sort()


def of_views(views: list[list[int]], address_of: Any, unseen: set[int]) -> Places:
    """The places of what was loaded. `address_of(block)`: where a block lies, 0 where it does
    not; `unseen`: blocks whose bytes the kernel has not looked at."""
    places = Places()
    end = -1
    ranges: list[list[int]] = []
    # As buffers.py merged them: views that overlap look at one memory.
    for block, offset, nbytes, alone in sorted((b, o, -n, a) for b, o, n, a in views):
        if ranges and ranges[-1][0] == block and offset < end:
            end = max(end, offset - nbytes)
            ranges[-1][2] = end
        elif not alone:
            end = offset - nbytes
            ranges.append([block, offset, end])
    for block, offset, end in ranges:
        address = address_of(block)
        if address:
            places.add(address + offset, end - offset, block, offset, "", block not in unseen)
    return places.sort()


def sample(address: int, nbytes: int) -> str:
    """Some bytes at both ends of a range and in each part that is a chunk of its own."""
    at = {0, max(0, nbytes - _SAMPLE)}
    at.update(range(CHUNK // 3, nbytes - _SAMPLE, CHUNK))
    if nbytes > 8 * _SAMPLE:
        at.update(range(0, nbytes - _SAMPLE, nbytes // 7))
    size = min(_SAMPLE, nbytes)
    data = b"".join(ctypes.string_at(address + offset, size) for offset in sorted(at))
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def look_at_array(prints: Any, array: Any, plain: bool) -> None:
    """Say type, shape, flags, and where an array stands. `plain`: exactly a numpy.ndarray."""
    dtype = array.dtype
    prints.say("array", dtype.str, array.shape)
    if dtype.kind not in _TOLD:  # its text takes numpy longer than all that follows
        prints.say(dtype)
    prints.say(bool(array.flags.writeable))
    if dtype.hasobject:
        prints.then_all(array.ravel().tolist() if dtype.names is None else [], array.size)
        return
    if not array.size:
        return
    low, high = arrays.bounds(array)
    place = prints.places.find(low) if plain else None
    if place is not None:
        offset = array.__array_interface__["data"][0] - low
        # the stride of a dimension of length 1 means nothing, and copies change it
        strides = [each for each, length in zip(array.strides, array.shape) if length > 1]
        prints.say("at", *place[:3], strides, offset, high - low)
        prints.say(sample(low, high - low))
        return
    if plain:
        prints.memory(low)
    if array.nbytes <= WHOLE:
        prints.say(hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest())
    else:
        step = array.size // 64
        prints.say(*(array.flat[i].tobytes().hex() for i in range(0, array.size, step)))


def look_at_tensor(prints: Any, tensor: Any, torch: Any) -> None:
    """Say type, shape, strides and storage of a tensor; then its gradient and attributes."""
    # Sizes of a jagged tensor are symbols, numbered by the process.
    shape = tensor.dim() if tensor.is_nested else tuple(tensor.shape)
    prints.say("tensor", tensor.dtype, shape, tensor.layout)
    plain = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    if plain and tensor.device.type != "meta" and not tensor.is_conj() and not tensor.is_neg():
        prints.say(tensor.stride(), tensor.requires_grad if tensor.is_leaf else False)
        storage = tensor.untyped_storage()
        if storage.nbytes():
            space = "" if storage.device.type == "cpu" else str(storage.device)
            place = prints.places.find(storage.data_ptr(), space)
            prints.say("at", tensor.storage_offset(), storage.nbytes())
            if place is not None:
                prints.say(*place[:3])
            else:
                prints.memory(storage.data_ptr())
            if not space and (place is None or place[3]) and tensor.numel():
                start = tensor.storage_offset() * tensor.element_size()
                reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
                address = storage.data_ptr() + start
                prints.say(sample(address, (reach + 1) * tensor.element_size()))
    if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        prints.then(tensor.grad)  # asked of other tensors, torch warns
    if plain and tensor.__dict__:
        prints.then_mapping(tensor.__dict__)
