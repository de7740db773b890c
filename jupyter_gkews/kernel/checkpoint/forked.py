"""A forked image of this process: its memory as it was at one moment, while the process goes on.

Work that needs only bytes runs in it and reports through a pipe. The image runs no code of the
user's, leaves nothing behind, holds nothing open, and never outlives the process it is an image of.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any, Callable

from ...errors import GkewsError

fcntl: Any = None
resource: Any = None
libc: Any = None
with contextlib.suppress(ImportError, OSError):  # not POSIX: no image can be made there
    import fcntl as _fcntl
    import resource as _resource

    fcntl, resource = _fcntl, _resource
    # Loaded here: in the image nothing is loaded any more.
    libc = ctypes.CDLL(None, use_errno=True)

#: Seconds without progress after which an image is given up: one that waits for a lock which a
#: thread of the process held waits for ever.
STALL_S = 120.0
#: Seconds between two looks at whether a save was cancelled.
LOOK_S = 0.1
#: How much the image gives way to the user's cells (nice).
NICE = 5
_TELL_S = 0.1
_PIPE = 1 << 20
_PR_SET_PDEATHSIG = 1
_F_SETPIPE_SZ = 1031
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, _MREMAP_MAYMOVE_FIXED = 3, 0x22, 3

#: `work(check, progress)`: `check()` is to be called often, `progress(done, total)` may be.
Work = Callable[[Callable[[], None], Callable[[int, int], None]], "dict[str, Any]"]
Ranges = Sequence["tuple[int, int]"]

#: The images that are at work now, by process id: they are not child processes of the user's.
AT_WORK: set[int] = set()


class ImageLostError(Exception):
    """The image ended or fell silent before it had done its work. The message is a clause."""


class Image:
    """One forked image. Made on the thread whose moment counts; the rest on any thread."""

    def __init__(self, work: Work, shared: Ranges = ()) -> None:
        """Fork. `shared`: ranges (start, end) of pages that are shared with other processes; they
        are copied before this returns, since a fork does not keep their state. Raises OSError."""
        self._in, out = os.pipe()
        self._buffer = b""
        main = threading.current_thread() is threading.main_thread()
        started = time.perf_counter()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(out, _F_SETPIPE_SZ, _PIPE)
            parent = os.getpid()
            with warnings.catch_warnings():
                # What Python 3.12 warns of is what this module is careful about.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
                if self.pid == 0:
                    _live(work, shared, out, parent, main)
        except OSError:
            os.close(self._in)
            raise
        finally:
            os.close(out)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        AT_WORK.add(self.pid)
        self.fork_s = time.perf_counter() - started
        if shared:
            select.select([self._in], [], [])  # its first word, or its end

    def outcome(
        self, check: Callable[[], None], progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """What `work` returned; the image ends by itself then, which `end` waits for: the system
        takes a while to take its memory apart. Raises what `check` raises, the GkewsError of the
        work, and ImageLostError; the image is gone then."""
        silent, last = 0.0, None
        done = False
        try:
            while True:
                check()
                answer = self._answer()
                if answer is None:
                    # Counted by looks, not by the clock: a cell that keeps the interpreter to
                    # itself, or a suspended machine, is no fault of the image's.
                    silent += LOOK_S
                    if silent > STALL_S:
                        raise ImageLostError(f"it made no progress for {STALL_S:.0f} s")
                elif "progress" in answer:
                    if answer["progress"] != last:
                        silent, last = 0.0, answer["progress"]
                        progress(*last)
                    else:
                        silent += _TELL_S
                        if silent > STALL_S:
                            raise ImageLostError(f"it made no progress for {STALL_S:.0f} s")
                elif "error" in answer:
                    raise GkewsError.from_json(answer["error"])
                elif "failed" in answer:
                    raise ImageLostError(str(answer["failed"]))
                elif "result" in answer:
                    done = True
                    return dict(answer["result"])
        finally:
            if not done:
                self.end()

    def _answer(self) -> dict[str, Any] | None:
        """The next answer, or None if there is none yet."""
        if b"\n" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], LOOK_S)
            if not ready:
                return None
            data = os.read(self._in, 1 << 20)
            if not data:
                raise ImageLostError(f"it ended{self._how()}")
            self._buffer += data
            if b"\n" not in self._buffer:
                return {}
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {}

    def _how(self) -> str:
        for _ in range(100):
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                break  # reaped by somebody else
            if pid:
                AT_WORK.discard(self.pid)
                if os.WIFSIGNALED(status):
                    return f" by signal {os.WTERMSIG(status)}"
                return f" with exit status {os.WEXITSTATUS(status)}"
            time.sleep(0.01)
        return ""

    def end(self) -> None:
        """End it, whatever it does. May be called again."""
        deadline = time.monotonic() + 5.0
        killed = False
        while self.pid in AT_WORK:
            try:
                # Asked first: a process id that was waited for may be another process's already.
                pid, _ = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    break
                if not killed:
                    os.kill(self.pid, signal.SIGKILL)
                    killed = True
            except (ChildProcessError, ProcessLookupError):
                break
            if time.monotonic() > deadline:
                break  # in the hands of a disk that does not answer; it has been told to end
            time.sleep(0.005)
        AT_WORK.discard(self.pid)
        if self._in >= 0:
            os.close(self._in)
            self._in = -1


# ---- within the image ----


def _live(work: Work, shared: Ranges, out: int, parent: int, main: bool) -> None:
    """All that an image ever does. Does not return."""
    code = 1
    try:
        gc.disable()  # no finalizer of the user's objects runs here
        _become_quiet(out, parent, main)
        for start, end in shared:
            _keep(start, end)
        _say(out, {"ready": True})
        told = 0.0

        def check() -> None:
            if os.getppid() != parent:
                os._exit(1)

        def progress(done: int, total: int) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _TELL_S:
                told = now
                _say(out, {"progress": [done, total]})

        try:
            _say(out, {"result": work(check, progress)})
        except GkewsError as error:
            _say(out, {"error": error.to_json()})
        except BaseException as error:
            _say(out, {"failed": f"it failed with {type(error).__name__}: {error}"})
        code = 0
    finally:
        os._exit(code)  # no handler at exit, no buffer of a file written a second time


def _become_quiet(out: int, parent: int, main: bool) -> None:
    """Out of the process's groups and files: nothing is held open, no signal but the end."""
    if main and libc is not None and sys.platform.startswith("linux"):
        # Of the thread that forked, so only where that is the main one; else `check` notices.
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()  # an interrupt of the kernel's group, or a look for its processes, is not for it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != out:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(int(name))
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        # If memory runs out, it is the image that has to go, not the user's kernel.
        adjust = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(adjust, b"1000")
        os.close(adjust)


def _keep(start: int, end: int) -> None:
    """Replace shared pages by a private copy of them at the same place. Raises OSError."""
    nbytes = end - start
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    fresh = libc.mmap(
        None,
        ctypes.c_size_t(nbytes),
        _PROT_READ_WRITE,
        _MAP_PRIVATE_ANONYMOUS,
        -1,
        ctypes.c_long(0),
    )
    if fresh in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for a copy of shared memory")
    ctypes.memmove(fresh, start, nbytes)
    size, place = ctypes.c_size_t(nbytes), ctypes.c_void_p(start)
    moved = libc.mremap(ctypes.c_void_p(fresh), size, size, _MREMAP_MAYMOVE_FIXED, place)
    if moved != start:
        raise OSError(ctypes.get_errno(), "shared memory could not be copied")


def _say(out: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(out, data) :]
