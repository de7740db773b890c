"""Which memory of this process stands on chunks of the store: maps of them to which nothing was
written, so that their bytes are the chunk's without a look at them.

As of the moment at which it was made. Linux and gVisor tell it; a system that tells nothing is not
believed. Changes nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from . import chunks, process_maps
from .chunks import Chunk
from .process_maps import Region


class Standing:
    """The maps of the chunks of the store at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))
        self.folder = os.path.join(self._root, "chunks", "")
        self.regions = process_maps.regions()
        self._written: dict[int, int] = {}
        self._there: dict[tuple[str, int, int], bool] = {}
        if any(map(self.is_ours, self.regions.all)):
            self._written = process_maps.written_bytes()

    def is_ours(self, region: Region) -> bool:
        """Whether the region is a private map of a chunk."""
        return region.private and region.path.startswith(self.folder)

    def is_there(self, region: Region) -> bool:
        """Whether the file of the region is still the one at its path; asked once of each file,
        for in a sandbox each question goes to another process."""
        key = (region.path, region.device, region.inode)
        if key not in self._there:
            self._there[key] = region.is_at_its_path
        return self._there[key]

    def path(self, chunk: Chunk) -> Path:
        """Where the file of a chunk is, as a map tells it."""
        return self._root / chunks.relative_path(chunk.name)

    def on(self, start: int, end: int, address: int, chunk: Chunk) -> bool:
        """Whether these pages are those of the chunk, whose first byte would be at `address`."""
        lies_on = self.regions.of(start, end)
        path = str(self.path(chunk))
        return bool(lies_on) and all(
            region.private
            and region.path == path
            and region.start - region.offset == address
            and self._written.get(region.start, 1) == 0
            and self.is_there(region)
            for region in lies_on
        )

    def holds(self, address: int, zeros: int, chunk: Chunk) -> bool:
        """Whether the memory from `address` on, `zeros` bytes less, is what the chunk holds. What
        it shares a page with at its ends is compared with the file."""
        page = mmap.PAGESIZE
        begin, end = address + zeros, address + chunk.nbytes
        first, last = -(-begin // page) * page, end // page * page
        if address % page or first >= last or not self.on(first, last, address, chunk):
            return False
        edges = [(low, high) for low, high in ((begin, first), (last, end)) if low < high]
        try:
            with open(self.path(chunk), "rb", buffering=0) as file:
                return all(
                    os.pread(file.fileno(), high - low, low - address)
                    == ctypes.string_at(low, high - low)
                    for low, high in edges
                )
        except OSError:
            return False
