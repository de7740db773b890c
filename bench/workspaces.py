"""A workspace in a cluster, or a pod without one: how soon a pause is asked for, and what following
it costs.

The cluster is the API server of tests/kube in a process of its own; no GKE is asked.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from jupyter_gkews.engines.cluster.cluster import Cluster
from jupyter_gkews.engines.cluster.watching import ObjectWatch
from jupyter_gkews.engines.cluster.words import WORKSPACES, Json
from jupyter_gkews.engines.pod_account import InPod
from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.resuming import Resumes
from jupyter_gkews.engines.podsnapshot.targets import Target
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.pausing import Pauses

from .figures import Figure, spread
from .workspace_click import clicks

ROUNDS = 15
MANY = 1000
#: Changes of every workspace before memory is first looked at, and after that.
WARM, MORE = 5, 20
QUIET_S = 10.0
HERE = Path(__file__).parent


class _Played:
    """bench/workspaces_process.py: the fake cluster, told what to do by lines of JSON."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, HERE / "workspaces_process.py", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.about = self._read()
        account = folder / "account"
        account.mkdir(exist_ok=True)
        for name in ("token", "namespace"):
            (account / name).write_text(self.about[name])
        (account / "ca.crt").write_text(Path(self.about["ca"]).read_text())
        host, port = self.about["url"].removeprefix("https://").split(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        self.pod = InPod(account, environ)

    def tell(self, what: str, **about: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **about}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the fake cluster has ended")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def run(folder: Path, size: str) -> list[Figure]:
    """The model's size does not matter here."""
    played = _Played(folder)
    try:
        clicked = clicks(folder / "servers", played.pod, lambda: float(played.tell("patched")))
        return [*_one(played), *clicked, *_many(played), *_pod(played)]
    finally:
        played.close()


def _one(played: _Played) -> list[Figure]:
    cluster = Cluster(played.pod)
    observer = WorkspaceObserver(cluster, "default", "ws").start()
    pauses = Pauses(observer)
    samples = []
    for number in range(ROUNDS + 1):
        ready = observer.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 60)
        if ready is None:
            raise RuntimeError(f"the workspace does not run: {observer.state()}")
        began = time.time()
        requested = pauses.request()
        sent = played.tell("patched") - began
        if number:  # the first one makes the session
            samples.append(sent * 1e3)
        pauses.wait_paused(requested, 60)
        pauses.wait_running(pauses.request_resume(), 60)
    time.sleep(2)  # what follows a resume
    before = played.tell("requests")
    time.sleep(QUIET_S)
    after = played.tell("requests")
    observer.stop()
    cluster.close()
    asked = (after["others"] - before["others"]) * 60 / QUIET_S
    return [
        Figure(
            "workspace: from the click to the request",
            statistics.median(samples),
            150,
            "ms",
            f"median of {ROUNDS}, checkpoints excluded; {spread(samples, 1)} ms",
        ),
        Figure(
            "workspace: requests a minute beside the watches",
            asked,
            0,
            "",
            f"in {QUIET_S:.0f} s without a change, {after['watches']} watches open",
        ),
    ]


def _pod(played: _Played) -> list[Figure]:
    """A Deployment: judged by fresh reads each time, as nothing else follows it."""
    played.tell("pods")
    cluster = Cluster(played.pod)
    observer = TargetObserver(cluster, Target("pods", "Deployment", "lab")).start()
    resumes = Resumes(observer)
    samples = []
    for number in range(ROUNDS + 1):
        if (
            observer.wait(lambda seen, state: seen.pod_ready and state.state == "running", 60)
            is None
        ):
            raise RuntimeError(f"the pod does not run: {observer.state()}")
        began = time.time()
        requested = resumes.request()
        sent = played.tell("triggered") - began
        if number:  # the first one makes the session and asks for the rights
            samples.append(sent * 1e3)
        resumes.wait_paused(requested, 60)
        resumes.request_resume()
        resumes.wait_running(60)
    observer.stop()
    cluster.close()
    return [
        Figure(
            "pod without a workspace: from the command to the trigger",
            statistics.median(samples),
            150,
            "ms",
            f"median of {ROUNDS}, the command's own start excluded; {spread(samples, 1)} ms",
        )
    ]


def _many(played: _Played) -> list[Figure]:
    cluster = Cluster(played.pod)
    objects: dict[str, Json] = {}
    told = 0
    changed = threading.Condition()

    def change(name: str, found: Json | None) -> None:
        nonlocal told
        with changed:
            told += 1
            if found is not None:
                objects[name] = found
            changed.notify_all()

    watch = ObjectWatch(cluster, WORKSPACES, "many", change).start()
    played.tell("create", count=MANY)

    def rounds(first: int, last: int) -> int:
        for number in range(first, last):
            played.tell("change", round=number)
            with changed:
                mark = str(number)
                if not changed.wait_for(
                    lambda mark=mark: (  # type: ignore[misc]
                        sum(o["spec"].get("displayName") == mark for o in objects.values()) == MANY
                    ),
                    120,
                ):
                    raise RuntimeError("events were lost")
        return psutil.Process().memory_info().rss

    began = time.perf_counter()
    warm = rounds(1, 1 + WARM)
    more = rounds(1 + WARM, 1 + WARM + MORE)
    taken = time.perf_counter() - began
    watch.stop()
    watch.join(10)
    cluster.close()
    events = MANY * (WARM + MORE)
    return [
        Figure(
            f"workspace: memory that {MANY * MORE} more events leave behind",
            max(0.0, (more - warm) / 1e6),
            3,
            "MB",
            f"{MANY} workspaces; {warm / 1e6:.0f} MB after {MANY * WARM} events, "
            f"{more / 1e6:.0f} MB after {events}; none lost ({told} told)",
        ),
        Figure(
            "workspace: time for an event, watched",
            taken / events * 1e3,
            None,
            "ms",
            f"{events} changes and their events in {taken:.1f} s, the fake server's work included",
        ),
    ]
