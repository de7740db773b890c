"""What this process already has in a store: places in memory and the chunks they held.

A shortcut, never a truth: the quick hash of the memory is compared before it is believed.
"""

from __future__ import annotations

from .chunks import CHUNK, Chunk
from .store import CheckpointStore


class KnownMemory:
    """Chunks by (address, size) of the memory that they were read from or mapped to."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[int, int], Chunk] = {}

    def remember(self, address: int, chunk: Chunk) -> None:
        """The memory at `address` held `chunk`."""
        self._chunks[address, chunk.nbytes] = chunk

    def get(self, address: int, nbytes: int) -> Chunk | None:
        """The chunk that this memory held when it was last looked at."""
        return self._chunks.get((address, nbytes))

    def stored_bytes(self, address: int, nbytes: int, store: CheckpointStore) -> int:
        """Bytes of this memory that were in the store when it was last looked at."""
        found = 0
        for start in range(0, nbytes, CHUNK):
            size = min(CHUNK, nbytes - start)
            chunk = self.get(address + start, size)
            if chunk is not None and store.has_chunk(chunk.name, size):
                found += size
        return found


#: One a process: addresses mean nothing elsewhere.
KNOWN = KnownMemory()
