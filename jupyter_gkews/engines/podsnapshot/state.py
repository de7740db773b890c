"""From what is seen of a target to its state, in the words and the shape of ../workspaces/state.py.

A pod was restored only if GKE says so and names the snapshot; if nothing says so a minute after it
is ready, it was started fresh. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from ..cluster.words import RESTORED_CONDITION, annotations_of, condition_of, name_of, uid_of
from ..workspaces.seen import PS_NAME, moment
from ..workspaces.state import (
    SnapshotSeen,
    WorkspaceState,
    age,
    iso,
    waiting_for_node,
    why_stuck,
)
from .attempts import why_not_whole
from .seen import TargetSeen, ended
from .words import PAUSED_AT, SNAPSHOT, created_of, deleted

#: How long after a pod is ready GKE may take to say that it was restored: it says so when all of
#: the memory is back.
SIGN = timedelta(seconds=180)
_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read(seen: TargetSeen, now: datetime | None = None, sign: timedelta = SIGN) -> WorkspaceState:
    """The state at `now` (UTC). `sign`: how long after it is ready GKE may take to say that a pod
    was restored."""
    now = now or datetime.now(timezone.utc)
    if not seen.target.bare and seen.owner is None:
        if "see" in seen.hidden:
            return _may_not_be_read(seen.target.text)
        message = f"There is no {seen.target.text}."
        return WorkspaceState("unknown", message, reason="no_workspace")
    if seen.pod is None and "pods" in seen.hidden and (seen.target.bare or seen.replicas):
        return _may_not_be_read(f"The pod of {seen.target.text}")
    if seen.replicas == 0:
        return _scaled_down(seen, now)
    if seen.pod is None:
        return _made(seen, "resuming", "The pod is being made.", None, phase="restoring")
    phase = ended(seen.pod)
    if phase:
        hint = "Its processes are gone; there is nothing to pause."
        if seen.wanted:
            hint += f" Its snapshot {seen.wanted} is there: delete the pod, then resume."
        return _made(seen, "unknown", f"The pod has ended ({phase}).", None,
                     reason="snapshot_unavailable", hint=hint)  # fmt: skip
    if seen.terminating:
        return _terminating(seen)
    attempt = seen.attempt
    if attempt is not None and attempt.running and not deleted(attempt.trigger):
        since = moment(created_of(attempt.trigger))
        words = "GKE takes the snapshot"
        if attempt.complete:
            words = f"GKE writes the snapshot {attempt.snapshot_name} to its storage"
        so_far = "" if since is None else f" ({age((now - since).total_seconds())} so far)"
        return _made(seen, "pausing", f"{words}{so_far}.", since, phase="snapshotting",
                     hint="The pod goes on until the snapshot is whole.")  # fmt: skip
    return _up(seen, now, sign)


def _may_not_be_read(what: str) -> WorkspaceState:
    return WorkspaceState("unknown", f"{what} may not be read.", reason="forbidden")


def _made(
    seen: TargetSeen, state: str, message: str, since: datetime | None, **more: Any
) -> WorkspaceState:
    about = {
        "since": None if since is None else iso(since),
        "pod": name_of(seen.pod or {}) or None,
        "node": seen.spec.get("nodeName") or None,
        "seen_as": _phase(seen),
        "snapshot": snapshot_seen(seen),
    }
    return WorkspaceState(state, message, **{**about, **more})


def _phase(seen: TargetSeen) -> str:
    return str(((seen.pod or {}).get("status") or {}).get("phase") or "Unknown")


def snapshot_seen(seen: TargetSeen) -> SnapshotSeen | None:
    """The snapshot that counts: the one to be restored from, or that which is being taken."""
    attempt = seen.attempt
    name = attempt.snapshot_name if attempt and attempt.failure is None else ""
    name = name or seen.wanted
    if not name:
        return None
    found = seen.snapshot(name)
    if found is None:
        return SnapshotSeen(name, None if "snapshots" in seen.hidden else False)
    until = seen.keeps_until(found)
    return SnapshotSeen(
        name, why_not_whole(found) is None, created_of(found), None if until is None else iso(until)
    )


# -- down ------------------------------------------------------------------------------------


def _scaled_down(seen: TargetSeen, now: datetime) -> WorkspaceState:
    if seen.target.bare and seen.kept is None:
        message = f"There is no {seen.target.text}, and none was paused from here."
        return WorkspaceState("unknown", message, reason="no_workspace")
    ours = seen.target.bare or SNAPSHOT in annotations_of(seen.owner or {})
    if seen.pods:
        words = "; its snapshot is kept." if ours else ": it was scaled to 0, without a snapshot."
        return _made(seen, "pausing", f"The pod is being stopped{words}", None, phase="releasing",
                     stateless=not ours)  # fmt: skip
    since = moment(annotations_of(seen.owner or {}).get(PAUSED_AT))
    since = since or (seen.kept.taken_at if seen.kept else None)
    message = f"Paused{_for(since, now)}. Its node is free."
    if not ours:
        older = annotations_of(seen.template).get(PS_NAME)
        message = f"{seen.target.kind} {seen.target.name} is scaled to 0. It was not paused from "
        message += "here: there is no snapshot of its memory."
        if older:
            message += f" Scaled up by hand it begins from the older snapshot {older}."
        return _made(seen, "paused", message, None, stateless=True,
                     hint="A resume starts a new pod: --accept-fresh.")  # fmt: skip
    snapshot = snapshot_seen(seen)
    if snapshot is None or snapshot.ready is False:
        name = snapshot.name if snapshot else "its snapshot"
        return _made(
            seen, "paused", f"{message} The snapshot {name} is gone or not whole.", since,
            reason="snapshot_not_found",
            hint="A resume would start a new pod: --accept-fresh does that.",
        )  # fmt: skip
    hint = "Resume brings the same processes back."
    if snapshot.keeps_until:
        hint += f" The snapshot is kept until {snapshot.keeps_until[:10]}."
    return _made(seen, "paused", message, since, hint=hint)


def _terminating(seen: TargetSeen) -> WorkspaceState:
    if seen.target.bare:
        kept = seen.kept is not None and seen.kept.pod_uid == uid_of(seen.pod)
        words = "; its snapshot is kept." if kept else ", not by a pause from here."
        return _made(seen, "pausing", f"The pod is being stopped{words}", None, phase="releasing",
                     stateless=not kept)  # fmt: skip
    return _made(seen, "resuming", "The old pod is still being stopped.", None, phase="restoring")


# -- up --------------------------------------------------------------------------------------


def _up(seen: TargetSeen, now: datetime, sign: timedelta) -> WorkspaceState:
    waiting = seen.unschedulable
    if waiting is not None:
        since = moment(waiting.get("lastTransitionTime"))
        return replace(
            waiting_for_node(seen, since, waiting, now),
            seen_as=_phase(seen), snapshot=snapshot_seen(seen),
        )  # fmt: skip
    placed = moment((condition_of(seen.pod or {}, "PodScheduled") or {}).get("lastTransitionTime"))
    stuck = why_stuck(seen)
    if stuck:
        return _made(
            seen, "resuming", f"The pod does not start: {stuck}", placed, phase="restoring",
            reason="restore_failed", hint="The snapshot is kept, if there is one.",
        )  # fmt: skip
    runs = _phase(seen) == "Running" and not seen.to_restore
    if not seen.pod_ready and not runs:
        verb = "restored" if seen.to_restore else "started"
        where = seen.spec.get("nodeName") or "a node"
        return _made(seen, "resuming", f"The pod is being {verb} on {where}{_for(placed, now)}.",
                     placed, phase="restoring")  # fmt: skip
    ready = moment((condition_of(seen.pod or {}, "Ready") or {}).get("lastTransitionTime"))
    state = _ready(seen, ready, now, sign)
    attempt = seen.attempt
    if attempt is None or state.state != "running":
        return state
    if attempt.failure is not None:
        return replace(
            state, message=f"{state.message} The last snapshot failed: {attempt.failure}",
            reason="snapshot_failed", hint="The pod runs on as it did.",
        )  # fmt: skip
    if deleted(attempt.trigger) or not attempt.whole:
        return state  # called off
    taken = "" if attempt.taken_at is None else f" of {iso(attempt.taken_at)}"
    return replace(
        state,
        message=f"{state.message} A snapshot{taken} is whole, but the pod was not stopped.",
        hint="Pause it again: that takes a new one.",
    )


def _ready(
    seen: TargetSeen, since: datetime | None, now: datetime, sign: timedelta
) -> WorkspaceState:
    wanted = seen.to_restore
    if seen.restored:
        text = str((condition_of(seen.pod or {}, RESTORED_CONDITION) or {}).get("message") or "")
        if wanted and wanted in text:
            message = f"The pod runs: the same processes, restored from {wanted}."
            return _made(seen, "running", message, since, provenance="restored")
        other = _NAME.search(text)
        message = f"The pod runs, restored from {other[0] if other else 'a snapshot'}"
        message += f", not from {wanted}." if wanted and other else "; GKE does not say which one."
        if not wanted and other:
            message = f"The pod runs, restored from {other[0]}."
        return _made(seen, "running", message, since, provenance="restored",
                     reason="snapshot_incompatible" if wanted and other else None)  # fmt: skip
    if not wanted:
        message = f"The pod runs{_for(since, now)}."
        if not seen.pod_ready:
            message = "The pod runs; it is not ready."
        return _made(seen, "running", message, since)
    why = seen.cold_start
    late = since is not None and now - since > sign
    if why is None and not late:
        return _made(seen, "resuming", "The pod is ready; whether it was restored is not said yet.",
                     since, phase="verifying")  # fmt: skip
    message = "The pod runs, but it was started anew: "
    message += why or f"nothing says that it was restored from {wanted}."
    if not seen.wanted_snapshot:
        message += " It was made without the name of the snapshot."
    return _made(seen, "running", message, since, provenance="fresh",
                 hint="The snapshot is kept. If the processes are not as they were, "
                 "`resume --again` has it tried with a new pod.")  # fmt: skip


def _for(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f" for {age((now - since).total_seconds())}"


__all__ = ["SIGN", "read", "snapshot_seen"]
