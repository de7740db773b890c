"""The lock of a store: saves and loads share it, whoever removes chunks holds it alone.

By flock on a file of the store, so that it ends with the process that holds it, however that
ends. It protects nothing where a file system has no locks: then nothing is removed either.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any = None
with contextlib.suppress(ImportError):  # not POSIX
    fcntl = importlib.import_module("fcntl")

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


@contextmanager
def shared(root: Path, *, write: bool = True) -> Iterator[None]:
    """Hold the store's lock together with others; waits while chunks are being removed.

    Raises OSError if `write` and the lock cannot be made; else (a read-only store, to load from)
    what cannot be locked is used without.
    """
    fd = -1
    try:
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        try:
            fd = os.open(root / "lock", flags | _CLOEXEC, 0o600)
        except OSError:
            if write:
                raise
        if fd >= 0:
            _flock(fd, "LOCK_SH")
        yield
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def alone(root: Path) -> Iterator[bool]:
    """Hold the store's lock alone; False at once if anybody else has it, or nobody can.

    Raises OSError if the file of the lock cannot be made.
    """
    fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | _CLOEXEC, 0o600)
    try:
        yield _flock(fd, "LOCK_EX", "LOCK_NB")
    finally:
        os.close(fd)


def wait_alone(fd: int) -> None:
    """Wait for the lock of an open file, to hold it alone until it is closed, if there are any."""
    _flock(fd, "LOCK_EX")


def _flock(fd: int, *kinds: str) -> bool:
    if fcntl is None:
        return False
    operation = 0
    for kind in kinds:
        operation |= getattr(fcntl, kind)
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True
