"""Our requests for snapshots, as the cluster keeps them: each a trigger, and what became of it.

Read from triggers and PodSnapshots alone, so that whoever asks sees the same. A trigger's name
follows from what was tried before: two who ask at once ask by the same name, and one is second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..cluster.words import (
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
from ..workspaces.seen import moment
from .made_of import manifest_of
from .targets import Target
from .words import (
    MACHINE,
    MANIFEST,
    NUMBER,
    ORIGIN_POD,
    POD_UID,
    REQUEST,
    TARGET,
    created_of,
    deleted,
)

#: A trigger's name is the value of a label of its snapshots.
_LONGEST = 63
_FAILED = ("Failed", "Error")


@dataclass(frozen=True)
class Attempt:
    """One request for a snapshot of a pod; `snapshot` once GKE has begun to write one."""

    trigger: Json
    snapshot: Json | None = None

    @property
    def name(self) -> str:
        """The trigger's."""
        return name_of(self.trigger)

    @property
    def pod(self) -> str:
        """The name of the pod that it is about."""
        return str((self.trigger.get("spec") or {}).get("targetPod") or "")

    @property
    def pod_uid(self) -> str:
        """Of that pod, if it is one of our attempts."""
        return annotations_of(self.trigger).get(POD_UID, "")

    @property
    def request(self) -> str:
        """Who asked; empty: not we."""
        return annotations_of(self.trigger).get(REQUEST, "")

    @property
    def number(self) -> int:
        """How many there were before it, of those that are known."""
        text = annotations_of(self.trigger).get(NUMBER, "")
        return int(text) if text.isdecimal() else 0

    @property
    def failure(self) -> str | None:
        """Why there will be no snapshot, in GKE's words; None while that is not said."""
        found = condition_of(self.trigger, "Triggered")
        if found and found.get("status") == "False" and found.get("reason") in _FAILED:
            return str(found.get("message") or f"GKE says no more than {found['reason']}")
        for kind in ("Checkpoint", "StorageReplicated", "Ready"):
            made = condition_of(self.snapshot or {}, kind)
            if made and made.get("status") != "True" and made.get("reason") in _FAILED:
                return str(made.get("message") or f"GKE says no more than {kind}: Failed")
        if self.complete and self.snapshot is not None and deleted(self.snapshot):
            return "the snapshot is being deleted"
        return None

    @property
    def complete(self) -> bool:
        """GKE has done what the trigger asked for; the snapshot may still be on its way."""
        found = condition_of(self.trigger, "Triggered")
        return is_true(found) and (found or {}).get("reason", "Complete") == "Complete"

    @property
    def snapshot_name(self) -> str:
        """Of the snapshot that was made; empty before that. GKE writes it in two ways."""
        created = (self.trigger.get("status") or {}).get("snapshotCreated")
        name = created.get("name") if isinstance(created, dict) else created
        return str(name or "")

    @property
    def whole(self) -> bool:
        """The snapshot can be restored from: complete, of this pod, and safe in its storage."""
        return self.complete and self.why_not_whole is None

    @property
    def why_not_whole(self) -> str | None:
        """What is missing of that, in a sentence."""
        if self.failure is not None:
            return self.failure
        if not self.complete or not self.snapshot_name:
            return "GKE has not finished it."
        if self.snapshot is None:
            return f"There is no snapshot {self.snapshot_name}."
        why_not = why_not_whole(self.snapshot)
        if why_not is not None:
            return why_not
        origin = annotations_of(self.snapshot).get(ORIGIN_POD, "")
        if origin and origin.rpartition("/")[2] != self.pod:
            return f"The snapshot {self.snapshot_name} is of another pod ({origin})."
        return None

    @property
    def running(self) -> bool:
        """It has come to no end yet."""
        return self.failure is None and not self.whole

    @property
    def gone(self) -> bool:
        """GKE names a snapshot, and it is not among those that were given."""
        return self.complete and bool(self.snapshot_name) and self.snapshot is None

    @property
    def taken_at(self) -> datetime | None:
        """When the memory was copied: what the pod did after that is not in the snapshot."""
        made = condition_of(self.snapshot or {}, "Checkpoint")
        return moment((made or {}).get("lastTransitionTime"))

    def manifest(self) -> Json | None:
        """By which a bare pod is made again."""
        try:
            found = json.loads(annotations_of(self.trigger).get(MANIFEST, ""))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def why_not_whole(snapshot: Json) -> str | None:
    """Why a PodSnapshot cannot be restored from, in a sentence; None: it can."""
    name = name_of(snapshot)
    if deleted(snapshot):
        return f"The snapshot {name} is being deleted."
    for kind in ("Checkpoint", "StorageReplicated"):
        found = condition_of(snapshot, kind)
        if found is not None and found.get("status") != "True":
            return f"The snapshot {name} is not whole ({kind}: {found.get('reason')})."
    ready = condition_of(snapshot, "Ready")
    if not is_true(ready):
        return f"The snapshot {name} is not ready ({(ready or {}).get('reason') or 'not yet'})."
    return None


