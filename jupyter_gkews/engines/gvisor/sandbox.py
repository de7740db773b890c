"""One kernel in one sandbox: started, frozen to disk, restored, ended.

The order of a freeze is that of a safe release: the image is complete before the sandbox is
removed. Knows nothing of checkpoints of variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from ...errors import GkewsError
from ...kernel.checkpoint import chunks
from . import bundle, guest
from .causes import sentence
from .outward import Outward
from .runsc import Runsc, last_words, why_it_failed
from .wire import Wire, signal_frame

#: Seconds until the guest must have answered a PAUSE, and until a sandbox must be gone.
STILL_S = 20.0
GONE_S = 60.0
#: Seconds that a sandbox which ends by itself may take.
ENDS_S = 10.0
#: Channels of a kernel, in the order of its ports; zmq's ipc transport names sockets by them.
CHANNELS = ("k-1", "k-2", "k-3", "k-4", "k-5")

#: Bytes that must stay free on the disk besides an image.
MARGIN = 1 << 30


class Sandbox:
    """The sandbox of one kernel, below `folder` (0700), by one runsc."""

    def __init__(self, runsc: Runsc, folder: Path, outward: Outward | None = None) -> None:
        self.runsc = runsc
        self.folder = folder
        self.container = ""
        self.wire = Wire(self._log, outward.serve if outward else None)
        self.process: asyncio.subprocess.Process | None = None
        self._memory_file: str | None = None
        self._looked_in = 0  # the pid of the sandbox in which it was looked for

    @property
    def bundle_folder(self) -> Path:
        """The OCI bundle; a restore needs the one of the start."""
        return self.folder / "bundle"

    @property
    def running(self) -> bool:
        """Whether runsc's foreground process runs."""
        return self.process is not None and self.process.returncode is None

    @property
    def pid(self) -> int:
        """runsc's foreground process; 0 if there is none."""
        return self.process.pid if self.process is not None else 0

    def pids(self) -> set[int]:
        """Processes outside that hold what the sandbox holds."""
        return {process.pid for process in _processes(self.container)} if self.container else set()

    def memory(self) -> int | None:
        """Bytes of memory of the processes inside, files that they have mapped not counted; None if
        that is not known.

        runsc keeps all of it in one memory file of its sandbox process, whatever the platform.
        """
        if not self.container:
            return None
        if not _is_memory_file(self._memory_file):  # none yet, or of a life before
            if self._looked_in == self.pid:
                return None  # asked with every status: all processes are not looked through again
            self._looked_in = self.pid
            self._memory_file = _memory_file(_processes(self.container))
        try:
            return os.stat(self._memory_file).st_blocks * 512 if self._memory_file else None
        except OSError:  # it has just ended
            return None

    def _log(self, data: bytes) -> None:
        with open(os.open(self.folder / "output.log", _APPEND, 0o600), "ab") as file:
            file.write(data)

    # ---- start and end ----

    async def start(self, plan: bundle.Plan) -> int:
        """Start it; the kernel's pid inside. Raises GkewsError (`snapshot_failed`)."""
        bundle.write(self.bundle_folder, plan)
        await self._launch(lambda cid: self.runsc.run(self.bundle_folder, cid), resume=None)
        return self.wire.pid_inside

    async def _launch(self, command: Callable[[str], list[str]], resume: bytes | None) -> None:
        self.container = f"gkews-{uuid.uuid4().hex}"
        log = os.open(self.folder / "runsc.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self.process = await asyncio.create_subprocess_exec(
                *command(self.container),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            )
        finally:
            os.close(log)
        assert self.process.stdin is not None and self.process.stdout is not None
        await self.wire.attach(self.process.stdin, self.process.stdout, resume=resume)
        started = asyncio.create_task(self.wire.started.wait())
        gone = asyncio.create_task(self.wire.gone.wait())
        try:
            await asyncio.wait({started, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (started, gone):
                task.cancel()
        if not self.wire.started.is_set():
            await self.end()
            said = last_words((self.folder / "runsc.log").read_bytes())
            raise GkewsError(
                "snapshot_failed",
                why_it_failed(said) if resume is None else sentence(said),
                "The portable checkpoint is not touched by this.",
            )

    def send_signal(self, signum: int) -> None:
        """Deliver a signal to the kernel's process group, inside."""
        signal_frame(self.wire, signum)

    def ask_to_end(self) -> None:
        """Kill everything in it, without waiting."""
        self.wire.send(guest.END)

    async def end(self) -> None:
        """End everything in it, and wait until its memory is free."""
        await self.wire.detach()
        self.wire.hang_up()  # what the clients spoke with is gone
        if self.process is not None:
            await self._remove()

    async def _remove(self) -> None:
        """Delete the container; return when sandbox and gofer are gone.

        The sandbox ends by itself once it is saved, or once its stdin is closed. A `delete` that
        comes before that waits five seconds for nothing.
        """
        mine = await asyncio.to_thread(_processes, self.container)
        if self.process is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.process.wait()), ENDS_S)
        with contextlib.suppress(GkewsError, asyncio.TimeoutError):
            await self.runsc.delete(self.container)
        if self.process is not None and self.process.returncode is None:
            try:
                await asyncio.wait_for(self.process.wait(), GONE_S)
            except asyncio.TimeoutError:
                self.process.kill()
                await self.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, mine, GONE_S)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process = None

    # ---- freeze and restore ----

    async def freeze(self, image: Path) -> int:
        """Write the image (a new directory), durably, and end the sandbox; the image's bytes.

        Raises GkewsError (`snapshot_failed`): this runsc ends the sandbox when it fails.
        """
        try:
            await self.wire.freeze(STILL_S)
        except asyncio.TimeoutError:
            self.wire.thaw()
            raise GkewsError(
                "snapshot_failed",
                f"The sandbox was not still within {STILL_S:.0f} s.",
                "The kernel runs on.",
            ) from None
        image.mkdir(mode=0o700, parents=True)
        try:
            await self.runsc.checkpoint(self.container, image)
        except BaseException:
            shutil.rmtree(image, ignore_errors=True)
            await self.end()
            raise
        await self.wire.detach()
        removing = asyncio.ensure_future(self._remove())
        try:
            return await asyncio.to_thread(_durable, image)
        finally:
            await removing

    async def restore(self, image: Path, *, reset: bool = False) -> None:
        """Bring it back; `reset`: the clients of the freeze are another process's.

        Raises GkewsError (`snapshot_failed`); the image is kept.
        """
        await self._launch(
            lambda cid: self.runsc.restore(self.bundle_folder, cid, image),
            resume=b"reset" if reset else b"",
        )


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def _durable(image: Path) -> int:
    """Let the files of an image be on the disk; their bytes."""
    files = list(image.iterdir())
    for path in (*files, image, image.parent):
        chunks.fsync_file(path)
    return sum(path.stat().st_size for path in files)


def _memory_file(processes: list[psutil.Process]) -> str | None:
    for process in processes:
        folder = f"/proc/{process.pid}/fd"
        with contextlib.suppress(OSError):
            for number in os.listdir(folder):
                if _is_memory_file(f"{folder}/{number}"):
                    return f"{folder}/{number}"
    return None


def _is_memory_file(path: str | None) -> bool:
    try:
        return path is not None and os.readlink(path).startswith("/memfd:runsc-memory")
    except OSError:
        return False


def _processes(container: str) -> list[psutil.Process]:
    """runsc's own processes for one container: sandbox and gofer."""
    found = []
    for pid in psutil.pids():
        # read by ourselves: psutil takes ten times as long, and a pause asks several times
        with contextlib.suppress(OSError, psutil.Error):
            if container.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(psutil.Process(pid))
    return found


__all__ = ["CHANNELS", "MARGIN", "Sandbox"]
