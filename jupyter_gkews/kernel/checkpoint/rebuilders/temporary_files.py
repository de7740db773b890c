"""Temporary files and directories: they come back with their content, under the same path.

What is still there at the resume is left as it is. A test load makes and deletes nothing.
The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from ..stand_ins import trusted
from . import contents
from .interface import CannotKeepError, Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: The most files that a temporary directory may bring along.
MOST_FILES = 10_000


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        tempfile._TemporaryFileWrapper: reduce_named_file,
        tempfile.SpooledTemporaryFile: reduce_spooled_file,
        tempfile.TemporaryDirectory: reduce_directory,
    }


def directory_of(path: str) -> Any:
    """The TemporaryDirectory of this process in which `path` lies, or None."""
    registry: dict[Any, Any] = getattr(weakref.finalize, "_registry", {})
    for finalizer in list(registry):
        peeked = finalizer.peek()
        if peeked is not None and isinstance(peeked[0], tempfile.TemporaryDirectory):
            folder = os.path.join(os.path.abspath(peeked[0].name), "")
            if path.startswith((folder, os.path.join(os.path.realpath(folder), ""))):
                return peeked[0]
    return None


# ---- named files ----


class _Before:
    """Makes the graph call `func(*args)` where this object stands."""

    def __init__(self, func: Any, *args: Any) -> None:
        self._reduced = (func, args)

    def __reduce__(self) -> Reduced:
        return self._reduced


def reduce_named_file(writer: GraphWriter, wrapper: Any) -> Reduced:
    """A NamedTemporaryFile: the file is there again before it is opened."""
    file, name = wrapper.file, wrapper.name
    before: Any = None
    if not file.closed and isinstance(name, (str, bytes)):
        path = os.path.abspath(os.fsdecode(name))
        before = _content_at(writer, wrapper, path)
    closer = wrapper._closer
    on_close = getattr(closer, "delete_on_close", True)
    return named_file, (type(wrapper), before, file, name, closer.delete, on_close)


def _content_at(writer: GraphWriter, wrapper: Any, path: str) -> Any:
    if writer.flush_files:
        file = wrapper.file
        try:
            if file.writable():
                file.flush()
            if not os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                return None
            content = contents.of_descriptor(file.fileno())
        except OSError:
            return None  # deleted: the file itself brings its content
        if content is None:
            size = contents.in_words(contents.LIMIT)
            writer.note_rebuilt(
                f"it is more than {size}: it comes back only if {path} is still there", wrapper
            )
            return None
        mode = stat.S_IMODE(os.stat(path).st_mode)
        return _Before(file_at, path, mode, content, directory_of(path))
    return None


def reduce_spooled_file(writer: GraphWriter, file: Any) -> Reduced:
    """A SpooledTemporaryFile, in memory or on disk."""
    return spooled_file, (type(file),), dict(vars(file)), None, None, set_attributes


# ---- directories ----


def reduce_directory(writer: GraphWriter, directory: Any) -> Reduced:
    """A TemporaryDirectory with what is in it, or one that has been cleaned up."""
    finalizer = directory._finalizer
    peeked = finalizer.peek()
    path = os.path.abspath(os.fsdecode(directory.name))
    options = dict(peeked[3]) if peeked is not None else None
    found: list[Any] | None = []
    if options is not None and writer.flush_files:
        try:
            found = _inside(path)
        except OSError as error:
            raise CannotKeepError("a temporary directory", f"{path}: {error.strerror}") from None
        if found is None:
            size = contents.in_words(contents.LIMIT)
            told = f"more than {size} or {MOST_FILES} files: it comes back only if {path} is there"
            writer.note_rebuilt(told, directory)
        else:
            writer.note_rebuilt(f"the directory {path} comes back with its content", directory)
    own = {k: v for k, v in vars(directory).items() if k not in ("name", "_finalizer")}
    args = (type(directory), path, directory.name, options, found)
    return temporary_directory, args, own or None, None, None, set_attributes


def _inside(path: str) -> list[Any] | None:
    """[relative path, mode, content | link | None] of everything below `path`; None: too much."""
    found: list[Any] = []
    left = contents.LIMIT
    for name, status in _walk(path):
        where = os.path.join(path, name)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            found.append([name, mode, None])
        elif stat.S_ISLNK(status.st_mode):
            found.append([name, mode, os.readlink(where)])
        elif stat.S_ISREG(status.st_mode):
            left -= status.st_size
            if left < 0 or len(found) >= MOST_FILES:
                return None
            found.append([name, mode, contents.of_path(where)])
    return found


def _walk(path: str, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    for name in sorted(os.listdir(os.path.join(path, below))):
        status = os.lstat(os.path.join(path, below, name))
        yield os.path.join(below, name), status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path, os.path.join(below, name))


# ---- called by the graph ----


def file_at(path: str, mode: int, content: Any, owner: Any = None) -> Any:
    """See that the temporary file `path` is there; returns its path."""
    if loading().dry or os.path.lexists(path):
        return path
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError:
        return path  # told when it is opened
    with os.fdopen(number, "wb") as file:
        file.write(content)
    return path


def named_file(cls: Any, before: Any, file: Any, name: Any, delete: bool, on_close: bool) -> Any:
    """A NamedTemporaryFile around its open file; one of a test load deletes nothing."""
    if isinstance(file, Lost):
        return file
    gone = file.closed and on_close
    made = cls(file, name, False)
    if "delete" in vars(made):  # up to Python 3.11
        made.delete = delete
    made._closer.delete = delete and not gone and not loading().dry
    if hasattr(made._closer, "delete_on_close"):
        made._closer.delete_on_close = on_close
    if file.closed:
        made._closer.close_called = True
    return made


def spooled_file(cls: Any) -> Any:
    """A SpooledTemporaryFile without a state."""
    return cls.__new__(cls)


def set_attributes(target: Any, attributes: dict[str, Any]) -> None:
    """Set an instance dictionary."""
    if not isinstance(target, Lost):
        target.__dict__.update(attributes)


def temporary_directory(
    cls: Any, path: str, name: Any, options: dict[str, Any] | None, inside: list[Any] | None
) -> Any:
    """A TemporaryDirectory at `path`; `options` are those of its finalizer, None if it had been
    cleaned up."""
    load = loading()
    made = cls.__new__(cls)
    made.name = name
    # Python's own finalizer of directories: it takes the path and what the class gave it
    finalizer = weakref.finalize(made, cls._cleanup, name, **(options or {}))
    made._finalizer = finalizer
    if options is None or load.dry:
        finalizer.detach()
        return made
    if not os.path.lexists(path):
        if inside is None:
            finalizer.detach()
            return load.fail("a temporary directory", f"{path} is gone, it was too big to be kept")
        try:
            _fill(path, inside)
        except OSError as error:
            finalizer.detach()
            with trusted():
                shutil.rmtree(path, ignore_errors=True)
            return load.fail("a temporary directory", f"{path} cannot be made: {error.strerror}")
    return made


def _fill(path: str, inside: list[Any]) -> None:
    os.mkdir(path, 0o700)
    modes = []
    for name, mode, content in inside:
        where = os.path.join(path, name)
        if content is None:
            os.mkdir(where, 0o700)
            modes.append((where, mode))
        elif isinstance(content, str):
            os.symlink(content, where)
        else:
            with open(where, "xb") as file:
                file.write(content)
            os.chmod(where, mode)
    for where, mode in reversed(modes):
        os.chmod(where, mode)
