"""Replaces big memory of this process, in place, by private maps of the chunks that hold it.

No object notices: same addresses, same bytes, still writable (a write makes a page the process's
own, the file stays). An image of the process then holds none of it. Only memory of glibc's malloc,
or that was mapped from the store before, and only if its bytes are those of the chunk just then;
everything else stays as it is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from . import chunks
from .allocations import is_mallocs, malloc_is_glibcs, start_of
from .known import KNOWN, identity_of
from .process_maps import Region
from .standing import Standing
from .stillness import python_is_alone, running, threads_of_python, until_true, wait_until_still
from .store import CheckpointStore
from .workers import Workers
from .writing import Placed

#: Less than this (bytes) is not worth a map.
LEAST = 64 << 10
#: Most maps that are made: Linux allows 65530 in a process.
MOST = 16000
#: Looked at between two looks at the threads of libraries (bytes).
BATCH = 256 << 20
#: Seconds that those may take to come to rest, and that all of it may take.
STILL_S = 2.0
#: So often what was compared is compared again, because such a thread ran meanwhile.
TRIES = 4
LIMIT_S = 60.0

_COMPUTING = "threads of a library are computing"
_FIXED = mmap.MAP_PRIVATE | 0x10 | 0x4000  # MAP_FIXED, MAP_NORESERVE
_MOVE = 3  # MREMAP_MAYMOVE, MREMAP_FIXED
_FAILED = ctypes.c_void_p(-1).value
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


@dataclass
class Mapped:
    """What has become of it. `nbytes`: of big memory, now on maps of the store; `left`: of big
    memory, not on them, and `why`, a clause, where it was all or most of it; `changed`: whether a
    map was tried."""

    nbytes: int = 0
    left: int = 0
    why: str | None = None
    changed: bool = False


@dataclass
class _Piece:
    """Pages of a chunk: from `start` to `end` they can be mapped."""

    placed: Placed
    start: int
    end: int
    path: Path
    mapped: bool = False


@dataclass
class _Plan:
    pieces: list[_Piece] = field(default_factory=list)
    mapped: int = 0
    left: int = 0


def rest_on_store(store: CheckpointStore, placed: list[Placed]) -> tuple[Mapped, frozenset[str]]:
    """What a snapshot is to be spared: `map_in_place`, then `keep_what_is_gone`. Also the paths of
    the mapped chunks that were seen to be there."""
    standing = Standing(store.root)
    result = map_in_place(store, placed, standing)
    if result.changed:
        standing = Standing(store.root)
    keep_what_is_gone(store, standing)
    ours = filter(standing.is_ours, standing.regions.all)
    return result, frozenset(each.path for each in ours if standing.is_there(each))


def map_in_place(
    store: CheckpointStore, placed: list[Placed], standing: Standing | None = None
) -> Mapped:
    """Map what was just saved. Nothing is changed where that is not safe. Call it while no cell
    runs; `placed` keeps the memory alive meanwhile."""
    if not hasattr(sys, "_current_frames") or not _lock_is_real():
        return Mapped(left=_size(placed), why="this Python runs without its global lock")
    libc = _keeping_the_lock()
    if libc is None:
        return Mapped(left=_size(placed), why="this operating system does not tell what is needed")
    if malloc_is_glibcs():
        ctypes.CDLL(None).malloc_trim(0)  # what was freed, a model's loading say, is in no image
    plan = _plan(placed, standing or Standing(store.root))
    result = Mapped(plan.mapped, plan.left, changed=bool(plan.pieces))
    deadline = time.monotonic() + LIMIT_S
    for batch in _batches(plan.pieces):
        late = time.monotonic() > deadline
        why = "it took too long" if late else _map_batch(libc, batch)
        for piece in batch:
            nbytes = piece.end - piece.start
            if piece.mapped:
                result.nbytes += nbytes
            else:
                result.left += nbytes
                result.why = result.why or why or "it was changed meanwhile"
    return result


def keep_what_is_gone(store: CheckpointStore, standing: Standing | None = None) -> list[Region]:
    """Maps of chunks whose files are not there any more become memory of the process's own, with
    the same bytes: an image could not open those files again. What could not be made so."""
    libc, bad, standing = _keeping_the_lock(), [], standing or Standing(store.root)
    for region in standing.regions.all:
        if not standing.is_ours(region) or standing.is_there(region):
            continue
        if libc is None or not _copy(libc, region):
            bad.append(region)
    return bad


# ---- which pages ----


def _size(placed: list[Placed]) -> int:
    return sum(each.chunk.nbytes for each in placed)


def _plan(placed: list[Placed], standing: Standing) -> _Plan:
    """What is mapped already, what can be, and what cannot."""
    plan, page = _Plan(), mmap.PAGESIZE
    starts: dict[int, int] = {}
    for each in placed:
        end = (each.address + each.chunk.nbytes) // page * page
        start = each.address + (page if each.zeros else 0)
        if end - start < LEAST:
            continue
        if standing.on(start, end, each.address, each.chunk):
            plan.mapped += end - start
            continue
        if each.zeros or id(each.owner) not in starts:
            starts[id(each.owner)] = start_of(each.owner, each.address + each.zeros)
        begin = min(starts[id(each.owner)], start)
        if len(plan.pieces) < MOST and _may_be(begin, start, end, standing):
            plan.pieces.append(_Piece(each, start, end, standing.path(each.chunk)))
        else:
            plan.left += end - start
    return plan


def _may_be(begin: int, start: int, end: int, standing: Standing) -> bool:
    """Whether a map may take the place of these pages of an allocation that begins at `begin`."""
    lies_on = standing.regions.of(start, end)
    if not lies_on or any(region.rights != "rw-p" for region in lies_on):
        return False
    if all(map(standing.is_ours, lies_on)):
        return True
    if any(region.of_file and not standing.is_ours(region) for region in lies_on):
        return False
    return is_mallocs(begin, end, standing.regions)


def _batches(pieces: list[_Piece]) -> list[list[_Piece]]:
    found: list[list[_Piece]] = []
    size = BATCH
    for piece in pieces:
        if size >= BATCH:
            found.append([])
            size = 0
        found[-1].append(piece)
        size += piece.end - piece.start
    return found


# ---- the replacement ----


def _lock_is_real() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _keeping_the_lock() -> Any:
    """libc, called without giving Python's lock away; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.PyDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_long,
        ]
        libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        libc.memmove.restype = None
        libc.mremap.restype = ctypes.c_void_p
        libc.mremap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_void_p,
        ]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    except (OSError, AttributeError):
        return None
    return libc


