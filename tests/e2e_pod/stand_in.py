"""The whole stand-in for a GKE cluster with Workspaces: what README.md says, started and ended.

Real: the API server, the pod's Jupyter server, gVisor and its images. Played: the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kube.actors import Platform
from kube.actors.controller import WORKSPACE_LABEL
from kube.admin import RBAC, SNAPSHOT, Admin
from kube.real_server import RealCluster
from kube.roles import bind_workspace
from kube.webhook import Webhook
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from . import backend
from .access_proxy import AccessProxy
from .images import Images
from .loop import LoopThread
from .node_agent import NodeAgent
from .snapshots import ImageSnapshots

Json = dict[str, Any]
RUNTIME_CLASSES = "apis/node.k8s.io/v1/runtimeclasses"
USER = "ada@example.com"


class StandIn:
    """One namespace of `cluster`, with one user. `server`: what a pod runs, after `python -m`."""

    def __init__(
        self, cluster: RealCluster, namespace: str, folder: Path, server: list[str]
    ) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.admin = Admin(cluster.url, cluster.ca, cluster.admin_token)
        self.loop = LoopThread()
        images = Images(folder / "images")
        about = (self.admin, namespace)
        self.node = NodeAgent(*about, loop=self.loop, folder=folder, images=images, server=server)
        self.gke = ImageSnapshots(*about, node=self.node, images=images)
        self.platform = Platform(*about, gke=self.gke, nodes=self.node)
        self.proxy = AccessProxy(("", 0), self._pod_of, self._may)
        self._ends: list[Any] = [self.loop.stop]

    def start(self) -> StandIn:
        """Where something cannot be started, what has been is ended."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        self.admin.namespace(self.namespace)
        if self.admin.find(RUNTIME_CLASSES, "gvisor") is None:
            about = {"metadata": {"name": "gvisor"}, "handler": "gvisor"}
            self.admin.create(RUNTIME_CLASSES, about)
        self.let_user(USER)
        self._webhook = Webhook(
            self.admin, self.namespace, self.platform.hook, self.folder / "webhook"
        ).start()
        self._ends.append(self._webhook.stop)
        self.loop.run(self._serve())
        self._ends.append(lambda: self.loop.run(self._end_serving()))
        self.platform.start()
        self._ends.append(self.platform.stop)

    async def _serve(self) -> None:
        (listening,) = bind_sockets(0, "127.0.0.1")
        self._backend = HTTPServer(backend.application(self.admin))
        self._backend.add_socket(listening)
        address = listening.getsockname()
        self.proxy = AccessProxy(address[:2], self._pod_of, self._may)
        await self.proxy.start()

    async def _end_serving(self) -> None:
        await self.proxy.stop()
        self._backend.stop()
        await self._backend.close_all_connections()

    def stop(self) -> None:
        """In any case all of it, the first thing that went wrong is raised."""
        failed: BaseException | None = None
        for end in reversed(self._ends):
            try:
                end()
            except BaseException as error:
                failed = failed or error
        self._ends.clear()
        if failed is not None:
            raise failed

    # -- the cluster as its admins and users set it up -------------------------------------------

    def let_user(self, user: str) -> None:
        """What the role kubeflow-edit grants a user in their namespace."""
        where = f"{RBAC}/namespaces/{self.namespace}"
        rules = [{"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "verbs": ["*"]}]
        self.admin.create(f"{where}/roles", {"metadata": {"name": "edit"}, "rules": rules})
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "Role", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "edit"}, "subjects": [subject], "roleRef": role}
        self.admin.create(f"{where}/rolebindings", binding)

    def create(self, name: str = "ws", rules: list[Json] | None = None) -> Json:
        """A Workspace that is enabled for snapshots. `rules`: of its pod's account; None: those of
        deploy/."""
        account = f"ws-{name}"
        self.admin.account(self.namespace, account)
        if rules is None:
            bind_workspace(self.admin, self.namespace, account)
        else:
            self.admin.grant(self.namespace, account, rules)
        self.platform.controller.pod_spec["serviceAccountName"] = account
        self.admin.create(
            f"{SNAPSHOT}/namespaces/{self.namespace}/podsnapshotpolicies",
            {
                "apiVersion": "podsnapshot.gke.io/v1",
                "kind": "PodSnapshotPolicy",
                "metadata": {"name": f"ws-{name}-policy"},
                "spec": {
                    "storageConfigName": "kubeflow-pod-snapshot-storage-config",
                    "selector": {"matchLabels": {WORKSPACE_LABEL: name}},
                    "triggerConfig": {"type": "manual", "postCheckpoint": "stop"},
                    "retentionConfig": {"lastAccessTimeout": "7d"},
                },
            },
        )
        return self.platform.create(name)

    def home(self, workspace: str = "ws") -> Path:
        """Its home volume, as seen from outside."""
        return self.node.volume(f"home-{workspace}")

    def _pod_of(self, namespace: str, workspace: str) -> tuple[str, int] | None:
        return self.node.address(workspace) if namespace == self.namespace else None

    def _may(self, user: str, namespace: str, workspace: str) -> bool:
        return backend.allowed(self.admin, user, "get", namespace, workspace)
