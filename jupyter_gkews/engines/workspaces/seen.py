"""What is known of one workspace at one moment, as the API server has it, and what it means.

Pure reading: asks nobody, decides nothing. Objects are kept as dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from ..cluster.words import (
    ACCELERATOR_LABEL,
    CHECKPOINT_STARTED,
    CHECKPOINT_STATE,
    COMPUTE_CLASS_LABEL,
    GATE,
    GVISOR,
    LAST_CHECKPOINT,
    MAIN_CONTAINER,
    RESTORED_CONDITION,
    SNAPSHOT_EVENT,
    Json,
    annotations_of,
    condition_of,
    is_true,
    name_of,
)

#: Words of a Warning event by which a pod says that it started without its snapshot.
_FALLBACK = re.compile(r"failed to restore|skipped restore|falling back to a cold start", re.I)
_UNITS = {"y": 365 * 86400, "mo": 30 * 86400, "d": 86400, "h": 3600, "min": 60}
#: Where a pod says which snapshot it is to be restored from.
PS_NAME = "podsnapshot.gke.io/ps-name"


@dataclass
class Seen:
    """Objects of one workspace; None: there is none, or it may not be read (`hidden`)."""

    workspace: Json | None = None
    pod: Json | None = None
    trigger: Json | None = None
    snapshots: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    kind: Json | None = None
    policy: Json | None = None
    hidden: frozenset[str] = frozenset()
    """Ids of access.NEEDS that are not granted."""

    # -- the workspace -----------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """`spec.paused`."""
        return bool(((self.workspace or {}).get("spec") or {}).get("paused"))

    @property
    def checkpoint_state(self) -> str:
        """Checkpointing, Ready, Restoring, or empty."""
        return annotations_of(self.workspace or {}).get(CHECKPOINT_STATE, "")

    @property
    def checkpoint_started(self) -> datetime | None:
        """When the addon began the snapshot that runs."""
        return moment(annotations_of(self.workspace or {}).get(CHECKPOINT_STARTED))

    @property
    def last_snapshot(self) -> str:
        """The snapshot that the next start will be restored from; empty: none."""
        return annotations_of(self.workspace or {}).get(LAST_CHECKPOINT, "")

    @property
    def status(self) -> Json:
        """The controller's; times in it are milliseconds."""
        return (self.workspace or {}).get("status") or {}

    @property
    def state(self) -> str:
        """The controller's word: Running, Terminating, Paused, Pending, Error, Unknown."""
        return str(self.status.get("state") or "Unknown")

    # -- the pod -----------------------------------------------------------------------------

    @property
    def pod_ready(self) -> bool:
        """The pod takes part in its Service."""
        return self.pod is not None and is_true(condition_of(self.pod, "Ready"))

    @property
    def unreached(self) -> bool:
        """Its processes are ready; only the addon's gate keeps it out of the Service, or did."""
        return (
            self.pod is not None
            and not self.pod_ready
            and self.gated
            and is_true(condition_of(self.pod, "ContainersReady"))
        )

    @property
    def unready(self) -> bool:
        """Its containers run and were ready, and one says that it is not just now: a probe fails.
        On the way up that condition is older than the containers; one that was started again is
        younger than it."""
        status = (self.pod or {}).get("status") or {}
        condition = condition_of(self.pod or {}, "ContainersReady")
        began = [
            moment(((one.get("state") or {}).get("running") or {}).get("startedAt"))
            for one in status.get("containerStatuses") or []
        ]
        changed = moment((condition or {}).get("lastTransitionTime"))
        if self.terminating or changed is None or not began or is_true(condition):
            return False
        return all(each is not None and each < changed for each in began)

    @property
    def terminating(self) -> bool:
        """The pod is being deleted."""
        return bool(((self.pod or {}).get("metadata") or {}).get("deletionTimestamp"))

    @property
    def unschedulable(self) -> Json | None:
        """The condition that says why no node takes the pod."""
        found = condition_of(self.pod or {}, "PodScheduled")
        reasons = ("Unschedulable", "SchedulingGated", "SchedulerError")
        if found and found.get("status") != "True" and found.get("reason") in reasons:
            return found
        return None

    @property
    def spec(self) -> Json:
        """The pod's."""
        return (self.pod or {}).get("spec") or {}

    @property
    def main(self) -> Json:
        """The container with the server; empty if unknown."""
        containers = self.spec.get("containers") or []
        named = [c for c in containers if c.get("name") == MAIN_CONTAINER]
        return (named or containers or [{}])[0]  # type: ignore[no-any-return]

    @property
    def gvisor(self) -> bool:
        """The pod runs in gVisor."""
        return self.spec.get("runtimeClassName") == GVISOR

    @property
    def gated(self) -> bool:
        """The addon has prepared the pod."""
        gates = self.spec.get("readinessGates") or []
        return any(gate.get("conditionType") == GATE for gate in gates)

    @property
    def accelerator(self) -> str:
        """The GPU that the pod asks for: `T4`, `L4`; empty if it names none."""
        return gpu_name(str((self.spec.get("nodeSelector") or {}).get(ACCELERATOR_LABEL) or ""))

    @property
    def wanted_snapshot(self) -> str:
        """The snapshot that this pod was to be restored from."""
        return annotations_of(self.pod or {}).get(PS_NAME, "")

    @property
    def machines(self) -> str:
        """The class of machines that the pod asks for: `gpu-t4-spot`; empty if it names none."""
        return str((self.spec.get("nodeSelector") or {}).get(COMPUTE_CLASS_LABEL) or "")

    # -- its snapshot ------------------------------------------------------------------------

    @property
    def trigger_failure(self) -> str | None:
        """Why the snapshot could not be taken, in GKE's words; None while that is not said."""
        found = condition_of(self.trigger or {}, "Triggered")
        if found and found.get("status") == "False" and found.get("reason") in ("Failed", "Error"):
            return str(found.get("message") or "GKE gives no reason")
        for snapshot in self.snapshots:
            made = condition_of(snapshot, "Checkpoint")
            if made and made.get("status") != "True" and made.get("reason") == "Failed":
                return str(made.get("message") or "GKE gives no reason")
        return None

    @property
    def triggered_snapshot(self) -> str:
        """The name of the snapshot that the trigger has made; GKE writes it in two ways."""
        created = ((self.trigger or {}).get("status") or {}).get("snapshotCreated")
        if isinstance(created, dict):
            return str(created.get("name") or "")
        return str(created or "")

    def snapshot(self, name: str) -> Json | None:
        """One of them by its name."""
        return next((one for one in self.snapshots if name_of(one) == name), None)

    def keeps_until(self, snapshot: Json) -> datetime | None:
        """When GKE deletes it unless it is used; None: not known, or never."""
        retention = ((self.policy or {}).get("spec") or {}).get("retentionConfig") or {}
        lasts = interval(str(retention.get("lastAccessTimeout") or ""))
        used = (snapshot.get("status") or {}).get("lastAccessTime")
        begin = moment(used) or moment((snapshot.get("metadata") or {}).get("creationTimestamp"))
        return begin + lasts if begin and lasts else None

    # -- events ------------------------------------------------------------------------------

    def events_of(self, *reasons: str) -> Iterator[Json]:
        """Those about the present pod with these reasons, the newest first."""
        uid = ((self.pod or {}).get("metadata") or {}).get("uid")
        mine = [
            event
            for event in self.events
            if event.get("reason") in reasons
            and (event.get("involvedObject") or {}).get("uid") in (uid, None, "")
        ]
        begin = datetime.min.replace(tzinfo=timezone.utc)
        yield from sorted(mine, key=lambda event: event_time(event) or begin, reverse=True)

    @property
    def cold_start(self) -> str | None:
        """Why the pod started without its snapshot, in the cluster's words; None: none says so."""
        found = condition_of(self.pod or {}, RESTORED_CONDITION)
        if found and found.get("status") == "False":
            return str(found.get("message") or found.get("reason") or "GKE gives no reason")
        for event in self.events_of(SNAPSHOT_EVENT, "FallbackToColdStart", "FailedRestore",
                                    "RestoreFailed", "SkipRestore"):  # fmt: skip
            text = str(event.get("message") or "")
            if event.get("type") == "Warning" and (
                event["reason"] != SNAPSHOT_EVENT or _FALLBACK.search(text)
            ):
                return text or str(event["reason"])
        return None

    @property
    def restored(self) -> bool:
        """The cluster says that the pod was restored."""
        return is_true(condition_of(self.pod or {}, RESTORED_CONDITION))


def moment(text: object) -> datetime | None:
    """An RFC 3339 time; None if it is none."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def milliseconds(value: object) -> datetime | None:
    """A time of a Workspace's status; None if it was never set."""
    if isinstance(value, (int, float)) and value > 0:
        return datetime.fromtimestamp(value / 1000, timezone.utc)
    return None


def interval(text: str) -> timedelta | None:
    """`7d`, `30min`, `2mo`; None if it is none."""
    match = re.fullmatch(r"([0-9]+)(y|mo|d|h|min)", text)
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else None


def event_time(event: Json) -> datetime | None:
    """When it was last seen: three generations of the API have put it into three fields."""
    series = event.get("series") or {}
    for text in (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"),
                 (event.get("metadata") or {}).get("creationTimestamp")):  # fmt: skip
        found = moment(text) if text else None
        if found:
            return found
    return None


def gpu_name(label: str) -> str:
    """`nvidia-tesla-t4` -> `T4`, `nvidia-h100-80gb` -> `H100 80GB`."""
    words = [word for word in label.split("-") if word not in ("nvidia", "tesla", "")]
    return " ".join(words).upper()
