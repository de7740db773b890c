"""Whose memory it is: what glibc's malloc has handed out, and gives back without a look at it.

Other allocators count on it that the pages of memory they gave up are zeros when they touch them
again; those of a file are not. So only memory that is known to be malloc's may become a map of a
file. Reads a few bytes before an allocation; changes nothing.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any

from .process_maps import Regions

#: Bytes before an allocation in which malloc notes its size, and what lies before it in its map.
_HEADER = 16
_FLAGS = 7
_IS_MMAPPED = 2


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


@functools.lru_cache(maxsize=1)
def malloc_is_glibcs() -> bool:
    """Whether `malloc` in this process is that of glibc, and none that was put in its place."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # musl has none
        found = _Symbol()
        address = ctypes.cast(libc.malloc, ctypes.c_void_p)
        if not libc.dladdr(address, ctypes.byref(found)):
            return False
        name = os.path.basename(os.fsdecode(found.file or b""))
    except (OSError, AttributeError):
        return False
    return name.startswith(("libc.so", "libc-"))


def start_of(owner: Any, address: int) -> int:
    """Where the allocation begins of which the memory at `address` is part, as far as its owner
    tells: the array at the end of the bases, the storage."""
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    if numpy is not None and isinstance(owner, numpy.ndarray):
        while isinstance(owner.base, numpy.ndarray):
            owner = owner.base
        if owner.flags.owndata:
            return int(owner.__array_interface__["data"][0])
        owner = owner.base
    if torch is not None and isinstance(owner, torch.Tensor):
        owner = owner.untyped_storage()
    if torch is not None and isinstance(owner, torch.UntypedStorage) and owner.device.type == "cpu":
        return int(owner.data_ptr())
    return address


def is_mallocs(start: int, end: int, regions: Regions) -> bool:
    """Whether the memory from `start` (where an allocation begins) to `end` is glibc's malloc's: in
    the heap, or a map that it has made for this allocation."""
    if not malloc_is_glibcs():
        return False
    lies_on = regions.of(start, end)
    if not lies_on:
        return False
    if lies_on[0].path == "[heap]":
        return True
    page = mmap.PAGESIZE
    if start % _HEADER or start % page < _HEADER:  # the header must be in a page of the range
        return False
    before, size = (ctypes.c_size_t * 2).from_address(start - _HEADER)
    whole = size & ~_FLAGS
    return (
        size & _FLAGS == _IS_MMAPPED
        and before < 1 << 20
        and (start - _HEADER - before) % page == 0
        and (before + whole) % page == 0
        and start - _HEADER + whole >= end
    )
