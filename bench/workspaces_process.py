"""The fake cluster of bench/workspaces.py, in a process of its own: lines of JSON in and out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kube.actors import Platform, SelfManaged
from kube.actors.addon import STATE
from kube.clusters import admin_of, define
from kube.fake import FakeCluster
from kube.objects import workspace


def main() -> None:
    """Serve until stdin ends."""
    cluster = FakeCluster(Path(sys.argv[1]) / "cluster").start()
    admin = admin_of(cluster)
    define(admin)
    platform = Platform(admin, "default")
    pods = SelfManaged(admin, admin.namespace("pods"))
    patched, triggered = [0.0], [0.0]

    def hook(asked: Any) -> Any:
        mine = asked.user == "admin" and asked.resource == "workspaces.kubeflow.org"
        if mine and not asked.subresource and asked.old and asked.new:
            begins = asked.new["spec"].get("paused") and not asked.old["spec"].get("paused")
            # the addon itself does it, too, when its snapshot is whole
            state = asked.new["metadata"].get("annotations", {}).get(STATE)
            if begins and state != "Ready":
                patched[0] = time.time()
        if asked.resource.startswith("podsnapshotmanualtriggers") and asked.operation == "CREATE":
            triggered[0] = time.time()
        return platform.hook(asked)

    cluster.registry.admission.append(hook)
    platform.start()
    platform.create()
    admin.namespace("many")
    about = {"url": cluster.url, "ca": str(cluster.ca), "token": cluster.admin_token}
    _say({**about, "namespace": "default"})
    registry = cluster.registry
    resource = registry.resource("kubeflow.org", "v1beta1", "workspaces")
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "patched":
            _say(patched[0])
        elif order["do"] == "triggered":
            _say(triggered[0])
        elif order["do"] == "pods":
            pods.start().create("Deployment")
            _say(True)
        elif order["do"] == "requests":
            others = [path for _, _, path in cluster.requests if "watch=" not in path]
            _say({"others": len(others), "watches": cluster.open_watches})
        elif order["do"] == "create":
            for index in range(order["count"]):
                registry.create(resource, "many", workspace(f"w{index}"), "bench")
            _say(True)
        elif order["do"] == "change":
            patch = {"spec": {"displayName": str(order["round"])}}
            for found in registry.list(resource, "many"):
                name = found["metadata"]["name"]
                kind = "application/merge-patch+json"
                registry.patch(resource, "many", name, "", kind, patch, "bench")
            _say(True)
    platform.stop()
    pods.stop()
    cluster.stop()


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
