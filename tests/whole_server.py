"""A whole Jupyter server in a sandbox, and a page of it, for the tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
from live_server import EXTENSIONS
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_gkews.engines.gvisor.server_sandbox import ServerPlan, ServerSandbox

TOKEN = "a-token-of-the-tests"


class Page:
    """A browser's kernel websocket, which comes back with the same session."""

    def __init__(self, server: OneServer, kernel: str) -> None:
        self._server, self._kernel = server, kernel
        self._session = uuid.uuid4().hex
        self._socket: WebSocketClientConnection | None = None
        self.lines: list[str] = []
        self.errors_shown: list[str] = []
        self.idle: set[str] = set()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def connect(self) -> None:
        self.close()
        port = self._server.sandbox.port
        self._socket = await websocket_connect(
            f"ws://127.0.0.1:{port}/api/kernels/{self._kernel}/channels"
            f"?session_id={self._session}&token={TOKEN}"
        )

    async def send(self, code: str) -> str:
        assert self._socket is not None
        message = uuid.uuid4().hex
        header = {"msg_id": message, "msg_type": "execute_request", "version": "5.3"}
        header |= {"username": "", "session": self._session, "date": ""}
        content = {"code": code, "silent": False, "store_history": True}
        await self._socket.write_message(
            json.dumps(
                {
                    "header": header,
                    "parent_header": {},
                    "metadata": {},
                    "content": content,
                    "channel": "shell",
                    "buffers": [],
                }
            )
        )
        return message

    async def read(self, until: Any) -> None:
        """Take what comes until `until()`, or until the connection ends."""
        assert self._socket is not None
        while not until():
            got = await asyncio.wait_for(self._socket.read_message(), 120)
            if got is None:
                return
            said = json.loads(got)
            if said["msg_type"] == "stream" and said["content"]["name"] == "stderr":
                self.errors_shown.append(said["content"]["text"])
            elif said["msg_type"] == "stream":
                self.lines += said["content"]["text"].split()
            elif said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
                self.idle.add(said["parent_header"].get("msg_id"))

    async def run(self, code: str) -> list[str]:
        self.lines.clear()
        self.errors_shown.clear()
        message = await self.send(code)
        await self.read(lambda: message in self.idle)
        return list(self.lines)


class OneServer:
    """A server of the tests in a sandbox."""

    def __init__(self, base: Path, **more: Any) -> None:
        self.pages: list[Page] = []
        self.home = base / "home"
        self.home.mkdir(parents=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "JPY_"))}
        env |= {"HOME": str(self.home), "JUPYTER_TOKEN": TOKEN, "IPYTHONDIR": "/tmp/ipython"}
        command = [sys.executable, "-m", "jupyter_server"]
        command += [f"--ServerApp.jpserver_extensions={EXTENSIONS}"]
        more.setdefault("store", str(base / "store"))
        self.plan = ServerPlan(command, str(self.home), env, [str(base)], **more)
        self.sandbox = ServerSandbox(base / "sandbox", self.plan)

    @property
    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.sandbox.port}",
            headers={"Authorization": f"token {TOKEN}"},
            trust_env=False,
            timeout=120,
        )

    async def get(self, path: str) -> Any:
        async with self.client as client:
            return (await client.get(path)).raise_for_status().json()

    async def page(self) -> Page:
        """A page with a kernel of its own."""
        async with self.client as client:
            kernel = (await client.post("/api/kernels", json={})).raise_for_status().json()["id"]
        page = Page(self, kernel)
        self.pages.append(page)
        await page.connect()
        return page
