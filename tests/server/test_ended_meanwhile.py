"""A kernel that the user ends while it is asked what survives: that it is gone is no failure."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import psutil
import pytest
from live_server import LiveKernel, LiveServer, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that does not wait long for a kernel to end politely."""
    base = tmp_path_factory.mktemp("ended")
    live = LiveServer(base, base / "root", "--KernelManager.shutdown_wait_time=0.5")
    try:
        yield live.start()
    finally:
        live.stop()


@pytest.fixture
def in_background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


#: Whoever looks at it, to tell what survives, stands still from there on.
STOPS = """
import os, signal
class Stops:
    def __reduce_ex__(self, protocol):
        os.kill(os.getpid(), signal.SIGSTOP)
stops = Stops()
"""


def asked_without_an_answer(
    kernel: LiveKernel, pool: ThreadPoolExecutor
) -> tuple[Future[httpx.Response], int]:
    """`survives` under way in a kernel that stands still, and the kernel's process id."""
    pid = kernel.pid
    kernel.run(STOPS)
    wait_until(lambda: kernel.status["execution_state"] == "idle", "the cell has ended")
    answer = pool.submit(kernel.server.client.get, f"gkews/kernels/{kernel.id}/survives")
    wait_until(lambda: psutil.Process(pid).status() == "stopped", "the kernel is asked")
    return answer, pid


def shut_down(kernel: LiveKernel) -> None:
    kernel.server.ask("DELETE", f"api/kernels/{kernel.id}", status=204)


def end_session(kernel: LiveKernel) -> None:
    (session,) = [s for s in kernel.server.get("api/sessions") if s["path"] == kernel.path]
    kernel.server.ask("DELETE", f"api/sessions/{session['id']}", status=204)


@pytest.mark.parametrize("end", [shut_down, end_session])
def test_a_kernel_that_is_shut_down_while_it_is_asked_is_not_found(
    server: LiveServer, in_background: ThreadPoolExecutor, end: Callable[[LiveKernel], None]
) -> None:
    kernel = server.notebook(f"{end.__name__}.ipynb").ready()
    asked, _ = asked_without_an_answer(kernel, in_background)
    end(kernel)
    answer = asked.result()
    assert (answer.status_code, answer.json()["reason"]) == (404, "kernel_not_found")
    assert answer.json()["hint"]


def test_a_kernel_that_is_restarted_while_it_is_asked_is_starting(
    server: LiveServer, in_background: ThreadPoolExecutor
) -> None:
    kernel = server.notebook("restarted.ipynb").ready()
    asked, _ = asked_without_an_answer(kernel, in_background)
    server.ask("POST", f"api/kernels/{kernel.id}/restart")
    answer = asked.result()
    assert (answer.status_code, answer.json()["reason"]) == (409, "kernel_starting")
    wait_until(lambda: kernel.status["pausable"], "it is there again")
    assert server.get(f"gkews/kernels/{kernel.id}/survives")["stale"] is False
    shut_down(kernel)


def test_a_kernel_that_dies_while_it_is_asked_has_died(
    server: LiveServer, in_background: ThreadPoolExecutor
) -> None:
    kernel = server.notebook("died.ipynb").ready()
    asked, pid = asked_without_an_answer(kernel, in_background)
    os.kill(pid, signal.SIGKILL)
    answer = asked.result()
    assert (answer.status_code, answer.json()["reason"]) == (500, "kernel_died")
    shut_down(kernel)
