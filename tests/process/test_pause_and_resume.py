"""Stopping a kernel's process and starting it again, as its clients see it."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from jupyter_gkews.errors import GkewsError

from .browser import V1
from .notebook import until


async def test_a_kernel_says_hello_and_can_be_paused(open_notebook):
    notebook = await open_notebook()
    hello = notebook.provisioner.hello
    assert hello.pid == notebook.provisioner.process.pid
    assert notebook.provisioner.why_not_pausable() is None
    assert (await notebook.client.ping()) == {"status": "ok", "busy": False, "holding": None}


async def test_starting_up_leaves_nothing_in_the_users_namespace(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    ran = await page.result(
        "import os; print([n for n in globals() if 'gkews' in n or n == 'annotations'], __doc__, "
        "os.environ.get('PYTHONSTARTUP'), [k for k in os.environ if 'GKEWS' in k])"
    )
    ipythons = "Automatically created module for IPython interactive environment"
    assert ran.text == f"[] {ipythons} None []"


async def test_a_paused_kernel_has_no_process_and_holds_its_ports(open_notebook):
    notebook = await open_notebook()
    pid = notebook.provisioner.process.pid
    stopped = await notebook.pause()
    assert not psutil.pid_exists(pid)
    assert stopped.ram > 10_000_000
    assert notebook.provisioner.phase == "paused"
    assert await notebook.km.is_alive()
    with pytest.raises(GkewsError) as caught:
        await notebook.provisioner.resumed()
    assert caught.value.reason == "not_paused"


async def test_the_next_cell_finds_its_variables_and_the_count_goes_on(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = [1, 2, 3]; y = x\ndef f(): return x")
    await page.result("x")
    await notebook.pause()
    restored = await notebook.resume()
    assert restored.lost == []
    ran = await page.result("y is x, f() is x, Out[2] is x, _ is x, In[2], _i")
    assert ran.text == "(True, True, True, True, 'x', 'x')"
    assert ran.reply["execution_count"] == 3


@pytest.mark.parametrize("turns", [5, pytest.param(20, marks=pytest.mark.soak)])
async def test_many_fast_resumes_lose_no_output(open_notebook, turns):
    notebook = await open_notebook()
    page, other = await notebook.browser(), await notebook.browser(protocol=None)
    await page.result("n = 0")
    for turn in range(1, turns + 1):
        await notebook.pause()
        cells = [page.run("n += 1; print('n is', n)"), other.run("print('other')")]
        await notebook.resume()
        assert (await page.finished(cells[0])).stdout == f"n is {turn}\n"
        assert (await other.finished(cells[1])).stdout == "other\n"


async def test_running_a_cell_asks_for_a_resume_and_then_runs(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 41")
    await notebook.pause()
    asked = asyncio.Event()
    notebook.provisioner.on_run_requested = asked.set
    cell = page.run("x + 1")
    await asyncio.wait_for(asked.wait(), 60)
    await notebook.resume()
    assert (await page.finished(cell)).text == "42"


async def test_what_extensions_ask_does_not_wake_a_paused_kernel(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 1")
    await notebook.pause()
    asked: list[str] = []
    notebook.provisioner.on_run_requested = lambda: asked.append("run")
    hidden = page.run("x", silent=True)
    info = page.send("kernel_info_request", {})
    comms = page.send("comm_info_request", {})
    completion = page.send("complete_request", {"code": "x", "cursor_pos": 1})
    assert (await page.finished(info)).reply["language_info"]["name"] == "python"
    assert (await page.finished(comms)).reply == {"status": "ok", "comms": {}}
    assert (await page.finished(completion)).reply == {"status": "aborted"}
    assert asked == []
    await notebook.resume()
    assert (await page.finished(hidden)).reply["status"] == "ok"


@pytest.mark.parametrize("protocol", [V1, None])
async def test_a_paused_kernel_answers_its_control_channel_truthfully(open_notebook, protocol):
    notebook = await open_notebook()
    page = await notebook.browser(protocol=protocol)
    await notebook.pause()

    async def ask(msg_type, content):
        return (await page.finished(page.send(msg_type, content, "control"))).reply

    assert (await ask("interrupt_request", {}))["status"] == "ok"
    debug = await ask("debug_request", {"command": "debugInfo", "seq": 4, "type": "request"})
    assert (debug["success"], debug["request_seq"]) == (False, 4)
    assert "paused" in debug["message"]
    assert (await ask("shutdown_request", {"restart": False}))["status"] == "error"
    assert (await ask("usage_request", {}))["status"] == "aborted"
    assert notebook.provisioner.phase == "paused"


async def test_with_auto_resume_off_a_cell_is_refused_with_the_reason(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await notebook.pause()
    notebook.provisioner.auto_resume = False
    ran = await page.result("1")
    assert ran.reply["status"] == "error"
    assert "Click Resume" in ran.reply["evalue"]
    assert ran.error["ename"] == "KernelPaused"


async def test_a_page_opens_at_once_on_a_paused_kernel(open_notebook):
    notebook = await open_notebook()
    await (await notebook.browser()).result("x = 5")
    await notebook.pause()
    page = await asyncio.wait_for(notebook.browser(), 60)
    cell = page.run("x")
    await notebook.resume()
    assert (await page.finished(cell)).text == "5"


async def test_cells_of_a_closed_page_run_after_the_resume(open_notebook):
    notebook = await open_notebook()
    page, other = await notebook.browser(), await notebook.browser()
    await page.result("ran = []")
    await notebook.pause()
    page.run("ran.append(1)")
    await until(lambda: notebook.provisioner.clients.cell_waits())
    await page.close()
    await until(lambda: notebook.provisioner.clients.departed)
    await notebook.resume()
    await until(lambda: not notebook.provisioner.clients.departed)
    await notebook.client.wait_idle(10)
    assert (await other.result("ran")).text == "[1]"


async def test_a_page_that_comes_back_gets_the_output_of_its_waiting_cells(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 'waited'")
    await notebook.pause()
    cell = page.run("x")
    await until(lambda: notebook.provisioner.clients.cell_waits())
    await page.close()
    await until(lambda: notebook.provisioner.clients.departed)
    await page.open()
    await notebook.resume()
    assert (await page.finished(cell)).text == "'waited'"


async def test_a_failed_resume_answers_the_waiting_cells_and_stays_paused(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("x = 7")
    await notebook.pause()
    first, second = page.run("x"), page.run("x + 1")
    await until(lambda: notebook.provisioner.clients.held() == 2)
    good, notebook.checkpoint = notebook.checkpoint, "no-such-checkpoint"
    with pytest.raises(GkewsError) as caught:
        await notebook.resume()
    assert caught.value.reason == "checkpoint_not_found"
    ran = await page.finished(first)
    assert ran.error["evalue"] == str(caught.value)
    assert (await page.finished(second)).reply == {"status": "aborted"}
    assert notebook.provisioner.phase == "paused"
    notebook.checkpoint = good
    await notebook.resume()
    assert (await page.result("x")).text == "7"
