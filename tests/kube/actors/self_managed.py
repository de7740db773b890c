"""All actors of one namespace of a cluster without Workspaces, and pods in it."""

from __future__ import annotations

from typing import Any

from ..admin import SNAPSHOT, Admin, Answered
from .controller import PODS
from .following import Actors
from .gke import PodSnapshots
from .makers import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Makers
from .nodes import Nodes

Json = dict[str, Any]
STORAGE = f"{SNAPSHOT}/podsnapshotstorageconfigs"
PLACES = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS,
          "Pod": PODS}  # fmt: skip


class SelfManaged(Actors):
    """GKE Pod Snapshots and the controllers of Kubernetes, no addon."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace
        self.makers = Makers(admin, namespace)
        self.gke = PodSnapshots(admin, namespace)
        self.nodes = Nodes(admin, namespace)
        self._actors = (self.makers, self.gke, self.nodes)
        self.pod_spec: Json = {
            "runtimeClassName": "gvisor",
            "containers": [{"name": "lab", "image": "jupyterlab:1"}],
        }

    def start(self) -> SelfManaged:
        spec = {"snapshotStorageConfig": {"gcs": {"bucket": "b"}}}
        try:
            self.admin.create(STORAGE, {"metadata": {"name": "buckets"}, "spec": spec,
                                        "kind": "PodSnapshotStorageConfig",
                                        "apiVersion": "podsnapshot.gke.io/v1"})  # fmt: skip
        except Answered as answered:  # another namespace has made it
            assert answered.code == 409
        return super().start()

    def path(self, kind: str) -> str:
        return self.makers.path(PLACES.get(kind) or f"{SNAPSHOT} {kind}")

    def create(self, kind: str, name: str = "lab", replicas: int = 1, **spec: Any) -> Json:
        """A Deployment, StatefulSet, ReplicaSet, or a bare Pod, which comes to run."""
        labels = {"app": name}
        pod = {"metadata": {"labels": dict(labels)}, "spec": {**self.pod_spec}}
        body: Json = {"kind": kind, "metadata": {"name": name}}
        if kind == "Pod":
            body = {"kind": kind, "apiVersion": "v1", "metadata": {"name": name, "labels": labels},
                    "spec": {**self.pod_spec, **spec}}  # fmt: skip
        else:
            body["apiVersion"] = "apps/v1"
            body["spec"] = {"replicas": replicas, "selector": {"matchLabels": labels},
                            "template": pod, **spec}  # fmt: skip
            if kind == "StatefulSet":
                body["spec"]["serviceName"] = name
        return self.admin.create(self.path(kind), body)

    def get(self, kind: str, name: str = "lab") -> Json:
        return self.admin.get(self.path(kind), name)

    def pods(self, name: str = "lab") -> list[Json]:
        return self.admin.list(self.path("Pod"), labelSelector=f"app={name}")

    def triggers(self) -> list[Json]:
        return self.admin.list(self.path("podsnapshotmanualtriggers"))

    def snapshots(self) -> list[Json]:
        return self.admin.list(self.path("podsnapshots"))
