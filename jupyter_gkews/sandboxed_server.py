"""The half of the extension that is there when the whole server lives in a sandbox.

Answers whoever runs the sandbox on a unix socket that only they can reach: what stands in the way
of a snapshot, checkpoints first, hanging up so that no output is lost; and hears that it was
restored. Decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .after_restore import hang_up
from .errors import GkewsError
from .kernel import preflight
from .lifecycle.requests import PauseRequest
from .lifecycle.service import Lifecycle

#: The socket of this module, there.
SOCKET = "server"
#: How often objections are looked for before they count, and seconds between.
LOOKS = 3
LOOK_AGAIN_S = 0.3
#: Seconds for which a checkpoint waits for a kernel's cells.
IDLE_S = 1.0

Answer = dict[str, Any]
_MORE = "The server runs on; its log says more."


class SandboxedServer:
    """Answers one JSON line a connection: {"do": action} -> {...} or {"error": {...}}."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        info: Callable[[], dict[str, Any]],
        told: Callable[[str], object],
        log: logging.Logger,
    ) -> None:
        self._lifecycle, self._info, self._told, self._log = lifecycle, info, told, log
        self._server: asyncio.Server | None = None

    async def start(self, folder: Path) -> None:
        """Listen in `folder`."""
        path = folder / SOCKET
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, ValueError):
                asked = json.loads(await reader.readline())
                writer.write(json.dumps(await self._answer(asked)).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> Answer:
        actions = {
            "info": self._tell,
            "checkpoint": self._checkpoint,
            "preflight": self._preflight,
            "hang_up": self._hang_up,
            "resumed": self._resumed,
        }
        try:
            return await actions[asked["do"]](asked)
        except GkewsError as error:
            return {"error": error.to_json()}
        except Exception as error:
            self._log.exception("The sandbox could not be answered")
            internal = GkewsError("internal", f"{type(error).__name__}: {error}", _MORE)
            return {"error": internal.to_json()}

    async def _tell(self, asked: dict[str, Any]) -> Answer:
        """{"url", "token", "port", "base_url", "root_dir" ...}: as the server's info file."""
        del asked
        return {"info": self._info()}

    async def _checkpoint(self, asked: dict[str, Any]) -> Answer:
        """Write a checkpoint of every idle kernel.

        {"written": [{"kernel", "checkpoint"}], "left": [{"kernel", "path", "why"}]}: those that are
        left go on with the snapshot alone.
        """
        began, written, left = [], [], []
        for kernel in self._lifecycle.kernels():
            about = {"kernel": kernel["id"], "path": kernel["path"]}
            if kernel["state"] == "paused":
                continue
            why = kernel["why_not"]["message"] if kernel["why_not"] else ""
            if not why:
                try:
                    request = PauseRequest(when="idle", timeout_s=IDLE_S)
                    began.append((about, self._lifecycle.checkpoint(kernel["id"], request)))
                    continue
                except GkewsError as error:
                    why = error.message
            left.append({**about, "why": why})
        for about, operation in began:
            await self._lifecycle.book.get(operation.id).finished.wait()
            if operation.error is None and operation.result is not None:
                written.append({**about, "checkpoint": operation.result.checkpoint})
            else:
                left.append({**about, "why": operation.error.message if operation.error else ""})
        return {"written": written, "left": left}

    async def _preflight(self, asked: dict[str, Any]) -> Answer:
        """{"objections": [{"what", "reason", "hint"}], "unasked": [paths or ids]}.

        Looked at again a few times if there are any: a file that is open while a module is
        imported, say, is soon closed.
        """
        for _ in range(LOOKS - 1):
            answer = await self._look()
            if not answer["objections"]:
                return answer
            await asyncio.sleep(LOOK_AGAIN_S)
        return await self._look()

    async def _look(self) -> Answer:
        found, unasked, answered = [], [], []
        for entry in self._lifecycle.roster.all():
            if entry.state == "paused":
                continue
            name = self._lifecycle.roster.describe(entry.id)["path"] or entry.id
            try:
                on = self._lifecycle.roster.subject(entry.id)
                told = await on.talk.preflight()
            except (GkewsError, asyncio.TimeoutError):
                unasked.append(name)
                continue
            found += [
                {"what": f"{each.what} ({name})", "reason": each.reason, "hint": each.hint}
                for each in told.objections
            ]
            if on.process.hello is not None:
                answered.append(on.process.hello.pid)
        return {"objections": [*preflight.objections(answered), *found], "unasked": unasked}

    async def _hang_up(self, asked: dict[str, Any]) -> Answer:
        """Close the browsers' kernel sockets, so that what kernels say is kept for them;
        {"closed": how many}."""
        del asked
        return {"closed": hang_up()}

    async def _resumed(self, asked: dict[str, Any]) -> Answer:
        """Whoever runs the sandbox has restored it."""
        del asked
        self._told("whoever runs the sandbox says that it was restored")
        return {}
