"""What a server is given that may be frozen whole: sockets that gVisor can save."""

from __future__ import annotations

import asyncio
import json
import selectors
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from live_server import LiveKernel, LiveServer

from jupyter_gkews.engines.restore_signs import GVISOR_VERSION, Place
from jupyter_gkews.freezable_server import shall_be, watch_by_poll

StartServer = Callable[..., LiveServer]


def connection(kernel: LiveKernel) -> dict[str, object]:
    """The kernel's connection file."""
    file = kernel.server.base / "runtime" / f"kernel-{kernel.id}.json"
    found: dict[str, object] = json.loads(file.read_text())
    return found


def test_kernels_speak_over_unix_sockets_through_a_pause_and_a_restart(
    start_server: StartServer,
) -> None:
    server = start_server("--GkewsApp.prepare_for_snapshots=always")
    one, two = server.notebook("one.ipynb").ready(), server.notebook("two.ipynb").ready()
    ways = [connection(kernel) for kernel in (one, two)]
    assert [way["transport"] for way in ways] == ["ipc", "ipc"]
    # on the machine's own file system, and each kernel has its own
    assert ways[0]["ip"] != ways[1]["ip"]
    folder = Path(str(ways[0]["ip"])).parent
    assert folder.stat().st_mode & 0o777 == 0o700 and folder.parent == Path("/tmp")
    # the pipe of the IOPub thread is there as well: what is printed by a fork arrives
    assert list(folder.glob("iopub-*"))
    printed = one.run("import os\npid = os.fork()\nif not pid: os._exit(0)\nprint('printed')")
    assert printed.split() == ["printed"]
    one.run("x = [1]\ny = x")
    one.do("pause")
    one.do("resume")
    assert one.run("print(x is y)").strip() == "True"
    server.ask("POST", f"api/kernels/{two.id}/restart")
    two.close()
    assert two.ready().run("print(1)").strip() == "1"
    server.stop(signal.SIGTERM)
    assert not folder.exists()


@pytest.mark.soak
def test_a_transport_that_the_user_has_chosen_is_left(start_server: StartServer) -> None:
    server = start_server(
        "--GkewsApp.prepare_for_snapshots=always", "--KernelManager.transport=tcp"
    )
    kernel = server.notebook("n.ipynb").ready()
    assert connection(kernel)["transport"] == "tcp"
    assert "a snapshot of this server with kernels fails" in server.log.read_text()


@pytest.mark.parametrize(
    ("way", "environ", "version", "shall"),
    [
        ("auto", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, GVISOR_VERSION, True),
        ("auto", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Linux version 6.1.0", False),
        ("auto", {}, "Linux version 6.1.0", False),
        ("never", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, GVISOR_VERSION, False),
        ("always", {}, "Linux version 6.1.0", True),
    ],
)
def test_it_is_done_where_a_pod_runs_in_gvisor(
    way: str, environ: dict[str, str], version: str, shall: bool, tmp_path: Path
) -> None:
    (tmp_path / "version").write_text(version)
    assert shall_be(way, Place(tmp_path, tmp_path, environ)) is shall


def test_a_loop_that_polls_goes_on_with_what_it_watches() -> None:
    loop = asyncio.new_event_loop()
    try:
        watch_by_poll(loop)
        assert isinstance(loop._selector, selectors.PollSelector)  # type: ignore[attr-defined]
        ran = []
        loop.call_soon_threadsafe(ran.append, 1)  # its own pipe still wakes it
        loop.run_until_complete(asyncio.sleep(0.01))
        assert ran == [1]
    finally:
        loop.close()
