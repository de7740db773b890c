"""Files on disk, opened again as they stood: same mode and position, layer by layer.

Never creates, truncates or writes a file of the user's; what is pending is flushed at the pause.
The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import stat
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .. import rebuild
from ..placeholders import Lost
from . import contents
from .duplicates import same_description
from .interface import CannotKeepError, Handler, Reduced
from .loading import loading
from .temporary_files import directory_of
from .text_files import newline_of, position_of

if TYPE_CHECKING:
    from ..graph import GraphWriter

WHAT = "an open file"
#: Devices that anyone may open again, as often as wanted.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)

#: Size in bytes and time of the last change in ns, at the pause. None: not looked at.
Then = Optional[tuple[int, int]]


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        io.TextIOWrapper: reduce_text,
        **dict.fromkeys(_BUFFERED, reduce_buffered),
        io.FileIO: reduce_raw,
    }


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes: what codecs.open wraps around a file."""
    classes = (codecs.StreamReaderWriter, codecs.StreamReader, codecs.StreamWriter)
    return dict.fromkeys(classes, reduce_stream)


# ---- where a file is ----


@dataclass
class Place:
    """Where an open file is: a path that leads to it, or its content if none does."""

    path: str = ""
    then: Then = None
    content: Any = None


def place_of(writer: GraphWriter, raw: Any) -> Place:
    """Where the file behind a FileIO is. Raises CannotKeepError if it is nowhere."""
    try:
        status = os.fstat(raw.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):
        raise CannotKeepError("a stream", "it is not a file on disk") from None
    paths = _candidates(raw)
    if stat.S_ISCHR(status.st_mode) and paths and paths[-1] in _DEVICES:
        return Place(paths[-1])
    if not stat.S_ISREG(status.st_mode):
        raise CannotKeepError(
            WHAT, "it is not a regular file with a name (a pipe, a terminal, a socket)"
        )
    for path in paths:
        try:
            there = os.stat(path)
        except OSError:
            continue
        if (there.st_ino, there.st_dev) == (status.st_ino, status.st_dev):
            return Place(path, (there.st_size, there.st_mtime_ns))
    return Place(content=_content(writer, raw, paths))


def _candidates(raw: Any) -> list[str]:
    """Paths that may lead to the file: by its name, and by what the system knows."""
    found = []
    name = raw.name
    if isinstance(name, (str, bytes)):
        found.append(os.path.abspath(os.fsdecode(name)))
    with contextlib.suppress(OSError):
        # true after a rename, and after a change of the working directory
        found.append(os.readlink(f"/proc/self/fd/{raw.fileno()}"))
    return found


def _content(writer: GraphWriter, raw: Any, paths: list[str]) -> Any:
    """The content of a file without a path: one that was deleted, or never had a name."""
    name = paths[0] if isinstance(raw.name, (str, bytes)) else "it"
    try:
        if not writer.flush_files:
            return b""
        found = contents.of_descriptor(raw.fileno())
    except OSError as error:
        reason = f"{name} has been deleted or moved, and its content cannot be read: {error}"
        raise CannotKeepError(WHAT, reason) from None
    if found is None:
        size = contents.in_words(contents.LIMIT)
        reason = f"{name} has been deleted, and more than {size} of content are not kept"
        raise CannotKeepError(WHAT, reason)
    return found


# ---- at the pause ----


def reduce_raw(writer: GraphWriter, file: io.FileIO) -> Reduced:
    """An unbuffered file."""
    if file.closed:
        return _closed(file)
    place = place_of(writer, file)
    position = file.tell() if file.seekable() and writer.flush_files else 0
    _tell(writer, file, place)
    name = file.name if isinstance(file.name, (str, bytes)) else None
    first = same_description(writer.descriptors, file)
    if first is not None:
        return raw_duplicate, (first, file.mode, name)
    if place.content is not None:
        return anonymous_file, (place.content, file.mode, position, name)
    owner = directory_of(place.path)
    return raw_file, (place.path, file.mode, position, name, place.then, owner)


