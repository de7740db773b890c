"""From what is seen of a workspace to its state in our words, each with a sentence and since when.

The words are those of the lifecycle: running, pausing, paused, resuming and their phases. Pure:
the same objects at the same time give the same state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ..cluster.words import CHECKPOINTING, RESTORING, condition_of, is_true
from .seen import Seen, event_time, milliseconds, moment

#: After so long without a sign of the autoscaler no node is to be expected soon.
PATIENCE = timedelta(minutes=10)
#: GKE says that a pod was restored only when all its memory is back, some time after it is ready.
SIGN_OF_RESTORE = timedelta(seconds=60)


@dataclass(frozen=True)
class SnapshotSeen:
    """The snapshot that a resume would be restored from. Times ISO 8601, UTC."""

    name: str
    ready: bool | None
    """None: it may not be read."""
    created: str | None = None
    keeps_until: str | None = None
    """When it is deleted unless it is used before."""


@dataclass(frozen=True)
class WorkspaceState:
    """`state`: running, pausing, paused, resuming, unknown; `phase`: of pausing (checkpointing,
    snapshotting, releasing) and of resuming (waiting_for_capacity, restoring, verifying).

    `reason`: of errors.REASONS where something stands in the way. `stateless`: paused, or being
    paused, without a snapshot. `provenance`: of the running pod: restored, fresh, or not known.
    """

    state: str
    message: str
    phase: str | None = None
    since: str | None = None
    hint: str = ""
    reason: str | None = None
    provenance: str | None = None
    stateless: bool = False
    snapshot: SnapshotSeen | None = None
    pod: str | None = None
    node: str | None = None
    seen_as: str = "Unknown"
    """The word of Kubeflow's controller."""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


def read(seen: Seen, now: datetime | None = None) -> WorkspaceState:
    """The state at `now` (UTC)."""
    now = now or datetime.now(timezone.utc)
    if seen.workspace is None:
        hidden = "see" in seen.hidden
        message = "The workspace may not be read." if hidden else "There is no such workspace."
        reason = "forbidden" if hidden else "no_workspace"
        return WorkspaceState("unknown", message, reason=reason)
    if seen.checkpoint_state == CHECKPOINTING:
        return _pausing(seen, now)
    if seen.paused:
        return _paused(seen, now)
    called_off = seen.unreached and not seen.terminating and not seen.wanted_snapshot
    up = seen.pod_ready or called_off or seen.unready
    if seen.checkpoint_state == RESTORING or not up:
        return _resuming(seen, now)
    return _running(seen, now)


def _made(
    seen: Seen, state: str, message: str, since: datetime | None, **more: Any
) -> WorkspaceState:
    about = {
        "since": None if since is None else iso(since),
        "pod": ((seen.pod or {}).get("metadata") or {}).get("name"),
        "node": seen.spec.get("nodeName") or None,
        "seen_as": seen.state,
        "snapshot": _snapshot(seen),
    }
    return WorkspaceState(state, message, **{**about, **more})


def _snapshot(seen: Seen) -> SnapshotSeen | None:
    name = seen.last_snapshot or seen.triggered_snapshot
    if not name:
        return None
    found = seen.snapshot(name)
    if found is None:
        return SnapshotSeen(name, None if "snapshots" in seen.hidden else False)
    until = seen.keeps_until(found)
    return SnapshotSeen(
        name,
        is_true(condition_of(found, "Ready")),
        (found.get("metadata") or {}).get("creationTimestamp"),
        None if until is None else iso(until),
    )


# -- pausing ---------------------------------------------------------------------------------


