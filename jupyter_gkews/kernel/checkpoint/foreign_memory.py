"""Tensors that stand on memory of a bytearray, an array.array or a memory map (torch.frombuffer).

A storage does not tell whose memory it has been given, and the pickler writes such owners by
itself; so this is found out after a pass over the namespace, by addresses, and the pass is made
again. It never copies or changes memory.
"""

from __future__ import annotations

import bisect
import mmap
import sys
from collections.abc import Iterable
from typing import Any

from .arrays import OWNERS
from .buffers import address_of


class Owners:
    """Objects of these kinds, found by the addresses of their memory."""

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        found = {}
        for obj in objects:
            if type(obj) not in OWNERS or (type(obj) is mmap.mmap and obj.closed):
                continue
            with memoryview(obj) as view:
                nbytes = view.nbytes
            if nbytes:
                found[address_of(obj)] = (nbytes, obj)
        self._starts = sorted(found)
        self._found = found

    def __len__(self) -> int:
        return len(self._starts)

    def of(self, address: int, nbytes: int) -> tuple[Any, int] | None:
        """(owner, offset) of `nbytes` bytes at an address, if they all are one owner's."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        size, owner = self._found[start]
        return (owner, address - start) if address + nbytes <= start + size else None

    def among(self, ranges: Iterable[tuple[int, int]]) -> Owners:
        """Only those that have one of these ranges (address, bytes)."""
        owners = [found[0] for each in ranges if (found := self.of(*each)) is not None]
        return Owners(owners)


def may_be_foreign(storage: Any) -> bool:
    """Whether a CPU storage has memory that torch did not allocate."""
    return not storage.resizable()


# ---- called by the graph ----


def storage_on(owner: Any, start: int, nbytes: int) -> Any:
    """A storage on `nbytes` bytes of `owner`, from byte `start` on."""
    torch = sys.modules["torch"]
    made = torch.frombuffer(owner, dtype=torch.uint8, offset=start, count=nbytes)
    return made.untyped_storage()
