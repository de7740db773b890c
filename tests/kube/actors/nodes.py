"""Scheduler, autoscaler and kubelet: where a pod goes, when it is ready, when it is gone.

`capacity`: whether a node has room. `scaling`: what the autoscaler says when none has: "up" (a node
is being added), "failed" (none can be), "" (nothing). `restores`: how a pod with a snapshot starts:
"restored", "cold" (no sign of it), "fallback" (with a Warning event), "failed" (with a condition).
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timezone
from typing import Any

from ..admin import SNAPSHOT, Answered
from .controller import PODS, condition
from .following import Actor

Json = dict[str, Any]
PS_NAME = "podsnapshot.gke.io/ps-name"
EVENTS = "api/v1 events"
SNAPSHOTS = f"{SNAPSHOT} podsnapshots"
ENDED = ("Succeeded", "Failed")


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def distilled(pod: Json) -> str:
    """What of a pod a snapshot of it fits only if the next one has it, too."""
    keys = ("name", "image", "command", "args")
    found = [{key: one.get(key) for key in keys} for one in pod["spec"]["containers"]]
    return json.dumps(found, sort_keys=True)


class Nodes(Actor):
    follows = (PODS,)

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.node = "node-a"
        self.capacity = True
        self.scaling = "up"
        self.restores = "restored"
        self.says = True
        """False: it is not said yet whether a pod was restored."""
        self.starts = True
        """False: containers do not become ready."""
        self._said: set[str] = set()
        self.lets_go = True
        """False: a deleted pod stays, terminating."""

    def reconcile(self) -> None:
        for pod in self.admin.list(self.path(PODS)):
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                if self.lets_go:
                    self.admin.delete(self.path(PODS), name, gracePeriodSeconds=0)
            elif (pod.get("status") or {}).get("phase") in ENDED:
                continue
            elif not pod["spec"].get("nodeName"):
                self._place(pod)
            else:
                self._run(pod)

    def event(self, pod: Json, kind: str, reason: str, message: str, source: str) -> None:
        about = {"kind": "Pod", "apiVersion": "v1", "namespace": self.namespace}
        about |= {key: pod["metadata"][key] for key in ("name", "uid")}
        self.admin.create(
            self.path(EVENTS),
            {
                "metadata": {"name": f"{pod['metadata']['name']}.{uuid.uuid4().hex[:12]}"},
                "involvedObject": about,
                "type": kind,
                "reason": reason,
                "message": message,
                "source": {"component": source},
                "firstTimestamp": now(),
                "lastTimestamp": now(),
                "count": 1,
            },
        )

    def set_conditions(self, pod: Json, phase: str, *conditions: Json, **status: Any) -> None:
        """Those that are given, beside those that are there."""
        before = (pod.get("status") or {}).get("conditions") or []
        kinds = {one["type"] for one in conditions}
        merged = [one for one in before if one["type"] not in kinds]
        for one in conditions:
            old = condition(pod, one["type"])
            same = {**old, **one} == old
            merged.append(old if same else {"lastTransitionTime": now(), **one})
        wanted = {"phase": phase, "conditions": sorted(merged, key=lambda c: c["type"]), **status}
        have = pod.get("status") or {}
        if any(have.get(key) != value for key, value in wanted.items()):
            # the addon writes conditions of the same pod: onto what was read, or not at all
            version = {"resourceVersion": pod["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": wanted}
            self.admin.merge(self.path(PODS), pod["metadata"]["name"], patch, "status")

    def _place(self, pod: Json) -> None:
        if self.capacity:
            path = f"{self.path(PODS)}/{pod['metadata']['name']}/binding"
            target = {"kind": "Node", "name": self.node}
            meta = {"name": pod["metadata"]["name"], "namespace": self.namespace}
            self.admin.ask(
                "POST",
                path,
                {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target},
            )
            return
        if condition(pod, "PodScheduled").get("status") == "False":
            return
        message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
        self.set_conditions(
            pod,
            "Pending",
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": message},
        )  # fmt: skip
        self.event(pod, "Warning", "FailedScheduling", message, "default-scheduler")
        if self.scaling == "up":
            words = "pod triggered scale-up: [{pool-t4 0->1 (max: 4)}]"
            self.event(pod, "Normal", "TriggeredScaleUp", words, "cluster-autoscaler")
        elif self.scaling == "failed":
            words = "Node scale up in zones us-central1-a associated with this pod failed: "
            words += "GCE quota exceeded."
            self.event(pod, "Warning", "FailedScaleUp", words, "cluster-autoscaler")

    def _run(self, pod: Json) -> None:
        if not self.starts:
            return
        gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
        ready = all(condition(pod, gate).get("status") == "True" for gate in gates)
        status = "True" if ready else "False"
        conditions = [
            {"type": "PodScheduled", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": status},
        ]
        wanted = (pod["metadata"].get("annotations") or {}).get(PS_NAME)
        uid = pod["metadata"]["uid"]
        say = bool(wanted) and self.says and uid not in self._said
        if say:
            conditions += self._restore(pod, wanted)
        containers = [{"name": c["name"], "ready": True, "restartCount": 0, "image": "",
                       "imageID": ""} for c in pod["spec"]["containers"]]  # fmt: skip
        self.set_conditions(pod, "Running", *conditions, containerStatuses=containers)
        if say:
            self._said.add(uid)

    def _restore(self, pod: Json, snapshot: str) -> list[Json]:
        reason = "GKEPodSnapshotting"
        how = self.restores
        try:
            found = self.admin.get(self.path(SNAPSHOTS), snapshot)
        except Answered:
            how = "cold"  # it is gone
        else:
            spec = (found["metadata"].get("annotations") or {}).get("spec", distilled(pod))
            how = how if spec == distilled(pod) else "cold"
        where = f"{self.namespace}/{snapshot}"
        if how == "restored":
            message = f"Successfully restored the pod from PodSnapshot {where}"
            self.event(pod, "Normal", reason, message, "gke-pod-snapshot")
            return [{"type": "PodRestored", "status": "True", "reason": "Restored",
                     "message": message}]  # fmt: skip
        if how == "fallback":
            message = f"failed to restore from {where}, falling back to a cold start"
            self.event(pod, "Warning", reason, message, "gke-pod-snapshot")
        if how == "failed":
            message = f"OCI runtime restore failed: incompatible FeatureSet ({where})"
            return [{"type": "PodRestored", "status": "False", "reason": "RestoreFailed",
                     "message": message}]  # fmt: skip
        return []
