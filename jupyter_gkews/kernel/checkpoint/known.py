"""What this process already has in a store: places in memory and the chunks they held, and the
files of the store whose bytes it has written or checked itself.

A shortcut, never a truth: the quick hash of the memory is compared before it is believed, and a
file counts only as long as it is the same file, unchanged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .chunks import CHUNK, Chunk
from .store import CheckpointStore

#: (inode, size, time of the last change of the bytes in ns)
FileIdentity = tuple[int, int, int]


def identity_of(path: Path) -> FileIdentity | None:
    """Tells a file from another one, or from itself after a write; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class KnownMemory:
    """Chunks by (address, size) of the memory that they were read from or mapped to."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[int, int], Chunk] = {}
        self._checked: dict[str, FileIdentity] = {}
        self._learnt: list[list[Any]] = []

    def note_learning(self) -> None:
        """From here on `learnt` tells what is new."""
        self._learnt = []

    def learnt(self) -> list[list[Any]]:
        """What was learnt since `note_learning`, in values that JSON can carry."""
        return self._learnt

    def learn(self, learnt: list[list[Any]]) -> None:
        """Take over what a forked image of this process has learnt: its addresses are ours."""
        for what, *rest in learnt:
            if what == "memory":
                address, chunk = rest
                self.remember(int(address), Chunk(*chunk))
            else:
                name, identity = rest
                inode, size, mtime = identity
                self.vouch(str(name), (int(inode), int(size), int(mtime)))

    def remember(self, address: int, chunk: Chunk) -> None:
        """The memory at `address` held `chunk`."""
        self._chunks[address, chunk.nbytes] = chunk
        self._learnt.append(["memory", address, chunk.to_json()])

    def get(self, address: int, nbytes: int) -> Chunk | None:
        """The chunk that this memory held when it was last looked at."""
        return self._chunks.get((address, nbytes))

    def vouch(self, name: str, identity: FileIdentity | None) -> None:
        """This process has written or checked the bytes of the chunk's file."""
        if identity is not None:
            self._checked[name] = identity
            self._learnt.append(["file", name, list(identity)])

    def vouched(self, name: str, identity: FileIdentity | None) -> bool:
        """Whether the chunk's file is still the one that this process wrote or checked."""
        return identity is not None and self._checked.get(name) == identity

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
