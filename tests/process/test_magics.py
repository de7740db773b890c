"""The magics, in a real kernel of a real server."""

from __future__ import annotations

import asyncio
import time

import pytest

from jupyter_gkews.kernel.display import Table, human_bytes, human_seconds, local_time


async def test_pause_in_a_cell_asks_the_server_and_lets_the_cell_finish(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    events: asyncio.Queue[dict] = asyncio.Queue()
    notebook.client.subscribe(events.put_nowait)
    cell = page.run("%pause before lunch\nimport time; time.sleep(0.5); after = True")
    event = await asyncio.wait_for(events.get(), 60)
    assert event == {
        "event": "pause_requested",
        "when": "idle",
        "name": "before lunch",
        "prove": None,
        "compress": None,
    }
    await notebook.pause()
    ran = await page.finished(cell)
    assert "as soon as its cells have finished" in ran.stdout
    await notebook.resume()
    assert (await page.result("after")).text == "True"


async def test_checkpoint_saves_and_shows_what_it_kept(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    events: asyncio.Queue[dict] = asyncio.Queue()
    notebook.client.subscribe(events.put_nowait)
    await page.result("x = 1\ngen = (i for i in ())")
    ran = await page.result("%checkpoint --wait 'night run'")
    bundle = ran.outputs[-1]["data"]
    assert bundle["text/plain"].startswith("Checkpoint 'night run'")
    assert "gen" in bundle["text/plain"] and "[1]" in bundle["text/plain"]
    assert "<table>" in bundle["text/html"]
    event = await asyncio.wait_for(events.get(), 60)
    assert event["event"] == "checkpointed"
    assert event["checkpoint"]["counts"]["lost"] == 1
    ran = await page.result("%gkews")
    assert ran.text.startswith("Fresh")
    assert "Last checkpoint 'night run'" in ran.text


async def test_a_checkpoint_taken_within_a_cell_comes_back_after_that_cell(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    events: asyncio.Queue[dict] = asyncio.Queue()
    notebook.client.subscribe(events.put_nowait)
    await page.result("x = 'first'")
    await page.result("%checkpoint")
    await page.result("x = 'changed'")
    while (event := await asyncio.wait_for(events.get(), 20))["event"] != "checkpointed":
        assert event["event"] == "checkpointing"
    await notebook.pause()
    notebook.checkpoint = event["checkpoint"]["id"]
    await notebook.resume()
    ran = await page.result("x, In[2]")
    assert ran.text == "('first', \"get_ipython().run_line_magic('checkpoint', '')\")"
    assert ran.reply["execution_count"] == 3
    assert (await page.result("In[3]")).text == "'x, In[2]'"


async def test_survives_lists_every_variable_with_its_fate_and_cell(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("small = 1\nbig = bytes(5_000_000)\ngen = (i for i in ())")
    ran = await page.result("%survives")
    lines = {line.split()[0]: line for line in ran.text.splitlines() if line}
    assert "kept" in lines["big"] and "5 MB" in lines["big"]
    assert "lost" in lines["gen"] and "[1]" in lines["gen"]
    assert list(lines).index("big") < list(lines).index("small")
    table = await notebook.client.survives(20)
    fates = {v["name"]: v["fate"] for v in table["variables"]}
    assert fates == {"small": "kept", "big": "kept", "gen": "lost"}


async def test_after_a_resume_gkews_tells_what_came_back_and_a_lost_name_says_why(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("kept = 1\ngen = (i for i in ())")
    await notebook.pause()
    restored = await notebook.resume()
    assert [(each["name"], each["cell"]) for each in restored.lost] == [("gen", 1)]
    ran = await page.result("%gkews")
    assert ran.text.startswith("Recovered from checkpoint")
    assert "1 lost" in ran.text and "gen" in ran.text
    ran = await page.result("next(gen)")
    assert ran.error["ename"] == "LostVariableError"
    assert "'gen' was a generator" in ran.error["evalue"]
    assert "Cell [1] made it" in ran.error["evalue"]


@pytest.mark.parametrize("line", ["%survives all", "%gkews --now", "%checkpoint 'open"])
async def test_a_mistyped_magic_says_how_it_is_used(open_notebook, line):
    notebook = await open_notebook()
    ran = await (await notebook.browser()).result(line)
    assert ran.reply["ename"] == "UsageError"


async def test_the_hooks_cost_a_cell_next_to_nothing(open_notebook):
    notebook = await open_notebook()
    page = await notebook.browser()
    ran = await page.result(
        "from timeit import repeat\n"
        "def least(work, number): return min(repeat(work, number=number)) / number\n"
        "events = get_ipython().events.callbacks\n"
        "ours = [c for n in events for c in events[n] if 'gkews' in getattr(c, '__module__', '')]\n"
        "hooks = sum(least(c, 400) for c in ours)\n"
        "cell = least(lambda: get_ipython().run_cell('pass', silent=True), 40)\n"
        "print(len(ours), hooks < cell / 20)"
    )
    assert ran.text == "3 True"


def test_a_table_escapes_what_it_shows():
    table = Table(("name",), rows=[("<script>",)], head=["a < b"])
    html = table._repr_mimebundle_()["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html and "a &lt; b" in html
    assert str(table) == "a < b\nname\n--------\n<script>"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (6_170_000_000, "6.17 GB"), (2e12, "2 TB")],
)
def test_sizes_have_decimal_units(size, text):
    assert human_bytes(size) == text


def test_times_are_the_users_and_durations_are_never_a_false_zero(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        assert local_time("2026-11-30T09:02:00.123Z") == "2026-11-30 18:02"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert human_seconds(0.02) == "less than 0.1 s"
    assert human_seconds(12.34) == "12.3 s"
