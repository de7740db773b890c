"""Checkpoints that are written while the user goes on, as REST and the events show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveKernel, LiveServer, wait_until

#: In the kernel: images write nothing before this file is there.
GATE = """
import time as _time, os as _os
from jupyter_gkews.kernel.checkpoint import background as _background
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


def gated(server: LiveServer, gate: Path, path: str) -> LiveKernel:
    kernel = server.notebook(path).ready()
    kernel.run(GATE.format(path=str(gate)))
    return kernel


def writing(kernel: LiveKernel) -> Any:
    """The checkpoint that the status shows while cells may run."""
    operation = kernel.status["operation"]
    return operation if operation and operation["step"] == "writing" else None


def test_the_status_says_running_and_checkpointing_and_cells_run(
    server: LiveServer, gate: Path
) -> None:
    kernel = gated(server, gate, "meanwhile.ipynb")
    asked = kernel.ask("checkpoint")
    wait_until(lambda: writing(kernel), "the state is captured")
    assert kernel.run("6 * 7") == "42"
    status = kernel.status
    assert status["state"] == "running" and status["message"].startswith("Running")
    assert status["operation"]["phase"] == "checkpointing"
    assert status["operation"]["cancellable"] and status["pausable"]
    # single-flight: the same request is answered with the one that runs
    assert kernel.ask("checkpoint")["id"] == asked["id"]
    gate.touch()
    ended = server.operation(asked["id"])
    assert ended["error"] is None and ended["result"]["note"] is None
    assert 0 < ended["result"]["blocked_s"] < 30
    assert kernel.status["checkpoint"] == ended["result"]["checkpoint"]


def test_a_checkpoint_of_a_cell_is_an_operation_too_and_can_be_cancelled(
    server: LiveServer, gate: Path
) -> None:
    kernel = gated(server, gate, "magic.ipynb")
    bus = server.events()
    kernel.run("%checkpoint by hand")
    operation = wait_until(lambda: writing(kernel), "the server shows the checkpoint of the cell")
    assert operation["kind"] == "checkpoint"
    server.ask("DELETE", f"gkews/operations/{operation['id']}", status=202)
    ended = server.operation(operation["id"])
    assert ended["error"]["reason"] == "cancelled"
    seen = []
    while not seen or seen[-1] != ("state", "checkpoint", True):
        event = json.loads(bus.recv())
        about = event.get("operation")
        if about and event["kernel"] == kernel.id:
            seen.append((event["action"], about["kind"], about["finished"] is not None))
    gate.touch()
    kernel.run("%checkpoint again")
    wait_until(lambda: kernel.status["checkpoint"], "the next one is written")
    assert kernel.status["state"] == "running"


@pytest.mark.parametrize("by", ["rest", "cell"])
def test_a_pause_meanwhile_waits_for_it_and_both_succeed(
    server: LiveServer, gate: Path, by: str
) -> None:
    kernel = gated(server, gate, f"pause-{by}.ipynb")
    kernel.run("x = 1")
    if by == "rest":
        first = kernel.ask("checkpoint")["id"]
        wait_until(lambda: writing(kernel), "the state is captured")
        kernel.run("x = 2")
        second = kernel.ask("pause")["id"]
    else:
        kernel.run("%checkpoint\nx = 2\n%pause")
        pausing = wait_until(
            lambda: (found := kernel.status["operation"]) and found["kind"] == "pause" and found,
            "the kernel is being paused",
        )
        second = pausing["id"]
        first = None
    gate.touch()
    paused = server.operation(second)
    assert paused["error"] is None, paused["error"]
    assert kernel.status["state"] == "paused"
    listed = [each["id"] for each in server.get("gkews/checkpoints")["checkpoints"]]
    assert listed[0] == paused["result"]["checkpoint"] and len(listed) >= 2
    if first is not None:
        assert server.operation(first)["result"]["checkpoint"] in listed
    assert kernel.status["checkpoint"] == paused["result"]["checkpoint"]
    kernel.do("resume")
    assert kernel.run("x") == "2"
