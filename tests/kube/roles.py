"""The roles of deploy/, given to an account as its documentation says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .admin import RBAC, Admin

DEPLOY = Path(__file__).parents[2] / "deploy"
PODSNAPSHOT = DEPLOY / "podsnapshot-clusterrole.yaml"
Json = dict[str, Any]


def workspace_manifests() -> list[Json]:
    return list(yaml.safe_load_all((DEPLOY / "clusterrole.yaml").read_text(encoding="utf-8")))


def bind_workspace(admin: Admin, namespace: str, account: str) -> None:
    """As Kubeflow's controller does with the roles of a kind, and the binding of the manifest."""
    for manifest in workspace_manifests():
        plural = manifest["kind"].lower() + "s"
        if admin.find(f"{RBAC}/{plural}", manifest["metadata"]["name"]) is None:
            admin.create(f"{RBAC}/{plural}", manifest)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "jupyter-gkews-workspace",
    }  # fmt: skip
    admin.create(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {"metadata": {"name": account}, "subjects": [subject], "roleRef": role},
    )


def bind_podsnapshot(admin: Admin, namespace: str, account: str) -> None:
    """As the comment in the manifest says."""
    for manifest in yaml.safe_load_all(PODSNAPSHOT.read_text(encoding="utf-8")):
        name = manifest["metadata"]["name"]
        if admin.find(f"{RBAC}/clusterroles", name) is None:
            admin.create(f"{RBAC}/clusterroles", manifest)
        body = {
            "metadata": {"name": f"{name}-{namespace}"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": name},
        }  # fmt: skip
        where = (
            "clusterrolebindings"
            if name.endswith("-cluster")
            else (f"namespaces/{namespace}/rolebindings")
        )
        admin.create(f"{RBAC}/{where}", body)
