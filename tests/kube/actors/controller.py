"""Kubeflow's controller of Workspaces: one pod for each that is not paused, and its state.

How a state is derived follows kubeflow/notebooks, branch notebooks-v2, generateWorkspaceState.
"""

from __future__ import annotations

import time
from typing import Any

from ..admin import KUBEFLOW
from .following import Actor

Json = dict[str, Any]
WORKSPACE_LABEL = "notebooks.kubeflow.org/workspace-name"
PODS = "api/v1 pods"
WORKSPACES = f"{KUBEFLOW} workspaces"


def condition(found: Json, kind: str) -> Json:
    for one in (found.get("status") or {}).get("conditions") or []:
        if one["type"] == kind:
            return one  # type: ignore[no-any-return]
    return {}


class Controller(Actor):
    follows = (WORKSPACES, PODS)

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.pod_spec: Json = {
            "containers": [{"name": "main", "image": "jupyterlab"}],
            "serviceAccountName": "default",
        }
        """What the kind and its options come to."""

    def reconcile(self) -> None:
        pods = {
            pod["metadata"]["labels"][WORKSPACE_LABEL]: pod
            for pod in self.admin.list(self.path(PODS), labelSelector=WORKSPACE_LABEL)
        }
        for workspace in self.admin.list(self.path(WORKSPACES)):
            name = workspace["metadata"]["name"]
            pod = pods.get(name)
            paused = workspace["spec"].get("paused")
            if paused and pod and "deletionTimestamp" not in pod["metadata"]:
                self.admin.delete(self.path(PODS), pod["metadata"]["name"])
                pod = self.admin.find(self.path(PODS), pod["metadata"]["name"])
            elif not paused and pod is None:
                pod = self.admin.create(self.path(PODS), self._pod(workspace))
            self._set_state(workspace, pod)

    def _pod(self, workspace: Json) -> Json:
        name = workspace["metadata"]["name"]
        # that of a StatefulSet, which has a name of its own: it stays over a pause
        pod = f"ws-{name}-{workspace['metadata']['uid'][:5]}-0"
        labels = {WORKSPACE_LABEL: name, "statefulset.kubernetes.io/pod-name": pod}
        return {"metadata": {"name": pod, "labels": labels}, "spec": dict(self.pod_spec)}

    def _set_state(self, workspace: Json, pod: Json | None) -> None:
        state, message = self._state(workspace, pod)
        before = workspace.get("status") or {}
        status: Json = {"state": state, "stateMessage": message}
        now = int(time.time() * 1000)
        if state == "Paused" and before.get("state") != "Paused":
            status["pauseTime"] = now
        if state == "Running" and before.get("state") != "Running":
            status["lastRunningTime"] = now
        if pod is not None:
            account = pod["spec"].get("serviceAccountName", "")
            status["podTemplatePod"] = {
                "name": pod["metadata"]["name"],
                "nodeName": pod["spec"].get("nodeName", ""),
                "serviceAccountName": account,
            }
        if any(before.get(key) != value for key, value in status.items()):
            self.admin.merge(
                self.path(WORKSPACES), workspace["metadata"]["name"], {"status": status}, "status"
            )

    def _state(self, workspace: Json, pod: Json | None) -> tuple[str, str]:
        if pod is None:
            paused = workspace["spec"].get("paused")
            return ("Paused", "Workspace is paused") if paused else ("Unknown", "no pod")
        if "deletionTimestamp" in pod["metadata"]:
            return "Terminating", "Workspace is terminating"
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            return "Error", f"Workspace Pod is unschedulable: {scheduled.get('message')}"
        status = pod.get("status") or {}
        if status.get("phase") == "Running" and condition(pod, "Ready").get("status") == "True":
            return "Running", "Workspace is running"
        for container in status.get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in ("CrashLoopBackOff", "ImagePullBackOff"):
                return "Error", f"Workspace Container is not running: {waiting['reason']}"
        if status.get("phase") == "Pending":
            return "Pending", "Workspace is pending"
        return "Unknown", "Workspace is in an unknown state"
