"""The kernel, the server or both killed in the middle of a pause, a resume, a collection.

Afterwards a server offers only checkpoints that load, and the last good state comes back. The
short form takes steps spread over all of them; the long one (`soak`) takes every step.
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faults
import psutil
import pytest
from live_server import LiveKernel, LiveServer, wait_until

CELL = "import numpy as np; a = np.full(200_000, {n}); b = a[:10]; n = {n}"


class Sweep:
    """Servers of one user, one after the other, whose processes obey the order to die."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.order = base / "order.json"
        self.order.with_name("order.json.root").write_text(str(base / "jupyter" / "data" / "gkews"))
        self.site = faults.site_folder(base / "site")
        self.started: list[LiveServer] = []
        self.server = self.start()
        self.kernel = self.server.notebook("swept.ipynb").ready()

    def start(self) -> LiveServer:
        server = LiveServer(self.base / "jupyter", self.base / "root")
        self.started.append(server)
        return server.start()

    def fresh(self, name: str) -> None:
        """Another notebook: the server gives a kernel up that dies again and again."""
        self.kernel.close()
        self.server.ask("DELETE", f"api/kernels/{self.kernel.id}", status=204)
        self.kernel = self.server.notebook(name).ready()

    def arm(self, role: str, at: int, *, also: list[int] | None = None) -> None:
        """From now on, the process of `role` dies at its `at`-th change of the store."""
        order = {"id": uuid.uuid4().hex, "role": role, "at": at, "also": also or []}
        new = self.order.with_suffix(".new")
        new.write_text(json.dumps(order))
        os.replace(new, self.order)

    def disarm(self) -> None:
        self.order.unlink(missing_ok=True)

    def kernel_pids(self) -> list[int]:
        """The kernel's living processes."""
        found = []
        for process in self.server.children():
            try:
                if any("ipykernel_launcher" in word for word in process.cmdline()):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def after(self, why: str, before: list[int]) -> None:
        """A living server with a living kernel, whatever was killed."""
        self.disarm()
        dead = self.server.process.poll() is not None
        if dead:
            self.server.stop()
            self.server = self.start()
            # the paused one, taken over; else a new one
            self.kernel = self.server.notebook(str(self.kernel.path))
        self.kernel.close()  # a new tab
        self.kernel = LiveKernel(self.server, self.kernel.id, self.kernel.path)

        def settled() -> bool:
            state, now = self.kernel.status, self.kernel_pids()
            if state["operation"] is not None:
                return False
            if state["state"] == "paused":
                return True
            # a process that was killed is replaced by the server, after a moment
            killed = [pid for pid in before if pid not in now]
            return state["state"] == "running" and bool(now) and (not killed or state["pausable"])

        wait_until(settled, f"the kernel is running or paused after {why}")

    def check(self, allowed: set[int], why: str) -> None:
        """Nothing that is offered is bad, and a value that was saved comes back."""
        checkpoints = self.server.get("gkews/checkpoints")["checkpoints"]
        assert checkpoints and all(c["error"] is None for c in checkpoints), (why, checkpoints)
        if self.kernel.status["state"] == "paused":
            assert self.value() in allowed, why
        newest = checkpoints[0]["id"]
        wait_until(lambda: self.kernel.status["pausable"], f"it can be restored into after {why}")
        operation = self.server.post(
            f"gkews/checkpoints/{newest}/restore", {"kernel_id": self.kernel.id}
        )
        ended = self.server.operation(operation["id"])
        assert ended["error"] is None, (why, ended["error"])
        assert ended["result"]["lost"] == [], why
        assert self.value() in allowed, why

    def value(self) -> int:
        text = self.kernel.run(
            "assert np.shares_memory(a, b) and len(set(a)) == 1 and a[0] == n; print(n)"
        )
        return int(text)

    def stop(self) -> None:
        self.disarm()
        for server in self.started:
            server.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    base = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(base / "site"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
        patch.setenv(faults.ENV_ORDER, str(base / "order.json"))
        made = Sweep(base)
        try:
            yield made
        finally:
            made.stop()


def run(sweep: Sweep, what: str, who: str, step: int, number: int) -> bool:
    """One fault; whether it struck (False: there are fewer steps)."""
    why = f"{who} killed at step {step} of a {what}"
    kernel = sweep.kernel
    kernel.run(CELL.format(n=number))
    wait_until(lambda: sweep.kernel.status["pausable"], "the kernel can be paused")
    kernel.do("checkpoint")  # the last good one
    allowed = {number}
    if what in ("resume", "gc"):
        kernel.do("pause")
    else:
        kernel.run(CELL.format(n=number + 1))
        allowed.add(number + 1)
    pids = sweep.kernel_pids()
    role = "server" if who == "server" or what == "gc" else "kernel"
    also = []
    if who == "both":
        also = pids if role == "server" else [sweep.server.process.pid]
    sweep.arm(role, step, also=also)
    try:
        if what == "gc":
            sweep.server.post("gkews/gc", {"keep": 1, "older_than_s": 0}, status=200)
        else:
            operation = kernel.ask(what)
            sweep.server.operation(operation["id"])
    except Exception:
        wait_until(lambda: sweep.server.process.poll() is not None, f"the server died: {why}")
    struck = sweep.server.process.poll() is not None or not set(pids) <= {
        process.pid for process in sweep.server.children() if process.is_running()
    }
    if role == "kernel" and what == "pause" and sweep.server.process.poll() is None:
        ended = sweep.server.get(f"gkews/operations/{operation['id']}")
        struck = ended["error"] is not None
    if who == "both" or struck:
        wait_until(
            lambda: not set(pids) & set(sweep.kernel_pids()) or who == "server", "it is dead"
        )
    sweep.after(why, pids)
    sweep.check(allowed, why)
    return struck


SHORT = [
    ("pause", "kernel", 8),
    ("pause", "both", 14),
    ("pause", "server", 2),
    ("resume", "server", 1),
]


def test_a_death_in_the_middle_leaves_only_what_is_good(sweep: Sweep) -> None:
    struck = [
        run(sweep, what, who, step, 10 * number)
        for number, (what, who, step) in enumerate(SHORT, start=1)
    ]
    assert sum(struck) >= len(SHORT) - 1, struck


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("who", ["kernel", "server", "both"])
@pytest.mark.parametrize("what", ["pause", "resume", "gc"])
def test_a_death_at_every_step_leaves_only_what_is_good(sweep: Sweep, what: str, who: str) -> None:
    if what == "gc" and who == "kernel":
        pytest.skip("a kernel has no part in it")
    number, missed, steps = 1000, 0, 0
    for step in range(1, 80):
        number += 10
        if step % 3 == 0:
            sweep.fresh(f"swept-{number}.ipynb")
        if run(sweep, what, who, step, number):
            steps += 1
        else:
            missed += 1
            if missed == 2:  # a step that only some runs have is not the end
                break
    assert missed == 2 and (steps or (what, who) == ("resume", "kernel"))


def test_two_servers_on_one_store_do_not_harm_each_other(start_server: Any) -> None:
    servers = [start_server(), start_server()]
    kernels = []
    for number, server in enumerate(servers):
        kernel = server.notebook(f"of-{number}.ipynb").ready()
        kernel.run(CELL.format(n=number))
        kernels.append(kernel)
    kernels[0].do("pause")
    kernels[1].do("checkpoint")
    for server in servers:
        report = server.post("gkews/gc", {"older_than_s": 0, "keep": 1}, status=200)
        assert report["checkpoints"] == []
    seen = [
        {c["id"]: c["in_use"] for c in server.get("gkews/checkpoints")["checkpoints"]}
        for server in servers
    ]
    assert seen[0] == seen[1] and sorted(seen[0].values()) == [False, True]
    (used,) = [checkpoint for checkpoint, in_use in seen[0].items() if in_use]
    error = servers[1].ask("DELETE", f"gkews/checkpoints/{used}", status=409)
    assert error["reason"] == "checkpoint_in_use"
    operations = [kernels[0].ask("resume"), kernels[1].ask("pause")]
    for server, operation in zip(servers, operations, strict=True):
        assert server.operation(operation["id"])["error"] is None
    for number, kernel in enumerate(kernels):
        assert kernel.run("print(n, int(a.sum()))") == f"{number} {number * 200_000}\n"
