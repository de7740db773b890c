"""Writes the blocks of a checkpoint as chunks: hashed and written by threads, straight from memory.

New chunks go to a staging directory and are moved into the store by the commit (save.py). A
chunk that the store has is not written again. It keeps no copy of the memory it writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import chunks
from .buffers import BIG, Block, Layout
from .chunks import CHUNK, Chunk, quick_of
from .known import KNOWN, identity_of
from .standing import Standing
from .store import CheckpointStore
from .transfers import Ahead, HostBuffer, settle
from .workers import Workers

#: From this size on (bytes) a chunk is written past the page cache.
LARGE = 1 << 20
#: Slot, block, offset in the block, bytes.
_Item = tuple[int, int, int, int]
#: Seconds that a stop waits for the threads.
STOP_S = 0.5


@dataclass(frozen=True)
class Placed:
    """Host memory whose pages are those of a chunk's file: the file would begin at `address`, with
    so many `zeros` in place of what stands there. `owner`: keeps the memory what it is."""

    address: int
    zeros: int
    chunk: Chunk
    owner: Any


class ChunkWriter:
    """Writes the chunks of one layout. `start`, then look at `finished` / `bytes_done`, `join`."""

    def __init__(self, store: CheckpointStore, staging: Path, layout: Layout) -> None:
        self._store = store
        self._staging = staging
        self._layout = layout
        self._work: deque[_Item] = deque()
        self._unsynced: deque[tuple[Path, int]] = deque()  # and the bytes they still count for
        self._standing = Standing(store.root)
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._stop = threading.Event()
        self._workers: Workers | None = None
        self._blocks: list[list[int]] = []
        slot = 0
        for number, block in enumerate(layout.blocks):
            parts = []
            for offset in range(0, block.nbytes, CHUNK):
                self._work.append((slot, number, offset, min(CHUNK, block.nbytes - offset)))
                parts.append(slot)
                slot += 1
            self._blocks.append(parts)
        self._work = _by_turns(self._work, layout)
        self._found: list[Chunk | None] = [None] * slot
        self.error: BaseException | None = None
        self.new: list[str] = []
        self.trusted: set[str] = set()
        self.bytes_done = 0
        self.bytes_written = 0
        self.bytes_total = sum(block.nbytes for block in layout.blocks)

    def start(self) -> None:
        """Start the threads, when the devices have done what was asked of them before."""
        settle({piece.space for block in self._layout.blocks for piece in block.pieces} - {""})
        self._workers = Workers("write", self._run, len(self._work))

    def wait(self, timeout_s: float) -> bool:
        """Whether all threads have ended, after at most `timeout_s` seconds."""
        return self._workers is None or self._workers.wait(timeout_s)

    def stop(self) -> None:
        """End the threads after the chunks they are at. One that waits for a slow disk is left
        to itself: it touches no memory of the user's any more."""
        self._stop.set()
        if self._workers is not None:
            self._workers.end(STOP_S)

    def tables(self) -> tuple[list[list[Any]], list[list[int]]]:
        """(chunks, blocks) for the manifest; each chunk once."""
        numbers: dict[str, int] = {}
        table: list[list[Any]] = []
        blocks = []
        for slots in self._blocks:
            parts = []
            for slot in slots:
                chunk = self._found[slot]
                assert chunk is not None
                if chunk.name not in numbers:
                    numbers[chunk.name] = len(table)
                    table.append(chunk.to_json())
                parts.append(numbers[chunk.name])
            blocks.append(parts)
        return table, blocks

    def placed(self) -> list[Placed]:
        """What the chunks of big memory hold, where its pages are those of the files."""
        found = []
        for block, slots in zip(self._layout.blocks, self._blocks):
            piece = block.pieces[0]
            begin = piece.address - piece.offset
            if len(block.pieces) > 1 or piece.space or piece.nbytes < BIG or begin % mmap.PAGESIZE:
                continue
            for number, slot in enumerate(slots):
                chunk = self._found[slot]
                assert chunk is not None
                zeros = 0 if number else piece.offset
                found.append(Placed(begin + number * CHUNK, zeros, chunk, piece.owner))
        return found

    def _run(self) -> None:
        try:
            still = mmap.mmap(-1, CHUNK)  # page-aligned
            ahead = Ahead(CHUNK)
            item = self._take(ahead)
            while not self._stop.is_set() and item is not None:
                following = self._take(ahead)  # a device fills a buffer while this one is written
                slot, number, offset, nbytes = item
                block = self._layout.blocks[number]
                if block.pieces[0].space:
                    self._found[slot] = self._of_device(block, offset, nbytes, ahead.take())
                else:
                    self._found[slot] = self._chunk(block, offset, nbytes, still)
                with self._lock:
                    self.bytes_done += nbytes
                item = following
            # Only now: the disk takes everything at once faster than file by file.
            while not self._stop.is_set() and self._unsynced:
                try:
                    path, nbytes = self._unsynced.popleft()
                except IndexError:
                    break
                chunks.fsync_file(path)
                with self._lock:
                    self.bytes_done += nbytes
        except BaseException as error:
            with self._lock:
                self.error = self.error or error
            self._stop.set()

    def _take(self, ahead: Ahead) -> _Item | None:
        """The next piece of work; if it is on a device, its bytes are on their way."""
        try:
            item = self._work.popleft()
        except IndexError:
            return None
        _, number, offset, nbytes = item
        block = self._layout.blocks[number]
        if block.pieces[0].space:
            ahead.begin(
                [
                    (piece.owner, start - piece.offset, stop - start, start - offset)
                    for piece, start, stop in _within(block, offset, nbytes)
                ]
            )
        return item

    def _of_device(self, block: Block, offset: int, nbytes: int, buffer: HostBuffer) -> Chunk:
        """A chunk of device memory, that `buffer` holds now."""
        address = block.pieces[0].address + offset if len(block.pieces) == 1 else 0
        if len(block.pieces) > 1:  # what lies between the pieces is of an earlier chunk
            at = 0
            end = (None, offset + nbytes, 0)
            for _, start, stop in [*_within(block, offset, nbytes), end]:
                gap = start - offset - at
                buffer.view[at : at + gap] = bytes(gap)
                at = stop - offset
        known = KNOWN.get(address, nbytes) if address else None
        if known is not None and self._unchanged(known, buffer.view[:nbytes]):
            return known
        return self._put(buffer.view, nbytes, address)

    def _unchanged(self, known: Chunk, data: Any, zeros: int = 0) -> bool:
        same = known.quick is not None and known.quick == quick_of(data, zeros=zeros)
        return same and self._stored(known)

    def _stored(self, chunk: Chunk) -> bool:
        """Whether the store has the chunk, with its bytes as they should be. One whose file was
        damaged is written again: the bytes are here, and nowhere else may they be tomorrow."""
        path = self._store.chunk_path(chunk.name)
        identity = identity_of(path)
        if identity is None or identity[1] != chunk.nbytes:
            return False
        if not KNOWN.vouched(chunk.name, identity):
            if not chunks.file_matches(path, chunk):
                return False
            KNOWN.vouch(chunk.name, identity)
        self.trusted.add(chunk.name)
        return True

    def _chunk(self, block: Block, offset: int, nbytes: int, still: mmap.mmap) -> Chunk:
        data, address, zeros = content(block, offset, nbytes)
        if address:
            known = KNOWN.get(address, nbytes)
            if known is not None and self._standing.holds(address, zeros, known):
                if self._stored(known):
                    return known
            elif known is not None and self._unchanged(known, data, zeros):
                return known
        # A thread of the user's may write to it meanwhile: what is hashed and what is written must
        # be the same bytes. memmove lets other threads run, slicing does not.
        still[:zeros] = bytes(zeros)
        source = address + zeros if address else ctypes.addressof(ctypes.c_char.from_buffer(data))
        ctypes.memmove(
            (ctypes.c_char * (nbytes - zeros)).from_buffer(still, zeros), source, nbytes - zeros
        )
        return self._put(still, nbytes, address)

    def _put(self, still: Any, nbytes: int, address: int) -> Chunk:
        """The first bytes of `still` (page-aligned, and nobody else's) as a chunk, written if it is
        new. `address`: where they came from; 0 if that tells nothing."""
        data = memoryview(still)[:nbytes]
        chunk = chunks.chunk_of(data)
        with self._lock:
            mine = chunk.name not in self._claimed
            self._claimed.add(chunk.name)
        path = self._staging / chunk.name
        # the save may have started again without a name: what it wrote before is still there
        if mine and not path.exists() and not self._stored(chunk):
            if nbytes < LARGE or not chunks.write_past_cache(path, still, nbytes):
                chunks.write_file(path, [data], durable=False)
            KNOWN.vouch(chunk.name, identity_of(path))  # the commit moves it as it is
            with self._lock:
                self._unsynced.append((path, nbytes - nbytes // 2))
                self.bytes_done -= nbytes - nbytes // 2  # half of the work is still to come
                self.new.append(chunk.name)
                self.trusted.add(chunk.name)
                self.bytes_written += nbytes
        if address:
            KNOWN.remember(address, chunk)
        return chunk


def content(block: Block, offset: int, nbytes: int) -> tuple[Any, int, int]:
    """(buffer, address, zeros) of part of a block: so many zeros come before what is in the buffer.
    The address, of the first of them, is 0 where the bytes had to be copied."""
    if len(block.pieces) == 1:
        piece = block.pieces[0]
        zeros = max(0, piece.offset - offset)
        address = piece.address - piece.offset + offset
        array = (ctypes.c_char * (nbytes - zeros)).from_address(address + zeros)
        return memoryview(array).cast("B"), address, zeros
    data = bytearray(nbytes)
    for piece, start, stop in _within(block, offset, nbytes):
        source = (ctypes.c_char * (stop - start)).from_address(piece.address + start - piece.offset)
        data[start - offset : stop - offset] = source
    return data, 0, 0


def _within(block: Block, offset: int, nbytes: int) -> list[tuple[Any, int, int]]:
    """(piece, start, stop) of the pieces that lie in that part of the block; positions in it."""
    found = []
    for piece in block.pieces:
        start = max(piece.offset, offset)
        stop = min(piece.offset + piece.nbytes, offset + nbytes)
        if start < stop:
            found.append((piece, start, stop))
    return found


def _by_turns(work: deque[_Item], layout: Layout) -> deque[_Item]:
    """The work with devices taking turns, so that all of them copy at the same time."""
    by_space: dict[str, deque[_Item]] = {}
    for item in work:
        by_space.setdefault(layout.blocks[item[1]].pieces[0].space, deque()).append(item)
    if len(by_space) < 2:
        return work
    turns: deque[_Item] = deque()
    while by_space:
        for space in list(by_space):
            turns.append(by_space[space].popleft())
            if not by_space[space]:
                del by_space[space]
    return turns


def install(store: CheckpointStore, staging: Path, names: list[str]) -> None:
    """Move new chunks into the store and make their names durable. Raises OSError."""
    folders = set()
    for name in names:
        target = store.chunk_path(name)
        if target.parent not in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(target.parent, 0o700)
            folders.add(target.parent)
        os.replace(staging / name, target)
    for folder in folders:
        chunks.fsync_file(folder)
    if folders:
        chunks.fsync_file(store.root / "chunks")
