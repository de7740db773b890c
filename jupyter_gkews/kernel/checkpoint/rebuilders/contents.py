"""Content that travels in the checkpoint with what owns it: temporary files, anonymous memory.

Bounded: more than LIMIT stays where it is, and that is said. Files are mapped, not read.
"""

from __future__ import annotations

import mmap
import os
import pickle
from typing import Any

#: The most that one object may bring along. Bytes.
LIMIT = 256 << 20


def of_descriptor(number: int) -> Any:
    """The whole of an open regular file, for the checkpoint. None if it is more than LIMIT.

    Raises OSError where it cannot be read.
    """
    size = os.fstat(number).st_size
    if size > LIMIT:
        return None
    if not size:
        return b""
    # opened again: it may be open for writing only, and its position is its own
    again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    try:
        return pickle.PickleBuffer(mmap.mmap(again, size, access=mmap.ACCESS_READ))
    finally:
        os.close(again)


def of_path(path: str) -> Any:
    """The same for a file by its path."""
    number = os.open(path, os.O_RDONLY)
    try:
        return of_descriptor(number)
    finally:
        os.close(number)


def in_words(size: int) -> str:
    """A size for a sentence: "300 MiB"."""
    return f"{size / (1 << 20):.0f} MiB" if size >= 1 << 20 else f"{size} bytes"
