"""Paused kernels are left alone by the culler, and do not keep a server awake."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from live_server import LiveServer, wait_until

#: The server's config. It looks every minute; here twice a second, and only once the file is there:
#: a machine that stalls in the preparations of the test is not an idle server.
OFTEN = """
import os
from jupyter_server import serverapp
every = serverapp.ioloop.PeriodicCallback
def often(call, ms):
    if getattr(call, "__name__", "") != "shutdown_no_activity":
        return every(call, ms)
    return every(lambda: call() if os.path.exists({gate!r}) else None, 500)
serverapp.ioloop.PeriodicCallback = often
"""

#: The same for the culler.
CULLS = """
import os
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
cull = MappingKernelManager.cull_kernels
async def when_open(self):
    if os.path.exists({gate!r}):
        await cull(self)
MappingKernelManager.cull_kernels = when_open
"""


@pytest.fixture
def gate(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """While this file is there, the servers of the test look for what is idle."""
    gate, config = tmp_path / "gate", tmp_path / "jupyter" / "config"
    config.mkdir(parents=True)
    written = request.param.format(gate=str(gate))
    (config / "jupyter_server_config.py").write_text(written)
    return gate


@pytest.mark.parametrize("gate", [CULLS], indirect=True, ids=[""])
def test_the_culler_takes_idle_kernels_and_leaves_paused_ones(start_server, gate: Path) -> None:
    server = start_server(
        "--MappingKernelManager.cull_idle_timeout=2",
        "--MappingKernelManager.cull_interval=1",
        "--MappingKernelManager.cull_connected=True",
    )
    paused = server.notebook("paused.ipynb").ready()
    paused.run("x = 1")
    paused.do("pause")
    idle = server.notebook("idle.ipynb")
    gate.touch()
    wait_until(
        lambda: idle.id not in [k["id"] for k in server.get("api/kernels")],
        "the idle kernel was culled",
    )
    assert paused.status["state"] == "paused"
    gate.unlink()
    last = server.get(f"api/kernels/{paused.id}")["last_activity"]
    paused.do("resume")
    assert server.get(f"api/kernels/{paused.id}")["last_activity"] > last, "else it is culled now"
    assert paused.run("x") == "1"


def test_our_own_questions_are_not_activity(server: LiveServer) -> None:
    kernel = server.notebook("quiet.ipynb").ready()
    path = f"api/kernels/{kernel.id}"
    ended = float(kernel.run("import time; print(time.time())"))

    def heard() -> bool:  # by another way than the page hears it: maybe later
        model = server.get(path)
        last = datetime.fromisoformat(model["last_activity"].replace("Z", "+00:00"))
        return bool(model["execution_state"] == "idle" and last.timestamp() >= ended)

    wait_until(heard, "the server has heard the end of the cell")
    before = server.get(path)["last_activity"]
    server.get(f"gkews/kernels/{kernel.id}/survives")
    kernel.do("checkpoint")
    assert server.get(path)["last_activity"] == before


def test_looking_at_the_status_does_not_keep_a_server_awake(server: LiveServer) -> None:
    server.get("api/kernels")
    before = server.get("api/status")["last_activity"]
    server.get("gkews/status")
    # /api/status itself is not activity either, so the last one is that of /api/kernels
    assert server.get("api/status")["last_activity"] == before


@pytest.mark.parametrize("gate", [OFTEN], indirect=True, ids=[""])
def test_a_server_with_only_paused_kernels_stops_itself_and_one_with_a_running_kernel_does_not(
    start_server, gate: Path
) -> None:
    server = start_server("--ServerApp.shutdown_no_activity_timeout=2")
    paused = server.notebook("paused.ipynb").ready()
    paused.run("x = 1")
    paused.close()
    paused.do("pause")
    running = server.notebook("running.ipynb").ready()
    running.close()
    gate.touch()
    begun = running.status["age_s"]

    told = "Only paused kernels"
    wait_until(lambda: running.status["age_s"] > begun + 4, "more time than the timeout has passed")
    assert server.process.poll() is None
    assert told not in server.log.read_text()

    running.ask("pause")  # nobody may be there to tell its end
    wait_until(lambda: server.process.poll() is not None, "the server has stopped itself")
    assert told in server.log.read_text()

    server = start_server()
    assert server.kernel_of("paused.ipynb").run("x") == "1"
