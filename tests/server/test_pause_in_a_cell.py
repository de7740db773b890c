"""A cell that prints is frozen in its middle through REST, and goes on: no line is lost or doubled.

On the real engine; skipped where runsc cannot run.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gvisor_here import add_kernelspec, skip_without_runsc
from live_server import DEADLINE_S, LiveKernel, LiveServer, wait_until

PRINTING = """
import os, time
n = 0
while not os.path.exists({stop!r}):
    n += 1
    print(n, flush=True)
    time.sleep({every_s})
"""


class PrintingCell:
    """A cell that prints 1, 2, 3 ... until it is told to end, and all that the page saw of it.

    It is read all the time: a page that reads late does not answer the server's pings.
    """

    def __init__(self, kernel: LiveKernel, every_s: float) -> None:
        self._stop = kernel.server.root / f"stop-{os.urandom(4).hex()}"
        self._kernel, self.text = kernel, ""
        self._request = kernel.send(PRINTING.format(stop=str(self._stop), every_s=every_s))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for_more(self) -> None:
        """Until it has printed something that was not there before."""
        before = len(self.text)
        wait_until(lambda: len(self.text) > before, "it goes on printing")

    def end(self) -> list[int]:
        """Let it end; every number that it has printed."""
        self._stop.touch()
        self._reader.join(DEADLINE_S)
        return [int(line) for line in self.text.split()]

    def _read(self) -> None:
        ended = False
        while not ended:
            got = json.loads(self._kernel.connect().recv())
            if (got.get("parent_header") or {}).get("msg_id") != self._request:
                continue
            if got["header"]["msg_type"] == "stream":
                self.text += got["content"]["text"]
            ended = got["content"].get("execution_state") == "idle"


@pytest.fixture(scope="module")
def sandboxing(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> LiveServer:
    """The server, with the pausable kernel installed."""
    skip_without_runsc(tmp_path_factory.mktemp("state"))
    add_kernelspec(server)
    return server


@pytest.fixture
def open_kernel(sandboxing: LiveServer) -> Iterator[Callable[[], LiveKernel]]:
    """Notebooks whose kernels live in sandboxes; ended afterwards."""
    opened: list[LiveKernel] = []

    def start() -> LiveKernel:
        name = f"n{os.urandom(3).hex()}.ipynb"
        opened.append(sandboxing.notebook(name, "python3-pausable"))
        return opened[-1].ready()

    yield start
    for kernel in opened:
        kernel.close()
        sandboxing.client.delete(f"api/kernels/{kernel.id}")


def rounds_of(kernels: list[LiveKernel], rounds: int) -> None:
    """Pause and resume all of them at once, so many times, each in the middle of a cell."""
    pids = [kernel.run("import os; x = os.urandom(4); print(os.getpid(), x)") for kernel in kernels]
    # as many lines a second, however many kernels there are
    cells = [PrintingCell(kernel, 0.02 * len(kernels)) for kernel in kernels]
    for _ in range(rounds):
        for cell in cells:
            cell.wait_for_more()
        for result in together(kernels, "pause", {"when": "now"}):
            assert result["snapshot"] and result["released"]["ram"] > 10_000_000
            assert result["checkpoint"] is None  # of the middle of a cell there is none
            assert "There is no portable checkpoint of this kernel" in result["note"]
        states = {kernel.status["state"] for kernel in kernels}
        assert states == {"paused"}
        for result in together(kernels, "resume", {}):
            assert result["provenance"] == "restored"
    for kernel, cell, pid in zip(kernels, cells, pids, strict=True):
        cell.wait_for_more()
        numbers = cell.end()
        assert numbers == list(range(1, len(numbers) + 1))
        assert kernel.run("print(os.getpid(), x)") == pid


def together(kernels: list[LiveKernel], what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of one operation on each, all begun before the first is waited for."""
    asked = [kernel.ask(what, body)["id"] for kernel in kernels]
    ended = [kernels[0].server.operation(operation) for operation in asked]
    assert [each["error"] for each in ended] == [None] * len(kernels)
    return [each["result"] for each in ended]


