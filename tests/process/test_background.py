"""A checkpoint in a real kernel while its cells go on, and everything that may get in its way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from pathlib import Path

import psutil
import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.protocol import CheckpointOrder

from .notebook import Notebook, until

#: In the kernel: images write nothing before the file is there; `forked` for what else a test sets.
GATE = """
import time as _time, os as _os
from jupyter_gkews.kernel.checkpoint import background as _background, forked as _forked
def _when_open(*args, check, _real=_background.store_bytes, **kwargs):
    while not _os.path.exists({path!r}):
        check()
        _time.sleep(0.01)
    return _real(*args, check=check, **kwargs)
_background.store_bytes = _when_open
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


async def with_gate(open_notebook, gate: Path):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(GATE.format(path=str(gate)))
    return notebook, page


def images(notebook: Notebook) -> list[psutil.Process]:
    """The images of the kernel that are at work: children that are no program of their own."""
    kernel = psutil.Process(notebook.provisioner.hello.pid)
    command = kernel.cmdline()
    found = []
    for child in kernel.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # one that is ending
            if child.cmdline() == command:
                found.append(child)
    return found


async def the_image(notebook: Notebook) -> psutil.Process:
    """The one. A program that the kernel starts looks like an image until it has begun."""
    await until(lambda: len(images(notebook)) == 1)
    return images(notebook)[0]


def order() -> CheckpointOrder:
    return CheckpointOrder(uuid.uuid4().hex, uuid.uuid4().hex, background=True)


async def captured(notebook: Notebook) -> tuple[CheckpointOrder, asyncio.Future, dict]:
    """A checkpoint by the server, once its state is captured."""
    wanted, told = order(), asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(
        notebook.client.checkpoint(wanted, on_captured=lambda got: told.set_result(got))
    )
    done, _ = await asyncio.wait((task, told), timeout=40, return_when=asyncio.FIRST_COMPLETED)
    assert told in done, task.exception() if task.done() else "not captured in time"
    return wanted, task, told.result()


def shown(page, cell: str) -> str:
    """What the display of a cell says at last."""
    said = [
        message["content"]["data"]["text/plain"]
        for message in page.messages
        if message["parent_header"].get("msg_id") == cell
        and message["header"]["msg_type"] in ("display_data", "update_display_data")
    ]
    return said[-1] if said else ""


async def test_cells_run_while_it_is_written_and_it_holds_the_moment_of_the_capture(
    open_notebook, gate
):
    notebook, page = await with_gate(open_notebook, gate)
    await page.result("import numpy as np\nx = np.arange(2_000_000)\ny = {'n': 1}")
    cell = page.run("%checkpoint then\ny['n'] = 2; x ^= -1")
    await page.finished(cell)
    assert "go on working" in shown(page, cell)
    assert images(notebook)
    # other cells, and another checkpoint in the same kernel
    assert (await page.result("x[0], y['n']")).text == "(np.int64(-1), 2)"
    again = page.run("%checkpoint")
    await page.finished(again)
    said = [
        message["content"]["text"]
        for message in page.messages
        if message["parent_header"].get("msg_id") == again
        and message["header"]["msg_type"] == "stream"
    ]
    assert "is still being written" in "".join(said)
    assert "is being written" in (await page.result("%gkews")).text
    gate.touch()
    await until(lambda: "1 lost" in shown(page, cell) or "0 lost" in shown(page, cell))
    assert shown(page, cell).startswith("Checkpoint 'then'")
    await until(lambda: not images(notebook))
    (found,) = (Path(notebook.app.kernel_manager.gkews_launch.store) / "checkpoints").iterdir()
    await notebook.pause()
    notebook.checkpoint = found.name
    await notebook.resume()
    assert (await page.result("int(x[0]), int(x[-1]), y['n']")).text == "(0, 1999999, 1)"


async def test_an_interrupt_is_for_the_cell_and_not_for_the_checkpoint(open_notebook, gate):
    notebook, page = await with_gate(open_notebook, gate)
    await page.result("x = bytes(3_000_000)")
    _, task, _ = await captured(notebook)
    cell = page.run("import time; print('begun', flush=True); time.sleep(60)")
    await until(lambda: "begun" in page.so_far(cell).stdout)
    await notebook.km.interrupt_kernel()
    assert (await page.finished(cell)).error["ename"] == "KeyboardInterrupt"
    gate.touch()
    summary = await asyncio.wait_for(task, 60)
    assert summary["note"] is None and summary["blocked_s"] < 30


async def test_a_cancel_ends_what_would_never_end_and_the_kernel_goes_on(open_notebook, gate):
    notebook, _ = await with_gate(open_notebook, gate)
    wanted, task, _ = await captured(notebook)
    await notebook.client.cancel(wanted.operation)
    with pytest.raises(GkewsError) as caught:
        await asyncio.wait_for(task, 60)
    assert caught.value.reason == "cancelled"
    assert not images(notebook)
    assert not list(
        (Path(notebook.app.kernel_manager.gkews_launch.store) / "checkpoints").iterdir()
    )
    gate.touch()
    _, task, _ = await captured(notebook)
    assert (await asyncio.wait_for(task, 60))["counts"]["lost"] == 0