def _pausing(seen: Seen, now: datetime) -> WorkspaceState:
    since = seen.checkpoint_started
    failure = seen.trigger_failure
    if failure is not None:
        return _made(
            seen, "pausing", f"The snapshot failed: {failure}", since, phase="snapshotting",
            reason="snapshot_failed",
            hint="The processes still run, but nobody can reach them until the pause is called "
            "off; the checkpoints of the kernels are safe.",
        )  # fmt: skip
    snapshot = _snapshot(seen)
    if snapshot is not None and snapshot.ready:
        message = "The snapshot is whole; the pod is about to be stopped."
        return _made(seen, "pausing", message, since, phase="releasing")
    words = "GKE takes the snapshot"
    if "triggers" in seen.hidden:
        words += " (how far it is may not be read here)"
    elif seen.trigger is None:
        words = "The snapshot is being asked for"
    return _made(
        seen, "pausing", f"{words}{_so_far(since, now)}.", since, phase="snapshotting",
        hint="The page cannot be reached meanwhile. It may be closed.",
    )  # fmt: skip


def _paused(seen: Seen, now: datetime) -> WorkspaceState:
    stateless = not seen.last_snapshot
    since = milliseconds(seen.status.get("pauseTime"))
    if seen.state != "Paused" or seen.pod is not None:
        message = "The pod is being stopped"
        message += ": without a snapshot of its memory." if stateless else "; its snapshot is kept."
        return _made(seen, "pausing", message, None, phase="releasing", stateless=stateless)
    message = f"Paused{_for(since, now)}. Its accelerator is free."
    snapshot = _snapshot(seen)
    hint = "Resume brings the same processes back."
    reason = None
    if stateless:
        message += " There is no snapshot of its memory."
        hint = "Resume starts a new server; kernels come back from their checkpoints."
    elif snapshot is not None and snapshot.ready is False:
        reason = "snapshot_failed"
        message += f" Its snapshot {snapshot.name} is gone or not whole."
        hint = "Resume will start a new server; kernels come back from their checkpoints."
    elif snapshot is not None and snapshot.keeps_until:
        hint += f" The snapshot is kept until {snapshot.keeps_until[:10]}."
    return _made(seen, "paused", message, since, stateless=stateless, hint=hint, reason=reason)


# -- resuming --------------------------------------------------------------------------------


def _resuming(seen: Seen, now: datetime) -> WorkspaceState:
    verb = "restored" if seen.checkpoint_state == RESTORING or seen.wanted_snapshot else "started"
    if seen.terminating:
        return _made(seen, "resuming", "The old pod is still being stopped.", None,
                     phase="restoring")  # fmt: skip
    if seen.pod is None:
        hidden = "pods" in seen.hidden
        words = "Where the pod is may not be read here." if hidden else "The pod is being made."
        if hidden and seen.state == "Running" and seen.checkpoint_state != RESTORING:
            return _made(seen, "running", "The workspace runs.",
                         milliseconds(seen.status.get("lastRunningTime")))  # fmt: skip
        return _made(seen, "resuming", words, None, phase="restoring")
    waiting = seen.unschedulable
    if waiting is not None:
        return waiting_for_node(seen, moment(waiting.get("lastTransitionTime")), waiting, now)
    since = moment((condition_of(seen.pod, "PodScheduled") or {}).get("lastTransitionTime"))
    stuck = why_stuck(seen)
    if stuck:
        return _made(
            seen, "resuming", f"The pod does not start: {stuck}", since, phase="restoring",
            reason="restore_failed", hint="The snapshot and the checkpoints are kept.",
        )  # fmt: skip
    if seen.pod_ready:
        cold = seen.cold_start
        if cold is not None:
            return _running(seen, now)
        return _made(
            seen, "resuming", "The pod is ready; the rest of its memory is being read.", since,
            phase="verifying", provenance="restored" if seen.restored else None,
        )  # fmt: skip
    words = f"The pod is being {verb} on {seen.spec.get('nodeName') or 'a node'}{_for(since, now)}."
    return _made(seen, "resuming", words, since, phase="restoring")


