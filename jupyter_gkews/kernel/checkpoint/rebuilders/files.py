"""Files on disk, opened again as they stood: same mode and position.

Never creates, truncates or writes a file of the user's; what is pending is flushed at the pause.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: Encodings in which a position is a number of bytes, and the size of file to look through.
_STATELESS = ("utf-8", "ascii", "iso8859-1", "cp1252")
_SMALL = 64 << 20


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    classes = (
        io.TextIOWrapper,
        io.BufferedReader,
        io.BufferedWriter,
        io.BufferedRandom,
        io.FileIO,
    )
    return dict.fromkeys(classes, reduce_file)


def reduce_file(writer: GraphWriter, file: Any) -> Reduced:
    """A file on disk: path, mode and position. Pending output is flushed first, so that the
    file is whole; nothing else is done to it."""
    what = "an open file"
    if file.closed:
        return _closed_file(file)
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):
        raise CannotKeepError("a stream", "it is not a file on disk") from None
    path = file.name
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not stat.S_ISREG(status.st_mode) or not isinstance(path, str):
        raise CannotKeepError(
            what, "it is not a regular file with a name (a pipe, a terminal, a socket)"
        )
    path = os.path.abspath(path)
    try:
        there = os.stat(path)
    except OSError:
        raise CannotKeepError(what, f"{path} has been deleted or moved") from None
    if (there.st_ino, there.st_dev) != (status.st_ino, status.st_dev):
        raise CannotKeepError(what, f"another file stands at {path} now")
    if writer.flush_files and file.writable():
        try:
            file.flush()
        except OSError as error:
            raise CannotKeepError(what, f"it could not be flushed: {error}") from None
    position = _position(writer, file)
    options: dict[str, Any] = {}
    if isinstance(file, io.TextIOWrapper):
        options = {"encoding": file.encoding, "errors": file.errors}
        options["line_buffering"] = file.line_buffering
    writer.note_rebuilt(f"the file {path} is opened again at its position", file)
    writer.reopened.add(os.path.realpath(path))
    return open_file, (type(file).__name__, path, file.mode, position, options)


def _position(writer: GraphWriter, file: Any) -> int:
    try:
        return int(file.tell())
    except OSError:
        pass
    # `for line in file` reads ahead and disables tell() until the loop ends.
    if not writer.flush_files:
        return 0
    position = _position_by_rest(file)
    if position is None:
        raise CannotKeepError(
            "an open file", "its position is not known while a `for` loop over it is unfinished"
        )
    return position


def _position_by_rest(file: Any) -> int | None:
    """Where a text file stands, by reading what is left of it and going back there.

    None where that is not exact or not cheap: a big file, an encoding with a state.
    """
    encoding = codecs.lookup(file.encoding).name
    if encoding not in _STATELESS or os.fstat(file.fileno()).st_size > _SMALL:
        return None
    with open(file.name, "rb") as again:
        whole = again.read()
    rest = file.read()
    tail = rest.encode(encoding, file.errors)
    if not whole.endswith(tail):  # line ends were translated ("\r\n" on disk)
        tail = rest.replace("\n", "\r\n").encode(encoding, file.errors)
    position = len(whole) - len(tail)
    file.seek(position)
    return position if whole.endswith(tail) else None


def _closed_file(file: Any) -> Reduced:
    path = file.name if isinstance(getattr(file, "name", None), str) else ""
    return open_file, (type(file).__name__, path, getattr(file, "mode", "r"), -1, {})


# ---- called by the graph ----


def open_file(kind: str, path: str, mode: str, position: int, options: dict[str, Any]) -> Any:
    """A file of the user's, opened as it was but never created or truncated."""
    load = loading()
    closed = position < 0
    buffering = 0 if kind == "FileIO" else -1
    if options:
        options = {key: value for key, value in options.items() if key != "line_buffering"}
    if closed or load.dry:
        # Nothing of the user's is touched: an object of the same type on the null device.
        plain = mode if not closed else ("r" if kind == "TextIOWrapper" else "rb")
        file = open(os.devnull, plain.replace("x", "w"), buffering, **options)  # noqa: SIM115
        if closed:
            file.close()
        return file
    try:
        mode = mode.replace("x", "w")
        file = open(path, mode, buffering, opener=_open_gently, **options)  # noqa: SIM115
        file.seek(position)
    except (OSError, ValueError) as error:
        return load.fail("an open file", f"it could not be opened again: {error}")
    return file


def _open_gently(path: str, flags: int) -> int:
    """An opener that takes away what would change the file."""
    return os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL))