def reduce_buffered(writer: GraphWriter, file: Any) -> Reduced:
    """A binary file with a buffer: pending output is flushed, so that the file is whole."""
    if _is_closed(file):
        return _closed(file)
    raw = _raw_of(file)
    _tell(writer, file, place_of(writer, raw))
    _flush(writer, file)
    position = file.tell() if file.seekable() and writer.flush_files else 0
    return buffered_file, (type(file).__name__, raw, position)


def reduce_text(writer: GraphWriter, file: io.TextIOWrapper) -> Reduced:
    """A text file, on disk or on any other buffer that can be kept."""
    if _is_closed(file):
        return _closed(file)
    buffer = file.buffer
    on_disk = isinstance(buffer, _BUFFERED)
    if on_disk:
        _tell(writer, file, place_of(writer, _raw_of(buffer)))
    _flush(writer, file)
    position = 0
    if file.seekable() and writer.flush_files:
        position = position_of(file, on_disk)
    options = _options(file)
    return text_file, (buffer, options, getattr(file, "mode", None), position)


def reduce_stream(writer: GraphWriter, stream: Any) -> Reduced:
    """A stream of codecs: it answers every question with what it wraps, so only its own
    attributes are looked at (they hold what was read ahead)."""
    own = dict(object.__getattribute__(stream, "__dict__"))
    return rebuild.bare, (type(stream),), own, None, None, rebuild.update_attributes


def _options(file: io.TextIOWrapper) -> dict[str, Any]:
    return {
        "encoding": file.encoding,
        "errors": file.errors,
        "newline": newline_of(file),
        "line_buffering": file.line_buffering,
        "write_through": file.write_through,
    }


def _raw_of(buffered: Any) -> Any:
    try:
        raw = buffered.raw
    except ValueError:
        raise CannotKeepError(WHAT, "it has been detached from its file") from None
    if type(raw) is not io.FileIO:
        raise CannotKeepError("a stream", "it is not a file on disk")
    return raw


def _is_closed(file: Any) -> bool:
    try:
        return bool(file.closed)
    except ValueError:
        raise CannotKeepError(WHAT, "it has been detached from its file") from None


def _flush(writer: GraphWriter, file: Any) -> None:
    if writer.flush_files and file.writable():
        try:
            file.flush()
        except OSError as error:
            raise CannotKeepError(WHAT, f"it could not be flushed: {error}") from None


def _tell(writer: GraphWriter, file: Any, place: Place) -> None:
    if place.content is not None:
        writer.note_rebuilt("the file has no name any more: it comes back with its content", file)
    else:
        writer.note_rebuilt(f"the file {place.path} is opened again at its position", file)
        writer.reopened.add(os.path.realpath(place.path))


def _closed(file: Any) -> Reduced:
    name = _asked(file, "name", None)
    if not isinstance(name, (str, bytes)):
        name = None
    raw = file
    while not isinstance(raw, io.FileIO) and raw is not None:
        raw = _asked(raw, "buffer", None) or _asked(raw, "raw", None)
    modes = [_asked(file, "mode", "r"), _asked(raw, "mode", "rb")]
    modes = [mode if isinstance(mode, str) else "rb" for mode in modes]
    encoding = file.encoding if isinstance(file, io.TextIOWrapper) else None
    return closed_file, (type(file).__name__, name, tuple(modes), encoding)


def _asked(file: Any, name: str, default: Any) -> Any:
    """An attribute of a closed file; some of them can no longer be asked."""
    try:
        return getattr(file, name, default)
    except ValueError:
        return default


# ---- called by the graph ----

#: Files that are shorter than they were: their layers stand at the end.
_shrunk: weakref.WeakSet[Any] = weakref.WeakSet()


def raw_file(
    path: str, mode: str, position: int, name: str | bytes | None, then: Then, owner: Any = None
) -> Any:
    """A FileIO on a file of the user's, opened as it was but never created or truncated. `owner`
    is what keeps its folder: it only has to be there before."""
    load = loading()
    if load.dry:
        return _renamed(io.FileIO(os.devnull, mode, opener=_open_gently), name)
    try:
        there = os.stat(path)
        if then is not None and not stat.S_ISREG(there.st_mode):
            raise OSError(f"{path} is no regular file now")
        made = io.FileIO(path, mode, opener=_open_gently)
    except (OSError, ValueError) as error:
        return load.fail(WHAT, f"{path} could not be opened again: {_problem(error)}")
    if then is not None and there.st_size < then[0]:
        load.note(f"{path} is shorter than it was at the pause")
        if there.st_size < position:
            position = there.st_size
        _shrunk.add(made)
    elif then is not None and (there.st_size, there.st_mtime_ns) != tuple(then):
        load.note(f"{path} has changed since the pause")
    if position:
        made.seek(position)
    return _renamed(made, name)


