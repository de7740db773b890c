"""The node of the stand-in: each pod is a whole Jupyter server in a real gVisor sandbox.

Does what kubelet and gVisor do on GKE: mounts the home volume and the service account, starts the
pod's command or restores the snapshot that fits, tells conditions, starts an ended container again,
and freezes a pod when snapshots.py says so. Nobody inside is asked. Scheduler and autoscaler are
those of tests/kube/actors/nodes.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kube.actors.controller import WORKSPACE_LABEL, condition
from kube.actors.nodes import PS_NAME, SNAPSHOTS, Nodes

from jupyter_gkews.engines.gvisor import bundle
from jupyter_gkews.engines.gvisor.server_sandbox import ServerPlan, ServerSandbox
from jupyter_gkews.errors import GkewsError
from jupyter_gkews.launching import ENV_SOCKETS

from . import pod_main
from .images import Images
from .loop import LoopThread

Json = dict[str, Any]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Of the container, and of the API server inside.
PORT = 8888
API_PORT = 6443
#: A sandbox that has not come up by then does not.
BRING_UP_S = 120.0


class PodSandbox(ServerSandbox):
    """The server inside is not told of it: as in a pod it has to find out what it lives in."""

    def _plan(self) -> bundle.Plan:
        plan = super()._plan()
        del plan.env[ENV_SOCKETS]
        return plan


@dataclass
class Run:
    """One pod on this node. `state`: starting, running, saving, saved, crashed, ending, ended."""

    pod: Json
    sandbox: ServerSandbox
    state: str = "starting"
    restored: str = ""
    fallback: str = ""
    """Why its snapshot could not be restored."""
    restarts: int = 0
    killed: bool = False
    """Its end was asked for with `kill`; any other is a fault."""
    ready: float = 0.0
    """When it was ready first, in seconds since the epoch."""
    told: bool = False
    """The event about the restore has been written."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class NodeAgent(Nodes):
    """`server`: the command of the container after `python -m`, without what the cluster adds."""

    def __init__(
        self, *about: Any, loop: LoopThread, folder: Path, images: Images, server: list[str]
    ) -> None:
        super().__init__(*about)
        self._loop, self._folder, self._images, self._server = loop, folder, images, server
        self._runs: dict[str, Run] = {}

    def volume(self, claim: str) -> Path:
        """The folder of a PersistentVolumeClaim; it outlives every pod."""
        found = self._folder / "volumes" / claim
        found.mkdir(parents=True, exist_ok=True)
        return found

    def address(self, workspace: str) -> tuple[str, int] | None:
        """Where the Service of a workspace leads: to its pod, while that is ready."""
        for pod in self.admin.list(
            f"api/v1/namespaces/{self.namespace}/pods",
            labelSelector=f"{WORKSPACE_LABEL}={workspace}",
        ):
            run = self._runs.get(pod["metadata"]["uid"])
            ready = condition(pod, "Ready").get("status") == "True"
            if run is not None and ready and "deletionTimestamp" not in pod["metadata"]:
                return run.sandbox.ip, run.sandbox.port
        return None

    def hosted(self) -> int:
        """How many pods have been started or restored here."""
        return len(self._runs)

    def ready(self) -> float:
        """When the last pod that came up here was ready, in seconds since the epoch."""
        return max(run.ready for run in self._runs.values())

    # -- what kubelet does, in the actor's thread ------------------------------------------------

    def reconcile(self) -> None:
        pods = self.admin.list(self.path("api/v1 pods"))
        for pod in pods:
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            run = self._runs.get(uid)
            if "deletionTimestamp" in pod["metadata"]:
                if self.lets_go and self._gone(run):
                    self.admin.delete(self.path("api/v1 pods"), name, gracePeriodSeconds=0)
            elif not pod["spec"].get("nodeName"):
                self._place(pod)
            else:
                self._host(pod, run)
        there = {pod["metadata"]["uid"] for pod in pods}
        for uid, run in self._runs.items():
            if uid not in there:
                self._gone(run)

    def _gone(self, run: Run | None) -> bool:
        """Whether nothing of it runs any more; ends it if need be."""
        if run is None or run.state in ("ended", "saved"):
            return True
        if run.state not in ("ending", "saving"):
            run.state = "ending"
            self._begin(run, self._end(run))
        return False

    def _host(self, pod: Json, run: Run | None) -> None:
        if run is None:
            if not self.starts:
                return
            run = Run(pod, self._sandbox(pod))
            self._runs[pod["metadata"]["uid"]] = run
            self._begin(run, self._bring_up(run, self._wanted(pod)))
        elif run.state == "crashed" and self.starts:
            run.restarts, run.state = run.restarts + 1, "starting"
            self._begin(run, self._bring_up(run, ""))
        self._tell(pod, run)

    def _wanted(self, pod: Json) -> str:
        """The snapshot that GKE chooses: the named one, else the newest that is ready and fits."""
        named = (pod["metadata"].get("annotations") or {}).get(PS_NAME)
        there = [
            one["metadata"]
            for one in self.admin.list(self.path(SNAPSHOTS))
            if condition(one, "Ready").get("status") == "True"
            and "deletionTimestamp" not in one["metadata"]
            and one["metadata"]["annotations"]["podsnapshot.gke.io/origin-pod"]
            == pod["metadata"]["name"]
        ]
        if named:
            return named if named in [one["name"] for one in there] else ""
        fitting = [one for one in there if self._images.find(one["name"], pod) is not None]
        return max(fitting, key=lambda one: one["creationTimestamp"])["name"] if fitting else ""

    def _tell(self, pod: Json, run: Run) -> None:
        scheduled = {"type": "PodScheduled", "status": "True"}
        if run.state in ("starting", "crashed"):
            waiting = {"reason": "ContainerCreating"}
            self._set(pod, run, "Running" if run.restarts else "Pending", {"waiting": waiting},
                      scheduled, _not_ready("ContainersReady"), _not_ready("Ready"))  # fmt: skip
        elif run.state in ("saved", "ended"):
            ended = {"terminated": {"reason": "Completed", "exitCode": 0}}
            self._set(pod, run, "Succeeded", ended, scheduled,
                      _not_ready("ContainersReady"), _not_ready("Ready"))  # fmt: skip
        elif run.state in ("running", "saving"):
            gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
            ready = all(condition(pod, gate).get("status") == "True" for gate in gates)
            run.ready = run.ready or (time.time() if ready else 0.0)
            conditions = [
                scheduled,
                {"type": "ContainersReady", "status": "True"},
                {"type": "Ready", "status": "True"} if ready else _not_ready("Ready"),
            ]
            self._say_how(pod, run)
            if run.restored:
                conditions.append({"type": "PodRestored", "status": "True", "reason": "Restored",
                                   "message": self._restored(run)})  # fmt: skip
            self._set(pod, run, "Running", {"running": {}}, *conditions)

    def _restored(self, run: Run) -> str:
        return f"Successfully restored the pod from PodSnapshot {self.namespace}/{run.restored}"

    def _say_how(self, pod: Json, run: Run) -> None:
        if run.told or not (run.restored or run.fallback):
            return
        run.told = True
        kind = "Normal" if run.restored else "Warning"
        message = self._restored(run) if run.restored else run.fallback
        self.event(pod, kind, "GKEPodSnapshotting", message, "gke-pod-snapshot")

    def _set(self, pod: Json, run: Run, phase: str, state: Json, *conditions: Json) -> None:
        ready = "running" in state
        containers = [
            {"name": c["name"], "ready": ready, "restartCount": run.restarts, "image": c["image"],
             "imageID": "", "state": state} for c in pod["spec"]["containers"]
        ]  # fmt: skip
        self.set_conditions(pod, phase, *conditions, containerStatuses=containers)

    # -- the container ---------------------------------------------------------------------------

    def _slot(self, pod: Json) -> Path:
        """By the pod's name: a restore needs the bundle of the start."""
        return self._folder / "pods" / pod["metadata"]["name"]

    def _sandbox(self, pod: Json) -> ServerSandbox:
        workspace = pod["metadata"]["labels"][WORKSPACE_LABEL]
        home, slot = self.volume(f"home-{workspace}"), self._slot(pod)
        api = urlsplit(self.admin.url)
        base = f"/workspace/connect/{self.namespace}/{workspace}/{PORT}/"
        command = [sys.executable, "-S", "-E", pod_main.__file__, str(API_PORT),
                   f"{api.hostname}:{api.port}", sys.executable, "-m", *self._server,
                   f"--ServerApp.port={PORT}", f"--ServerApp.base_url={base}",
                   "--IdentityProvider.token=", f"--ServerApp.root_dir={home}"]  # fmt: skip
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON"))}
        env = {
            **kept, "HOME": str(home), "HOSTNAME": pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(API_PORT),
        }  # fmt: skip
        plan = ServerPlan(
            command, str(home), env, [str(home), str(slot), str(Path(__file__).parent)],
            places={ACCOUNT: str(slot / "account")}, allow_hosts=[str(api.hostname)],
        )  # fmt: skip
        return PodSandbox(slot / "sandbox", plan)

    def _mount_account(self, pod: Json) -> None:
        """The files of the pod's service account; the token is bound to this very pod."""
        folder = self._slot(pod) / "account"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = pod["spec"].get("serviceAccountName") or "default"
        files = {
            "token": self.admin.account(self.namespace, account, pod),
            "namespace": self.namespace,
            "ca.crt": Path(self.admin.ca).read_text(),
        }
        for name, content in files.items():
            part = folder / f".{name}"
            part.write_text(content)
            part.replace(folder / name)

    async def _bring_up(self, run: Run, snapshot: str) -> None:
        try:
            await asyncio.wait_for(self._start_or_restore(run, snapshot), BRING_UP_S)
        except asyncio.TimeoutError:
            name = run.pod["metadata"]["name"]
            raise RuntimeError(f"pod {name} is not up after {BRING_UP_S:.0f} s") from None

    async def _start_or_restore(self, run: Run, snapshot: str) -> None:
        await asyncio.to_thread(self._mount_account, run.pod)
        image = self._images.find(snapshot, run.pod) if snapshot else None
        if image is not None:
            try:
                await run.sandbox.resume(image)
                run.restored = snapshot
            except GkewsError as error:
                run.fallback = f"failed to restore from {snapshot}, "
                run.fallback += f"falling back to a cold start: {error.message}"
        if not run.restored or run.restarts:
            await run.sandbox.start()
        if run.state == "starting":
            run.state, run.killed = "running", False
            self._begin_here(run, self._watch(run))

    async def _watch(self, run: Run) -> None:
        """A killed server is started again in the same pod, as restartPolicy Always does."""
        await run.sandbox.wait()
        if run.state == "running":
            run.state = "crashed" if run.killed else "ended"
            await run.sandbox.stop()
            if not run.killed:
                name = run.pod["metadata"]["name"]
                raise RuntimeError(f"the server of pod {name} ended by itself")

    async def _end(self, run: Run) -> None:
        tasks = run.tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await run.sandbox.stop()
        run.state = "ended"

    # -- what others ask of this node --------------------------------------------------------

    def save(self, pod: str, snapshot: str, *, then_stop: bool) -> Future[None]:
        """Freeze a pod into the image of this snapshot; not `then_stop`: it goes on here."""
        return self._loop.begin(self._save(pod, snapshot, then_stop))

    async def _save(self, pod: str, snapshot: str, then_stop: bool) -> None:
        run = next(
            (r for r in list(self._runs.values())
             if r.pod["metadata"]["name"] == pod and r.state == "running"), None,
        )  # fmt: skip
        if run is None:
            raise RuntimeError(f"container main of pod {pod} does not run")
        run.state = "saving"
        image = self._images.make(snapshot, run.pod)
        try:
            await run.sandbox.freeze(image)
        except GkewsError as error:
            self._images.remove(snapshot)
            run.state = "running" if run.sandbox.running else "crashed"
            raise RuntimeError(error.message) from error
        else:
            if not then_stop:
                await run.sandbox.resume(image)
                self._begin_here(run, self._watch(run))
            run.state = "saved" if then_stop else "running"
        finally:
            self.poke()

    def kill(self, workspace: str) -> None:
        """End the sandbox at once, as a lack of memory would."""
        for run in list(self._runs.values()):
            if run.pod["metadata"]["labels"][WORKSPACE_LABEL] == workspace:
                if run.state != "running":
                    continue
                run.killed = True
                for pid in run.sandbox.pids():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def is_down(self, workspace: str) -> bool:
        """Its container has ended, and has not been started again."""
        return any(
            run.state == "crashed" and run.pod["metadata"]["labels"][WORKSPACE_LABEL] == workspace
            for run in list(self._runs.values())
        )

    def stop(self) -> None:
        super().stop()
        self._loop.run(self._end_all())

    async def _end_all(self) -> None:
        ends = [self._end(run) for run in self._runs.values()]
        for failed in await asyncio.gather(*ends, return_exceptions=True):
            if failed is not None:
                raise failed

    # -- tasks -----------------------------------------------------------------------------------

    def _begin(self, run: Run, work: Any) -> None:
        """From the actor's thread."""
        self._loop.loop.call_soon_threadsafe(self._begin_here, run, work)

    def _begin_here(self, run: Run, work: Any) -> None:
        task = asyncio.ensure_future(self._noted(work))
        run.tasks.add(task)
        task.add_done_callback(run.tasks.discard)
        task.add_done_callback(lambda _: self.poke())

    async def _noted(self, work: Any) -> None:
        with suppress(asyncio.CancelledError):
            try:
                await work
            except Exception as error:
                self.faults.append(f"{type(self).__name__}: {type(error).__name__}: {error}")


def _not_ready(kind: str) -> Json:
    return {"type": kind, "status": "False", "reason": "ContainersNotReady"}
