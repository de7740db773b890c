"""The controllers of Deployments, ReplicaSets and StatefulSets: as many pods as are wanted, each as
its template says; a changed template replaces them, unless that is left to whoever deletes them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from .controller import PODS
from .following import Actor
from .nodes import ENDED

Json = dict[str, Any]
DEPLOYMENTS = "apis/apps/v1 deployments"
REPLICA_SETS = "apis/apps/v1 replicasets"
STATEFUL_SETS = "apis/apps/v1 statefulsets"
HASH, REVISION = "pod-template-hash", "controller-revision-hash"


def _hash(template: Json) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]


def _reference(kind: str, maker: Json) -> Json:
    about = maker["metadata"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": about["name"], "uid": about["uid"],
            "controller": True, "blockOwnerDeletion": True}  # fmt: skip


def _of(maker: Json, among: list[Json]) -> list[Json]:
    uid = maker["metadata"]["uid"]
    return [
        one for one in among
        if any(ref["uid"] == uid for ref in one["metadata"].get("ownerReferences") or [])
    ]  # fmt: skip


class Makers(Actor):
    follows = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, PODS)

    def reconcile(self) -> None:
        pods = self.admin.list(self.path(PODS))
        sets = self.admin.list(self.path(REPLICA_SETS))
        for deployment in self.admin.list(self.path(DEPLOYMENTS)):
            self._deployment(deployment, _of(deployment, sets), pods)
        for one in self.admin.list(self.path(REPLICA_SETS)):
            self._replica_set(one, _of(one, pods))
        for one in self.admin.list(self.path(STATEFUL_SETS)):
            self._stateful_set(one, _of(one, pods))

    def _deployment(self, deployment: Json, sets: list[Json], pods: list[Json]) -> None:
        spec = deployment["spec"]
        mark = _hash(spec["template"])
        wanted, current = int(spec.get("replicas", 1)), None
        for one in sets:
            if one["metadata"]["labels"][HASH] == mark:
                current = one
            elif one["spec"].get("replicas"):
                self._scale(one, 0)
        if current is None:
            template = json.loads(json.dumps(spec["template"]))
            template["metadata"].setdefault("labels", {})[HASH] = mark
            labels = template["metadata"]["labels"]
            self.admin.create(
                self.path(REPLICA_SETS),
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "metadata": {
                        "name": f"{deployment['metadata']['name']}-{mark}",
                        "labels": labels,
                        "annotations": deployment["metadata"].get("annotations") or {},
                        "ownerReferences": [_reference("Deployment", deployment)],
                    },
                    "spec": {"replicas": wanted, "selector": {"matchLabels": labels},
                             "template": template},
                },
            )  # fmt: skip
        elif current["spec"].get("replicas") != wanted:
            self._scale(current, wanted)
        mine = len(_of(current, pods)) if current is not None else 0
        self._status(DEPLOYMENTS, deployment, updatedReplicas=mine, replicas=mine)

    def _replica_set(self, one: Json, pods: list[Json]) -> None:
        alive = [
            pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            and (pod.get("status") or {}).get("phase") not in ENDED
        ]
        wanted = int(one["spec"].get("replicas", 1))
        for pod in alive[wanted:]:
            self.admin.delete(self.path(PODS), pod["metadata"]["name"])
        for _ in range(wanted - len(alive)):
            name = f"{one['metadata']['name']}-{uuid.uuid4().hex[:5]}"
            self._make("ReplicaSet", one, name, {})

    def _stateful_set(self, one: Json, pods: list[Json]) -> None:
        spec = one["spec"]
        mark = f"{one['metadata']['name']}-{_hash(spec['template'])}"
        wanted = int(spec.get("replicas", 1))
        rolls = (spec.get("updateStrategy") or {}).get("type") != "OnDelete"
        names = {pod["metadata"]["name"] for pod in pods}
        for pod in pods:
            number = int(pod["metadata"]["name"].rpartition("-")[2])
            old = pod["metadata"]["labels"][REVISION] != mark
            if "deletionTimestamp" not in pod["metadata"] and (number >= wanted or (rolls and old)):
                self.admin.delete(self.path(PODS), pod["metadata"]["name"])
        for number in range(wanted):
            name = f"{one['metadata']['name']}-{number}"
            if name not in names:
                self._make("StatefulSet", one, name, {REVISION: mark})
        self._status(STATEFUL_SETS, one, updateRevision=mark, replicas=len(pods))

    def _make(self, kind: str, maker: Json, name: str, labels: Json) -> None:
        template = json.loads(json.dumps(maker["spec"]["template"]))
        metadata = template.get("metadata") or {}
        metadata["name"] = name
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        metadata["ownerReferences"] = [_reference(kind, maker)]
        metadata.pop("creationTimestamp", None)
        self.admin.create(self.path(PODS), {"metadata": metadata, "spec": template["spec"]})

    def _scale(self, one: Json, replicas: int) -> None:
        name = one["metadata"]["name"]
        self.admin.merge(self.path(REPLICA_SETS), name, {"spec": {"replicas": replicas}})

    def _status(self, where: str, found: Json, **status: Any) -> None:
        generation = found["metadata"].get("generation")
        if generation is not None:
            status["observedGeneration"] = generation
        have = found.get("status") or {}
        if any(have.get(key) != value for key, value in status.items()):
            name = found["metadata"]["name"]
            self.admin.merge(self.path(where), name, {"status": status}, "status")
