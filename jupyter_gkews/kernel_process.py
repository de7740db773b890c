"""Which process a kernel really is (a wrapper may stand before it), and whether we may stop it.

Reads the kernel's hello; never starts a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from .errors import GkewsError
from .kernel.protocol import (
    ENV_RUN_DIR,
    HELLO_FILE,
    PROTOCOL,
    STARTUP_ERROR_FILE,
    Hello,
    read_json,
)

#: Seconds within which a started kernel normally says hello; before, it counts as starting.
HELLO_TIMEOUT_S = 60.0
#: Seconds that a process may take to vanish after SIGKILL (big mappings take a while to unmap).
GONE_TIMEOUT_S = 30.0


class KernelProcess:
    """The process behind one launch of a kernel, known from its hello."""

    def __init__(self, run_dir: Path, launch: str) -> None:
        self.run_dir = run_dir
        self.launch = launch
        self.launched_at = time.monotonic()
        self.process: psutil.Process | None = None
        self.foreign = False  # not ours to stop: a container, another user, another host
        self._hello: Hello | None = None

    @property
    def hello(self) -> Hello | None:
        """What the kernel side said of itself in this launch; None while it has not."""
        if self._hello is None:
            data = read_json(self.run_dir / HELLO_FILE)
            if data and data.get("launch") == self.launch:
                known = {key: data[key] for key in Hello.__dataclass_fields__ if key in data}
                try:
                    self._hello = Hello(**known)
                except TypeError:
                    return None
                self._find(self._hello.pid)
        return self._hello

    def _find(self, pid: int) -> None:
        """The environment tells our process from another one that has the same pid elsewhere."""
        try:
            process = psutil.Process(pid)
            if process.environ().get(ENV_RUN_DIR) == str(self.run_dir):
                self.process = process
            else:
                self.foreign = True
        except (psutil.Error, OSError):
            self.foreign = True

    @property
    def runs(self) -> bool:
        """Whether this very process still runs; True while it is not known. A zombie does not."""
        if self.process is None:
            return True
        try:
            return self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def kill(self) -> None:
        """SIGKILL to the kernel's own process, if it is known to be ours."""
        if self.process is not None:
            with contextlib.suppress(psutil.Error):
                self.process.kill()

    def why_not_pausable(self, name: str) -> GkewsError | None:
        """Why this process cannot be paused; None if it can. `name` is the kernel's for a user."""
        if sys.platform == "win32":
            return GkewsError(
                "not_pausable",
                "Pausing does not work on Windows yet.",
                "A server in WSL or in a container can pause its kernels.",
            )
        hello = self.hello
        if hello is None:
            return self._why_no_hello(name)
        if self.foreign:
            return GkewsError(
                "not_pausable",
                f"{name} runs its process where this server cannot stop it "
                "(a container, another user or another host).",
                "Start the Jupyter server next to the kernel to pause it.",
            )
        if hello.protocol != PROTOCOL:
            return GkewsError(
                "not_pausable",
                f"{name} speaks another version of the protocol ({hello.protocol}).",
                "Restart the kernel.",
            )
        return None

    def _why_no_hello(self, name: str) -> GkewsError:
        try:
            problem = (self.run_dir / STARTUP_ERROR_FILE).read_text(encoding="utf-8").strip()
        except OSError:
            problem = ""
        if problem:
            return GkewsError(
                "not_pausable",
                f"The kernel side of jupyter_gkews could not be loaded: {problem}",
                "The kernel works as without jupyter_gkews, but cannot be paused.",
            )
        if time.monotonic() - self.launched_at < HELLO_TIMEOUT_S:
            return GkewsError(
                "kernel_starting", f"{name} is starting.", "Try again when it is ready."
            )
        return GkewsError(
            "not_pausable",
            f"{name} did not load the kernel side of jupyter_gkews "
            "(is it ipykernel on Python 3.9 or newer?).",
            "It works as without jupyter_gkews, but cannot be paused.",
        )


async def until_gone(process: subprocess.Popen[bytes], kernel: KernelProcess | None) -> None:
    """Wait until a process that was sent SIGKILL has ended, and the kernel behind it, which is
    killed if a wrapper hid it from the signal. Raises internal if they do not end."""
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while True:
        wrapper_gone = process.poll() is not None
        kernel_gone = kernel is None or kernel.process is None or not kernel.runs
        if wrapper_gone and kernel_gone:
            return
        if wrapper_gone and kernel:
            kernel.kill()  # the wrapper had put it into a session of its own
        if time.monotonic() > deadline:
            raise GkewsError(
                "internal",
                f"The kernel's process did not end within {GONE_TIMEOUT_S:.0f} s.",
                "The checkpoint is complete. Restart the kernel and restore it from there.",
            )
        await asyncio.sleep(0.005)


def how_it_ended(status: int | None) -> str:
    """An exit status in words, with a space before: " (SIGKILL; often: out of memory)"."""
    if status is None:
        return ""
    if status >= 0:
        return f" (exit status {status})"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f" ({name}; often: out of memory)" if name == "SIGKILL" else f" ({name})"
