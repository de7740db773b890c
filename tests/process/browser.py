"""A notebook page, as far as the server can tell: one websocket to one kernel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

V1 = "v1.kernel.websocket.jupyter.org"


@dataclass
class Ran:
    """What came back for one request."""

    reply: dict[str, Any] = field(default_factory=dict)
    stdout: str = ""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    idle: bool = False

    @property
    def text(self) -> str:
        """The text of the last output, or what was printed."""
        if self.outputs:
            return str(self.outputs[-1]["data"]["text/plain"])
        return self.stdout.strip()


class Browser:
    """Sends requests and collects, request by request, all that comes back."""

    def __init__(self, url: str, token: str, *, protocol: str | None = V1) -> None:
        self.url, self.token, self.protocol = url, token, protocol
        self.session = uuid.uuid4().hex
        self.messages: list[dict[str, Any]] = []
        self._arrived = asyncio.Event()
        self._socket: WebSocketClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> Browser:
        query = urlencode({"session_id": self.session, "token": self.token})
        self._socket = await websocket_connect(
            HTTPRequest(f"{self.url}?{query}"),
            subprotocols=[self.protocol] if self.protocol else None,
        )
        self._reader = asyncio.ensure_future(self._read())
        return self

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._reader is not None:
            await self._reader
        self._socket = self._reader = None

    async def _read(self) -> None:
        assert self._socket is not None
        while (raw := await self._socket.read_message()) is not None:
            if self.protocol == V1:
                channel, parts = deserialize_msg_from_ws_v1(raw)
                names = ("header", "parent_header", "metadata", "content")
                message = {k: json.loads(p) for k, p in zip(names, parts, strict=False)}
                message["channel"] = channel
            else:
                message = json.loads(raw)
            self.messages.append(message)
            self._arrived.set()

    def send(self, msg_type: str, content: dict[str, Any], channel: str = "shell") -> str:
        """Send a request; returns its id."""
        msg_id = uuid.uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": msg_type,
            "username": "tester",
            "session": self.session,
            "date": "2026-01-01T00:00:00Z",
            "version": "5.3",
        }
        assert self._socket is not None
        if self.protocol == V1:
            parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
            name = channel.encode()
            offsets = [8 * (len(parts) + 3)]
            for part in (name, *parts):
                offsets.append(offsets[-1] + len(part))
            numbers = [len(offsets), *offsets]
            head = b"".join(n.to_bytes(8, "little") for n in numbers)
            self._socket.write_message(b"".join((head, name, *parts)), binary=True)
        else:
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
            self._socket.write_message(json.dumps({**message, "channel": channel, "buffers": []}))
        return msg_id

    def run(self, code: str, **content: Any) -> str:
        """Run a cell; returns its id at once."""
        return self.send(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "stop_on_error": True,
                **content,
            },
        )

    def so_far(self, msg_id: str) -> Ran:
        """What has come back for a request until now."""
        ran = Ran()
        for message in self.messages:
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                ran.stdout += content["text"]
            elif kind in ("execute_result", "display_data"):
                ran.outputs.append(content)
            elif kind == "error":
                ran.error = content
            elif kind == "status" and content["execution_state"] == "idle":
                ran.idle = True
            elif kind.endswith("_reply"):
                ran.reply = content
        return ran

    async def finished(self, msg_id: str, timeout_s: float = 40) -> Ran:
        """Wait for the reply and the idle status of a request."""

        async def wait() -> Ran:
            while not ((ran := self.so_far(msg_id)).reply and ran.idle):
                self._arrived.clear()
                await self._arrived.wait()
            return ran

        try:
            return await asyncio.wait_for(wait(), timeout_s)
        except asyncio.TimeoutError:
            raise AssertionError(f"no end of {msg_id}: {self.so_far(msg_id)}") from None

    async def hears_the_kernel(self) -> None:
        """After a restart: ask for the kernel info until iopub is back, as JupyterLab does."""
        for _ in range(100):
            msg_id = self.send("kernel_info_request", {}, "control")
            with contextlib.suppress(AssertionError):
                await self.finished(msg_id, 0.3)
                return
        raise AssertionError("iopub did not come back")

    async def result(self, code: str, timeout_s: float = 40) -> Ran:
        """Run a cell and wait for its end."""
        return await self.finished(self.run(code), timeout_s)
