"""The lock of a store: saves and loads share it, whoever removes chunks holds it alone.

By flock on a file of the store, so that it ends with the process that holds it, however that
ends. It protects nothing where a file system has no locks: then nothing is removed either.

A lock that is taken inside a gVisor sandbox is not seen outside. There files stand for it: each
who shares the store from inside has one in `sharing/`, and whoever is alone outside has `alone`.
Each makes its own first and looks for the other's then, so that one of the two sees the other.
Whether the process behind such a file still lives, only who runs the sandbox can tell: it takes
them away (`marks`, `forget`). Here they are believed as long as the sandbox's folder is there.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any = None
with contextlib.suppress(ImportError):  # not POSIX
    fcntl = importlib.import_module("fcntl")

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)

#: Set inside a sandbox, to the name of its folder below the store's `sandboxes`.
ENV_SANDBOX = "JUPYTER_GKEWS_SANDBOX_NAME"
#: Seconds after which a file that nobody touches any more stands for nothing: outside, where the
#: holder touches it; inside, where the sandbox is none of this store's.
_STALE_ALONE_S = 60.0
_STALE_SHARING_S = 3600.0


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
        with _told_outside(root, write):
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
    mark = root / "alone"
    marked = False
    try:
        held = _flock(fd, "LOCK_EX", "LOCK_NB")
        if held and ENV_SANDBOX not in os.environ:
            _touch(mark)
            marked = True
            held = not _shared_inside(root)
        elif held:
            held = False  # nobody outside would know of it
        yield held
    finally:
        if marked:
            mark.unlink(missing_ok=True)
        os.close(fd)


def still_alone(root: Path) -> bool:
    """To be asked often by whoever is alone for long. False: it was not asked for so long that
    somebody inside may have gone on; nothing more may be removed then."""
    mark = root / "alone"
    try:
        age_s = time.time() - mark.stat().st_mtime
        if age_s > _STALE_ALONE_S / 12:
            if age_s > _STALE_ALONE_S / 2:
                return False
            os.utime(mark)
    except FileNotFoundError:
        return False
    return True


def marks(root: Path) -> dict[str, list[Path]]:
    """The files of those who share the store from inside, by the name of their sandbox."""
    found: dict[str, list[Path]] = {}
    with contextlib.suppress(FileNotFoundError):
        for mark in (root / "sharing").iterdir():
            found.setdefault(mark.name.partition(".")[0], []).append(mark)
    return found


def forget(root: Path, sandbox: str) -> None:
    """What the processes of a sandbox held, which have ended."""
    for mark in marks(root).get(sandbox, ()):
        mark.unlink(missing_ok=True)


@contextmanager
def _told_outside(root: Path, write: bool) -> Iterator[None]:
    """Inside a sandbox: let those outside know that the store is in use."""
    sandbox = os.environ.get(ENV_SANDBOX)
    if not sandbox:
        yield
        return
    mark = root / "sharing" / f"{sandbox}.{uuid.uuid4().hex}"
    try:
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        _touch(mark)
    except OSError:
        if write:
            raise
        yield
        return
    try:
        while _fresh(root / "alone", _STALE_ALONE_S):
            time.sleep(0.05)
        yield
    finally:
        mark.unlink(missing_ok=True)


def _shared_inside(root: Path) -> bool:
    """Whether a sandbox shares the store; what the ended ones have left is removed."""
    found = False
    for sandbox, files in marks(root).items():
        there = (root / "sandboxes" / sandbox).is_dir()
        for mark in files:
            if there or _fresh(mark, _STALE_SHARING_S):
                found = True
            else:
                mark.unlink(missing_ok=True)
    return found


def _touch(mark: Path) -> None:
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | _CLOEXEC, 0o600))
    os.utime(mark)


def _fresh(mark: Path, seconds: float) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < seconds
    except FileNotFoundError:
        return False


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
