"""Tells which open files are one: descriptors that os.dup made of each other share a position.

It moves the position of a file by one byte and back where nothing else tells.
"""

from __future__ import annotations

import os
from typing import Any

#: By inode and device: the unbuffered files of a graph, in the order in which they were met.
Descriptors = dict[tuple[int, int], list[Any]]


def same_description(known: Descriptors, file: Any) -> Any:
    """The first of the files in `known` with which `file` shares its position; None for one of its
    own, which is added."""
    number = file.fileno()
    status = os.fstat(number)
    others = known.setdefault((status.st_ino, status.st_dev), [])
    for other in others:
        if other is not file and not other.closed and _share(other.fileno(), number):
            return other
    others.append(file)
    return None


def _share(one: int, other: int) -> bool:
    """Whether two descriptors of one file have one position."""
    try:
        at = os.lseek(one, 0, os.SEEK_CUR)
        if os.lseek(other, 0, os.SEEK_CUR) != at:
            return False
        try:
            os.lseek(one, at + 1, os.SEEK_SET)
            return os.lseek(other, 0, os.SEEK_CUR) == at + 1
        finally:
            os.lseek(one, at, os.SEEK_SET)
    except OSError:  # a pipe, a device: no position
        return False
