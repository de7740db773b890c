"""A cluster for the tests, the fake one or the real one: our CRDs in it, and the ways to it.

Starts and ends nothing by itself.
"""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from jupyter_gkews.engines.pod_account import InPod

from .admin import Admin, Answered
from .fake import FakeCluster
from .real_server import RealCluster

CRDS = Path(__file__).parent / "crds"
DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Cluster = FakeCluster | RealCluster


def admin_of(cluster: Cluster) -> Admin:
    return Admin(cluster.url, cluster.ca, cluster.admin_token)


def define(admin: Admin) -> None:
    """Create our CRDs and wait until they are served."""
    paths = []
    for file in sorted(CRDS.glob("*.yaml")):
        for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            admin.create(DEFINITIONS, definition)
            spec = definition["spec"]
            version = spec["versions"][0]["name"]
            paths.append(f"apis/{spec['group']}/{version}/{spec['names']['plural']}")
    end = time.monotonic() + 30
    for path in paths:
        while True:
            try:
                admin.list(path)
                break
            except Answered:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # a real server announces it to nobody


def in_pod(cluster: Cluster, folder: Path, token: str, namespace: str = "default") -> InPod:
    """What a pod finds of its service account: files, and the address in its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(namespace)
    (folder / "ca.crt").write_text(cluster.ca.read_text())
    host, port = cluster.url.removeprefix("https://").split(":")
    return InPod(folder, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})


def write_kubeconfig(cluster: Cluster, file: Path, token: str) -> Path:
    """As `gcloud container clusters get-credentials` would leave it, with a token."""
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": cluster.url,
                            "certificate-authority": str(cluster.ca),
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return file
