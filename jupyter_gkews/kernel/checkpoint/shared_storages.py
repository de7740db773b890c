"""Storages whose memory is of a special kind: shared between processes, pinned, or a mapped file.

Tells the kind when a storage is saved and gives it again when it is loaded; where that cannot be,
the bytes are there all the same and the user is told. It never changes a file.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from .process_maps import regions
from .rebuilders.loading import loading

SHARED, PINNED = "shared", "pinned"


def kind_of(storage: Any) -> str:
    """ "file:<path>" for a shared map of a file of the user's, "shared", "pinned", or ""."""
    if storage.is_shared():
        path = getattr(storage, "filename", None)
        if isinstance(path, str) and os.path.isfile(path) and _maps(path, storage.data_ptr()):
            return f"file:{os.path.abspath(path)}"
        return SHARED
    torch = sys.modules["torch"]
    if torch.cuda.is_available() and storage.is_pinned():
        return PINNED
    return ""


def _maps(path: str, address: int) -> bool:
    """Whether the memory at `address` is a shared map of this very file (Linux; else False)."""
    found = regions().at(address)
    try:
        return found is not None and not found.private and found.inode == os.stat(path).st_ino
    except OSError:
        return False


# ---- called by the graph ----


def placed(storage: Any, kind: str) -> Any:
    """`storage` in memory that is shared between processes, or pinned."""
    torch = sys.modules["torch"]
    load = loading()
    if load.dry:
        return storage
    try:
        if kind == SHARED:
            return storage.share_memory_()
        if torch.cuda.is_available():
            return storage.pin_memory()
        problem = "there is no GPU here"
    except RuntimeError as error:
        problem = str(error).split("\n")[0]
    load.note(f"its memory is not {kind} any more: {problem}")
    return storage


def mapped_file(path: str, nbytes: int) -> Any:
    """A storage on a file of the user's, mapped again (as a private copy in a test load)."""
    torch = sys.modules["torch"]
    load = loading()
    try:
        size = os.stat(path).st_size
        if size < nbytes:  # torch would make the file longer
            return load.fail("a memory-mapped tensor", f"{path} has {size} bytes now, not {nbytes}")
        return torch.UntypedStorage.from_file(path, not load.dry, nbytes)
    except (OSError, RuntimeError) as error:
        return load.fail("a memory-mapped tensor", f"{path} could not be mapped again: {error}")
