"""Blocks of a checkpoint as memory: chunk files mapped privately, one behind the other.

A block of many chunks is one contiguous writable region. Writing to it never reaches the files;
memory that is not written to is page cache, not memory of the process. Where mapping is not
possible, the chunks are read. It never checks hashes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import os
import sys
from pathlib import Path
from typing import Any

_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_WILL_NEED = 3
_FAILED = ctypes.c_void_p(-1).value


class BlockMemory:
    """The memory of one block: `nbytes` bytes at `address`. Unmapped when nothing uses it."""

    def __init__(self, address: int, nbytes: int, reserved: int, keep: Any = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self._reserved = reserved
        self._keep = keep

    def view(self, offset: int, nbytes: int) -> Any:
        """A writable buffer on part of the block (a ctypes array, which keeps the block alive)."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ValueError("the view is outside of its block")
        array = (ctypes.c_char * nbytes).from_address(self.address + offset)
        array._block = self  # type: ignore[attr-defined]
        return array

    def __del__(self) -> None:
        if self._reserved and _libc is not None:
            _libc.munmap(ctypes.c_void_p(self.address), ctypes.c_size_t(self._reserved))
            self._reserved = 0


def _load_libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_long,
        ]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    except (OSError, AttributeError):
        return None
    return libc


_libc = _load_libc()


def read_ahead(address: int, nbytes: int) -> None:
    """Let the system begin to read mapped memory (`address`: a page's), unless it has it."""
    if _libc is None or not nbytes:
        return
    last = address + (nbytes - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    there = ctypes.create_string_buffer(1)
    for page in (address, last):
        if _libc.mincore(page, mmap.PAGESIZE, there) or not there.raw[0] & 1:
            _libc.madvise(address, nbytes, _WILL_NEED)
            return


def open_block(paths: list[Path | None], sizes: list[int]) -> BlockMemory:
    """The block made of these chunk files (all but the last a multiple of the page size). Nothing
    may be read where a path is None: there is no memory.

    Raises OSError if a file cannot be opened or read; falls back to reading where the files
    cannot be mapped.
    """
    if _libc is not None:
        try:
            return _map(paths, sizes)
        except CannotMapError:
            pass
    return _read(paths, sizes)


class CannotMapError(Exception):
    """mmap refused (no more maps, a file system without them)."""


def map_range(path: str, start: int, nbytes: int) -> BlockMemory:
    """Part of any file, from `start` (a multiple of the page size) on, mapped privately; read
    where it cannot be mapped. Raises OSError, also if the file is shorter."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if os.fstat(fd).st_size < start + nbytes:
            raise OSError(f"{path} is shorter than {start + nbytes} bytes")
        if _libc is not None and start % mmap.PAGESIZE == 0:
            reserved = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
            protection = mmap.PROT_READ | mmap.PROT_WRITE
            flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
            base = _libc.mmap(None, reserved, protection, flags, fd, start)
            if base is not None and base != _FAILED:
                return BlockMemory(base, nbytes, reserved)
        data = mmap.mmap(-1, max(nbytes, 1))
        with open(fd, "rb", buffering=0, closefd=False) as file:
            file.seek(start)
            view = memoryview(data)[:nbytes]
            while view:
                got = file.readinto(view)
                if not got:
                    raise OSError(f"{path} is shorter than {start + nbytes} bytes")
                view = view[got:]
    finally:
        os.close(fd)
    anchor = (ctypes.c_char * max(nbytes, 1)).from_buffer(data)
    return BlockMemory(ctypes.addressof(anchor), nbytes, 0, anchor)


def _map(paths: list[Path | None], sizes: list[int]) -> BlockMemory:
    page = mmap.PAGESIZE
    if any(size % page for size in sizes[:-1]):
        raise CannotMapError
    total = sum(sizes)
    reserved = -(-total // page) * page
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    base = _libc.mmap(None, reserved, _PROT_NONE, flags, -1, 0)
    if base is None or base == _FAILED:
        raise CannotMapError
    memory = BlockMemory(base, total, reserved)
    offset = 0
    for path, size in zip(paths, sizes):
        if path is None:
            offset += size
            continue
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            if os.fstat(fd).st_size != size:  # a map beyond the end would be SIGBUS later
                raise OSError(f"{path} has {os.fstat(fd).st_size} bytes instead of {size}")
            length = -(-size // page) * page
            protection = mmap.PROT_READ | mmap.PROT_WRITE
            fixed = mmap.MAP_PRIVATE | _MAP_FIXED | _MAP_NORESERVE
            got = _libc.mmap(base + offset, length, protection, fixed, fd, 0)
            if got is None or got == _FAILED:
                raise CannotMapError
        finally:
            os.close(fd)
        offset += size
    return memory


def _read(paths: list[Path | None], sizes: list[int]) -> BlockMemory:
    total = sum(sizes)
    data = mmap.mmap(-1, max(total, 1))  # page aligned, like a map
    offset = 0
    for path, size in zip(paths, sizes):
        if path is None:
            offset += size
            continue
        with open(path, "rb", buffering=0) as file:
            view = memoryview(data)[offset : offset + size]
            done = 0
            while done < size:
                got = file.readinto(view[done:])
                if not got:
                    raise OSError(f"{path} has {done} bytes instead of {size}")
                done += got
        offset += size
    anchor = (ctypes.c_char * max(total, 1)).from_buffer(data)
    return BlockMemory(ctypes.addressof(anchor), total, 0, anchor)