@pytest.mark.parametrize("how", ["killed", "hangs"])
async def test_if_the_image_is_lost_it_is_taken_again_when_no_cell_runs_and_says_so(
    open_notebook, gate, how
):
    notebook, page = await with_gate(open_notebook, gate)
    await page.result("x = 'at the capture'; import time; _forked.STALL_S = 60")
    _, task, _ = await captured(notebook)
    stall = "_forked.STALL_S = 0.5; " if how == "hangs" else ""
    cell = page.run(f"print('begun', flush=True); {stall}time.sleep(2); x = 'after the cell'")
    if how == "killed":
        await until(lambda: "begun" in page.so_far(cell).stdout)  # else it is taken before the cell
        (await the_image(notebook)).kill()
    summary = await asyncio.wait_for(task, 60)
    assert (await page.finished(cell)).error is None
    why = "by signal 9" if how == "killed" else "no progress"
    assert why in summary["note"] and "instead of" in summary["note"]
    await notebook.pause()
    notebook.checkpoint = summary["id"]
    await notebook.resume()
    assert (await page.result("x")).text == "'after the cell'"


async def test_a_pause_meanwhile_waits_for_it_and_holds_the_later_state(open_notebook, gate):
    notebook, page = await with_gate(open_notebook, gate)
    await page.result("x = 1")
    _, task, _ = await captured(notebook)
    await page.result("x = 2")
    pausing = asyncio.ensure_future(notebook.pause())
    await asyncio.sleep(0.5)
    assert not pausing.done()
    gate.touch()
    first = await asyncio.wait_for(task, 60)
    await asyncio.wait_for(pausing, 60)
    assert notebook.checkpoint != first["id"]
    await notebook.resume()
    assert (await page.result("x")).text == "2"


async def test_a_pause_that_waits_takes_it_again_itself_if_the_image_is_lost(open_notebook, gate):
    notebook, page = await with_gate(open_notebook, gate)
    _, task, _ = await captured(notebook)
    pausing = asyncio.ensure_future(notebook.pause())
    await asyncio.sleep(0.3)  # now the main thread waits for the very checkpoint that needs it
    (await the_image(notebook)).kill()
    assert "by signal 9" in (await asyncio.wait_for(task, 60))["note"]
    await asyncio.wait_for(pausing, 60)
    await notebook.resume()
    assert (await page.result("1 + 1")).text == "2"


@pytest.mark.parametrize("end", ["kill", "restart", "shutdown"])
async def test_nothing_stays_behind_when_the_kernel_ends_meanwhile(open_notebook, gate, end):
    notebook, _ = await with_gate(open_notebook, gate)
    _, task, _ = await captured(notebook)
    image = await the_image(notebook)
    if end == "kill":
        os.kill(notebook.provisioner.hello.pid, signal.SIGKILL)
    elif end == "restart":
        await notebook.km.restart_kernel()
    else:
        await notebook.app.kernel_manager.shutdown_kernel(notebook.kernel_id)
    with pytest.raises(GkewsError) as caught:
        await asyncio.wait_for(task, 40)
    assert caught.value.reason in ("kernel_died", "kernel_unreachable")
    await until(lambda: not image.is_running() or image.status() == psutil.STATUS_ZOMBIE)
    store = Path(notebook.app.kernel_manager.gkews_launch.store)
    assert all(path.name.startswith(".") for path in (store / "checkpoints").iterdir())


async def test_where_it_is_switched_off_the_kernel_waits_and_says_why(open_notebook, pausable_app):
    pausable_app.kernel_manager.gkews_launch.background = False
    notebook = await open_notebook()
    page = await notebook.browser()
    ran = await page.result("%checkpoint")
    assert "waited for it because GkewsApp.checkpoint_in_background is off" in ran.text
    assert "It was blocked for" in ran.text
    ran = await page.result("%checkpoint --wait")
    assert "blocked" not in ran.text and ran.text.startswith("Checkpoint (")


#: In the kernel: hashes of the file are made early, however small it is; all of them, in time.
EARLY = """
import mmap as _mmap, numpy as _np
from jupyter_gkews.kernel.checkpoint import chunks as _chunks, early_hashes as _early
from jupyter_gkews.kernel.checkpoint import known as _known, safetensors_files as _files
from safetensors.numpy import save_file as _save_file
_early.LEAST, _chunks.cores, _files.NOT_DURABLE = 1, lambda: 2, ()
_save_file({{"w": _np.arange(1_000_000)}}, {path!r})
_files.note({path!r})
def _mapped():
    with open({path!r}, "rb") as file:
        memory = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_COPY)
    return _np.frombuffer(memory, "i8", 1_000_000, len(memory) - 8_000_000)
w = _mapped()
_known_early = []
def _end(self, _real=_early.EarlyHashes.end):
    if self._process is not None:
        self._process.wait(60)
    _real(self)
    _known_early.append(_known.KNOWN.get(w.ctypes.data, w.nbytes) is not None)
_early.EarlyHashes.end = _end
"""


async def test_weights_in_a_file_are_hashed_before_the_state_is_captured(open_notebook, tmp_path):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(EARLY.format(path=str(tmp_path / "model.safetensors")))
    _, task, _ = await captured(notebook)
    summary = await asyncio.wait_for(task, 60)
    assert summary["bytes"]["referenced"] == 8_000_000
    assert (await page.result("_known_early[0]")).text == "True"
    assert (await page.result("_early.PIDS")).text == "set()"
