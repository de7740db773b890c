"""The process that runs one sandboxed server: holds its port, pauses and stops it when asked.

Started as `python -m jupyter_gkews.engines.gvisor.server_host FOLDER start|resume [PORT]`, in a
session of its own; ends when the server is paused, is stopped or has ended. Asked on a unix socket
in the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from . import bundle, fitness
from .runsc import Runsc
from .server_folder import ServerFolder, ServerRecord, utcnow
from .server_sandbox import ServerSandbox

Answer = dict[str, Any]
_MORE = "The server in the sandbox is as it was, or ended with what was tried: its log says more."
#: Exit status where another process is at work on the server.
ANOTHER = 3


class ServerHost:
    """One server from a start or a resume to a pause or its end."""

    def __init__(self, folder: ServerFolder, port: int | None = None) -> None:
        self.folder = folder
        self.record: ServerRecord = folder.stored()
        self.port = self.record.port if port is None else port
        self.sandbox = ServerSandbox(folder.sandbox, folder.plan)
        self._runsc = Runsc(folder.sandbox / "runsc")
        self._done = asyncio.Event()
        self._busy = asyncio.Lock()
        self._answering: set[asyncio.Task[None]] = set()

    def note(self, **changes: Any) -> None:
        """Change the record."""
        self.record = self.folder.write(self.record, **changes)

    async def run(self, how: str) -> int:
        """Start or resume, then serve until there is nothing more to run."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self._done.set)
        self.note(state=f"{'start' if how == 'start' else 'resum'}ing", host_pid=os.getpid())
        try:
            await (self._start() if how == "start" else self._resume())
        except Exception as error:
            before = "failed" if how == "start" else "paused"
            self.note(state=before, error=_typed(error).to_json(), host_pid=0)
            return 1
        with self.folder.control() as path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            server = await asyncio.start_unix_server(self._serve, path)
            await self._until_done()
            server.close()
        await asyncio.gather(*self._answering, return_exceptions=True)
        return 0

    async def _until_done(self) -> None:
        ended = asyncio.ensure_future(self.sandbox.wait())
        done = asyncio.ensure_future(self._done.wait())
        await asyncio.wait({ended, done}, return_when=asyncio.FIRST_COMPLETED)
        async with self._busy:  # a pause ends the sandbox as well: its word counts
            done.cancel()
            ended.cancel()
            if self.record.state in ("running", "pausing"):
                status = self.sandbox.exit_status
                await self.sandbox.stop()
                self.note(state="ended", exit_status=status, host_pid=0)

    # ---- what it does ----

    async def _start(self) -> None:
        await self.sandbox.start(port=self.port)
        await self._runs()

    async def _resume(self) -> None:
        taken = (self.record.image or {}).get("environment") or {}
        mounted = bundle.mounted(self.folder.sandbox / "bundle")
        needed = {"folders": [self.folder.plan.cwd], "open": mounted}
        if (unfit := fitness.unfit(taken, needed, self._runsc, mounted)) is not None:
            raise unfit
        await self.sandbox.resume(self.folder.image, port=self.port)
        await self._runs()
        shutil.rmtree(self.folder.image, ignore_errors=True)

    async def _runs(self) -> None:
        url, token = f"http://{self.sandbox.ip}:{self.sandbox.port}/", ""
        with contextlib.suppress(GkewsError):  # a server without us runs, and cannot be paused
            info = await self.sandbox.info()
            url, token = url.rstrip("/") + info["base_url"], info["token"]
        self.note(
            state="running",
            port=self.sandbox.port,
            url=url,
            token=token,
            image=None,
            error=None,
        )

    async def pause(self, asked: Answer) -> Answer:
        """Write the image and end; see ServerSandbox.pause."""
        if self.record.state != "running":
            raise GkewsError("not_pausable", "The server does not run.", "Nothing was changed.")
        self.note(state="pausing")
        partial = self.folder.root / "image.partial"
        for leftover in (partial, self.folder.image):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            done = await self.sandbox.pause(partial, checkpoint=bool(asked.get("checkpoint", True)))
        except Exception as error:
            if self.sandbox.running:
                self.note(state="running", error=_typed(error).to_json())
            else:
                self.note(state="failed", error=_typed(error).to_json(), host_pid=0)
                self._done.set()
            raise
        os.rename(partial, self.folder.image)
        image = {
            "bytes": done.image_bytes,
            "created": utcnow(),
            "environment": fitness.environment(self._runsc),
        }
        self.note(state="paused", image=image, error=None, host_pid=0)
        self._done.set()
        return {
            "image_bytes": done.image_bytes,
            "released": done.released,
            "checkpoints": done.checkpoints,
            "left": done.left,
            "unasked": done.unasked,
        }

    async def stop(self, asked: Answer) -> Answer:
        """End the server."""
        del asked
        await self.sandbox.stop()
        self.note(state="ended", host_pid=0)
        self._done.set()
        return {}

    # ---- being asked ----

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._answering.add(task)
        try:
            with contextlib.suppress(OSError, ValueError):
                asked = json.loads(await reader.readline())
                writer.write(json.dumps(await self._answer(asked)).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()
            if task is not None:
                self._answering.discard(task)

    async def _answer(self, asked: Answer) -> Answer:
        actions: dict[str, Callable[[Answer], Awaitable[Answer]]] = {
            "pause": self.pause,
            "stop": self.stop,
        }
        try:
            if self._busy.locked():
                raise GkewsError(
                    "operation_running", f"The server is {self.record.state}.", "Wait for it."
                )
            async with self._busy:
                return await actions[asked["do"]](asked)
        except Exception as error:
            return {"error": _typed(error).to_json()}


def _typed(error: Exception) -> GkewsError:
    """As the record and the command line tell it; what nobody expected is in host.log."""
    if isinstance(error, GkewsError):
        return error
    traceback.print_exception(error)
    return GkewsError("internal", f"{type(error).__name__}: {error}", _MORE)


def main() -> int:
    """Run the host of the folder that is named."""
    folder, how = ServerFolder(Path(sys.argv[1])), sys.argv[2]
    port = int(sys.argv[3]) if len(sys.argv) > 3 else None
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with folder.held():
            return asyncio.run(ServerHost(folder, port).run(how))
    except GkewsError as error:
        print(error, file=sys.stderr)
        return ANOTHER


if __name__ == "__main__":
    sys.exit(main())
