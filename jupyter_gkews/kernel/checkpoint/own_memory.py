"""What this process's memory holds: which pages it has never written to, and whether two pieces
of it are equal.

Linux tells most of it; a system that tells nothing is not believed. Changes no memory.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any


def _libc() -> Any:
    try:
        libc = ctypes.CDLL(None)
        libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        return libc
    except (OSError, AttributeError, TypeError):
        return None


_LIBC = _libc()


def equal(one: memoryview, other: memoryview) -> bool:
    """Whether two buffers hold the same bytes; lets other threads run meanwhile."""
    if len(one) != len(other):
        return False
    if _LIBC is None or one.readonly or other.readonly:
        return bytes(one) == bytes(other)
    first = (ctypes.c_char * len(one)).from_buffer(one)
    second = (ctypes.c_char * len(other)).from_buffer(other)
    return not _LIBC.memcmp(ctypes.addressof(first), ctypes.addressof(second), len(one))


# ---- what Linux says of this process's memory ----

#: By the uppermost byte of an entry of pagemap: 1 for a page that is the process's own (there,
#: and not of a file; or swapped out), 2 for one that it has not looked at, 0 for one of the file.
_KIND = bytes(
    1 if bits & 0x40 or bits & 0xA0 == 0x80 else 0 if bits & 0x80 else 2 for bits in range(256)
)


def untouched(address: int, nbytes: int) -> bool:
    """Whether the process has written to none of these pages of a private map: then their bytes
    are the file's. It need not have looked at them. Said only where `told` is."""
    return told() and 1 not in (_kinds(address, nbytes) or b"\1")


def _kinds(address: int, nbytes: int) -> bytes | None:
    page = mmap.PAGESIZE
    first, last = address // page, (address + nbytes - 1) // page
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            entries = os.pread(file.fileno(), (last - first + 1) * 8, first * 8)
    except OSError:
        return None
    if len(entries) != (last - first + 1) * 8:
        return None
    return entries[7::8].translate(_KIND)


@functools.lru_cache(maxsize=1)
def told() -> bool:
    """Whether this system tells a page of a private map that was written to from one that was not:
    tried with a map of this module's own file."""
    try:
        with (
            open(__file__, "rb") as file,
            mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_COPY) as memory,
        ):
            byte = ctypes.c_char.from_buffer(memory)
            address = ctypes.addressof(byte)
            before = _kinds(address, 1)
            byte.value = b"#"
            after = _kinds(address, 1)
            del byte
            return before in (b"\0", b"\2") and after == b"\1"
    except (OSError, ValueError):
        return False