def waiting_for_node(
    seen: Seen, since: datetime | None, condition: dict[str, Any], now: datetime
) -> WorkspaceState:
    """For which machine, since when and why: `condition` is the pod's, events say what is done."""
    what = f"a node of class {seen.machines}" if seen.machines else "a node with room"
    if seen.accelerator:
        what = f"a {seen.accelerator}"
    head = f"Waiting for {what}{_for(since, now, 'since')}"
    hint = None
    for event in seen.events_of("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp"):
        if event["reason"] == "TriggeredScaleUp":
            message = f"{head}: no node yet, one is being added{_at(event_time(event), now)}."
            hint = "A node with a GPU takes 5 to 10 minutes. Nothing needs to be done."
        else:
            message = f"{head}: no node can be added: {event.get('message')}"
            hint = "Look at the quota and the node pools. The snapshot is kept."
        break
    else:
        message = f"{head}: {condition.get('message') or 'no node has room'}"
        if since is not None and now - since > PATIENCE:
            hint = "Nobody adds a node: look at the quota and the node pools. The snapshot is kept."
    return _made(
        seen, "resuming", message, since, phase="waiting_for_capacity",
        hint=hint or "The scheduler tries again by itself.",
    )  # fmt: skip


def why_stuck(seen: Seen) -> str | None:
    """Why the pod's containers do not start; None while nothing says so."""
    for container in ((seen.pod or {}).get("status") or {}).get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reasons = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName",
                   "CreateContainerConfigError", "RunContainerError")  # fmt: skip
        if waiting.get("reason") in reasons:
            return f"{waiting['reason']}: {waiting.get('message') or container.get('name')}"
    return None


# -- running ---------------------------------------------------------------------------------


def _running(seen: Seen, now: datetime) -> WorkspaceState:
    ready = moment((condition_of(seen.pod or {}, "Ready") or {}).get("lastTransitionTime"))
    since = ready or milliseconds(seen.status.get("lastRunningTime"))
    cold = seen.cold_start
    runs = "" if seen.unready else _for(since, now)
    provenance, message, hint = None, f"The workspace runs{runs}.", ""
    if seen.unreached:
        message = "The workspace runs; its page cannot be reached yet."
    if seen.restored:
        provenance = "restored"
        message = "The workspace runs: the same processes, restored from their snapshot."
    elif cold is not None:
        provenance = "fresh"
        message = f"The workspace runs, but it was started anew: {cold}"
        hint = "Kernels come back from their checkpoints."
    elif seen.wanted_snapshot:
        if since is not None and now - since > SIGN_OF_RESTORE:
            provenance = "fresh"
            message = (
                f"The workspace runs; it was to be restored from {seen.wanted_snapshot}, and "
                "nothing says that it was."
            )
            hint = "Kernels that are not as they were come back from their checkpoints."
        else:
            message = "The workspace runs; whether it was restored is not said yet."
    if seen.unready:
        message += f" Its server does not say that it is ready{_at(ready, now)}."
        hint = f"It may be short of memory or time. Nothing of it has ended. {hint}".rstrip()
    return _made(seen, "running", message, since, provenance=provenance, hint=hint)


# -- words -----------------------------------------------------------------------------------


def _for(since: datetime | None, now: datetime, word: str = "for") -> str:
    if since is None:
        return ""
    return f" {word} {age((now - since).total_seconds())}"


def _so_far(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f" ({age((now - since).total_seconds())} so far)"


def _at(time: datetime | None, now: datetime) -> str:
    return "" if time is None else f" (for {age((now - time).total_seconds())})"


def age(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h 5 min`, `4 d`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        minutes = whole % 3600 // 60
        return f"{whole // 3600} h" + (f" {minutes} min" if minutes else "")
    return f"{whole // 86400} d"


def iso(time: datetime) -> str:
    """As it is told: UTC, to the second."""
    return time.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


__all__ = [
    "SIGN_OF_RESTORE", "SnapshotSeen", "WorkspaceState", "age", "iso", "read", "waiting_for_node",
    "why_stuck",
]  # fmt: skip