def test_kernels_frozen_at_once_lose_and_double_no_line_of_their_cells(
    open_kernel: Callable[[], LiveKernel],
) -> None:
    rounds_of([open_kernel() for _ in range(3)], rounds=3)


def test_a_kernel_in_a_cell_gives_no_checkpoint_now_and_tells_what_its_snapshot_holds(
    open_kernel: Callable[[], LiveKernel],
) -> None:
    kernel = open_kernel()
    cell = PrintingCell(kernel, 0.02)
    cell.wait_for_more()
    error = kernel.ask("checkpoint", {"when": "now"}, status=409)
    assert error["reason"] == "kernel_busy"
    kernel.do("pause", {"when": "now"})
    told = kernel.server.get(f"gkews/kernels/{kernel.id}/survives")
    assert told["stale"] and told["variables"] == [] and told["snapshot"] is not None
    kernel.do("resume")
    cell.end()


@pytest.mark.soak
def test_ten_kernels_are_paused_and_resumed_at_once(open_kernel: Callable[[], LiveKernel]) -> None:
    rounds_of([open_kernel() for _ in range(10)], rounds=2)


@pytest.mark.soak
def test_no_line_is_lost_or_doubled_in_fifty_rounds(open_kernel: Callable[[], LiveKernel]) -> None:
    rounds_of([open_kernel()], rounds=50)


@pytest.mark.soak
def test_what_is_done_to_a_kernel_that_is_frozen_in_a_cell(
    open_kernel: Callable[[], LiveKernel],
) -> None:
    kernel = open_kernel()
    kernel.run("x = 1")
    older = kernel.do("checkpoint")["result"]["checkpoint"]
    forever = kernel.send("x = 2\nimport time\nwhile True: time.sleep(0.05)")
    wait_until(lambda: kernel.status["execution_state"] == "busy", "the cell runs")
    paused = kernel.do("pause", {"when": "now"})["result"]
    assert older in paused["note"] and "the last one" in paused["note"]
    assert "middle of a cell" in kernel.status["message"]
    # what another checkpoint would cost is the state that only the snapshot has
    body = {"kernel_id": kernel.id}
    refused = kernel.server.post(f"gkews/checkpoints/{older}/restore", body, status=409)
    assert refused["reason"] == "kernel_busy" and "snapshot" in refused["message"]
    # an interrupt ends the cell when it goes on
    kernel.server.client.post(f"api/kernels/{kernel.id}/interrupt").raise_for_status()
    kernel.do("resume")
    assert kernel.answer(forever).reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("x") == "2"

    # and the way back to the checkpoint tells from when it is
    kernel.send("x = 3\nwhile True: time.sleep(0.05)")
    wait_until(lambda: kernel.status["execution_state"] == "busy", "the cell runs")
    kernel.do("pause", {"when": "now"})
    resumed = kernel.do("resume", {"snapshot": False})["result"]
    assert resumed["provenance"] == "recovered" and "This is the state of" in resumed["note"]
    assert kernel.run("x") == "1"
    assert "middle of a cell" not in kernel.status["message"]

    # a cell that holds what cannot be frozen runs on
    kernel.run("import asyncio, time; s = await asyncio.start_server(print, '127.0.0.1', 0)")
    kernel.send("x = 4\nfor i in range(40): time.sleep(0.05)")
    wait_until(lambda: kernel.status["execution_state"] == "busy", "the cell runs")
    error = kernel.fail("pause", {"when": "now"})
    assert error["reason"] == "snapshot_failed" and "the server on" in error["message"]
    assert "runs on" in error["hint"] and kernel.status["state"] == "running"
    assert kernel.run("x") == "4"
    # without a snapshot there is nothing to be done with a running cell
    kernel.send("time.sleep(0.5)")
    answer = kernel.ask("pause", {"when": "now", "snapshot": False}, status=409)
    assert answer["reason"] == "kernel_busy"
