"""The PodSnapshots of a namespace: what each is, until when it is kept, who needs it; and deleting
one that nobody needs. Only GKE writes them: a delete is a request, and GKE may take its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import GkewsError
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import (
    PODS,
    POLICIES,
    RESTORED_CONDITION,
    SNAPSHOTS,
    TRIGGERED_BY,
    TRIGGERS,
    Json,
    annotations_of,
    condition_of,
    is_true,
    labels_of,
    name_of,
    uid_of,
)
from ..workspaces.seen import PS_NAME, Seen
from ..workspaces.state import age, iso
from .attempts import attempt, why_not_whole
from .words import (
    DEPLOYMENTS,
    MANIFEST,
    ORIGIN_POD,
    REPLICA_SETS,
    SNAPSHOT,
    STATEFUL_SETS,
    TARGET,
    controller_of,
    created_of,
    deleted,
)

_ADDON = "ws-"
#: Seconds that a delete is waited for; GKE has been seen to take 16 minutes.
DELETE_S = 15.0


@dataclass(frozen=True)
class SnapshotListed:
    """`state`: whole, not whole, deleting. Times ISO 8601, UTC. `needed_by`: who cannot do without
    it, in a sentence; None: nobody. `named_by`: what would be started from it, although it runs."""

    name: str
    pod: str
    target: str
    policy: str
    created: str
    state: str
    problem: str | None
    keeps_until: str | None
    needed_by: str | None
    named_by: str | None

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


def listed(cluster: Cluster, namespace: str) -> list[SnapshotListed]:
    """All of a namespace, the newest first. Raises ClusterError."""
    try:
        snapshots, _ = cluster.list(SNAPSHOTS, namespace)
    except ClusterError as error:
        if not error.missing:
            raise
        raise GkewsError(
            "snapshot_unavailable",
            f"This cluster has no Pod Snapshots ({SNAPSHOTS.group}/{SNAPSHOTS.version} is not "
            "served).",
            "Is it the right cluster? `kubectl config current-context` tells.",
        ) from error
    known = _Known.read(cluster, namespace)
    snapshots.sort(key=lambda one: (created_of(one), name_of(one)), reverse=True)
    return [known.row(one) for one in snapshots]


def delete(cluster: Cluster, namespace: str, name: str, seconds: float = DELETE_S) -> str:
    """Have one deleted that nobody needs, and wait for it. What to tell the user.

    Raises GkewsError: snapshot_not_found, checkpoint_in_use (it is needed, or whether it is cannot
    be told), forbidden.
    """
    found = cluster.find(SNAPSHOTS, namespace, name)
    if found is None:
        raise GkewsError(
            "snapshot_not_found", f"There is no snapshot {namespace}/{name}.",
            "`jupyter gkews podsnapshot list NAMESPACE` shows what there is.",
        )  # fmt: skip
    row = _Known.read(cluster, namespace).row(found)
    if row.needed_by is not None:
        raise GkewsError(
            "checkpoint_in_use", row.needed_by, "Nothing was deleted. Resume what needs it first."
        )
    if not deleted(found):  # else it was asked for already: once is enough
        cluster.delete(SNAPSHOTS, namespace, name, uid_of(found))
    end = time.monotonic() + seconds
    while True:
        there = cluster.find(SNAPSHOTS, namespace, name)
        if there is None or uid_of(there) != uid_of(found):
            return f"The snapshot {name} is deleted."
        if time.monotonic() >= end:
            finalizers = ", ".join(there["metadata"].get("finalizers") or [])
            held = f" (finalizer {finalizers})" if finalizers else ""
            return (
                f"The snapshot {name} is being deleted; GKE has not finished it after "
                f"{age(seconds)}{held}. It goes on by itself: the policy that it was taken under "
                "must stay until then."
            )
        time.sleep(0.2)


class _Known:
    """What in the namespace may need a snapshot."""

    def __init__(self) -> None:
        self.owners: list[Json] = []
        self.pods: list[Json] = []
        self.triggers: list[Json] = []
        self.policies: dict[str, Json] = {}
        self.unseen: list[str] = []

    @classmethod
    def read(cls, cluster: Cluster, namespace: str) -> _Known:
        known = cls()

        def all_of(resource: Any) -> list[Json]:
            try:
                return cluster.list(resource, namespace)[0]
            except ClusterError as error:
                if not (error.forbidden or error.missing):
                    raise
                known.unseen.append(str(resource))
                return []

        for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS):
            # a ReplicaSet of a Deployment has its annotations, and keeps them for ever
            alone = [one for one in all_of(resource) if controller_of(one) is None]
            known.owners += [{**one, "kind": resource.kind} for one in alone]
        known.pods, known.triggers = all_of(PODS), all_of(TRIGGERS)
        unseen = list(known.unseen)
        known.policies = {name_of(one): one for one in all_of(POLICIES)}
        known.unseen = unseen  # without policies only the date is missing
        return known

    def row(self, snapshot: Json) -> SnapshotListed:
        """One of them."""
        name = name_of(snapshot)
        policy = str((snapshot.get("spec") or {}).get("policyName") or "")
        until = Seen(policy=self.policies.get(policy)).keeps_until(snapshot)
        problem = why_not_whole(snapshot)
        state = "deleting" if deleted(snapshot) else "whole" if problem is None else "not whole"
        trigger = self._trigger_of(snapshot)
        return SnapshotListed(
            name, annotations_of(snapshot).get(ORIGIN_POD, "").rpartition("/")[2],
            annotations_of(trigger or {}).get(TARGET, ""), policy, created_of(snapshot), state,
            problem, None if until is None else iso(until), self._needed_by(snapshot, trigger),
            self._named_by(name),
        )  # fmt: skip

    def _trigger_of(self, snapshot: Json) -> Json | None:
        for one in self.triggers:
            found = attempt(one, [snapshot])
            if found.snapshot is not None:
                return one
        return None

    def _needed_by(self, snapshot: Json, trigger: Json | None) -> str | None:
        name = name_of(snapshot)
        asked_by = labels_of(snapshot).get(TRIGGERED_BY, "")
        for one in self.owners:
            back = any(_is_restored_from(pod, name) for pod in self.pods)
            if annotations_of(one).get(SNAPSHOT) == name and (not _replicas(one) or not back):
                return f"{one['kind']} {name_of(one)} is paused and would be restored from {name}."
        for pod in self.pods:
            if annotations_of(pod).get(PS_NAME) == name and not _has_started(pod):
                return f"Pod {name_of(pod)} is being restored from {name}."
        if trigger is not None:
            about = attempt(trigger, [snapshot])
            if about.running:
                return f"The snapshot {name} is just being taken, of pod {about.pod}."
            target = annotations_of(trigger).get(TARGET, "")
            paused = all(name_of(pod) != about.pod for pod in self.pods)
            if MANIFEST in annotations_of(trigger) and paused and self._is_last(trigger, target):
                return f"Pod {about.pod} is paused and would be restored from {name}."
        ours = TARGET in annotations_of(trigger or {})
        if asked_by.startswith(_ADDON) and not ours:
            return f"{name} belongs to a workspace ({asked_by}), whose addon deletes it."
        if self.unseen:
            what = ", ".join(self.unseen)
            return f"Whether {name} is needed cannot be told: {what} may not be read."
        return None

    def _is_last(self, trigger: Json, target: str) -> bool:
        """Of the requests for a bare pod that have a snapshot."""
        done = [
            found
            for found in (attempt(one, []) for one in self.triggers)
            if annotations_of(found.trigger).get(TARGET) == target and found.snapshot_name
        ]
        return attempt(trigger, []).number == max((one.number for one in done), default=-1)

    def _named_by(self, name: str) -> str | None:
        for one in self.owners:
            template = (one.get("spec") or {}).get("template") or {}
            if annotations_of(template).get(PS_NAME) == name and _replicas(one):
                return f"{one['kind']} {name_of(one)}: when its pod starts anew, it starts from it"
        return None


def _replicas(owner: Json) -> int:
    wanted = (owner.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def _is_restored_from(pod: Json, name: str) -> bool:
    return annotations_of(pod).get(PS_NAME) == name and _has_started(pod)


def _has_started(pod: Json) -> bool:
    said = condition_of(pod, RESTORED_CONDITION)
    return said is not None or is_true(condition_of(pod, "Ready"))


def of_target(
    rows: Iterable[SnapshotListed], name: str, kind: str = ""
) -> list[SnapshotListed]:  # fmt: skip
    """Those of a pod, or of what makes it, with this name (and of this kind). Whose it is, is known
    as long as its request is there; after that the name of the pod has to tell."""
    found = []
    for one in rows:
        of, _, target = one.target.partition("/")
        if of:
            mine = target == name and kind in ("", of)
        else:
            mine = kind != "Pod" and one.pod.startswith(f"{name}-")
        if mine or (one.pod == name and kind in ("", "Pod")):
            found.append(one)
    return found


__all__ = ["SnapshotListed", "delete", "listed", "of_target"]
