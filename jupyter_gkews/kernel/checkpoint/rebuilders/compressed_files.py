"""Compressed files and archives in the middle of reading, and gzip also of writing.

A reader decompresses again up to its position; a gzip writer goes on in the same stream. The
constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    found: dict[type, Handler] = {}
    for module, name, handler in (
        ("gzip", "GzipFile", reduce_gzip),
        ("bz2", "BZ2File", reduce_compressed),
        ("lzma", "LZMAFile", reduce_compressed),
        ("zipfile", "ZipExtFile", reduce_member),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None:
            found[cls] = handler
    return found


def reduce_gzip(writer: GraphWriter, file: Any) -> Reduced:
    """A GzipFile: one that writes is flushed, and what it knows of its stream so far is kept."""
    writer.uses_module("gzip")
    if file.closed or file.fileobj is None:
        return closed_compressed, (type(file), file.name)
    own = file.myfileobj is not None
    if file.readable():
        position = file.tell() if writer.flush_files else 0
        return compressed, (type(file), file.fileobj, position, own, {"filename": file.name})
    if writer.flush_files:
        file.flush()
    stream = {name: getattr(file, name) for name in ("crc", "size", "offset", "name")}
    return gzip_writer, (type(file), file.fileobj, own, stream)


def reduce_compressed(writer: GraphWriter, file: Any) -> Reduced:
    """A BZ2File or LZMAFile that reads."""
    writer.uses_module(type(file).__module__)
    if file.closed:
        return closed_compressed, (type(file), None)
    if not file.readable():
        raise CannotKeepError(
            "a compressed file that is being written",
            "its compressor holds what is not in the file yet: close it before you pause",
        )
    arguments = dict(getattr(file._buffer.raw, "_decomp_args", None) or {})
    options = {name: arguments[name] for name in ("format", "filters") if name in arguments}
    position = file.tell() if writer.flush_files else 0
    return compressed, (type(file), file._fp, position, bool(file._closefp), options)


def reduce_member(writer: GraphWriter, member: Any) -> Reduced:
    """A member of a zip archive that is being read."""
    writer.uses_module("zipfile")
    archive = getattr(getattr(getattr(member, "_fileobj", None), "_close", None), "__self__", None)
    if member.closed or archive is None:
        raise CannotKeepError("a file in a zip archive", "it is closed, or of a way not known")
    stands_in(writer, member)
    position = member.tell() if writer.flush_files and member.seekable() else 0
    return zip_member, (archive, member.name, position)


# ---- called by the graph ----


def compressed(cls: Any, file: Any, position: int, own: bool, options: dict[str, Any]) -> Any:
    """A reader of class `cls` on an open file, at `position` of what comes out of it."""
    if isinstance(file, Lost):
        return file
    load = loading()
    filename = options.pop("filename", None)
    try:
        file.seek(0)
        if filename is None:
            made = cls(file, mode="rb", **options)
        else:
            made = cls(filename, "rb", fileobj=file)
        if position and not load.dry:
            made.seek(position)
            if made.tell() != position:
                load.note("the compressed file is shorter than it was at the pause")
    except Exception as error:  # each compression has errors of its own
        return load.fail("a compressed file", f"its place could not be found again: {error}")
    if own:
        setattr(
            made, "myfileobj" if filename is not None else "_closefp", file if filename else True
        )
    return made


def gzip_writer(cls: Any, file: Any, own: bool, stream: dict[str, Any]) -> Any:
    """A GzipFile that goes on writing the stream which it had begun. What was written ends with a
    complete block, behind which a new compressor may go on."""
    if isinstance(file, Lost):
        return file
    made = cls(stream["name"], "wb", fileobj=io.BytesIO())  # its header is there already
    made.fileobj = file
    made.myfileobj = file if own else None
    for name in ("crc", "size", "offset"):
        setattr(made, name, stream[name])
    return made


def closed_compressed(cls: Any, name: Any) -> Any:
    """A compressed file that has been closed."""
    made = cls(io.BytesIO(), "rb") if name is None else cls(name, "rb", fileobj=io.BytesIO())
    made.close()
    return made


def zip_member(archive: Any, name: str, position: int) -> Any:
    """A member of an archive, open for reading."""
    load = loading()
    if isinstance(archive, Lost) or load.dry:
        return archive if isinstance(archive, Lost) else stand_in()
    try:
        made = archive.open(name)
        if position:
            made.seek(position)
    except Exception as error:  # each compression has errors of its own
        return load.fail("a file in a zip archive", f"{name} could not be opened again: {error}")
    return made
