"""Lets the n-th change of a store's files be the last thing that a process does, or fail.

Used in the process itself (`armed`), and in servers and kernels that a test starts: `site_folder`
makes a sitecustomize.py of this file, which obeys the order that lies in a file. Only the standard
library: it is loaded into processes that have nothing of ours.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.chmod")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

ENV_ORDER = "GKEWS_TEST_FAULT_ORDER"

_hook: Callable[[], None] | None = None
_root = ""
_watching = False


def _changes(event: str, args: tuple[Any, ...]) -> bool:
    if event == "open":
        path, _, flags = args
        if not isinstance(flags, int) or not flags & _WRITES:
            return False
    elif event in _CHANGES:
        path = args[0]
    else:
        return False
    return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(_root)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    hook = _hook
    if hook is not None and _changes(event, args):
        hook()


def watch(root: Path | str, hook: Callable[[], None] | None) -> None:
    """Call `hook` before each change below `root`, and before each write or sync of any file."""
    global _hook, _root, _watching
    _root, _hook = str(root), hook
    if _watching:
        return
    _watching = True
    sys.addaudithook(_audit)
    for name in ("write", "fsync", "pwrite"):
        _wrap(name)


def _wrap(name: str) -> None:
    original = getattr(os, name)

    def called(fd: int, *args: Any) -> Any:
        hook = _hook
        if hook is not None and _is_below(fd):
            hook()
        return original(fd, *args)

    setattr(os, name, called)


def _is_below(fd: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(_root)
    except OSError:
        return False


class Steps:
    """Counts the changes; at number `at` it dies, or fails with `error`."""

    def __init__(self, at: int, error: int | None = None) -> None:
        self.at, self.error, self.count = at, error, 0

    def __call__(self) -> None:
        self.count += 1
        if self.count != self.at:
            return
        if self.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self.error, os.strerror(self.error or errno.EIO))


@contextlib.contextmanager
def armed(root: Path | str, at: int, error: int | None = None) -> Iterator[Steps]:
    """Within it, change number `at` below `root` fails with `error`, or kills this process."""
    steps = Steps(at, error)
    watch(root, steps)
    try:
        yield steps
    finally:
        watch(root, None)


def dies_at(root: Path | str, at: int, work: Callable[[], Any]) -> bool:
    """Whether `work`, in a process of its own, was killed at change number `at`."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with armed(root, at):
                work()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return False


# ---- in the processes that a test starts ----


def site_folder(folder: Path) -> Path:
    """A folder for PYTHONPATH whose sitecustomize.py is this file."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "sitecustomize.py")
    return folder


def _role() -> str:
    said = " ".join(sys.orig_argv)
    if "ipykernel_launcher" in said:
        return "kernel"
    return "server" if "jupyter_server" in said else "other"


def _obey(order_file: str) -> None:
    role, seen = _role(), {"id": None, "count": 0, "looking": False}

    def hook() -> None:
        if seen["looking"]:
            return
        seen["looking"] = True
        try:
            with open(order_file, encoding="utf-8") as file:
                order = json.load(file)
        except (OSError, ValueError):
            return
        finally:
            seen["looking"] = False
        if order["role"] != role:
            return
        if order["id"] != seen["id"]:
            seen.update(id=order["id"], count=0)
        seen["count"] = int(seen["count"] or 0) + 1
        if seen["count"] == order["at"]:
            for pid in order["also"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    with open(order_file + ".root", encoding="utf-8") as file:
        watch(file.read(), hook)


if __name__ == "sitecustomize" and os.environ.get(ENV_ORDER) and _role() != "other":
    _obey(os.environ[ENV_ORDER])
