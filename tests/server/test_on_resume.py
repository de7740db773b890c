"""What users register with on_resume runs after each resume, before the next cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from gvisor_here import add_kernelspec, skip_without_runsc
from live_server import LiveKernel, LiveServer, wait_until

HOOKS = """
import os, socket
from jupyter_gkews import on_resume
heard = []
session = {"open": True}

@on_resume
def reopen(resumed):
    heard.append((resumed.provenance, resumed.away_s > 0, resumed.paused < resumed.resumed))
    session["open"] = "anew"

class Reader:
    def start(self): heard.append("method")
if "reader" not in globals():
    reader = Reader()
on_resume(reader.start)
"""

BROKEN = """
@on_resume
def broken(resumed):
    1 / 0

@on_resume
def last(): heard.append("last")
"""

ENDLESS = """
import time
@on_resume
def endless():
    open({!r}, "w").close()
    while True:
        time.sleep(0.05)
"""

SLOW = """
import time
@on_resume
def slow():
    while not os.path.exists({!r}):
        time.sleep(0.05)
    heard.append("slow")
"""


def kinds(kernel: LiveKernel) -> str:
    return kernel.run("print([each[0] if type(each) is tuple else each for each in heard])").strip()


def test_they_run_after_a_recovery_and_see_the_kernel_s_own_objects(server: LiveServer) -> None:
    kernel = server.notebook("hooks.ipynb").ready()
    kernel.run(HOOKS)
    kernel.run(HOOKS)  # a cell that is run twice registers what it registers once
    kernel.do("pause")
    resumed = kernel.do("resume")
    assert resumed["result"]["note"] is None and resumed["result"]["lost"] == []
    assert kernel.run("print(heard, session)").strip() == (
        "[('recovered', True, True), 'method'] {'open': 'anew'}"
    )
    kernel.do("pause")  # they are there after a second one too, and a cell that wakes finds it done
    assert kinds(kernel) == "['recovered', 'method', 'recovered', 'method']"
    kernel.run("from jupyter_gkews import forget_on_resume; print(forget_on_resume(reopen))")
    kernel.do("pause")
    assert kinds(kernel).endswith("'recovered', 'method', 'method']")


def test_one_that_fails_or_is_interrupted_is_shown_and_the_others_run(server: LiveServer) -> None:
    kernel = server.notebook("broken.ipynb").ready()
    runs = server.root / "runs"
    kernel.run(HOOKS + ENDLESS.format(str(runs)) + BROKEN)
    kernel.do("pause")
    operation = kernel.ask("resume")["id"]
    wait_until(runs.exists, "the function runs")
    assert kernel.status["state"] == "resuming"
    server.post(f"api/kernels/{kernel.id}/interrupt", status=204)
    resumed = server.operation(operation)
    assert resumed["error"] is None
    assert "endless: KeyboardInterrupt" in resumed["result"]["note"]
    assert "broken: ZeroDivisionError: division by zero" in resumed["result"]["note"]
    assert kernel.status["state"] == "running" and kernel.status["provenance"] == "recovered"
    shown = kernel.run("pass")
    assert "on_resume: broken failed" in shown and "1 / 0" in shown
    assert "resume_hooks" not in shown
    assert kernel.run("pass") == ""
    assert kinds(kernel) == "['recovered', 'method', 'last']"


@pytest.mark.soak  # a pause more for what test_one_that_fails has shown for the usual failure
def test_one_that_cannot_be_kept_or_ends_in_its_own_way_is_told(server: LiveServer) -> None:
    kernel = server.notebook("kept.ipynb").ready()
    kernel.run(
        HOOKS
        + """
import sys, threading
def held(lines):
    return lambda: next(lines)
