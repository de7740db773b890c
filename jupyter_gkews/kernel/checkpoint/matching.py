"""Finds the memory that stands, byte for byte, in a safetensors file that the process has loaded.

A guess (by where memory is mapped, by size and by a sample) is only where to look: a reference is
made when all bytes were compared. Threads do that. It changes neither memory nor files.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import casts, chunks, safetensors_files
from .buffers import BIG, Extent
from .chunks import CHUNK, Chunk
from .known import KNOWN
from .own_memory import equal, file_maps, untouched
from .references import GRAIN, Reference, read_into, unchanged
from .safetensors_files import TensorPlace, WeightsFile
from .transfers import TorchCopier, settle
from .workers import Workers

#: Bytes hashed and compared at a time: what a core's cache holds.
_STEP = 1 << 20
#: Elements that a first look compares.
_SAMPLE = 16
#: Tensors of the same size and sample (all zeros, say) that are compared whole for one range.
_TRIES = 4
#: Seconds that a stop waits for the threads.
_STOP_S = 0.5


@dataclass
class _Candidate:
    """One extent of memory and the place in a file that it may be equal to."""

    number: int
    file: WeightsFile
    offset: int
    nbytes: int  # in the file
    cast: tuple[str, str] | None = None
    mapped: int = 0  # where the map begins in which the memory lies; 0: it is a copy
    left: int = 0
    wrong: bool = False
    pieces: dict[int, Chunk] = field(default_factory=dict)  # by offset in the memory
    results: dict[int, Chunk] = field(default_factory=dict)


@dataclass
class Matches:
    """What was found: references, for each extent (reference, offset in it), hashes just made."""

    references: list[Reference] = field(default_factory=list)
    placed: dict[int, tuple[int, int]] = field(default_factory=dict)
    checked: set[str] = field(default_factory=set)

    @property
    def nbytes(self) -> int:
        """Bytes that need not be written."""
        return sum(reference.used for reference in self.references)


def match(
    extents: list[Extent],
    store: Path,
    check: Callable[[], None],
    progress: Callable[[int], None],
    *,
    copies: bool = True,
) -> Matches:
    """The extents that stand in files. `check` is called often and may raise; no thread is left at
    work then. `store` and `copies` as in Matching; `progress(bytes_done)`."""
    matching = Matching(extents, store, copies=copies)
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
    memory counts that is no map of the file, but a copy of what stands there.
    """

    def __init__(self, extents: list[Extent], store: Path, *, copies: bool = True) -> None:
        self._extents = extents
        self._copies = copies
        self._store = store
        self._files: dict[str, WeightsFile | None] = {}
        self._todo: dict[int, deque[_Candidate]] = {}
        self._found: dict[int, _Candidate] = {}
        self._work: deque[tuple[_Candidate, int, int]] = deque()  # offset and bytes in memory
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._workers: Workers | None = None
        self.bytes_done = 0
        self.bytes_total = 0

    # ---- what save.py drives ----

    def look(self) -> None:
        """Find candidates, without comparing them."""
        if safetensors_files.opened():
            settle({extent.space for extent in self._extents if extent.space})
        self._by_map()
        self._by_content()

    def likely(self) -> set[int]:
        """After `look`: numbers of the extents that will probably be found equal."""
        found = set()
        for number, candidates in self._todo.items():
            extent = self._extents[number]
            if not candidates[0].mapped or untouched(extent.address, extent.nbytes):
                found.add(number)
        return found

    def start(self) -> None:
        """Look for candidates, and start the threads that compare them."""
        self.look()
        for candidates in self._todo.values():
            self._schedule(candidates.popleft())
        self.bytes_total = sum(self._extents[number].nbytes for number in self._todo)
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
        matches = Matches()
        by_key: dict[Any, int] = {}
        for number in sorted(self._found):
            candidate, extent = self._found[number], self._extents[number]
            file = candidate.file
            now = safetensors_files.identity_of(file.real)
            if now is None or not unchanged(now, list(file.identity)):
                continue
            key, how, align = self._place(candidate, extent)
            at = by_key.get(key)
            if at is None:
                at = by_key[key] = len(matches.references)
                matches.references.append(
                    Reference(file.path, file.real, list(file.identity), 0, 0, how, align)
                )
            reference = matches.references[at]
            if candidate.cast is not None:
                reference.cast = list(candidate.cast)
            reference.names += [name for name in extent.names if name not in reference.names]
            matches.placed[number] = (at, candidate.offset)
            for offset, chunk in sorted(candidate.pieces.items()):
                where = candidate.offset + _in_file(candidate, offset)
                reference.pieces.append([where, chunk.nbytes, chunk.name, chunk.quick])
                matches.checked.add(chunk.name)
            for offset, chunk in sorted(candidate.results.items()):
                reference.results.append([offset, chunk.nbytes, chunk.name, chunk.quick])
        for reference in matches.references:
            _trim(reference)
        for number, (at, offset) in list(matches.placed.items()):
            reference = matches.references[at]
            matches.placed[number] = (at, offset - reference.start)
        return matches

    def _place(self, candidate: _Candidate, extent: Extent) -> tuple[Any, str, int]:
        """(what shares one region, how, align): memory that was one map, and memory that goes on
        to a device anyway, is one region a file; everything else is its own."""
        if candidate.cast is not None:
            return extent.number, "read", extent.address % 64
        if candidate.mapped:
            return (candidate.mapped, candidate.file.real), "map", 0
        if extent.space:
            return ("", candidate.file.real), "map", 0
        # The last digits of a sum may depend on the alignment: it must stay what it was.
        if extent.address % 64 == candidate.offset % 64:
            return extent.number, "map", 0
        return extent.number, "read", extent.address % 64

    # ---- candidates ----

    def _file(self, path: str) -> WeightsFile | None:
        real = os.path.realpath(path)
        if real not in self._files:
            found = None
            # our own chunks are mapped files, too
            if not real.startswith(os.path.realpath(self._store) + os.sep):
                found = safetensors_files.read(path)
            if found is not None and not safetensors_files.durable(found, self._store):
                found = None
            self._files[real] = found
        return self._files[real]

    def _by_map(self) -> None:
        """Memory that lies in a private map of a file: what safetensors gives out on the CPU."""
        maps = file_maps()
        starts = [each.start for each in maps]
        for extent in self._extents:
            if extent.space:
                continue
            at = bisect.bisect_right(starts, extent.address) - 1
            if at < 0 or extent.address + extent.nbytes > maps[at].end:
                continue
            found = maps[at]
            file = self._file(found.path)
            if file is None or file.identity.inode != found.inode:
                continue  # another file has taken its place since
            offset = found.offset + extent.address - found.start
            if offset + extent.nbytes > file.identity.size:
                continue
            # The page at which the file's first byte would be: the same for all parts of one map,
            # also where the system tells it in several lines.
            origin = found.start - found.offset
            candidate = _Candidate(extent.number, file, offset, extent.nbytes, mapped=origin)
            self._todo[extent.number] = deque([candidate])

    def _by_content(self) -> None:
        """Copies, casts, and what is on a device: by size and by a sample of the elements."""
        rest = [
            extent
            for extent in self._extents
            if extent.number not in self._todo
            and extent.nbytes >= BIG
            and (self._copies or extent.space)
        ]
        sizes = {extent.nbytes for extent in rest}
        index: dict[tuple[int, int, bytes], list[tuple[WeightsFile, TensorPlace, str | None]]] = {}
        # the last one first: of files with the same content it is the likeliest
        for path in reversed(safetensors_files.opened()) if rest else []:
            file = self._file(path)
            if file is not None:
                self._index(file, sizes, index)
        for extent in rest:
            places: list[tuple[WeightsFile, TensorPlace, str | None]] = []
            for width in (1, 2, 4, 8) if index else ():
                if extent.nbytes % width == 0:
                    sample = self._sample(extent, width)
                    places += index.get((extent.nbytes, width, sample), [])
            # the whole is compared: as many as are likely to be it
            for file, place, target in places[:_TRIES]:
                cast = None if target is None else (place.dtype, target)
                candidate = _Candidate(extent.number, file, place.offset, place.nbytes, cast)
                self._todo.setdefault(extent.number, deque()).append(candidate)

    def _sample(self, extent: Extent, width: int) -> bytes:
        first, nbytes = _sampled(extent.nbytes, width)
        return bytes(_read(extent, first, nbytes)[0])

    def _index(self, file: WeightsFile, sizes: set[int], index: dict[Any, Any]) -> None:
        """What the tensors of a file would look like in memory, as they are and cast."""
        try:
            with open(file.real, "rb", buffering=0) as raw:
                for place in file.tensors:
                    width = casts.FLOATS[place.dtype][0] if place.dtype in casts.FLOATS else 1
                    for target in (None, *casts.TARGETS):
                        if target == place.dtype:
                            continue
                        wide = width if target is None else casts.FLOATS[target][0]
                        nbytes = place.nbytes // width * wide
                        if nbytes not in sizes:
                            continue
                        if target is not None and not casts.possible(place.dtype, target):
                            continue
                        first, length = _sampled(place.nbytes, width)
                        sample = bytearray(length)
                        if not read_into(raw, place.offset + first, sample):
                            return
                        seen = sample if target is None else casts.cast(sample, place.dtype, target)
                        found = index.setdefault((nbytes, wide, bytes(seen)), [])
                        found.append((file, place, target))
        except (OSError, LookupError, RuntimeError):
            return

    # ---- comparing ----

    def _schedule(self, candidate: _Candidate) -> None:
        nbytes = self._extents[candidate.number].nbytes
        step = CHUNK
        if candidate.cast is not None:
            source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
            step = CHUNK // max(source, target) * target
        parts = [(candidate, at, min(step, nbytes - at)) for at in range(0, nbytes, step)]
        candidate.left = len(parts)
        self._work.extendleft(reversed(parts))

    def _run(self) -> None:
        buffers = bytearray(_STEP)
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

    def _settle(self, candidate: _Candidate, equal: bool) -> None:
        candidate.left -= 1
        if equal and not candidate.left and not candidate.wrong:
            self._found[candidate.number] = candidate
        if not equal and not candidate.wrong:
            candidate.wrong = True
            if self._todo[candidate.number]:
                self._schedule(self._todo[candidate.number].popleft())

    def _compare(self, candidate: _Candidate, offset: int, nbytes: int, buffer: bytearray) -> bool:
        """Whether this piece of memory is what stands in the file; notes its hashes if so."""
        extent = self._extents[candidate.number]
        data, address = _read(extent, offset, nbytes)
        if candidate.cast is not None:
            return self._compare_cast(candidate, offset, data)
        if candidate.mapped and untouched(address, nbytes):
            chunk = self._hashed(data, address, None)
            # only now: a thread of the user's may have written to it meanwhile
            if chunk is not None and untouched(address, nbytes, read=True):
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
        digest, quick = chunks.hasher(), chunks.quick_hasher()
        for at in range(0, len(view), _STEP):
            if self._stop.is_set():
                return None
            part = view[at : at + _STEP]
            if same is not None and not same(at, part):
                return None
            if known is None:
                # the second hash finds the bytes in the core's cache
                digest.update(part)
                if quick is not None:
                    quick.update(part)
        if known is not None:
            return known
        name = f"{chunks.ALGORITHM}-{digest.hexdigest()}"
        chunk = Chunk(name, len(view), quick.hexdigest() if quick is not None else None)
        if address:
            KNOWN.remember(address, chunk)
        return chunk

    def _compare_cast(self, candidate: _Candidate, offset: int, data: Any) -> bool:
        assert candidate.cast is not None
        view = memoryview(data).cast("B")
        source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
        raw = bytearray(len(view) // target * source)
        with open(candidate.file.real, "rb", buffering=0) as file:
            if not read_into(file, candidate.offset + _in_file(candidate, offset), raw):
                return False
        if not equal(view, memoryview(casts.cast(raw, *candidate.cast)).cast("B")):
            return False
        candidate.pieces[offset] = Chunk(chunks.name_of(raw), len(raw), chunks.quick_of(raw))
        candidate.results[offset] = Chunk(chunks.name_of(view), len(view), chunks.quick_of(view))
        return True


#: A buffer for what comes from devices, one a thread.
_PINNED = threading.local()


def _read(extent: Extent, offset: int, nbytes: int) -> tuple[Any, int]:
    """(buffer, address) of a part of an extent, of a chunk's size at most; the address is 0 where
    it is a copy, which is valid until the thread reads again."""
    if not extent.space:
        address = extent.address + offset
        return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B"), address
    if not hasattr(_PINNED, "copier"):
        _PINNED.copier = TorchCopier()
        _PINNED.buffer = _PINNED.copier.allocate(CHUNK)
    buffer = _PINNED.buffer
    _PINNED.copier.wait(_PINNED.copier.fetch(buffer, [(extent.owner, offset, nbytes, 0)]))
    return buffer.view[:nbytes], 0


def _in_file(candidate: _Candidate, offset: int) -> int:
    """The place in the file, from the tensor's start, of a place in memory."""
    if candidate.cast is None:
        return offset
    source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
    return offset // target * source


def _trim(reference: Reference) -> None:
    """The region is no larger than what is used of the file."""
    first = min(piece[0] for piece in reference.pieces)
    end = max(piece[0] + piece[1] for piece in reference.pieces)
    reference.start = first // GRAIN * GRAIN if reference.how == "map" else first
    reference.nbytes = end - reference.start
    reference.pieces = [[at - reference.start, *rest] for at, *rest in sorted(reference.pieces)]


def _sampled(nbytes: int, width: int) -> tuple[int, int]:
    """(first byte, bytes) of the elements in the middle that a first look compares."""
    count = nbytes // width
    first = max(0, count // 2 - _SAMPLE // 2)
    return first * width, min(_SAMPLE, count - first) * width
