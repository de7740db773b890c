"""Kinds of objects that no file can hold, each with a true sentence about why.

It only names; what can be rebuilt instead is in rebuilders/.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import subprocess
import tempfile
import threading
import types
from typing import Any

from .placeholders import Loss

_CANNOT = "it could not be kept"

#: type -> (what it is, why it cannot be kept). Looked up along the type's bases.
KINDS: dict[type, tuple[str, str]] = {
    types.GeneratorType: ("a generator", _CANNOT),
    types.CoroutineType: ("a coroutine", _CANNOT),
    types.AsyncGeneratorType: ("an async generator", _CANNOT),
    types.FrameType: ("an execution frame", _CANNOT),
    types.TracebackType: ("a traceback", _CANNOT),
    threading.Thread: ("a thread", "a thread ends with its process"),
    asyncio.AbstractEventLoop: ("an event loop", "an event loop ends with its process"),
    asyncio.Future: ("an asyncio future or task", "a task ends with its event loop"),
    subprocess.Popen: ("a child process", "a child process does not outlive the kernel"),
    socket.socket: ("a network connection", "a connection ends with its process"),
    tempfile._TemporaryFileWrapper: ("a temporary file", _CANNOT),
    concurrent.futures.Executor: ("a pool of workers", "its workers end with the process"),
}

#: The same for types of packages that may not be there, by module and name.
KINDS_BY_NAME: dict[tuple[str, str], tuple[str, str]] = {
    ("sqlite3", "Connection"): (
        "a database connection",
        "a connection ends with its process; what was committed is in the database: connect again",
    ),
    ("sqlite3", "Cursor"): (
        "a cursor of a database connection",
        "it ends with its connection: connect and run the query again",
    ),
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter"): (
        "an iterator of a DataLoader in mid-epoch",
        "its place in the data cannot be told; the DataLoader begins a new epoch with iter()",
    ),
}


def _known(cls: type) -> tuple[str, str] | None:
    for base in cls.__mro__:
        known = KINDS.get(base) or KINDS_BY_NAME.get((base.__module__, base.__qualname__))
        if known is not None:
            return known
    return None


def loss_for(obj: Any, problem: str | None = None) -> Loss:
    """The loss of `obj`: its known kind, or its type with `problem` as the reason."""
    cls = type(obj)
    known = _known(cls)
    if known is not None:
        return Loss(*known)
    name = (
        cls.__qualname__
        if cls.__module__ in ("builtins", "__main__")
        else (f"{cls.__module__}.{cls.__qualname__}")
    )
    article = "an" if name[:1].lower() in "aeiou" else "a"
    reason = f"{_CANNOT}: {problem}" if problem else _CANNOT
    return Loss(f"{article} {name}", reason)


def known_kind(cls: type) -> bool:
    """Whether objects of this class are of a kind that is never kept."""
    return _known(cls) is not None