def raw_duplicate(first: Any, mode: str, name: str | bytes | None) -> Any:
    """A FileIO on a duplicate of the descriptor of another one: they share a position."""
    if isinstance(first, Lost):
        return first
    return _renamed(io.FileIO(os.dup(first.fileno()), mode.replace("x", "w")), name)


def anonymous_file(content: Any, mode: str, position: int, name: str | bytes | None) -> Any:
    """A FileIO on a temporary file without a name, with this content."""
    if loading().dry:
        return _renamed(io.FileIO(os.devnull, mode, opener=_open_gently), name)
    number = nameless(content)
    made = io.FileIO(number, mode.replace("x", "w"))
    made.seek(position)
    return _renamed(made, name)


def nameless(content: Any) -> int:
    """The descriptor of a new temporary file without a name that holds `content`."""
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return os.dup(file.fileno())


def _renamed(raw: Any, name: str | bytes | None) -> Any:
    if name is not None:
        raw.name = name  # as it was given to open(): perhaps relative
    return raw


def buffered_file(kind: str, raw: Any, position: int) -> Any:
    """A buffer of class `kind` on a FileIO."""
    if isinstance(raw, Lost):
        return raw
    made = getattr(io, kind)(raw)
    _go_to(made, raw, position)
    return made


def text_file(buffer: Any, options: dict[str, Any], mode: str | None, position: int) -> Any:
    """A TextIOWrapper on a buffer."""
    if isinstance(buffer, Lost):
        return buffer
    made: Any = io.TextIOWrapper(buffer, **options)
    if mode is not None:
        made.mode = mode
    _go_to(made, getattr(buffer, "raw", None), position)
    return made


def _go_to(file: Any, raw: Any, position: int) -> None:
    if not position or loading().dry:
        return
    try:
        if raw in _shrunk and position & 0xFFFFFFFFFFFFFFFF > os.fstat(raw.fileno()).st_size:
            file.seek(0, os.SEEK_END)
        else:
            file.seek(position)
    except (OSError, ValueError, TypeError) as error:
        loading().note(f"its position could not be found again: {error}")


def closed_file(
    kind: str, name: str | bytes | None, modes: tuple[str, str], encoding: str | None
) -> Any:
    """A closed file: its name and mode, and nothing of what was behind it."""
    made: Any = _renamed(io.FileIO(os.devnull, modes[1], opener=_open_gently), name)
    if kind != "FileIO":
        reads, writes = made.readable(), made.writable()
        cls = _BUFFERED[2] if reads and writes else _BUFFERED[0] if reads else _BUFFERED[1]
        made = cls(made)
    if kind == "TextIOWrapper":
        made = io.TextIOWrapper(made, encoding=encoding)
        made.mode = modes[0]
    made.close()
    return made


def open_file(kind: str, path: str, mode: str, position: int, options: dict[str, Any]) -> Any:
    """What earlier checkpoints call for a whole file at once."""
    load = loading()
    closed = position < 0
    buffering = 0 if kind == "FileIO" else -1
    if options:
        options = {key: value for key, value in options.items() if key != "line_buffering"}
    if closed or load.dry:
        # Nothing of the user's is touched: an object of the same type on the null device.
        plain = mode if not closed else ("r" if kind == "TextIOWrapper" else "rb")
        file = open(os.devnull, plain, buffering, opener=_open_gently, **options)  # noqa: SIM115
        if closed:
            file.close()
        return file
    try:
        file = open(path, mode, buffering, opener=_open_gently, **options)  # noqa: SIM115
        file.seek(position)
    except (OSError, ValueError) as error:
        return load.fail(WHAT, f"{path} could not be opened again: {_problem(error)}")
    return file


def _open_gently(path: str, flags: int) -> int:
    """An opener that takes away what would change the file."""
    return os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL))


def _problem(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
