"""All actors of one namespace, and workspaces in it."""

from __future__ import annotations

from typing import Any

from ..admin import KUBEFLOW, Admin
from ..fake.registry import Admission
from .addon import ENABLED, Addon
from .controller import Controller
from .following import Actors
from .gke import PodSnapshots
from .nodes import Nodes

Json = dict[str, Any]


class Platform(Actors):
    """On a fake server the addon's webhook is asked in this process: pass `addon.admit`'s hook to
    its registry (`hook`)."""

    def __init__(
        self, admin: Admin, namespace: str,
        gke: PodSnapshots | None = None, nodes: Nodes | None = None,
    ) -> None:  # fmt: skip
        self.admin, self.namespace = admin, namespace
        self.workspaces = f"{KUBEFLOW}/namespaces/{namespace}/workspaces"
        self.controller = Controller(admin, namespace)
        self.addon = Addon(admin, namespace)
        self.gke = gke or PodSnapshots(admin, namespace)
        self.nodes = nodes or Nodes(admin, namespace)
        self._actors = (self.controller, self.addon, self.gke, self.nodes)

    def hook(self, asked: Admission) -> Json | None:
        """For FakeCluster.registry.admission."""
        if asked.namespace != self.namespace or asked.new is None:
            return None
        return self.addon.admit(
            asked.operation, asked.resource, asked.subresource, asked.old, asked.new
        )

    def create(self, name: str = "ws", enabled: bool = True, **annotations: str) -> Json:
        """A workspace; its pod comes by itself."""
        if enabled:
            annotations[ENABLED] = "true"
        return self.admin.create(
            self.workspaces,
            {
                "apiVersion": "kubeflow.org/v1beta1",
                "kind": "Workspace",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {
                    "kind": "jupyterlab",
                    "podTemplate": {
                        "options": {"imageConfig": "gpu", "podConfig": "t4"},
                        "volumes": {"home": "home"},
                    },
                },
            },
        )

    def get(self, name: str = "ws") -> Json:
        return self.admin.get(self.workspaces, name)

    def pod(self, name: str = "ws") -> Json | None:
        return self.addon._pod_of(name)