def _map_batch(libc: Any, batch: list[_Piece]) -> str | None:
    """Compare and map; a clause if that had to be given up."""
    for _ in range(TRIES):
        if not python_is_alone():
            return _map_beside_others(libc, batch)
        harmless = threads_of_python()
        if not wait_until_still(STILL_S, harmless):
            return _COMPUTING
        equal, ours = _compare(batch)
        if not running(harmless | ours):
            for piece in equal:
                piece.mapped = _map(libc, piece)
            return None
    return _COMPUTING


def _map_beside_others(libc: Any, batch: list[_Piece]) -> str | None:
    # Another thread of Python's may write between the comparison and the map, unless it is kept
    # out from the one to the other: a copy is compared with the chunk, and then with the memory.
    copy = mmap.mmap(-1, chunks.CHUNK)
    anchor = (ctypes.c_char * chunks.CHUNK).from_buffer(copy)
    try:
        for piece in batch:
            if not wait_until_still(STILL_S):
                return _COMPUTING
            piece.mapped = _map_one(libc, piece, copy, ctypes.addressof(anchor))
    finally:
        del anchor
        copy.close()
    return None


def _bytes_of(piece: _Piece) -> memoryview:
    """The memory of the whole chunk, less its zeros."""
    placed = piece.placed
    array = ctypes.c_char * (placed.chunk.nbytes - placed.zeros)
    return memoryview(array.from_address(placed.address + placed.zeros)).cast("B")


def _compare(batch: list[_Piece]) -> tuple[list[_Piece], set[int]]:
    """Those whose memory is what the chunk holds; and the threads that have looked."""
    work, equal, ours = list(batch), [], set()

    def run() -> None:
        ours.add(threading.get_native_id())
        while True:
            try:
                piece = work.pop()
            except IndexError:
                return
            placed = piece.placed
            data = _bytes_of(piece)
            if chunks.matches(data, placed.chunk, full=False, zeros=placed.zeros):
                equal.append(piece)

    Workers("compare", run, len(work)).end()
    return equal, ours


def _map_one(libc: Any, piece: _Piece, copy: mmap.mmap, at: int) -> bool:
    placed = piece.placed
    data = _bytes_of(piece)
    address = placed.address + placed.zeros
    libc.memmove(at, address, len(data))
    with memoryview(copy) as whole, whole[: len(data)] as part:
        if not chunks.matches(part, placed.chunk, full=False, zeros=placed.zeros):
            return False
    return _map(libc, piece, partial(libc.memcmp, at, address, len(data)))


def _map(libc: Any, piece: _Piece, *before: partial[int]) -> bool:
    """Map the pages, unless a call `before` answers with something true."""
    try:
        fd = os.open(piece.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        if not _is_chunk(fd, piece):
            return False
        start, offset = piece.start, piece.start - piece.placed.address
        to_map = partial(libc.mmap, start, piece.end - start, _READ_WRITE, _FIXED, fd, offset)
        return bool(until_true(*before, to_map) == start)
    finally:
        os.close(fd)


def _is_chunk(fd: int, piece: _Piece) -> bool:
    """Whether the open file is the chunk: one that this process wrote or checked, or checks now."""
    chunk, found = piece.placed.chunk, os.fstat(fd)
    identity = (found.st_ino, found.st_size, found.st_mtime_ns)
    if found.st_size != chunk.nbytes:
        return False
    if KNOWN.vouched(chunk.name, identity):
        return True
    if not chunks.file_matches(piece.path, chunk) or identity_of(piece.path) != identity:
        return False
    KNOWN.vouch(chunk.name, identity)
    return True


def _copy(libc: Any, region: Region) -> bool:
    """The same bytes at the same place, on no file."""
    nbytes = region.end - region.start
    if region.rights != "rw-p" or not wait_until_still(STILL_S):
        return False
    copy = libc.mmap(None, nbytes, _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if copy in (None, _FAILED):
        return False
    moved = until_true(
        partial(libc.memmove, copy, region.start, nbytes),
        partial(libc.mremap, copy, nbytes, nbytes, _MOVE, region.start),
    )
    if moved != region.start:
        libc.munmap(copy, nbytes)
    return bool(moved == region.start)
