"""The kernel's handle on its scratch process, which is kept between saves: its imports are done.

One a kernel. It is given up when what it has imported may no longer be what a new process would
import, and it ends by itself when nothing was asked for some minutes or memory gets short. It
knows nothing of checkpoints.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

from .. import plain_json as json
from .. import pure_python
from . import safetensors_files

#: Seconds without a sign of life after which the process is given up.
SILENCE_S = 180.0
#: Seconds after which a process of which nothing was asked ends.
IDLE_S = 300.0
#: Set while it imports, where the user has not set them, for libraries that start threads when
#: they are imported: those of matrices, and pyarrow (pandas imports it), whose allocator has one
#: that gives memory back. A process with threads cannot be forked.
_ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}

#: Where each has a folder to write to, the only one; that for temporary files if None. Whoever
#: ends this process by force removes it.
FOLDER: str | None = None
#: The scratch processes of this kernel: children that are not the user's.
PIDS: set[int] = set()


def _surroundings() -> dict[str, Any]:
    """What an import may depend on. The process is good only for the very same."""
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    return {
        "sys_path": [path for path in sys.path if isinstance(path, str)],
        "pure_python": pure_python.folders(),
        "watching": safetensors_files.watching(),
        "environ": dict(os.environ),
        "cwd": cwd,
    }


class Zygote:
    """One scratch process: imports `modules` at once, then answers orders (scratch.py). `own`: what
    is recorded of those that are the user's (own_imports.py)."""

    def __init__(self, modules: list[str], own: Mapping[str, Any] | None = None) -> None:
        self.made_for = _surroundings()
        self.kernel = os.getpid()
        script = Path(__file__).with_name("scratch.py")
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        environ = dict(self.made_for["environ"])
        self._folder = tempfile.mkdtemp(prefix="gkews-scratch-", dir=FOLDER)
        borrowed = [name for name in _ONE_THREAD if name not in environ]
        environ.update({name: _ONE_THREAD[name] for name in borrowed})
        environ.update({"CUDA_VISIBLE_DEVICES": "", "JUPYTER_GKEWS_SCRATCH": "1"})
        environ.pop("PYTHONSTARTUP", None)
        try:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(their_in), str(their_out), self._folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(their_in, their_out),
                env=environ,
                start_new_session=True,  # an interrupt of the kernel is not for it
            )
        except OSError:
            os.close(self._out)
            os.close(self._in)
            os.rmdir(self._folder)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)
        self.pid = self._process.pid
        PIDS.add(self.pid)
        self.status: int | None = None
        """How the last child ended, or the process itself; negative: by this signal."""
        self._buffer = b""
        self._errors = b""
        first = {key: self.made_for[key] for key in ("sys_path", "pure_python", "watching")}
        self.say(
            {**first, "borrowed": borrowed, "modules": modules, "own": own or {}, "idle_s": IDLE_S}
        )

    def good(self) -> bool:
        """Whether it lives, and a new process would import the same."""
        return (
            self.kernel == os.getpid()
            and self._process.poll() is None
            and self.made_for == _surroundings()
        )

    def say(self, order: dict[str, Any]) -> None:
        """Send an order."""
        data = (json.dumps(order) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            return  # seen as the end of its answers

    def answers(self, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
        """Its answers to one order, until it ended or fell silent. `check` is called often and
        may raise."""
        while True:
            answer = self._answer(check)
            if answer is None:
                return
            if "ended" in answer:
                self.status = int(answer["ended"])
                return
            yield answer

    def _answer(self, check: Callable[[], None]) -> dict[str, Any] | None:
        assert self._process.stderr is not None
        errors = self._process.stderr.fileno()
        sources = [self._in, errors]
        deadline = time.monotonic() + SILENCE_S
        while b"\n" not in self._buffer:
            check()
            ready, _, _ = select.select(sources, [], [], 0.1)
            if errors in ready:
                said = os.read(errors, 65536)
                self._errors = (self._errors + said)[-65536:]
                if not said:
                    sources.remove(errors)
            if self._in in ready:
                data = os.read(self._in, 1 << 20)
                if not data:
                    self.status = self._process.wait()
                    return None
                self._buffer += data
                deadline = time.monotonic() + SILENCE_S
            elif time.monotonic() > deadline:
                self.close()
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {}

    @property
    def last_words(self) -> str:
        """The last line that it, or what it ran, wrote to stderr."""
        return self._errors.decode("utf-8", "replace").strip().split("\n")[-1]

    def close(self) -> None:
        """End it, and what it has forked."""
        if self.kernel != os.getpid():  # a fork of the kernel: it is not ours
            return
        for fd in (self._out, self._in):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._out = self._in = -1
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, 9)
        self.status = self._process.wait()
        PIDS.discard(self.pid)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._process.stderr is not None:
            self._process.stderr.close()


_kept: Zygote | None = None
_lock = threading.Lock()


def take(modules: list[str], own: Mapping[str, Any]) -> Zygote:
    """The process that was kept, if it is still good; else a new one, which begins to import."""
    global _kept
    with _lock:
        found, _kept = _kept, None
    if found is not None:
        if found.good():
            return found
        found.close()
    return Zygote(modules, own)


def keep(zygote: Zygote) -> None:
    """Give a process back for the next save."""
    global _kept
    with _lock:
        other, _kept = _kept, zygote
    if other is not None:
        other.close()


def end() -> None:
    """End the process that is kept, if there is one."""
    global _kept
    with _lock:
        found, _kept = _kept, None
    if found is not None:
        found.close()


def kept_pid() -> int | None:
    """The process id of the one that is kept."""
    return _kept.pid if _kept is not None else None


atexit.register(end)
