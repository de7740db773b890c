"""The names that this engine adds to those of ../cluster/words.py: what can make a pod anew, and
what we write on triggers and on those makers. Only names.
"""

from __future__ import annotations

from ..cluster.words import PODS, SNAPSHOT_GROUP, Json, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
STORAGE = Resource(
    SNAPSHOT_GROUP, "v1", "podsnapshotstorageconfigs", "PodSnapshotStorageConfig", namespaced=False
)
#: What can be named on the command line, by kind.
MAKERS = {one.kind: one for one in (PODS, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}
#: As kubectl abbreviates them.
SHORT = {
    "po": "Pod", "pod": "Pod", "pods": "Pod",
    "deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment",
    "sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet",
    "rs": "ReplicaSet", "replicaset": "ReplicaSet", "replicasets": "ReplicaSet",
}  # fmt: skip

_PREFIX = "jupyter-gkews/"
#: On our triggers: which request made it, the how manyth for what (`Deployment/name`), which pod it
#: is about, and the manifest of a pod that nothing else would make anew.
REQUEST = _PREFIX + "request"
NUMBER = _PREFIX + "number"
TARGET = _PREFIX + "target"
POD_UID = _PREFIX + "pod-uid"
MANIFEST = _PREFIX + "manifest"
#: On both: the kind of machine that the pod ran on.
MACHINE = _PREFIX + "machine"
#: On what makes the pod, while it is scaled to 0: the snapshot, the scale before, since when, and
#: what the snapshot fits only if it stays as it was.
SNAPSHOT = _PREFIX + "snapshot"
REPLICAS = _PREFIX + "replicas"
PAUSED_AT = _PREFIX + "paused-at"
MADE_OF = _PREFIX + "made-of"
PAUSED = (SNAPSHOT, REPLICAS, PAUSED_AT, MADE_OF)

#: On a PodSnapshot: whose memory it holds.
ORIGIN_POD = "podsnapshot.gke.io/origin-pod"
#: On a pod: Google's sidecar for buckets, which stands in the way of a snapshot.
GCS_FUSE = "gke-gcsfuse/volumes"


def created_of(found: Json | None) -> str:
    """`metadata.creationTimestamp`, as it is written: RFC 3339, which sorts."""
    return str(((found or {}).get("metadata") or {}).get("creationTimestamp") or "")


def deleted(found: Json | None) -> bool:
    """It is being deleted."""
    return bool(((found or {}).get("metadata") or {}).get("deletionTimestamp"))


def controller_of(found: Json) -> Json | None:
    """The reference to what has made it and keeps it there."""
    for one in (found.get("metadata") or {}).get("ownerReferences") or []:
        if one.get("controller"):
            return one  # type: ignore[no-any-return]
    return None
