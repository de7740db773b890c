"""A kernel in a gVisor sandbox under a real Jupyter server."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from gvisor_here import skip_without_runsc

from jupyter_gkews.kernel.protocol import CheckpointOrder

from .notebook import Notebook, until

PROVISIONER = "gkews-gvisor"


@pytest.fixture
def open_sandboxed(
    open_notebook: Any, add_kernelspec: Any, pausable_app: Any, tmp_path: Path
) -> Any:
    """`await open_sandboxed()`: a notebook whose kernel lives in a sandbox."""
    skip_without_runsc(tmp_path / "state")
    add_kernelspec("pausable", metadata={"kernel_provisioner": {"provisioner_name": PROVISIONER}})

    async def start() -> Notebook:
        return await open_notebook("pausable")

    return start


async def freeze(notebook: Notebook, image: Path) -> None:
    """As a pause does: a checkpoint, then the image, while the kernel is held."""
    await notebook.client.wait_idle(30, then_hold=True)
    order = CheckpointOrder(uuid.uuid4().hex, uuid.uuid4().hex, hold=True)
    notebook.checkpoint = (await notebook.client.checkpoint(order))["id"]
    notebook.operation = order.operation
    await notebook.provisioner.freeze(image)


async def thaw(notebook: Notebook, image: Path) -> None:
    """As a resume does."""
    await notebook.provisioner.thaw(image, reset=False)
    await notebook.client.release(notebook.operation)
    await notebook.provisioner.resumed()


async def test_a_frozen_kernel_goes_on_in_the_notebook(open_sandboxed: Any, tmp_path: Path) -> None:
    notebook = await open_sandboxed()
    page = await notebook.browser()
    pid = (
        await page.result("x = [1]; g = (i for i in range(9)); next(g)\nimport os; os.getpid()")
    ).text
    await freeze(notebook, tmp_path / "image")
    assert await notebook.provisioner.poll() is None and notebook.provisioner.phase == "paused"
    cell = page.run("print(os.getpid(), next(g), x)")
    await asyncio.sleep(0.3)
    await thaw(notebook, tmp_path / "image")
    assert (await page.finished(cell)).text.split() == [pid, "1", "[1]"]


async def test_a_sandboxed_kernel_resumes_from_its_checkpoint_too(open_sandboxed: Any) -> None:
    notebook = await open_sandboxed()
    page = await notebook.browser()
    await page.result("x = [1, 2]; y = x")
    await notebook.pause()
    assert notebook.provisioner.sandbox.pids() == set()
    restored = await notebook.resume()
    assert restored.status == "ok" and restored.kept >= 2
    assert (await page.result("y is x, x")).text == "(True, [1, 2])"


async def test_interrupt_restart_and_death_are_those_of_any_kernel(open_sandboxed: Any) -> None:
    notebook = await open_sandboxed()
    page = await notebook.browser()
    cell = page.run("import time; print('on'); time.sleep(60)")
    await until(lambda: "on" in page.so_far(cell).text)
    await notebook.km.interrupt_kernel()
    assert (await page.finished(cell)).error["ename"] == "KeyboardInterrupt"
    await page.result("x = 1")
    await notebook.km.restart_kernel()
    await until(lambda: notebook.provisioner.hello is not None)
    await page.hears_the_kernel()
    assert (await page.finished(page.run("x"))).error["ename"] == "NameError"
