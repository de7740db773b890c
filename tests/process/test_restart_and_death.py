"""Restarts, shutdowns and deaths around a pause: nothing looks recovered that is fresh."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.protocol import CheckpointOrder
from jupyter_gkews.launching import PausedProcess

from .notebook import until


async def test_a_restart_of_a_paused_kernel_is_fresh(open_notebook, jp_fetch):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 1")
    await notebook.pause()
    notebook.provisioner.auto_resume = True
    ended: list[str] = []
    notebook.provisioner.on_pause_ended = ended.append
    waiting = page.run("x")
    await until(notebook.provisioner.clients.cell_waits)
    response = await jp_fetch(
        "api",
        "kernels",
        notebook.kernel_id,
        "restart",
        method="POST",
        allow_nonstandard_methods=True,
    )
    assert response.code == 200
    assert ended == ["restart"]
    assert (await page.finished(waiting)).reply == {"status": "aborted"}
    await page.hears_the_kernel()
    ran = await page.result("'x' in globals()")
    assert ran.text == "False"
    assert ran.reply["execution_count"] == 1
    await notebook.ready()
    await notebook.pause()
    await notebook.resume()


async def test_a_restart_after_a_resume_does_not_load_the_checkpoint_again(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 1")
    await notebook.pause()
    await notebook.resume()
    await notebook.app.kernel_manager.restart_kernel(notebook.kernel_id)
    await page.hears_the_kernel()
    assert (await page.result("'x' in globals()")).text == "False"


async def test_a_paused_kernel_can_be_shut_down(open_notebook, jp_fetch):
    notebook = await open_notebook()
    await notebook.pause()
    ended: list[str] = []
    notebook.provisioner.on_pause_ended = ended.append
    ports, run_dir = list(notebook.km.ports), notebook.provisioner.run_dir
    response = await jp_fetch("api", "kernels", notebook.kernel_id, method="DELETE")
    assert response.code == 204
    assert ended == ["shutdown"]
    assert not run_dir.exists()
    for port in ports:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((notebook.km.ip, port))


async def test_interrupting_a_paused_kernel_is_harmless(open_notebook, jp_fetch):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 3")
    await notebook.pause()
    response = await jp_fetch(
        "api",
        "kernels",
        notebook.kernel_id,
        "interrupt",
        method="POST",
        allow_nonstandard_methods=True,
    )
    assert response.code == 204
    await notebook.resume()
    assert (await page.result("x")).text == "3"


async def test_an_interrupt_ends_the_cells_that_wait_for_the_resume(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 3")
    await notebook.pause()
    first, second = page.run("x = 4"), page.run("x = 5")
    await until(lambda: notebook.provisioner.clients.held() == 2)
    resuming = asyncio.ensure_future(notebook.resume())
    await until(lambda: notebook.provisioner.phase == "resuming")
    await notebook.km.interrupt_kernel()
    ran = await page.finished(first)
    assert ran.error["ename"] == "KeyboardInterrupt"
    assert (await page.finished(second)).reply == {"status": "aborted"}
    await resuming
    assert (await page.result("x")).text == "3"


async def test_a_thief_cannot_take_the_ports_of_a_paused_kernel(open_notebook):
    notebook = await open_notebook()
    await notebook.pause()
    for port in notebook.km.ports:
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                thief.bind((notebook.km.ip, port))
                thief.listen()
    await notebook.resume()


@pytest.fixture
def jp_server_config():
    return {"KernelRestarter": {"time_to_dead": 0.3}}


async def test_a_kernel_that_crashes_is_restarted_fresh_after_a_resume(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 1")
    await notebook.pause()
    await notebook.resume()
    launch, died = notebook.provisioner.launch, asyncio.Event()
    notebook.provisioner.on_died = died.set
    os.kill(notebook.provisioner.hello.pid, signal.SIGKILL)
    await asyncio.wait_for(died.wait(), 60)
    await until(lambda: notebook.provisioner.launch != launch)
    await notebook.ready()
    await page.hears_the_kernel()
    assert (await page.result("'x' in globals()")).text == "False"


async def test_a_kernel_that_dies_in_a_checkpoint_is_restarted_fresh(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(
        "import os, signal\n"
        "class Deadly:\n"
        "    def __reduce__(self): os.kill(os.getpid(), signal.SIGKILL)\n"
        "x = Deadly()"
    )
    launch = notebook.provisioner.launch
    with pytest.raises(GkewsError) as caught:
        await notebook.pause()
    assert caught.value.reason == "kernel_died"
    assert "SIGKILL" in caught.value.message
    assert notebook.provisioner.phase == "running"
    await until(lambda: notebook.provisioner.launch != launch)
    await notebook.ready()
    await page.hears_the_kernel()
    assert (await page.result("'x' in globals()")).text == "False"


async def test_a_kernel_killed_while_it_holds_is_not_taken_for_paused(open_notebook):
    notebook = await open_notebook()
    launch = notebook.provisioner.launch
    await notebook.client.wait_idle(30, then_hold=True)
    order = CheckpointOrder(uuid.uuid4().hex, uuid.uuid4().hex, hold=True)
    await notebook.client.checkpoint(order)
    assert (await notebook.client.ping())["holding"] == order.operation
    os.kill(notebook.provisioner.hello.pid, signal.SIGKILL)
    await until(lambda: not notebook.provisioner.process_alive())
    with pytest.raises(GkewsError) as caught:
        await notebook.provisioner.stop_for_pause()
    assert caught.value.reason == "kernel_died"
    notebook.provisioner.release()
    assert notebook.provisioner.phase == "running"
    await until(lambda: notebook.provisioner.launch != launch)


async def test_a_kernel_that_dies_while_it_loads_stays_paused(open_notebook, tmp_path):
    notebook = await open_notebook()
    page = await notebook.browser()
    switch = tmp_path / "die"
    await page.result(
        "class Deadly:\n"
        "    def __init__(self): self.state = 'alive'\n"
        "    def __setstate__(self, state):\n"
        "        import os, signal\n"
        f"        if os.path.exists({str(switch)!r}): os.kill(os.getpid(), signal.SIGKILL)\n"
        "        self.__dict__.update(state)\n"
        "x = Deadly()"
    )
    await notebook.pause()
    notebook.provisioner.on_died = lambda: pytest.fail("a resume is not a death")
    switch.touch()
    with pytest.raises(GkewsError) as caught:
        await notebook.resume()
    assert caught.value.reason == "kernel_died"
    assert notebook.provisioner.phase == "paused"
    assert await notebook.km.is_alive()
    switch.unlink()
    await notebook.resume()
    assert (await page.result("x.state")).text == "'alive'"


async def test_a_restart_in_the_middle_of_a_resume_is_fresh(open_notebook, tmp_path):
    notebook = await open_notebook()
    page = await notebook.browser()
    switch, loading = tmp_path / "slow", tmp_path / "loading"
    await page.result(
        "class Slow:\n"
        "    def __init__(self): self.state = 1\n"
        "    def __setstate__(self, state):\n"
        "        import os, time\n"
        f"        if os.path.exists({str(switch)!r}):\n"
        f"            open({str(loading)!r}, 'w').close(); time.sleep(60)\n"
        "        self.__dict__.update(state)\n"
        "x = Slow()"
    )
    await notebook.pause()
    switch.touch()
    resuming = asyncio.ensure_future(notebook.resume())
    cell = page.run("x")
    await until(loading.exists)
    ended: list[str] = []
    notebook.provisioner.on_pause_ended = ended.append
    await notebook.app.kernel_manager.restart_kernel(notebook.kernel_id)
    with pytest.raises(GkewsError) as caught:
        await resuming
    assert caught.value.reason == "kernel_died"
    assert ended == ["restart"]
    assert notebook.provisioner.phase == "running"
    assert (await page.finished(cell)).reply == {"status": "aborted"}
    await page.hears_the_kernel()
    assert (await page.result("'x' in globals()")).text == "False"


async def test_a_cell_sent_while_the_checkpoint_is_taken_runs_if_the_pause_fails(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await notebook.client.wait_idle(30, then_hold=True)
    order = CheckpointOrder(uuid.uuid4().hex, uuid.uuid4().hex, hold=True)
    await notebook.client.checkpoint(order)
    cell = page.run("'it ran'")
    await until(notebook.provisioner.clients.cell_waits)
    await notebook.client.release(order.operation)
    notebook.provisioner.release()
    assert (await page.finished(cell)).text == "'it ran'"


async def test_a_cell_sent_while_the_checkpoint_is_taken_asks_for_a_resume(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 8")
    asked = asyncio.Event()
    notebook.provisioner.on_run_requested = asked.set
    await notebook.client.wait_idle(30, then_hold=True)
    cell = page.run("x")
    await until(notebook.provisioner.clients.cell_waits)
    await notebook.pause()
    await asyncio.wait_for(asked.wait(), 60)
    await notebook.resume()
    assert (await page.finished(cell)).text == "8"


async def test_cells_queued_before_the_pause_run_before_the_checkpoint(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("import time; ran = []")
    cells = [page.run(f"time.sleep(0.2); ran.append({n})") for n in range(4)]
    await until(lambda: notebook.provisioner.clients.outstanding)
    await notebook.pause()
    for cell in cells:
        assert (await page.finished(cell)).reply["status"] == "ok"
    await notebook.resume()
    assert (await page.result("ran")).text == "[0, 1, 2, 3]"


async def test_waiting_for_a_busy_kernel_ends_with_the_timeout_and_changes_nothing(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    cell = page.run("import time; time.sleep(60)")
    await until(lambda: not notebook.client.is_idle())
    with pytest.raises(GkewsError) as caught:
        await notebook.client.wait_idle(0.5, then_hold=True)
    assert caught.value.reason == "kernel_busy"
    assert notebook.provisioner.phase == "running"
    await notebook.km.interrupt_kernel()
    assert (await page.finished(cell)).error["ename"] == "KeyboardInterrupt"


async def test_a_kernel_born_paused_has_no_process_until_it_is_resumed(open_notebook):
    first = await open_notebook()
    page = await first.browser()
    await page.result("x = 'kept'")
    await first.pause()
    kernel_id = str(uuid.uuid4())
    launch = first.app.kernel_manager.gkews_launch
    launch.born_paused[kernel_id] = PausedProcess(kernel_info=first.provisioner.kernel_info)
    second = await open_notebook(kernel_id=kernel_id, ready=False)
    assert second.provisioner.phase == "paused"
    assert second.provisioner.process is None
    assert await second.km.is_alive()
    new_page = await asyncio.wait_for(second.browser(), 60)
    info = new_page.send("kernel_info_request", {})
    assert (await new_page.finished(info)).reply["implementation"] == "ipython"
    second.checkpoint = first.checkpoint
    cell = new_page.run("x")
    await second.resume()
    assert (await new_page.finished(cell)).text == "'kept'"


async def test_an_interrupt_while_the_checkpoint_is_taken_cancels_the_pause(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(
        "class Slow:\n"
        "    def __getstate__(self):\n"
        "        import time; time.sleep(30); return {}\n"
        "x = Slow()"
    )
    pausing = asyncio.ensure_future(notebook.pause())
    await until(lambda: notebook.provisioner.phase == "held")
    await until(lambda: notebook.provisioner.kernel_info is not None)
    while not pausing.done():
        await notebook.km.interrupt_kernel()  # the first may come before the checkpoint begins
        await asyncio.wait([pausing], timeout=0.5)
    with pytest.raises(GkewsError) as caught:
        await pausing
    assert caught.value.reason == "cancelled"
    assert notebook.provisioner.phase == "running"
    assert (await page.result("1 + 1")).text == "2"


async def test_a_cancelled_checkpoint_leaves_the_kernel_running(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(
        "class Slow:\n"
        "    def __getstate__(self):\n"
        "        import time; time.sleep(0.05); return {}\n"
        "for n in range(400): globals()[f'slow{n}'] = Slow()"
    )
    await notebook.client.wait_idle(30, then_hold=True)
    order = CheckpointOrder(uuid.uuid4().hex, uuid.uuid4().hex, hold=True)
    steps: list[str] = []
    taking = asyncio.ensure_future(
        notebook.client.checkpoint(order, lambda progress: steps.append(progress.step))
    )
    await until(lambda: steps)
    await notebook.client.cancel(order.operation)
    with pytest.raises(GkewsError) as caught:
        await taking
    assert caught.value.reason == "cancelled"
    notebook.provisioner.release()
    assert (await page.result("n")).text == "399"


async def test_a_port_that_was_taken_ends_the_resume_with_the_reason(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 1")
    await notebook.pause()
    notebook.provisioner._ports.release()
    await asyncio.sleep(0)
    port = notebook.km.shell_port
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind((notebook.km.ip, port))
        thief.listen()
        await notebook.provisioner.hold_ports()
        with pytest.raises(GkewsError) as caught:
            await notebook.resume()
        assert caught.value.reason == "restore_failed"
        assert str(port) in caught.value.message
        assert notebook.provisioner.phase == "paused"
    await notebook.resume()
    assert (await page.result("x")).text == "1"


async def test_the_server_sees_that_the_first_cell_after_a_resume_is_busy(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await notebook.pause()
    cell = page.run("import time; print('begun', flush=True); time.sleep(30)")
    await notebook.resume()
    await until(lambda: notebook.km.execution_state == "busy")
    await until(lambda: "begun" in page.so_far(cell).stdout)  # an interrupt before ends no cell
    await notebook.km.interrupt_kernel()
    await page.finished(cell)
    await until(lambda: notebook.km.execution_state == "idle")
