"""A server is killed while it snapshots or restores: the next one goes on from what is whole.

On the real engine; skipped where runsc cannot run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from gvisor_here import add_kernelspec, skip_without_runsc
from live_server import LiveKernel, LiveServer, wait_until

LIVE = """
import os, threading, time
ticks, numbers = [], iter(range(100))
def tick():
    while True: ticks.append(1); time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
half = (n for n in numbers); next(half)
"""

#: runsc, but it waits before or after it takes a checkpoint while a file of that name is there.
WAITING = """#!/bin/sh
wait_while() {{
    if [ -e "$1" ]; then
        : > "$1.reached"
        while [ -e "$1" ]; do sleep 0.05; done
    fi
}}
case " $* " in
*" checkpoint "*)
    wait_while {folder}/before
    {runsc} "$@"
    status=$?
    wait_while {folder}/after
    exit $status ;;
esac
exec {runsc} "$@"
"""


class Chain:
    """One server after the other over one store, each killed, with one notebook."""

    def __init__(self, base: Path, holds: Path) -> None:
        self.base, self.holds = base, holds
        self.servers: list[LiveServer] = []

    def start(self) -> LiveServer:
        server = LiveServer(self.base / "jupyter", self.base / "root")
        add_kernelspec(server)
        self.servers.append(server)
        return server.start()

    def kill(self, hold: Path | None = None) -> None:
        """End the server alone, at once; return when nothing that it had started runs any more.

        `hold`: what its runsc waits for goes on afterwards."""
        server = self.servers[-1]
        children = server.children()
        server.process.kill()
        server.process.wait()
        if hold is not None:
            hold.unlink()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive, "sandboxes outlive their server"

    def taken_over(self) -> LiveKernel:
        """The notebook's kernel in a new server."""
        server = self.start()
        wait_until(lambda: server.get("api/sessions"), "the paused kernel is taken over")
        kernel = server.kernel_of("a.ipynb")
        assert kernel.status["state"] == "paused"
        return kernel

    def pause_until(self, kernel: LiveKernel, point: str, body: dict[str, str]) -> Path:
        """Ask for a pause; return when its runsc waits at `point`."""
        hold = self.holds / point
        hold.touch()
        kernel.ask("pause", body)
        wait_until((self.holds / f"{point}.reached").exists, f"runsc waits {point} the checkpoint")
        return hold


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    """A chain whose servers find a runsc that can be made to wait."""
    skip_without_runsc(tmp_path / "state")
    tools = tmp_path / "tools"
    tools.mkdir()
    waiting = tools / "runsc"
    waiting.write_text(WAITING.format(folder=tools, runsc=shutil.which("runsc")))
    waiting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    chain = Chain(tmp_path, tools)
    yield chain
    for server in chain.servers:
        server.stop(signal.SIGKILL)


@pytest.mark.soak
def test_a_server_killed_at_any_step_leaves_what_the_next_one_goes_on_from(chain: Chain) -> None:
    kernel = chain.start().notebook("a.ipynb", "python3-pausable").ready()
    kernel.run(LIVE + "x = 'first'")

    # before the image is begun: the checkpoint of this very pause is there
    chain.kill(chain.pause_until(kernel, "before", {}))
    kernel = chain.taken_over()
    assert kernel.status["snapshot"] is None
    assert kernel.do("resume")["result"]["provenance"] == "recovered"
    assert kernel.run("x") == "'first'"

    # in the middle of a cell, with an image that nobody could finish: the last checkpoint is
    kernel.run(LIVE + "x = 'second'")
    older = kernel.do("checkpoint")["result"]["checkpoint"]
    kernel.send("x = 'third'\nwhile True: time.sleep(0.05)")
    wait_until(lambda: kernel.status["execution_state"] == "busy", "the cell runs")
    chain.kill(chain.pause_until(kernel, "after", {"when": "now"}))
    kernel = chain.taken_over()
    assert (kernel.status["snapshot"], kernel.status["checkpoint"]) == (None, older)
    assert "middle of a cell" not in kernel.status["message"]
    assert kernel.do("resume")["result"]["provenance"] == "recovered"
    assert kernel.run("x") == "'second'"

    # while the process comes back: the image is still there, and good for another time
    kernel.run(LIVE)
    kernel.do("pause")
    kernel.ask("resume")
    wait_until(lambda: _restoring(kernel.server), "runsc restores")
    chain.kill()
    kernel = chain.taken_over()
    assert kernel.status["snapshot"]
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    kernel.run("n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)")
    assert kernel.run("next(half)") == "1"

    # between the image and its entry in the record: the image is found
    taken = kernel.do("pause")["result"]["snapshot"]
    chain.kill()
    record = kernel.server.store / "paused" / f"{kernel.id}.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "snapshot": None}))
    kernel = chain.taken_over()
    assert kernel.status["snapshot"] == taken
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run("next(half)") == "2"


@pytest.mark.soak
def test_a_kernel_lost_with_its_server_in_its_first_snapshot_is_not_offered(chain: Chain) -> None:
    kernel = chain.start().notebook("a.ipynb", "python3-pausable").ready()
    kernel.send("import time\nwhile True: time.sleep(0.05)")
    wait_until(lambda: kernel.status["execution_state"] == "busy", "the cell runs")
    chain.kill(chain.pause_until(kernel, "before", {"when": "now"}))
    server = chain.start()
    assert server.get("gkews/status")["kernels"] == []
    assert list((server.store / "paused").iterdir()) == []
    assert "was lost" in server.log.read_text()
    fresh = server.notebook("a.ipynb", "python3-pausable").ready()
    assert fresh.status["state"] == "running"


def _restoring(server: LiveServer) -> bool:
    for process in server.children():
        try:
            if "restore" in process.cmdline():
                return True
        except psutil.Error:
            continue
    return False
