"""What would go wrong with a pause of this target, before anything is asked for: each a sentence.

The items about the pod are those of ../workspaces/preflight.py; here are those about what would
make the next pod, and about policies and rights. Judges what was read; changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..cluster.words import annotations_of, labels_of, name_of
from ..workspaces.access import Need
from ..workspaces.preflight import Check, Facts, pod_checks
from .made_of import pins_machine, unlike_template
from .policies import PolicyFound
from .seen import TargetSeen
from .words import GCS_FUSE, controller_of, deleted

_ENOUGH = "Nothing was asked for."


def check(
    seen: TargetSeen, missing: Collection[Need], facts: Facts, found: PolicyFound,
    storage_problem: str | None = None,
) -> list[Check]:  # fmt: skip
    """All items. `costs`: "refused" and "memory" alike keep a pause from being asked for."""
    return [
        _right(missing),
        _one_pod(seen),
        *(_of_bare_pods(one) for one in pod_checks(seen, facts)),
        _volumes(seen),
        _as_its_template(seen),
        _policy(seen, found, storage_problem),
        _group(found),
        _buckets(seen),
        _same_machine(seen),
    ]


def stops(checks: Collection[Check]) -> list[Check]:
    """Those for which a pause is refused."""
    return [one for one in checks if one.passed is False and one.costs in ("refused", "memory")]


def _of_bare_pods(one: Check) -> Check:
    hints = {
        "gvisor": "Set runtimeClassName: gvisor in its manifest and start it anew, once.",
        "snapshot_api": "Enable Pod Snapshots: gcloud container clusters update "
        "--enable-pod-snapshots.",
    }
    if one.passed is False and one.id in hints:
        return replace(one, hint=hints[one.id])
    return one


def _right(missing: Collection[Need]) -> Check:
    if not missing:
        return Check("right", True, "All that a pause needs is allowed.", "refused")
    what = "; ".join(f"{', '.join(one.verbs)} {one.resource}" for one in missing)
    return Check("right", False, f"Not all that a pause needs is allowed: {what}.", "refused",
                 "deploy/podsnapshot-clusterrole.yaml grants it.")  # fmt: skip


def _one_pod(seen: TargetSeen) -> Check:
    if seen.target.bare:
        message = "Nothing makes the pod anew: it will be made again from its manifest."
        return Check("one_pod", True, message, "refused")
    if seen.replicas > 1:
        message = f"{seen.target.text} has {seen.replicas} pods; only a single one can be paused: "
        message += "the next ones would all be restored from the same memory."
        return Check("one_pod", False, message, "refused", "Scale it to 1 first.")
    alive = [pod for pod in seen.pods if not deleted(pod)]
    if len(alive) > 1 or len(seen.pods) > 1:
        message = f"{seen.target.text} is being rolled out: there are {len(seen.pods)} pods of it."
        return Check("one_pod", False, message, "refused", "Wait for its end.")
    controller = controller_of(seen.owner or {})
    if controller is not None:
        message = f"{seen.target.text} is kept by {controller.get('kind')} {controller.get('name')}"
        message += ", which would scale it back."
        return Check("one_pod", False, message, "refused", _ENOUGH)
    spec = (seen.owner or {}).get("spec") or {}
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    if (seen.target.kind == "Deployment" and spec.get("paused")) or rolling.get("partition"):
        message = f"The rollout of {seen.target.text} is paused: the next pod would be made without"
        message += " the name of its snapshot."
        return Check("one_pod", False, message, "refused",
                     f"kubectl rollout resume {seen.target.kind.lower()} {seen.target.name}, or "
                     "set its partition to 0.")  # fmt: skip
    return Check("one_pod", True, f"{seen.target.text} has one pod.", "refused")


def _volumes(seen: TargetSeen) -> Check:
    """Files on volumes are in no snapshot: those that go with the pod would be lost."""
    spec = (seen.owner or {}).get("spec") or {}
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if spec.get("volumeClaimTemplates") and kept.get("whenScaled") == "Delete":
        message = (
            f"{seen.target.text} deletes its volumes when it is scaled down: their files would"
        )
        return Check("volumes", False, f"{message} be lost.", "refused",
                     "Set persistentVolumeClaimRetentionPolicy.whenScaled to Retain."
                     )  # fmt: skip
    passing = [str(one.get("name")) for one in seen.spec.get("volumes") or [] if "ephemeral" in one]
    if passing:
        message = (
            f"The volume {', '.join(passing)} is deleted with the pod: its files would be lost."
        )
        return Check("volumes", False, message, "refused",
                     "Use a PersistentVolumeClaim of its own, or an emptyDir, which is in the "
                     "snapshot.")  # fmt: skip
    return Check("volumes", True, "No volume goes with the pod.", "refused")


def _as_its_template(seen: TargetSeen) -> Check:
    message = "The next pod will be as this one."
    status, changed = (seen.owner or {}).get("status") or {}, False
    if seen.target.kind == "Deployment":
        generation = (seen.owner or {}).get("metadata", {}).get("generation")
        observed = status.get("observedGeneration", generation)
        changed = generation != observed or not status.get("updatedReplicas")
    elif seen.target.kind == "StatefulSet":
        revision = labels_of(seen.pod or {}).get("controller-revision-hash")
        wanted = status.get("updateRevision")
        changed = bool(revision and wanted and revision != wanted)
    elif seen.target.kind == "ReplicaSet":
        changed = True
    # what is new in the template may be what a snapshot does not mind: its environment, say
    unlike = unlike_template(seen.template, seen.pod) if changed and seen.pod is not None else []
    if not unlike:
        return Check("template", True, message, "memory")
    return Check(
        "template", False, f"{seen.target.text} was changed since its pod started: the next pod "
        f"would be another, and the snapshot would not fit it. {' '.join(unlike)}", "memory",
        "Let its rollout end, or take the change back.",
    )  # fmt: skip


def _policy(seen: TargetSeen, found: PolicyFound, storage_problem: str | None) -> Check:
    if "policies" in seen.hidden:
        return Check("policy", None, "Which policies there are may not be read here.", "refused")
    if found.problem is not None:
        return Check("policy", False, found.problem, "refused", found.hint)
    if found.policy is not None:
        message = f"The policy {name_of(found.policy)} lets it be snapshotted."
        return Check("policy", True, message, "refused")
    if not labels_of(seen.pod or {}) and seen.target.bare:
        message = "The pod has no label by which a policy could select it."
        return Check("policy", False, message, "refused",
                     f"kubectl label pod {seen.target.name} app={seen.target.name}")  # fmt: skip
    if storage_problem is not None:
        return Check("policy", False, f"No policy selects the pod, and {storage_problem}",
                     "refused", _ENOUGH)  # fmt: skip
    return Check("policy", True, "No policy selects the pod yet: one is made for it.", "refused")


def _group(found: PolicyFound) -> Check:
    rules = ((found.policy or {}).get("spec") or {}).get("snapshotGroupingRules") or {}
    group = rules.get("groupByLabelValue") or {}
    count = (group.get("groupRetentionPolicy") or {}).get("maxSnapshotCountPerGroup") or 0
    if not count:
        return Check("group", True, "No number of snapshots is set by the policy.", "risk")
    labels = ", ".join(group.get("labels") or [])
    message = f"The policy keeps only {count} snapshots of all pods with the same {labels}: "
    message += "later ones of other pods push this one out."
    return Check("group", False, message, "risk", "Resume before that, or use another policy.")


def _buckets(seen: TargetSeen) -> Check:
    if annotations_of(seen.pod or {}).get(GCS_FUSE) == "true":
        message = "The pod has Google's sidecar for buckets (GCS FUSE): a snapshot may hang with it"
        return Check("buckets", False, f"{message}.", "risk", "Do without that volume.")
    return Check("buckets", True, "The pod has no GCS FUSE sidecar.", "risk")


def _same_machine(seen: TargetSeen) -> Check:
    if pins_machine(seen.template):
        return Check("same_machine", True, "The next pod asks for the same machines.", "risk")
    return Check(
        "same_machine", None, "The pod asks for no series of machines, and a snapshot fits only "
        "the one that it was taken on.", "risk",
        "If the cluster has several, name one in its nodeSelector.",
    )  # fmt: skip


__all__ = ["check", "stops"]
