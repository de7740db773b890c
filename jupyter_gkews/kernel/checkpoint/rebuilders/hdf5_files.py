"""HDF5 files of h5py: opened again as they were, never created or truncated; groups and data sets
are found in them by their paths.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from . import contents
from .files import Then
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in
from .temporary_files import directory_of

if TYPE_CHECKING:
    from ..graph import GraphWriter

WHAT = "an HDF5 file"


class _Description:
    """Stands in a graph for an open file: h5py makes a File each time it is asked for one."""

    def __init__(self, *reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Reduced:
        return self._reduced


_descriptions: weakref.WeakKeyDictionary[Any, dict[Any, _Description]] = weakref.WeakKeyDictionary()


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    h5py: Any = sys.modules["h5py"]
    if not all(hasattr(h5py, name) for name in ("File", "Group", "Dataset", "AttributeManager")):
        return {}
    return {
        h5py.File: reduce_file,
        h5py.Group: reduce_part,
        h5py.Dataset: reduce_part,
        h5py.AttributeManager: reduce_attributes,
    }


def reduce_file(writer: GraphWriter, file: Any) -> Reduced:
    """An open file, at its mode; a closed one stays closed."""
    if not file:
        return closed, ("File",)
    key = (os.path.abspath(os.fsdecode(file.filename)), file.mode)
    driver = file.driver
    if driver == "core" and not os.path.exists(key[0]):
        return _in_memory(writer, file)
    if driver not in ("sec2", "stdio", "core", "split", "family"):
        raise CannotKeepError(WHAT, f"it is not an ordinary file on disk (driver {driver})")
    if driver in ("split", "family"):
        raise CannotKeepError(WHAT, f"it consists of several files (driver {driver})")
    if not os.path.isfile(key[0]):
        raise CannotKeepError(WHAT, f"{key[0]} has been deleted or moved")
    if writer.flush_files and file.mode == "r+":
        file.flush()
    status = os.stat(key[0])
    then = (status.st_size, status.st_mtime_ns)
    stands_in(writer, file)
    writer.reopened.add(os.path.realpath(key[0]))
    writer.note_rebuilt(f"the file {key[0]} is opened again", file)
    options = {"libver": file.libver, "swmr": bool(file.swmr_mode)}
    opened = _descriptions.setdefault(writer, {})
    if key not in opened:
        opened[key] = _Description(open_file, (*key, then, options, directory_of(key[0])))
    return the_same, (opened[key],)


def _in_memory(writer: GraphWriter, file: Any) -> Reduced:
    if writer.flush_files and file.mode == "r+":
        file.flush()
    image = file.id.get_file_image()
    if len(image) > contents.LIMIT:
        size = contents.in_words(contents.LIMIT)
        raise CannotKeepError(WHAT, f"more than {size} in memory without a file are not kept")
    stands_in(writer, file)
    writer.note_rebuilt("an HDF5 file in memory comes back with its content", file)
    return file_in_memory, (image, file.filename, file.mode)


def reduce_part(writer: GraphWriter, part: Any) -> Reduced:
    """A group or a data set: its path in its file."""
    kind = type(part).__name__
    if not part:
        return closed, (kind,)
    if part.name is None:
        raise CannotKeepError(f"an HDF5 {kind.lower()}", "it has no name in its file")
    stands_in(writer, part)
    return part_of, (writer.keep(part.file), part.name)


def reduce_attributes(writer: GraphWriter, attributes: Any) -> Reduced:
    """The attributes of a group or a data set."""
    h5py: Any = sys.modules["h5py"]
    number = attributes._id
    if not number:
        raise CannotKeepError("attributes of HDF5", "their file is closed")
    name = h5py.h5i.get_name(number)
    if name is None:
        raise CannotKeepError("attributes of HDF5", "what they belong to has no name in its file")
    file = writer.keep(h5py.File(h5py.h5i.get_file_id(number)))
    stands_in(writer, attributes)
    return attributes_of, (file, name.decode("utf-8", "surrogateescape"))


# ---- called by the graph ----


def the_same(file: Any) -> Any:
    """`file`, as whoever holds it has it."""
    return file


def closed(kind: str) -> Any:
    """A File, Group or Dataset whose file is closed."""
    h5py: Any = sys.modules["h5py"]
    number = {
        "File": h5py.h5f.FileID,
        "Group": h5py.h5g.GroupID,
        "Dataset": h5py.h5d.DatasetID,
    }[kind]
    made = object.__new__(getattr(h5py, kind))
    h5py.HLObject.__init__(made, number(0))
    return made


def open_file(path: str, mode: str, then: Then, options: dict[str, Any], owner: Any) -> Any:
    """The file at `path`, opened to be read, or to be read and written."""
    h5py: Any = sys.modules["h5py"]
    load = loading()
    if load.dry:  # the kernel has it open, and HDF5 locks it
        return stand_in()
    try:
        there = os.stat(path)
        # HDF5 touches a file that it closes when its process ends
        now = (there.st_size, there.st_mtime_ns if mode == "r" else then and then[1])
        if then is not None and now != tuple(then):
            load.note(f"{path} has changed since the pause")
        return h5py.File(path, "r" if mode == "r" else "r+", **options)
    except (OSError, ValueError) as error:
        return load.fail(WHAT, f"{path} could not be opened again: {error}")


def file_in_memory(image: bytes, name: str, mode: str) -> Any:
    """A file without a file, with this content."""
    h5py: Any = sys.modules["h5py"]
    load = loading()
    if load.dry:
        return stand_in()
    try:
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fapl_core(backing_store=False)
        access.set_file_image(image)
        flags = h5py.h5f.ACC_RDONLY if mode == "r" else h5py.h5f.ACC_RDWR
        return h5py.File(h5py.h5f.open(os.fsencode(name), flags, fapl=access))
    except (OSError, ValueError, AttributeError) as error:
        return load.fail(WHAT, f"its content could not be opened again: {error}")


def part_of(file: Any, name: str) -> Any:
    """The group or data set `name` of `file`."""
    load = loading()
    if isinstance(file, Lost):
        return file
    if load.dry:
        return stand_in()
    try:
        return file[name]
    except (KeyError, OSError) as error:
        return load.fail("a part of an HDF5 file", f"{name} is not there: {error}")


def attributes_of(file: Any, name: str) -> Any:
    """The attributes of `name` in `file`."""
    part = part_of(file, name)
    return part if loading().dry or isinstance(part, Lost) else part.attrs