on_resume(held(line for line in "abc"))
@on_resume
def leaves(): sys.exit(3)
@on_resume
def stops(): raise KeyboardInterrupt
"""
    )
    kernel.do("pause")
    said = kernel.do("resume")["result"]["note"]
    assert "leaves: SystemExit: 3" in said and "stops: KeyboardInterrupt" in said
    assert "held.<locals>.<lambda>" in said
    assert kinds(kernel).startswith("['recovered', 'method']")


@pytest.mark.soak
def test_one_that_takes_long_holds_up_the_cells_and_not_the_resume(start_server: object) -> None:
    server = start_server("--GkewsApp.answer_timeout=1.5")  # type: ignore[operator]
    kernel = server.notebook("slow.ipynb").ready()
    go_on = server.root / "go-on"
    kernel.run(HOOKS + SLOW.format(str(go_on)))
    kernel.do("pause")
    resumed = kernel.do("resume")
    assert "still run" in resumed["result"]["note"]
    go_on.touch()  # it has not ended before
    assert kinds(kernel) == "['recovered', 'method', 'slow']"


@pytest.mark.soak  # kinds of one thing, which the first test shows; each takes a kernel
def test_everything_that_can_be_called_may_be_registered(server: LiveServer) -> None:
    kernel = server.notebook("kinds.ipynb").ready()
    kernel.run(
        """
import functools
from jupyter_gkews import on_resume
class Reader:
    def __init__(self, name): self.name = name
    def start(self, resumed): heard.append(self.name)
    def __call__(self, resumed): heard.append("called " + self.name)
    @classmethod
    def of_all(cls): heard.append("all")
    @staticmethod
    def of_none(): heard.append("none")
heard, a, b = [], Reader("a"), Reader("b")
for hook in (a.start, b.start, a, Reader.of_all, Reader.of_none, functools.partial(heard.append)):
    on_resume(hook)
on_resume(lambda: heard.append(1)); on_resume(lambda: heard.append(2))
def makes(text):
    @on_resume
    def made(): heard.append(text)
makes("first"); makes("second")
on_resume(print)
@on_resume
def registers_one_more(resumed): on_resume(later)
def later(): heard.append("later")
del hook
"""
    )
    expected = ["a", "b", "called a", "all", "none", "Resumed", 1, 2, "second"]
    for _ in range(2):
        kernel.do("pause")
        resumed = kernel.do("resume")
        assert resumed["result"]["note"] is None and resumed["result"]["lost"] == []
        said = kernel.run(
            "print([e if type(e) in (str, int) else type(e).__name__ for e in heard])"
        )
        assert said.strip() == str(expected)
        kernel.run("heard.clear()")
        if "later" not in expected:
            expected.append("later")


def test_one_that_ends_the_kernel_leaves_it_paused_with_its_checkpoint(server: LiveServer) -> None:
    kernel = server.notebook("ends.ipynb").ready()
    kernel.run(
        "import os\nfrom jupyter_gkews import on_resume\non_resume(lambda: os._exit(3))\nx = 1"
    )
    kernel.do("pause")
    error = kernel.fail("resume")
    assert error["reason"] == "kernel_died" and "exit status 3" in error["message"]
    assert "A function registered with on_resume ended the kernel" in error["message"]
    assert "resume again" not in error["hint"]
    assert kernel.status["state"] == "paused" and kernel.status["checkpoint"]


@pytest.mark.parametrize("what", ["3", "async_one"])
def test_what_cannot_be_run_is_refused_at_once(server: LiveServer, what: str) -> None:
    kernel = server.notebook(f"refused {what}.ipynb").ready()
    answer = kernel.answer(
        kernel.send(
            f"from jupyter_gkews import on_resume\nasync def async_one(): pass\non_resume({what})"
        )
    )
    assert answer.reply["status"] == "error" and answer.reply["ename"] == "TypeError"


def test_they_run_when_the_same_process_goes_on(server: LiveServer, tmp_path: Path) -> None:
    skip_without_runsc(tmp_path)
    add_kernelspec(server)
    kernel = server.notebook("frozen.ipynb", "python3-pausable").ready()
    kernel.run(HOOKS)
    pid = kernel.pid
    kernel.do("pause")
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kinds(kernel) == "['restored', 'method']" and kernel.pid == pid
    server.client.delete(f"api/kernels/{kernel.id}")
