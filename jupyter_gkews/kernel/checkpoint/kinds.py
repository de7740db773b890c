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
_STREAM = "what it holds of its stream cannot be read: begin the stream again"
_ENDS = "it ends with its process: make it again"
_CHILD = "a child process does not outlive the kernel"
_BETWEEN = "what processes share ends with them: make it again"
_SHARED = "it ends with the processes that share it: copy it before"
_CLIENT = "its connections end with the process: make it again"

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
    ("sqlite3", "Blob"): ("an open blob of a database", "it ends with its connection"),
    ("_hashlib", "HASH"): (
        "a hash in the middle of its input",
        "its state cannot be read: keep its digest, or feed it again",
    ),
    ("_hashlib", "HMAC"): ("a keyed hash", "its state cannot be read: feed it again"),
    ("zlib", "Compress"): ("a compressor", _STREAM),
    ("zlib", "Decompress"): ("a decompressor", _STREAM),
    ("_bz2", "BZ2Compressor"): ("a compressor", _STREAM),
    ("_bz2", "BZ2Decompressor"): ("a decompressor", _STREAM),
    ("_lzma", "LZMACompressor"): ("a compressor", _STREAM),
    ("_lzma", "LZMADecompressor"): ("a decompressor", _STREAM),
    ("select", "epoll"): ("a set of polled descriptors", _ENDS),
    ("select", "poll"): ("a set of polled descriptors", _ENDS),
    ("selectors", "_BaseSelectorImpl"): ("a selector", _ENDS),
    ("posix", "ScandirIterator"): ("a walk through a folder", "it is not finished: begin again"),
    ("_sre", "SRE_Scanner"): (
        "a scanner of a regular expression",
        "its place in the text cannot be read: begin it again",
    ),
    ("decimal", "ContextManager"): (
        "a decimal.localcontext that waits for its `with`",
        "the context that it would put back cannot be read: make it again",
    ),
    ("re", "Match"): ("a match of a regular expression", "Python cannot make one: match again"),
    ("multiprocessing.pool", "Pool"): (
        "a pool of processes",
        "its processes end with the kernel: make it again",
    ),
    ("multiprocessing.process", "BaseProcess"): ("a child process", _CHILD),
    ("multiprocessing.managers", "BaseManager"): ("a manager of shared objects", _CHILD),
    ("multiprocessing.managers", "BaseProxy"): ("an object in a manager's process", _CHILD),
    ("multiprocessing.queues", "Queue"): ("a queue between processes", _BETWEEN),
    ("multiprocessing.queues", "SimpleQueue"): ("a queue between processes", _BETWEEN),
    ("multiprocessing.shared_memory", "SharedMemory"): ("shared memory", _SHARED),
    ("multiprocessing.shared_memory", "ShareableList"): ("a list in shared memory", _SHARED),
    ("multiprocessing.synchronize", "SemLock"): ("a lock between processes", _BETWEEN),
    ("multiprocessing.connection", "_ConnectionBase"): ("a connection to a process", _BETWEEN),
    ("ssl", "SSLContext"): ("a TLS context", "it may hold private keys, which are not written"),
    ("httpx", "BaseClient"): ("an HTTP client", _CLIENT),
    ("httpx._client", "BaseClient"): ("an HTTP client", _CLIENT),
    ("aiohttp.client", "ClientSession"): ("an HTTP client", _CLIENT),
    ("tkinter", "Misc"): ("a window", "what is on a screen ends with its process"),
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
