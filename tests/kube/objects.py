"""Objects that many tests create, as small as the API takes them."""

from __future__ import annotations

from typing import Any

from .admin import KUBEFLOW, Admin

Json = dict[str, Any]


def workspace(name: str = "ws", **spec: object) -> Json:
    options = {"imageConfig": "jupyter", "podConfig": "gpu"}
    return {
        "apiVersion": "kubeflow.org/v1beta1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {
            "kind": "jupyterlab",
            "podTemplate": {"options": options, "volumes": {"home": "home"}},
            **spec,
        },
    }


def pod(name: str, **labels: str) -> Json:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "image"}]},
    }


def made(admin: Admin, namespace: str, name: str = "ws", **spec: object) -> Json:
    return admin.create(f"{KUBEFLOW}/namespaces/{namespace}/workspaces", workspace(name, **spec))


def at(namespace: str, plural: str = "workspaces") -> str:
    return f"{KUBEFLOW}/namespaces/{namespace}/{plural}"
