"""Memory-mapped files and anonymous maps: mapped again where they were, never created, grown or
truncated. Views of a map stay views of it.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from .. import tensors
from ..buffers import address_of
from ..placeholders import Lost
from ..process_maps import Region, regions, written_bytes
from . import contents
from .files import Then, nameless
from .interface import CannotKeepError, Handler, Reduced
from .loading import loading
from .temporary_files import directory_of

if TYPE_CHECKING:
    from ..graph import GraphWriter

WHAT = "a memory-mapped array"
_STEP = 4 << 20


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    found: dict[type, Handler] = {mmap.mmap: reduce_map}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "memmap"):
        found[numpy.memmap] = reduce_memmap
        found[numpy.ndarray] = reduce_array
    return found


# ---- mmap.mmap ----


def _region_of(writer: GraphWriter, mapped: Any) -> Region | None:
    """Where a map lies; asked once for each, which cannot go meanwhile."""
    known = writer.regions.get(id(mapped))
    if known is None:
        known = writer.regions[id(mapped)] = (mapped, regions().at(address_of(mapped)))
    return known[1]


def reduce_map(writer: GraphWriter, mapped: mmap.mmap) -> Reduced:
    """A map of a file is mapped again; anonymous memory, or that of a file without a name, comes
    back with its content."""
    if mapped.closed:
        return closed_map, ()
    length, position = len(mapped), mapped.tell()
    with memoryview(mapped) as view:
        readonly = view.readonly
    address = address_of(mapped)
    found = _region_of(writer, mapped)
    if found is not None and found.of_file and os.path.isfile(found.path):
        access = mmap.ACCESS_READ if readonly else mmap.ACCESS_WRITE
        if found.private and not readonly:
            access = mmap.ACCESS_COPY
        if access == mmap.ACCESS_WRITE and writer.flush_files:
            mapped.flush()
        offset = found.offset + address - found.start
        changes = None
        if access == mmap.ACCESS_COPY:
            changes = _changes(mapped, found.path, offset)
        status = os.stat(found.path)
        then = (status.st_size, status.st_mtime_ns)
        writer.note_rebuilt(f"the file {found.path} is mapped again", mapped)
        writer.reopened.add(os.path.realpath(found.path))
        where = (found.path, then, directory_of(found.path))
        return file_map, (where, length, access, offset, position, changes)
    if length > contents.LIMIT:
        size = contents.in_words(contents.LIMIT)
        raise CannotKeepError("a memory map", f"more than {size} without a file are not kept")
    data: Any = bytes(mapped) if length <= 1 << 20 else pickle.PickleBuffer(mapped)
    writer.note_rebuilt("memory without a file is mapped anew, with its content", mapped)
    return anonymous_map, (data, position, readonly)


def _changes(mapped: Any, path: str, offset: int) -> list[tuple[int, bytes]]:
    """Where a private map differs from its file: [(position, bytes)]."""
    if not _may_differ(address_of(mapped), len(mapped)):
        return []
    found = []
    with open(path, "rb") as file, memoryview(mapped) as view:
        file.seek(offset)
        for start in range(0, len(view), _STEP):
            mine, theirs = bytes(view[start : start + _STEP]), file.read(_STEP)
            if mine != theirs:
                page = mmap.PAGESIZE
                for at in range(0, len(mine), page):
                    if mine[at : at + page] != theirs[at : at + page]:
                        found.append((start + at, mine[at : at + page]))
    return found


def _may_differ(start: int, nbytes: int) -> bool:
    """Whether a private map may differ from its file: the system tells of pages of it that were
    written to, or tells nothing. One map may be several regions (madvise)."""
    told = written_bytes()
    parts = regions().of(start, start + nbytes)
    return not parts or any(told.get(part.start, 1) for part in parts)


# ---- numpy ----


def _root(array: Any) -> Any:
    """The memmap on which `array` is a view, itself if it is that, None if there is none."""
    numpy = sys.modules["numpy"]
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    whole = type(array) is numpy.memmap and isinstance(array.base, mmap.mmap)
    return array if whole else None


def reduce_array(writer: GraphWriter, array: Any) -> Any:
    """A plain array: a view of a map stays one, all others are memory."""
    root = _root(array) if array.base is not None else None
    if root is None or array.dtype.hasobject or _path_of(writer, root) is None:
        return tensors.reduce_array(writer, array)
    return _view(array, root)


def reduce_memmap(writer: GraphWriter, array: Any) -> Any:
    """A numpy memmap: mapped again; of a file that is gone, its content as memory."""
    root = _root(array)
    path = None if root is None else _path_of(writer, root)
    if root is None or path is None:
        if root is not None:
            writer.note_rebuilt("its file is gone: it comes back as memory", array)
        return tensors.reduce_array_subclass(writer, array)
    writer.note_rebuilt(f"the file {path} is mapped again", array)
    writer.reopened.add(os.path.realpath(path))
    if root is not array:
        return _view(array, root)
    if writer.flush_files and array.mode in ("r+", "w+"):
        array.flush()
    status = os.stat(path)
    where = (path, (status.st_size, status.st_mtime_ns), directory_of(path))
    mode = "r+" if array.mode == "w+" else array.mode
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    changes = None
    if mode == "c":
        whole = array.base
        start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
        changes = _changes(whole, path, start)
    return array_map, (where, array.dtype, mode, array.offset, array.shape, order, changes)


def _path_of(writer: GraphWriter, root: Any) -> str | None:
    """The file that `root` maps, if it is still there under its name."""
    name = getattr(root, "filename", None)
    found = _region_of(writer, root.base)
    if found is not None:
        path = found.path
    elif name is not None:
        path = os.path.abspath(os.fspath(name))
    else:
        return None
    return path if os.path.isfile(path) else None


def _view(array: Any, root: Any) -> Reduced:
    start = root.__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - start
    how = (array.dtype, array.shape, array.strides, offset, bool(array.flags.writeable))
    return map_view, (root, type(array) is type(root), *how)


# ---- called by the graph ----


def _find(where: tuple[str, Then, Any], needed: int) -> None:
    """Note what has become of a file; OSError if it is too short to be mapped as it was."""
    path, then, _ = where
    there = os.stat(path)
    if there.st_size < needed:
        raise OSError(f"{path} is shorter than it was at the pause")
    if then is not None and (there.st_size, there.st_mtime_ns) != tuple(then):
        loading().note(f"{path} has changed since the pause")


def file_map(
    where: tuple[str, Then, Any],
    length: int,
    access: int,
    offset: int,
    position: int,
    changes: list[tuple[int, bytes]] | None,
) -> Any:
    """A mmap.mmap of a file."""
    load = loading()
    path = where[0]
    try:
        _find(where, offset + length if access == mmap.ACCESS_WRITE else 0)
        if load.dry and access == mmap.ACCESS_WRITE:
            access = mmap.ACCESS_COPY
        write = os.O_RDWR if access == mmap.ACCESS_WRITE else os.O_RDONLY
        number = os.open(path, write)
        try:
            made = mmap.mmap(number, length, access=access, offset=offset)
        finally:
            os.close(number)
    except (OSError, ValueError) as error:
        text = f"{path} could not be mapped again: {_problem(error)}"
        return load.fail("a memory map", text)
    for at, data in changes or ():
        made[at : at + len(data)] = data
    made.seek(position)
    return made


def anonymous_map(data: Any, position: int, readonly: bool) -> Any:
    """A mmap.mmap without a file that holds `data`."""
    if readonly:
        number = nameless(data)
        made = mmap.mmap(number, 0, access=mmap.ACCESS_READ)
        os.close(number)
    else:
        made = mmap.mmap(-1, memoryview(data).nbytes)
        made.write(data)
    made.seek(position)
    return made


def closed_map() -> Any:
    """A mmap.mmap that has been closed."""
    made = mmap.mmap(-1, 1)
    made.close()
    return made


def array_map(
    where: tuple[str, Then, Any],
    dtype: Any,
    mode: str,
    offset: int,
    shape: Any,
    order: str,
    changes: list[tuple[int, bytes]] | None,
) -> Any:
    """A numpy memmap of a file of the user's."""
    load = loading()
    path = where[0]
    numpy = importlib.import_module("numpy")
    count = 1
    for each in shape:
        count *= each
    try:
        _find(where, offset + count * dtype.itemsize)  # numpy would make it longer
        opened = "c" if load.dry and mode != "r" else mode
        made = numpy.memmap(path, dtype, opened, offset, shape, order)
    except (OSError, ValueError) as error:
        return load.fail(WHAT, f"{path} could not be mapped again: {_problem(error)}")
    whole = made.base
    for at, data in changes or ():
        whole[at : at + len(data)] = data
    return made


def memmap(path: str, dtype: Any, mode: str, offset: int, shape: Any, order: str) -> Any:
    """What earlier checkpoints call for a numpy memmap."""
    return array_map((path, None, None), dtype, mode, offset, shape, order, None)


def map_view(
    root: Any, mapped: bool, dtype: Any, shape: Any, strides: Any, offset: int, writeable: bool
) -> Any:
    """An array that looks at a part of the memmap `root`."""
    if isinstance(root, Lost):
        return root
    numpy: Any = importlib.import_module("numpy")
    flat = root if root.flags.c_contiguous else root.reshape(-1, order="F")
    made = numpy.ndarray(shape, dtype, flat, offset, strides)
    if mapped:
        made = made.view(numpy.memmap)
        for name in ("_mmap", "filename", "offset", "mode"):
            setattr(made, name, getattr(root, name))
    if not writeable:
        made.flags.writeable = False
    return made


def _problem(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
