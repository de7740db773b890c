"""Finds the memory that stands, byte for byte, in a safetensors file that the process has loaded.

A guess (by where memory is mapped, by size and by a sample) is only where to look: a reference is
made when all bytes were compared. Threads do that. It changes neither memory nor files.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import casts, chunks
from .buffers import Extent
from .candidates import Candidate, Candidates, in_file, read
from .chunks import CHUNK, STEP, Chunk
from .known import KNOWN
from .matched import Matches, matched
from .own_memory import equal, untouched
from .references import read_into
from .workers import Workers

#: Seconds that a stop waits for the threads.
_STOP_S = 0.5


def match(
    extents: list[Extent],
    store: Path,
    check: Callable[[], None],
    progress: Callable[[int], None],
    *,
    copies: bool = True,
    still: bool = False,
) -> Matches:
    """The extents that stand in files. `check` is called often and may raise; no thread is left at
    work then. `store`, `copies` and `still` as in Matching; `progress(bytes_done)`."""
    matching = Matching(extents, store, copies=copies, still=still)
    try:
        matching.start()
        while not matching.wait(0.02):
            check()
            progress(matching.bytes_done)
    finally:
        matching.stop()
    return matching.result()


class Matching:
    """Compares extents of memory with files. `start`, then `wait` / `bytes_done`, `result`.

    `store`: its folder; files that are not there as long as it is are left out. `copies`: whether
    memory counts that is no map of the file, but a copy of what stands there. `still`: nobody
    writes to the memory meanwhile.
    """

    def __init__(
        self, extents: list[Extent], store: Path, *, copies: bool = True, still: bool = False
    ) -> None:
        self._extents = extents
        self._candidates = Candidates(extents, store, copies=copies)
        self._still = still
        self._found: dict[int, Candidate] = {}
        self._work: deque[tuple[Candidate, int, int]] = deque()  # offset and bytes in memory
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._workers: Workers | None = None
        self.bytes_done = 0
        self.bytes_total = 0

    # ---- what save.py drives ----

    def start(self) -> None:
        """Look for candidates, and start the threads that compare them."""
        self._candidates.look()
        for candidates in self._candidates.todo.values():
            self._schedule(candidates.popleft())
        self.bytes_total = sum(self._extents[number].nbytes for number in self._candidates.todo)
        self._workers = Workers("match", self._run, len(self._work))

    def wait(self, timeout_s: float) -> bool:
        """Whether all threads have ended, after at most `timeout_s` seconds."""
        return self._workers is None or self._workers.wait(timeout_s)

    def stop(self) -> None:
        """End the threads after the piece they are at."""
        self._stop.set()
        if self._workers is not None:
            self._workers.end(_STOP_S)

    def result(self) -> Matches:
        """The references, after `wait`. A file that changed meanwhile is not one of them."""
        return matched(self._extents, self._found)

    # ---- comparing ----

    def _schedule(self, candidate: Candidate) -> None:
        nbytes = self._extents[candidate.number].nbytes
        step = CHUNK
        if candidate.cast is not None:
            source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
            step = CHUNK // max(source, target) * target
        parts = [(candidate, at, min(step, nbytes - at)) for at in range(0, nbytes, step)]
        candidate.left = len(parts)
        self._work.extendleft(reversed(parts))

    def _run(self) -> None:
        buffers = bytearray(STEP)
        while not self._stop.is_set():
            try:
                candidate, offset, nbytes = self._work.popleft()
            except IndexError:
                return
            equal = False
            if not candidate.wrong:
                try:
                    equal = self._compare(candidate, offset, nbytes, buffers)
                except Exception:  # memory that cannot be read so is written as chunks
                    equal = False
            with self._lock:
                self._settle(candidate, equal)
                if equal:
                    self.bytes_done += nbytes

    def _settle(self, candidate: Candidate, equal: bool) -> None:
        candidate.left -= 1
        if equal and not candidate.left and not candidate.wrong:
            self._found[candidate.number] = candidate
        if not equal and not candidate.wrong:
            candidate.wrong = True
            if self._candidates.todo[candidate.number]:
                self._schedule(self._candidates.todo[candidate.number].popleft())

    def _compare(self, candidate: Candidate, offset: int, nbytes: int, buffer: bytearray) -> bool:
        """Whether this piece of memory is what stands in the file; notes its hashes if so."""
        extent = self._extents[candidate.number]
        data, address = read(extent, offset, nbytes)
        if candidate.cast is not None:
            return self._compare_cast(candidate, offset, data)
        if candidate.mapped and untouched(address, nbytes):
            chunk = self._hashed(data, address, None)
            # only now: a thread of the user's may have written to it meanwhile
            if chunk is not None and (self._still or untouched(address, nbytes)):
                candidate.pieces[offset] = chunk
                return True
        with open(candidate.file.real, "rb", buffering=0) as file:
            start = candidate.offset + offset

            def same(at: int, part: memoryview) -> bool:
                there = memoryview(buffer)[: len(part)]
                return read_into(file, start + at, there) and equal(part, there)

            chunk = self._hashed(data, address, same)
        if chunk is None:
            return False
        candidate.pieces[offset] = chunk
        return True

    def _hashed(
        self, data: Any, address: int, same: Callable[[int, memoryview], bool] | None
    ) -> Chunk | None:
        """The hashes of `data`; None as soon as a part of it is not the `same`."""
        view = memoryview(data).cast("B")
        known = KNOWN.get(address, len(view)) if address else None
        if known is not None and (known.quick is None or chunks.quick_of(view) != known.quick):
            known = None
        hashing = chunks.Hashing()
        for at in range(0, len(view), STEP):
            if self._stop.is_set():
                return None
            part = view[at : at + STEP]
            if same is not None and not same(at, part):
                return None
            if known is None:
                hashing.update(part)
        if known is not None:
            return known
        chunk = hashing.chunk()
        if address:
            KNOWN.remember(address, chunk)
        return chunk

    def _compare_cast(self, candidate: Candidate, offset: int, data: Any) -> bool:
        assert candidate.cast is not None
        view = memoryview(data).cast("B")
        source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
        raw = bytearray(len(view) // target * source)
        with open(candidate.file.real, "rb", buffering=0) as file:
            if not read_into(file, candidate.offset + in_file(candidate, offset), raw):
                return False
        if not equal(view, memoryview(casts.cast(raw, *candidate.cast)).cast("B")):
            return False
        candidate.pieces[offset] = chunks.chunk_of(raw)
        candidate.results[offset] = chunks.chunk_of(view)
        return True
