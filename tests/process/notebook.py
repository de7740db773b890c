"""One kernel of the test server, paused and resumed in the order of docs/architecture.md."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.protocol import CheckpointOrder, Restored, RestoreOrder
from jupyter_gkews.kernel_client import KernelClient
from jupyter_gkews.provisioning import PausableProvisioner, StoppedProcess

from .browser import V1, Browser


class Notebook:
    """A kernel with its provisioner and client, and the browsers that look at it."""

    def __init__(self, app: Any, port: int, kernel_id: str) -> None:
        self.app, self.port, self.kernel_id = app, port, kernel_id
        self.km = app.kernel_manager.get_kernel(kernel_id)
        provisioner = self.km.provisioner
        assert isinstance(provisioner, PausableProvisioner)
        self.provisioner = provisioner
        self.client = KernelClient(self.km, provisioner)
        self.checkpoint = ""
        self.browsers: list[Browser] = []

    async def browser(self, *, protocol: str | None = V1, opened: bool = True) -> Browser:
        """Another tab on this kernel."""
        base = self.app.base_url.rstrip("/")
        url = f"ws://127.0.0.1:{self.port}{base}/api/kernels/{self.kernel_id}/channels"
        browser = Browser(url, self.app.identity_provider.token, protocol=protocol)
        self.browsers.append(browser)
        return await browser.open() if opened else browser

    async def ready(self) -> None:
        """Until the kernel side has said hello."""
        await until(lambda: self.provisioner.hello is not None)

    async def pause(self) -> StoppedProcess:
        """Checkpoint, then stop the process."""
        await self.client.wait_idle(30, then_hold=True)
        operation, checkpoint = uuid.uuid4().hex, uuid.uuid4().hex
        order = CheckpointOrder(operation, checkpoint, hold=True)
        try:
            summary = await self.client.checkpoint(order)
            stopped = await self.provisioner.stop_for_pause()
        except BaseException:
            with contextlib.suppress(GkewsError):
                await self.client.release(operation)
            self.provisioner.release()
            raise
        self.checkpoint = summary["id"]
        return stopped

    async def resume(self) -> Restored:
        """Start the process, load the checkpoint, go on."""
        order = RestoreOrder(self.checkpoint, uuid.uuid4().hex)
        try:
            await self.provisioner.start_for_resume(order)
            restored = await self.client.restored(order, self.provisioner.launch)
            await self.client.ping()
        except GkewsError as error:
            await self.provisioner.resume_failed(error)
            raise
        await self.provisioner.resumed()
        return restored

    async def close(self) -> None:
        """End browsers, client and kernel."""
        for browser in self.browsers:
            await browser.close()
        self.client.close()
        if self.kernel_id in self.app.kernel_manager:
            self.km.stop_restarter()
            await until(self.km.ready.done)  # Jupyter cannot end one that is just being restarted
            await self.app.kernel_manager.shutdown_kernel(self.kernel_id, now=True)


async def until(condition: Any, timeout_s: float = 40) -> None:
    """Wait until `condition()` holds: for facts that announce themselves to nobody."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), timeout_s)
