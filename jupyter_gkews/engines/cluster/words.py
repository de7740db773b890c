"""Names that Kubernetes, Kubeflow Notebooks 2, GKE's snapshot addon and GKE Pod Snapshots give to
resources, labels, annotations and conditions. Only names; each is somebody else's contract.

Sources: kubeflow/notebooks (branch notebooks-v2), gke-labs/workspaces (providers/gke), and the
reference of podsnapshot.gke.io in GKE's documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind of object as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


WORKSPACES = Resource("kubeflow.org", "v1beta1", "workspaces", "Workspace")
KINDS = Resource("kubeflow.org", "v1beta1", "workspacekinds", "WorkspaceKind", namespaced=False)

SNAPSHOT_GROUP = "podsnapshot.gke.io"
SNAPSHOTS = Resource(SNAPSHOT_GROUP, "v1", "podsnapshots", "PodSnapshot")
TRIGGERS = Resource(SNAPSHOT_GROUP, "v1", "podsnapshotmanualtriggers", "PodSnapshotManualTrigger")
POLICIES = Resource(SNAPSHOT_GROUP, "v1", "podsnapshotpolicies", "PodSnapshotPolicy")

PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")

#: On the pod: the Workspace that it belongs to.
WORKSPACE_LABEL = "notebooks.kubeflow.org/workspace-name"
#: On a PodSnapshot: the trigger that asked for it.
TRIGGERED_BY = "gke-pod-snapshot-triggered-by"

_PREFIX = "podsnapshot.gke.kubeflow.org/"
ENABLED = _PREFIX + "enabled"
MIGRATION_ENABLED = "pod-migration.gke.io/enabled"
CHECKPOINT_STATE = _PREFIX + "checkpoint-state"
CHECKPOINT_STARTED = _PREFIX + "checkpoint-started-at"
LAST_CHECKPOINT = _PREFIX + "last-checkpoint-name"
#: The readiness gate that the addon's webhook puts on a pod.
GATE = _PREFIX + "active"

CHECKPOINTING, READY, RESTORING = "Checkpointing", "Ready", "Restoring"

GVISOR = "gvisor"
MAIN_CONTAINER = "main"
TPU, GPU = "google.com/tpu", "nvidia.com/gpu"
#: On nodes, and in a pod's nodeSelector.
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
#: A pod asks for a class of machines by it, and then names no GPU.
COMPUTE_CLASS_LABEL = "cloud.google.com/compute-class"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
MACHINE_FAMILY_LABEL = "cloud.google.com/machine-family"
MACHINE_TYPE_LABEL = "node.kubernetes.io/instance-type"

#: Set on a pod when the restore of its memory is over, after it has become ready.
RESTORED_CONDITION = "PodRestored"
#: The reason of the events that GKE writes about snapshots of a pod.
SNAPSHOT_EVENT = "GKEPodSnapshotting"


def trigger_of(workspace: str) -> str:
    """The name under which the addon asks for the snapshot of a workspace."""
    return f"ws-{workspace}-trigger"


def policy_of(workspace: str) -> str:
    """The name of the policy that the addon makes for a workspace."""
    return f"ws-{workspace}-policy"


# -- reading objects -------------------------------------------------------------------------


def name_of(found: Json) -> str:
    """`metadata.name`."""
    return str((found.get("metadata") or {}).get("name") or "")


def uid_of(found: Json | None) -> str:
    """`metadata.uid`; empty if there is none."""
    return str(((found or {}).get("metadata") or {}).get("uid") or "")


def version_of(found: Json | None) -> str:
    """`metadata.resourceVersion`; empty if there is none."""
    return str(((found or {}).get("metadata") or {}).get("resourceVersion") or "")


def annotations_of(found: Json) -> dict[str, str]:
    """`metadata.annotations`, never None."""
    return (found.get("metadata") or {}).get("annotations") or {}


def labels_of(found: Json) -> dict[str, str]:
    """`metadata.labels`, never None."""
    return (found.get("metadata") or {}).get("labels") or {}


def condition_of(found: Json, kind: str) -> Json | None:
    """The condition of this type in `status.conditions`; None if it has not been set."""
    for condition in (found.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:
            return condition  # type: ignore[no-any-return]
    return None


def is_true(condition: Json | None) -> bool:
    """Whether a condition is there and True."""
    return condition is not None and condition.get("status") == "True"
