"""JupyterLab in a workspace's pod in a real browser, over pauses and resumes of its pod."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import LAB
from .laptop import Laptop
from .stand_in import StandIn
from .visitor import LIVE, ON, Visitor

pytest.importorskip("playwright", reason="the browser tests need the package playwright")

from playwright.sync_api import BrowserContext, expect

from .browser import Tab, chromium, write_notebook

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("stand_in", [LAB], indirect=True, ids=["lab"]),
]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[BrowserContext]:
    """A browser with the cookies of nobody."""
    with chromium(tmp_path) as browser:
        yield browser.new_context(viewport={"width": 1280, "height": 760})


@pytest.fixture
def user(stand_in: StandIn, visit: Callable[..., Visitor]) -> Visitor:
    """Of a workspace with JupyterLab and a notebook."""
    stand_in.create()
    write_notebook(stand_in.home() / "work.ipynb", LIVE.strip(), ON)
    found = visit()
    found.wait_until_served()
    return found


def test_a_tab_that_is_closed_and_opened_again_finds_the_same_process(
    stand_in: StandIn, user: Visitor, context: BrowserContext, laptop: Laptop
) -> None:
    tab = Tab(context, stand_in)
    tab.sign_in("work.ipynb")
    pid = tab.run(0).split()[0]
    tab.page.keyboard.press("Control+s")
    tab.close()
    tab = Tab(context, stand_in)
    tab.open("work.ipynb")
    assert tab.run(1).split() == [pid, "1", "True"]
    tab.close()
    assert user.set_paused(True).status_code == 200
    user.wait_for("Paused")
    assert laptop.run("resume").json["provenance"] == "restored"
    user.wait_until_served()
    tab = Tab(context, stand_in)
    tab.open("work.ipynb")
    assert tab.run(1).split() == [pid, "2", "True"]


def test_pause_and_resume_are_clicked_in_the_page_which_goes_on_without_a_reload(
    stand_in: StandIn, user: Visitor, context: BrowserContext, laptop: Laptop
) -> None:
    tab = Tab(context, stand_in)
    tab.sign_in("work.ipynb")
    pid = tab.run(0).split()[0]
    tab.page.evaluate("window.notReloaded = true")
    tab.pause_workspace()
    expect(tab.card("pausing")).to_be_visible()
    expect(tab.card("paused")).to_contain_text("paused since")
    assert user.listed()["state"] == "Paused"
    stand_in.node.capacity = False
    tab.resume()
    expect(tab.card("waiting")).to_contain_text("waits for capacity since")
    stand_in.node.capacity = True
    stand_in.node.poke()
    expect(tab.card("ready")).to_contain_text("the same processes go on")
    assert tab.page.evaluate("window.notReloaded") is True
    tab.wait_until_connected()
    assert tab.run(1).split() == [pid, "1", "True"]


def test_a_page_that_is_open_can_be_used_sooner_after_a_resume_than_one_that_is_loaded(
    stand_in: StandIn, user: Visitor, context: BrowserContext
) -> None:
    tab = Tab(context, stand_in)
    tab.sign_in("work.ipynb")
    pid = tab.run(0).split()[0]
    began = time.monotonic()
    other = Tab(context, stand_in)
    other.open("work.ipynb")
    loaded = time.monotonic() - began
    other.close()
    tab.pause_workspace()
    expect(tab.card("paused")).to_be_visible()
    tab.watch_for_the_kernel()
    tab.resume()
    usable = tab.answered() - stand_in.node.ready()
    expect(tab.card("ready")).to_contain_text("the same processes go on")
    assert tab.run(1).split() == [pid, "1", "True"]
    sys.stdout.write(  # `pytest -s` shows it
        f"a kernel answers {usable:.2f} s after its pod is ready, "
        f"a page loads in {loaded:.2f} s, load {os.getloadavg()[0]:.1f}\n"
    )
    assert usable < loaded


def test_two_tabs_that_click_at_once_start_it_once_and_both_go_on(
    stand_in: StandIn, user: Visitor, context: BrowserContext
) -> None:
    write_notebook(stand_in.home() / "other.ipynb", LIVE.strip(), ON)
    first, second = Tab(context, stand_in), Tab(context, stand_in)
    first.sign_in("work.ipynb")
    second.open("other.ipynb")
    pids = [tab.run(0).split()[0] for tab in (first, second)]
    first.pause_workspace()
    for tab in (first, second):
        expect(tab.card("paused")).to_be_visible()
    for tab in (first, second):
        tab.resume()
    for tab, pid in zip((first, second), pids, strict=True):
        expect(tab.card("ready")).to_contain_text("the same processes go on")
        tab.wait_until_connected()
        assert tab.run(1).split() == [pid, "1", "True"]
    assert stand_in.node.hosted() == 2


def test_a_snapshot_that_fails_is_told_in_the_page_and_the_cells_go_on(
    stand_in: StandIn, user: Visitor, context: BrowserContext
) -> None:
    stand_in.gke.outcome = "failed"
    tab = Tab(context, stand_in)
    tab.sign_in("work.ipynb")
    pid = tab.run(0).split()[0]
    tab.pause_workspace()
    told = tab.page.locator(".Toastify__toast", has_text="Error 403: Forbidden")
    expect(told).to_contain_text("the workspace runs on")
    tab.page.reload()
    tab.wait_until_connected()
    assert tab.run(1).split() == [pid, "1", "True"]
