"""GKE's snapshot addon for Workspaces: its webhook (`admit`) and its controller.

The states are those of gke-labs/workspaces, providers/gke: Checkpointing, Ready, Restoring, none.
Like the original it has no way out of a snapshot that fails. `awake` False: the addon is down, and
its webhook lets everything pass.
"""

from __future__ import annotations

from typing import Any

from .controller import PODS, WORKSPACE_LABEL, WORKSPACES, condition
from .following import Actor
from .gke import TRIGGERED_BY, TRIGGERS
from .nodes import PS_NAME, SNAPSHOTS, now

Json = dict[str, Any]
PREFIX = "podsnapshot.gke.kubeflow.org/"
STATE, STARTED = PREFIX + "checkpoint-state", PREFIX + "checkpoint-started-at"
LAST, ENABLED, GATE = PREFIX + "last-checkpoint-name", PREFIX + "enabled", PREFIX + "active"


class Addon(Actor):
    follows = (WORKSPACES, PODS, SNAPSHOTS, TRIGGERS)

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.awake = True
        self.settle = 0.02
        self.cleans = True
        """False: it stays in Restoring though the pod is ready."""

    # -- the webhook -------------------------------------------------------------------------

    def admit(self, operation: str, resource: str, sub: str, old: Json | None, new: Json) -> Json:
        """The object as it is let in."""
        if not self.awake or sub:
            return new
        if resource == "pods" and operation == "CREATE":
            return self._prepared(new)
        if resource == "workspaces.kubeflow.org" and operation == "UPDATE" and old is not None:
            return self._workspace(old, new)
        return new

    def _workspace(self, old: Json, new: Json) -> Json:
        if not self._enabled(new):
            return new
        before, after = old["spec"].get("paused", False), new["spec"].get("paused", False)
        annotations = new["metadata"].setdefault("annotations", {})
        if not before and after and annotations.get(STATE) != "Ready":
            if self._pod_of(new["metadata"]["name"]) is None:
                return new
            annotations[STATE] = "Checkpointing"
            annotations[STARTED] = now()
            new["spec"]["paused"] = False
        elif before and not after and annotations.get(STATE) == "Ready":
            if annotations.get(LAST):
                annotations[STATE] = "Restoring"
            else:
                annotations.pop(STATE)
        return new

    def _prepared(self, pod: Json) -> Json:
        name = (pod["metadata"].get("labels") or {}).get(WORKSPACE_LABEL)
        workspace = self.admin.find(self.path(WORKSPACES), name) if name else None
        if workspace is None or not self._enabled(workspace):
            return pod
        pod["spec"]["runtimeClassName"] = "gvisor"
        pod["spec"]["readinessGates"] = [{"conditionType": GATE}]
        last = (workspace["metadata"].get("annotations") or {}).get(LAST)
        if last:
            pod["metadata"].setdefault("annotations", {})[PS_NAME] = last
        return pod

    def _enabled(self, workspace: Json) -> bool:
        return (workspace["metadata"].get("annotations") or {}).get(ENABLED) == "true"

    def _pod_of(self, workspace: str) -> Json | None:
        found = self.admin.list(self.path(PODS), labelSelector=f"{WORKSPACE_LABEL}={workspace}")
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return alive[0] if alive else None

    # -- the controller ----------------------------------------------------------------------

    def reconcile(self) -> None:
        if not self.awake:
            return
        for workspace in self.admin.list(self.path(WORKSPACES)):
            if not self._enabled(workspace):
                continue
            pod = self._pod_of(workspace["metadata"]["name"])
            state = (workspace["metadata"].get("annotations") or {}).get(STATE)
            if state == "Checkpointing":
                self._checkpoint(workspace, pod)
            elif state == "Restoring" and pod and self._gate(pod, "True"):
                if condition(pod, "Ready").get("status") == "True" and self.cleans:
                    self._clean(workspace)
            elif state is None and pod and (pod["spec"].get("nodeName")):
                self._gate(pod, "True")

    def _checkpoint(self, workspace: Json, pod: Json | None) -> None:
        name = workspace["metadata"]["name"]
        if pod is None:
            self._finish(name, None)
            return
        self._gate(pod, "False")
        started = workspace["metadata"]["annotations"][STARTED]
        trigger = self.admin.find(self.path(TRIGGERS), f"ws-{name}-trigger")
        if trigger is not None and trigger["metadata"]["annotations"][STARTED] != started:
            self.admin.delete(
                self.path(TRIGGERS), trigger["metadata"]["name"]
            )  # of another request
            trigger = None
        if trigger is None:
            self._create_trigger(workspace, pod, started)
            self.again(self.settle)
            return
        for snapshot in self.admin.list(
            self.path(SNAPSHOTS), labelSelector=f"{TRIGGERED_BY}={trigger['metadata']['name']}"
        ):
            if condition(snapshot, "Ready").get("status") == "True":
                self._finish(name, snapshot["metadata"]["name"])

    def _create_trigger(self, workspace: Json, pod: Json, started: str) -> None:
        name = workspace["metadata"]["name"]
        owner = {
            "apiVersion": "kubeflow.org/v1beta1", "kind": "Workspace", "name": name,
            "uid": workspace["metadata"]["uid"], "controller": False, "blockOwnerDeletion": True,
        }  # fmt: skip
        self.admin.create(
            self.path(TRIGGERS),
            {
                "apiVersion": "podsnapshot.gke.io/v1",
                "kind": "PodSnapshotManualTrigger",
                "metadata": {
                    "name": f"ws-{name}-trigger",
                    "annotations": {STARTED: started},
                    "ownerReferences": [owner],
                },
                "spec": {"targetPod": pod["metadata"]["name"]},
            },
        )

    def _finish(self, name: str, snapshot: str | None) -> None:
        self.admin.merge(
            self.path(WORKSPACES), name,
            {"metadata": {"annotations": {STATE: "Ready", STARTED: None, LAST: snapshot}},
             "spec": {"paused": True}},
        )  # fmt: skip

    def _clean(self, workspace: Json) -> None:
        name = workspace["metadata"]["name"]
        trigger = f"ws-{name}-trigger"
        for snapshot in self.admin.list(
            self.path(SNAPSHOTS), labelSelector=f"{TRIGGERED_BY}={trigger}"
        ):
            if "deletionTimestamp" not in snapshot["metadata"]:
                self.admin.delete(self.path(SNAPSHOTS), snapshot["metadata"]["name"])
        if self.admin.find(self.path(TRIGGERS), trigger):
            self.admin.delete(self.path(TRIGGERS), trigger)
        annotations = {STATE: None, STARTED: None, LAST: None}
        self.admin.merge(self.path(WORKSPACES), name, {"metadata": {"annotations": annotations}})

    def _gate(self, pod: Json, status: str) -> bool:
        """Publish the readiness gate; True if the pod has one."""
        if not any(g["conditionType"] == GATE for g in pod["spec"].get("readinessGates") or []):
            return False
        if condition(pod, GATE).get("status") != status:
            conditions = (pod.get("status") or {}).get("conditions") or []
            conditions = [one for one in conditions if one["type"] != GATE]
            conditions.append({"type": GATE, "status": status, "lastTransitionTime": now()})
            version = {"resourceVersion": pod["metadata"]["resourceVersion"]}
            self.admin.merge(
                self.path(PODS), pod["metadata"]["name"],
                {"metadata": version, "status": {"conditions": conditions}}, "status",
            )  # fmt: skip
        return True
