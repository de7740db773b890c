"""Which resources the fake server has: those of Kubernetes that we meet, and what CRDs add."""

from __future__ import annotations

from dataclasses import dataclass, field

from .schemas import check_definition
from .status import Json


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    schema: Json | None = field(default=None, hash=False, compare=False)
    """Of a custom resource; those of Kubernetes are not validated beyond what is always asked."""

    @property
    def custom(self) -> bool:
        return self.schema is not None

    @property
    def counted(self) -> bool:
        """Each change of its spec is counted in `metadata.generation`."""
        return self.custom or self.group == "apps"

    @property
    def name(self) -> str:
        """`pods`, `workspaces.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def verbs(self) -> list[str]:
        return ["create", "delete", "get", "list", "patch", "update", "watch"]


def of_kubernetes() -> list[Resource]:
    rbac = ("rbac.authorization.k8s.io", "v1")
    return [
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        Resource("", "v1", "nodes", "Node", namespaced=False, status=True),
        Resource("", "v1", "pods", "Pod", status=True),
        Resource("", "v1", "events", "Event"),
        Resource("", "v1", "configmaps", "ConfigMap"),
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True),
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource("apps", "v1", "deployments", "Deployment", status=True),
        Resource("apps", "v1", "replicasets", "ReplicaSet", status=True),
        Resource("apps", "v1", "statefulsets", "StatefulSet", status=True),
        Resource(*rbac, "roles", "Role"),
        Resource(*rbac, "rolebindings", "RoleBinding"),
        Resource(*rbac, "clusterroles", "ClusterRole", namespaced=False),
        Resource(*rbac, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions",
                 "CustomResourceDefinition", namespaced=False, status=True),
    ]  # fmt: skip


def of_definition(definition: Json) -> list[Resource]:
    """The served versions of a CustomResourceDefinition; ValueError for a schema beyond us."""
    spec = definition["spec"]
    found = []
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        check_definition(schema)
        if version["served"]:
            found.append(
                Resource(
                    spec["group"],
                    version["name"],
                    spec["names"]["plural"],
                    spec["names"]["kind"],
                    spec["scope"] == "Namespaced",
                    "status" in (version.get("subresources") or {}),
                    schema,
                )
            )
    return found
