"""Sandboxes of gVisor's runsc; skipped, with the reason, where it cannot run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gvisor_here import skip_without_runsc
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.connect import write_connection_file
from pytest_jupyter.jupyter_core import *  # noqa: F403  # its event loop for async tests
from whole_server import OneServer

from jupyter_gkews.engines.gvisor import bundle
from jupyter_gkews.engines.gvisor.outward import Outward
from jupyter_gkews.engines.gvisor.runsc import Runsc
from jupyter_gkews.engines.gvisor.sandbox import CHANNELS, Sandbox
from jupyter_gkews.kernel import sandboxed

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


class SandboxedKernel:
    """A kernel in a sandbox and a client of it, with nothing of Jupyter's server between."""

    def __init__(self, folder: Path, outward: Outward | None) -> None:
        self.folder = folder
        self.proxy = outward is not None
        self.sandbox = Sandbox(Runsc(folder / "runsc"), folder, outward)

    async def start(self, **environment: str) -> SandboxedKernel:
        """Start it and wait until it answers."""
        file, info = write_connection_file(str(self.folder / "outside.json"), ip="127.0.0.1")
        inside = {**info, "transport": "ipc", "ip": f"{bundle.SOCKETS}/k"}
        inside.update({name: number for number, name in enumerate(PORTS, 1)})
        key = inside["key"]
        inside["key"] = key.decode() if isinstance(key, bytes) else key
        (self.folder / "inside.json").write_text(json.dumps(inside))
        ports = {info[name]: channel for name, channel in zip(PORTS, CHANNELS, strict=True)}
        await self.sandbox.wire.listen("127.0.0.1", ports)
        command = [sys.executable, sandboxed.__file__, bundle.SOCKETS]
        command += ["-f", str(self.folder / "inside.json"), "--HistoryManager.enabled=False"]
        env = {**os.environ, "IPYTHONDIR": "/tmp/ipython", **environment}
        env.pop("JPY_PARENT_PID", None)
        await self.sandbox.start(
            bundle.Plan(command, str(self.folder), env, [str(self.folder)], self.proxy)
        )
        self.client = AsyncKernelClient(connection_file=file)
        self.client.load_connection_file()
        self.client.start_channels(hb=False)
        await self.client.wait_for_ready(timeout=60)
        return self

    async def run(self, code: str) -> str:
        """What a cell prints, or how it fails."""
        return await self.output_of(self.client.execute(code))

    async def output_of(self, message: str) -> str:
        """What the cell of this request prints until it is done."""
        said = ""
        while True:
            got = await asyncio.wait_for(self.client.get_iopub_msg(), 60)
            if got["parent_header"].get("msg_id") != message:
                continue
            content = got["content"]
            if got["msg_type"] == "stream":
                said += content["text"]
            elif got["msg_type"] == "error":
                said += f"{content['ename']}: {content['evalue']}"
            elif got["msg_type"] == "status" and content["execution_state"] == "idle":
                return said.strip()

    async def close(self) -> None:
        """End it."""
        if hasattr(self, "client"):
            self.client.stop_channels()
        await self.sandbox.end()
        await self.sandbox.wire.close()


@pytest.fixture
def runsc(tmp_path: Path) -> Runsc:
    """A runsc that works here."""
    return skip_without_runsc(tmp_path / "state")


@pytest.fixture
def sandboxed_kernel(runsc: Runsc, tmp_path: Path) -> Any:
    """`async with sandboxed_kernel() as kernel`: started, and ended whatever happens."""
    del runsc
    number = 0

    @asynccontextmanager
    async def open_kernel(
        outward: Outward | None = None, **environment: str
    ) -> AsyncIterator[SandboxedKernel]:
        nonlocal number
        number += 1
        folder = tmp_path / f"kernel-{number}"
        folder.mkdir(mode=0o700)
        kernel = SandboxedKernel(folder, outward)
        try:
            yield await kernel.start(**environment)
        finally:
            await kernel.close()

    return open_kernel


@pytest.fixture
def server_in_sandbox(runsc: Runsc, tmp_path: Path) -> Any:
    """`async with server_in_sandbox() as server`: it answers, and is ended whatever happens."""
    del runsc
    number = 0

    @asynccontextmanager
    async def start(**more: Any) -> AsyncIterator[OneServer]:
        nonlocal number
        number += 1
        server = OneServer(tmp_path / f"server-{number}", **more)
        try:
            await server.sandbox.start()
            yield server
        finally:
            for page in server.pages:
                page.close()
            await server.sandbox.stop()

    return start
