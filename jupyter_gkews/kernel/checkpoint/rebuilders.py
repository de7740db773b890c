"""Objects that are not data but can be made again: files at their position, locks, pools.

A rebuilder gets the writer and the object and returns what its reduce would, or raises
CannotKeepError with the reason. A rebuilt object never truncates, creates or changes a file.
"""

from __future__ import annotations

import _thread
import codecs
import concurrent.futures
import io
import logging
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable

from . import rebuild
from .placeholders import Loss

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


#: Encodings in which a position is a number of bytes, and the size of file to look through.
_STATELESS = ("utf-8", "ascii", "iso8859-1", "cp1252")
_SMALL = 64 << 20


class CannotKeepError(Exception):
    """This object cannot be rebuilt; `loss` says why."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(reason)
        self.loss = Loss(what, reason)


# ---- open files ----


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
    return rebuild.open_file, (type(file).__name__, path, file.mode, position, options)


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
    return rebuild.open_file, (type(file).__name__, path, getattr(file, "mode", "r"), -1, {})


# ---- memory-mapped arrays ----


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
    return rebuild.memmap, (path, array.dtype, mode, array.offset, array.shape, order)


# ---- locks, queues, pools ----


def reduce_lock(writer: GraphWriter, lock: Any) -> Reduced:
    """A plain lock, held or free as it is."""
    return rebuild.lock, (lock.locked(),)


def reduce_rlock(writer: GraphWriter, lock: Any) -> Reduced:
    """A reentrant lock: still held if this thread holds it, free if another did."""
    owned = lock._is_owned()
    if not owned and " count=0 " not in repr(lock):
        writer.note_rebuilt(
            "a lock held by another thread is free again: that thread is gone", lock
        )
    count = 0
    if owned:
        count = int(repr(lock).split("count=")[1].split()[0])
    return rebuild.rlock, (count,)


def reduce_pool(writer: GraphWriter, pool: Any) -> Reduced:
    """A thread pool comes back empty and usable."""
    if pool._shutdown:
        raise CannotKeepError("a pool of threads", "it was shut down")
    writer.note_rebuilt("a pool of threads is empty again; work in it is lost", pool)
    return type(pool), (pool._max_workers, pool._thread_name_prefix)


def reduce_future(writer: GraphWriter, future: Any) -> Any:
    """A finished future keeps its result; work that still runs is lost with its thread."""
    if future.done():
        return NotImplemented
    raise CannotKeepError("the future of unfinished work", "the work ends with its thread")


# ---- loggers ----


def reduce_logger(writer: GraphWriter, logger: logging.Logger) -> Reduced:
    """The logger of that name, with its level, filters and handlers; a handler's file is opened
    again at its end."""
    name = () if isinstance(logger, logging.RootLogger) else (logger.name,)
    names = ("level", "propagate", "disabled", "filters", "handlers")
    state = {each: getattr(logger, each) for each in names}
    return logging.getLogger, name, state, None, None, rebuild.set_logger


# ---- tqdm ----


def reduce_tqdm_wrapper(writer: GraphWriter, wrapper: Any) -> Reduced:
    """tqdm's wrapper around a stream: it answers every question with what it wraps, also those of
    pickle, so only its own attributes are looked at."""
    own = dict(object.__getattribute__(wrapper, "__dict__"))
    return rebuild.bare, (type(wrapper),), own, None, None, rebuild.update_attributes


#: Types of which objects are made anew rather than copied.
REBUILT: dict[type, Callable[[Any, Any], Any]] = {
    io.TextIOWrapper: reduce_file,
    io.BufferedReader: reduce_file,
    io.BufferedWriter: reduce_file,
    io.BufferedRandom: reduce_file,
    io.FileIO: reduce_file,
    _thread.LockType: reduce_lock,
    type(threading.RLock()): reduce_rlock,
    concurrent.futures.ThreadPoolExecutor: reduce_pool,
    concurrent.futures.Future: reduce_future,
    logging.Logger: reduce_logger,
    logging.RootLogger: reduce_logger,
}


def register(writer: GraphWriter) -> None:
    """Teach `writer` the rebuilders of this module."""
    writer.handlers.update(REBUILT)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "memmap"):
        writer.handlers[numpy.memmap] = reduce_memmap
    tqdm: Any = sys.modules.get("tqdm.utils")
    if tqdm is not None and hasattr(tqdm, "DisableOnWriteError"):
        writer.handlers[tqdm.ObjectWrapper] = reduce_tqdm_wrapper
        writer.handlers[tqdm.DisableOnWriteError] = reduce_tqdm_wrapper
