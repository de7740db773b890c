"""Where in a safetensors file that the process has loaded an extent of memory may stand.

Guesses, by where memory is mapped, by size and by a sample, are only where to look: matching.py
compares all bytes. It changes neither memory nor files.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import casts, safetensors_files
from .buffers import BIG, Extent
from .chunks import CHUNK, Chunk
from .own_memory import untouched
from .process_maps import regions
from .references import read_into
from .safetensors_files import TensorPlace, WeightsFile
from .transfers import TorchCopier, settle

#: Elements that a first look compares.
_SAMPLE = 16
#: Tensors of the same size and sample (all zeros, say) that are compared whole for one range.
_TRIES = 4


@dataclass
class Candidate:
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


class Candidates:
    """For each extent of memory, by its number, the places in files that it may be equal to, the
    likeliest first: `todo`, after `look`. `store` and `copies` as in Matching."""

    def __init__(self, extents: list[Extent], store: Path, *, copies: bool) -> None:
        self._extents = extents
        self._copies = copies
        self._store = store
        self._files: dict[str, WeightsFile | None] = {}
        self.todo: dict[int, deque[Candidate]] = {}

    def look(self) -> None:
        """Find candidates, without comparing them."""
        if safetensors_files.opened():
            settle({extent.space for extent in self._extents if extent.space})
        self._by_map()
        self._by_content()

    def likely(self) -> set[int]:
        """After `look`: numbers of the extents that will probably be found equal."""
        found = set()
        for number, candidates in self.todo.items():
            extent = self._extents[number]
            if not candidates[0].mapped or untouched(extent.address, extent.nbytes):
                found.add(number)
        return found

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
        maps = regions()
        for extent in self._extents:
            if extent.space:
                continue
            found = maps.at(extent.address)
            if found is None or extent.address + extent.nbytes > found.end:
                continue
            if not (found.private and found.of_file) or "x" in found.rights:
                continue
            if found.end - found.start < BIG // 4:
                continue
            file = self._file(found.path)
            if file is None or file.identity.inode != found.inode:
                continue  # another file has taken its place since
            offset = found.offset + extent.address - found.start
            if offset + extent.nbytes > file.identity.size:
                continue
            # The page at which the file's first byte would be: the same for all parts of one map,
            # also where the system tells it in several lines.
            origin = found.start - found.offset
            candidate = Candidate(extent.number, file, offset, extent.nbytes, mapped=origin)
            self.todo[extent.number] = deque([candidate])

    def _by_content(self) -> None:
        """Copies, casts, and what is on a device: by size and by a sample of the elements."""
        rest = [
            extent
            for extent in self._extents
            if extent.number not in self.todo
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
                candidate = Candidate(extent.number, file, place.offset, place.nbytes, cast)
                self.todo.setdefault(extent.number, deque()).append(candidate)

    def _sample(self, extent: Extent, width: int) -> bytes:
        first, nbytes = _sampled(extent.nbytes, width)
        return bytes(read(extent, first, nbytes)[0])

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


#: A buffer for what comes from devices, one a thread.
_PINNED = threading.local()


def read(extent: Extent, offset: int, nbytes: int) -> tuple[Any, int]:
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


def in_file(candidate: Candidate, offset: int) -> int:
    """The place in the file, from the tensor's start, of a place in memory."""
    if candidate.cast is None:
        return offset
    source, target = (casts.FLOATS[dtype][0] for dtype in candidate.cast)
    return offset // target * source


def _sampled(nbytes: int, width: int) -> tuple[int, int]:
    """(first byte, bytes) of the elements in the middle that a first look compares."""
    count = nbytes // width
    first = max(0, count // 2 - _SAMPLE // 2)
    return first * width, min(_SAMPLE, count - first) * width
