"""Paused kernels are left alone by the culler, and do not keep a server awake."""

from __future__ import annotations

from pathlib import Path

from live_server import LiveServer, wait_until

# the server looks every minute; here twice a second
OFTEN = """
from jupyter_server import serverapp
every = serverapp.ioloop.PeriodicCallback
serverapp.ioloop.PeriodicCallback = lambda call, ms: every(call, min(ms, 500))
"""


def test_the_culler_takes_idle_kernels_and_leaves_paused_ones(start_server) -> None:
    server = start_server(
        "--MappingKernelManager.cull_idle_timeout=2",
        "--MappingKernelManager.cull_interval=1",
        "--MappingKernelManager.cull_connected=True",
    )
    paused = server.notebook("paused.ipynb").ready()
    paused.run("x = 1")
    paused.do("pause")
    idle = server.notebook("idle.ipynb")
    wait_until(
        lambda: idle.id not in [k["id"] for k in server.get("api/kernels")],
        "the idle kernel was culled",
    )
    assert paused.status["state"] == "paused"
    # after the resume it counts as used just now
    assert paused.run("x") == "1"


def test_our_own_questions_are_not_activity(server: LiveServer) -> None:
    kernel = server.notebook("quiet.ipynb").ready()
    path = f"api/kernels/{kernel.id}"
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


def test_a_server_with_only_paused_kernels_stops_itself_and_one_with_a_running_kernel_does_not(
    start_server, tmp_path: Path
) -> None:
    config = tmp_path / "jupyter" / "config"
    config.mkdir(parents=True)
    (config / "jupyter_server_config.py").write_text(OFTEN)
    server = start_server("--ServerApp.shutdown_no_activity_timeout=2")
    paused = server.notebook("paused.ipynb").ready()
    paused.run("x = 1")
    paused.close()
    paused.do("pause")
    running = server.notebook("running.ipynb").ready()
    running.close()

    told = "Only paused kernels"
    wait_until(lambda: running.status["age_s"] > 5, "more time than the timeout has passed")
    assert server.process.poll() is None
    assert told not in server.log.read_text()

    running.do("pause")
    wait_until(lambda: server.process.poll() is not None, "the server has stopped itself")
    assert told in server.log.read_text()

    server = start_server()
    assert server.kernel_of("paused.ipynb").run("x") == "1"
