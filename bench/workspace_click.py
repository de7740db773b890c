"""From the click on Pause Workspace to the request at the cluster, through a whole Jupyter server.

The cluster is that of bench/workspaces.py. What the kernels need for their checkpoints is known
from the server's own events and taken off; all that the server does around it counts.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import websocket

from examples.headless import JupyterServer, Kernel
from jupyter_gkews.engines.cluster.cluster import Cluster
from jupyter_gkews.engines.cluster.words import WORKSPACES
from jupyter_gkews.engines.pod_account import InPod
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.pausing import Pauses

from .figures import Figure, spread

ROUNDS = 15
KERNELS = 2
#: What a small notebook holds.
CELL = "import random\nrows = [{'n': n, 'x': random.random()} for n in range(10_000)]"


class _Events:
    """What the server tells on its event bus, and when: the bus itself gives no times."""

    def __init__(self, server: JupyterServer) -> None:
        self._socket = websocket.create_connection(
            f"{server.url.replace('http', 'ws', 1)}api/events/subscribe",
            header=[f"Authorization: token {server.token}"],
            http_no_proxy=["127.0.0.1", "localhost"],
        )
        self._told: list[tuple[float, dict[str, Any]]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv()
            except (OSError, websocket.WebSocketException):
                return
            if data:
                told = time.time(), json.loads(data)
                with self._changed:
                    self._told.append(told)
                    self._changed.notify_all()

    def begin(self) -> None:
        with self._changed:
            self._told.clear()

    def checkpointing(self, kernels: int) -> float:
        """Seconds since `begin` in which at least one kernel was writing a checkpoint."""

        def written() -> dict[str, float]:
            ended: dict[str, float] = {}
            for when, each in self._told:
                if each.get("action") == "checkpoints" and each.get("kernel"):
                    ended.setdefault(each["kernel"], when)  # it is told again when it is let go
            return ended

        with self._changed:
            if not self._changed.wait_for(lambda: len(written()) >= kernels, 60):
                raise RuntimeError("the checkpoints were not told of")
            spans = [(self._ordered(kernel, ended), ended) for kernel, ended in written().items()]
        busy, until = 0.0, 0.0
        for began, ended in sorted(spans):
            busy += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return busy

    def _ordered(self, kernel: str, ended: float) -> float:
        """When it was told to write what was there at `ended`: the last word before its steps."""
        return max(
            when
            for when, each in self._told
            if when <= ended
            and each.get("kernel") == kernel
            and (each.get("operation") or {}).get("phase") == "checkpointing"
            and each["operation"]["step"] is None
        )

    def close(self) -> None:
        self._socket.shutdown()  # type: ignore[no-untyped-call]


def clicks(folder: Path, pod: InPod, patched: Callable[[], float]) -> list[Figure]:
    """`pod`: of the workspace `ws`, which runs; `patched()`: when its pause was asked for last."""
    cluster = Cluster(pod)
    observer = WorkspaceObserver(cluster, "default", "ws").start()
    try:
        alone = _rounds(folder / "alone", pod, observer, patched, 0)
        loaded = _rounds(folder / "kernels", pod, observer, patched, KERNELS)
        bare = _bare(cluster)
    finally:
        observer.stop(10)
        cluster.close()
    load = f"load {os.getloadavg()[0]:.1f}"
    return [
        Figure(
            "workspace, through the server: from the click to the request, no kernels",
            statistics.median(alone.clicks),
            150,
            "ms",
            f"median of {ROUNDS}; {spread(alone.clicks, 0)} ms; a request that does nothing and a "
            f"bare patch by hand: {statistics.median(alone.nothing) + bare:.0f} ms; {load}",
        ),
        Figure(
            f"the same with {KERNELS} kernels, without the time of their checkpoints",
            statistics.median(loaded.clicks),
            150,
            "ms",
            f"median of {ROUNDS}; {spread(loaded.clicks, 0)} ms, and "
            f"{spread(loaded.saving, 0)} ms for the checkpoints; {load}",
        ),
    ]


class _Rounds:
    """Milliseconds of each: a click, the checkpoints in it, a request that does nothing."""

    def __init__(self) -> None:
        self.clicks: list[float] = []
        self.saving: list[float] = []
        self.nothing: list[float] = []


def _rounds(
    folder: Path, pod: InPod, observer: WorkspaceObserver, patched: Callable[[], float], count: int
) -> _Rounds:
    found, pauses = _Rounds(), Pauses(observer)
    _wait_until_running(observer)
    about = {**pod.environ, "HOSTNAME": observer.state().pod or ""}
    account = f"--GkewsApp.service_account_dir={pod.account}"
    with JupyterServer(folder, folder, account, environment=about) as server:
        kernels = [Kernel(server, f"{number}.ipynb") for number in range(count)]
        for kernel in kernels:
            kernel.run(CELL)
        events = _Events(server)
        for number in range(ROUNDS + 1):
            _wait_until_running(observer)
            _wait_until_judged(server)
            server.gkews("GET", "workspace")  # the dialog, before it asks
            began = time.time()
            server.rest.get("api/status").raise_for_status()
            nothing = time.time() - began
            events.begin()
            began = time.time()
            operation = server.gkews("POST", "workspace/pause")["id"]
            _wait_for(server, operation)
            saving = events.checkpointing(count)
            if number:  # the first checkpoint prepares what the others use
                found.clicks.append((patched() - began - saving) * 1e3)
                found.saving.append(saving * 1e3)
                found.nothing.append(nothing * 1e3)
            pauses.wait_running(pauses.request_resume(), 60)
        events.close()
        for kernel in kernels:
            kernel.close()
    return found


def _bare(cluster: Cluster) -> float:
    """Milliseconds of one patch that changes next to nothing."""
    samples = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        cluster.merge(WORKSPACES, "default", "ws", {"spec": {"displayName": f"bare {number}"}})
        samples.append((time.perf_counter() - began) * 1e3)
    return statistics.median(samples)


def _wait_until_running(observer: WorkspaceObserver) -> None:
    if observer.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 60) is None:
        raise RuntimeError(f"the workspace does not run: {observer.state()}")


def _wait_until_judged(server: JupyterServer) -> None:
    end = time.monotonic() + 60
    while not (found := server.gkews("GET", "status")["workspace"])["checks"] or (
        found["state"] != "running"
    ):
        if time.monotonic() > end:
            raise RuntimeError(f"the server does not see it run: {found['message']}")
        time.sleep(0.05)


def _wait_for(server: JupyterServer, operation: str) -> None:
    end = time.monotonic() + 120
    while not (found := server.gkews("GET", f"operations/{operation}"))["finished"]:
        if time.monotonic() > end:
            raise RuntimeError("the pause does not end")
        time.sleep(0.05)
    if found["error"]:
        raise RuntimeError(f"the pause failed: {found['error']}")