def attempts(target: Target, triggers: Iterable[Json], snapshots: Iterable[Json]) -> list[Attempt]:
    """Ours for this target, the last one last."""
    among = list(snapshots)
    mine = [attempt(t, among) for t in triggers if annotations_of(t).get(TARGET) == target.id]
    # not by time: that is in whole seconds
    return sorted(mine, key=lambda one: (one.number, created_of(one.trigger), one.name))


def attempt(trigger: Json, snapshots: Iterable[Json]) -> Attempt:
    """A trigger with its snapshot: the one that it names, or else says that it was asked by it."""
    alone = Attempt(trigger)
    wanted = alone.snapshot_name
    for one in snapshots:
        if wanted and name_of(one) == wanted:
            return Attempt(trigger, one)
        if (
            not wanted
            and labels_of(one).get(TRIGGERED_BY) == name_of(trigger)
            and created_of(one) >= created_of(trigger)
        ):
            return Attempt(trigger, one)
    return alone


def next_name(target: Target, pod: Json, before: list[Attempt]) -> str:
    """For a request that comes after those: the same for all who have seen the same."""
    known = " ".join(sorted(uid_of(one.trigger) for one in before))
    mark = hashlib.sha256(f"{target.id} {uid_of(pod)} {known}".encode()).hexdigest()[:10]
    head = f"gkews-{target.name}"[: _LONGEST - 11].rstrip("-.")
    return f"{head}-{mark}".replace(".", "-")


def trigger_for(
    target: Target, pod: Json, owner: Json | None, before: list[Attempt], request: str,
    machine: str,
) -> Json:  # fmt: skip
    """The object to create, for a request after those `before`."""
    number = max((one.number for one in before), default=0) + 1
    annotations = {
        REQUEST: request, TARGET: target.id, NUMBER: str(number), POD_UID: uid_of(pod),
        MACHINE: machine,
    }  # fmt: skip
    if target.bare:
        annotations[MANIFEST] = json.dumps(manifest_of(pod), separators=(",", ":"))
    name = next_name(target, pod, before)
    metadata: dict[str, Any] = {"name": name, "annotations": annotations}
    if owner is not None:  # so that nothing is left of it when that is deleted
        reference = {
            "apiVersion": f"{target.resource.group}/{target.resource.version}",
            "kind": target.kind, "name": target.name, "uid": uid_of(owner), "controller": False,
        }  # fmt: skip
        metadata["ownerReferences"] = [reference]
    return {
        "apiVersion": f"{TRIGGERS.group}/{TRIGGERS.version}",
        "kind": TRIGGERS.kind,
        "metadata": metadata,
        "spec": {"targetPod": name_of(pod)},
    }


__all__ = ["Attempt", "attempt", "attempts", "next_name", "trigger_for", "why_not_whole"]
