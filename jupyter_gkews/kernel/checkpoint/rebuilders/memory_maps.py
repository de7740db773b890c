"""Memory-mapped files: mapped again where they were, never created, grown or truncated."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {sys.modules["numpy"].memmap: reduce_memmap}


def reduce_memmap(writer: GraphWriter, array: Any) -> Any:
    """A numpy memmap that covers its file's range: mapped again, never created."""
    numpy = sys.modules["numpy"]
    path = getattr(array, "filename", None)
    if path is None or isinstance(array.base, numpy.memmap) or not array.flags.contiguous:
        return NotImplemented
    path = os.path.abspath(os.fspath(path))
    if not os.path.exists(path):
        raise CannotKeepError("a memory-mapped array", f"{path} has been deleted or moved")
    if writer.flush_files and array.mode in ("r+", "w+"):
        array.flush()
    mode = "r+" if array.mode == "w+" else array.mode
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    writer.note_rebuilt(f"the file {path} is mapped again", array)
    return memmap, (path, array.dtype, mode, array.offset, array.shape, order)


# ---- called by the graph ----


def memmap(path: str, dtype: Any, mode: str, offset: int, shape: Any, order: str) -> Any:
    """A numpy memmap of a file of the user's."""
    numpy = importlib.import_module("numpy")
    load = loading()
    try:
        return numpy.memmap(path, dtype, "c" if load.dry else mode, offset, shape, order)
    except (OSError, ValueError) as error:
        return load.fail("a memory-mapped array", f"it could not be mapped again: {error}")
