"""Pause, call off and resume a workspace: one request each, and what came of it.

A request is sent once, onto the version that was judged, and never while a snapshot is being taken:
it would begin anew. What an answer says is verified, a lost answer is looked up. Takes no snapshot
itself: the cluster does. Blocks its thread; ends when the cluster has done it, or at its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import GkewsError
from .access import need
from .observing import WorkspaceObserver, look, no_such_workspace
from .preflight import Check, Facts, check, costs_memory, refuses, risks
from .problems import ClusterError
from .seen import Seen
from .state import WorkspaceState, age, read
from .words import (
    CHECKPOINT_STARTED,
    CHECKPOINT_STATE,
    CHECKPOINTING,
    LAST_CHECKPOINT,
    RESTORING,
    SNAPSHOTS,
    WORKSPACES,
    Json,
    annotations_of,
)

Progress = Callable[[WorkspaceState], None]
#: How often a request is judged anew when somebody else changed the Workspace in between.
TRIES = 4
#: Seconds that the addon is given to try again by itself after a snapshot has failed.
GRACE_S = 10.0


@dataclass(frozen=True)
class Requested:
    """What a request for a pause has come to: `begun` by us, `joined` (it ran already)."""

    how: str
    version: str
    """The Workspace's, from which on a watch shows it."""
    stateless: bool = False
    checks: list[Check] = field(default_factory=list)
    pod_uid: str = ""
    """The pod that is being paused; another one after it means that all is over."""


def deadline_s(resident: int | None) -> float:
    """Seconds that a pause may take: a minute and 20 s for each GiB, between 3 and 20 minutes."""
    size = 60.0 if resident is None else 60.0 + 20.0 * resident / 2**30
    return min(max(size, 180.0), 1200.0)


class Pauses:
    """Of one workspace, through its observer (which must have been started)."""

    def __init__(self, observer: WorkspaceObserver, facts: Facts | None = None) -> None:
        self.observer = observer
        self._cluster = observer.cluster
        self._facts = facts

    # -- before ------------------------------------------------------------------------------

    def preflight(self) -> list[Check]:
        """All items, as things are now. Raises ClusterError."""
        return self.judge(look(self._cluster, self.observer.namespace, self.observer.name))

    def judge(self, seen: Seen) -> list[Check]:
        """The same of what has been read already."""
        access = self.observer.access
        pause = need("pause")
        missing = [] if access.has(pause) else [pause]
        facts = self._facts or Facts()
        if facts.snapshot_api is None:
            served = self._cluster.served(SNAPSHOTS) is not None
            facts = Facts(served, facts.node_labels, facts.vram, facts.resident)
        self._facts = facts
        return check(seen, missing, facts)

    # -- pause -------------------------------------------------------------------------------

    def request(self, *, stateless: bool = False, accept_risks: bool = True) -> Requested:
        """Ask for the pause, once. `stateless`: also if its memory will be lost.

        Raises GkewsError: already_paused, operation_running, snapshot_unavailable (nothing was
        asked), snapshot_failed (asked for, but it is one without a snapshot), cluster_unreachable.
        """
        for turn in range(TRIES):
            # what is followed is as good as what is read: the request is onto its version alone
            seen = self._followed() if turn == 0 else None
            seen = seen or self._look()
            joined = self._running_pause(seen)
            if joined is not None:
                return joined
            checks = self.judge(seen)
            self._refuse(checks, stateless=stateless, accept_risks=accept_risks)
            try:
                found = self._merge(seen, {"spec": {"paused": True}})
            except ClusterError as error:
                if error.conflict:
                    continue
                if not error.maybe_done:
                    raise error.explain() from error
                maybe = self._after_lost_answer(seen, error)
                if maybe is None:
                    continue  # it was not done, and can no longer be: the version has gone by
                found = maybe
            begun = self._verified(seen, found, checks, stateless=stateless)
            return replace(begun, pod_uid=_uid(seen))
        raise _raced("pause")

    def _running_pause(self, seen: Seen) -> Requested | None:
        if seen.checkpoint_state == CHECKPOINTING:
            return Requested("joined", _version(seen.workspace), pod_uid=_uid(seen))
        if seen.paused:
            if seen.state == "Paused":
                raise GkewsError(
                    "already_paused", "The workspace is paused.", "Resume it when you need it."
                )
            stateless = not seen.last_snapshot
            return Requested("joined", _version(seen.workspace), stateless, pod_uid=_uid(seen))
        state = read(seen)
        if state.state == "resuming":
            raise GkewsError(
                "operation_running",
                f"The workspace is on its way up: {state.message}",
                "Pause it when it runs.",
            )
        return None

    def _refuse(self, checks: list[Check], *, stateless: bool, accept_risks: bool) -> None:
        stopping = refuses(checks)
        if stopping:
            raise GkewsError("forbidden", stopping[0].message, stopping[0].hint)
        losing = costs_memory(checks)
        if losing and not stateless:
            raise GkewsError(
                "snapshot_unavailable",
                "A pause now would stop the pod without a snapshot: its memory would be lost. "
                + " ".join(one.message for one in losing),
                "Nothing was asked for. "
                + " ".join(dict.fromkeys(one.hint for one in losing if one.hint))
                + " Kernels that have checkpoints come back from them: pause without a snapshot "
                "if that is enough.",
            )
        risky = risks(checks)
        if risky and not accept_risks:
            raise GkewsError(
                "snapshot_unavailable",
                " ".join(one.message for one in risky),
                "Nothing was asked for. " + " ".join(one.hint for one in risky if one.hint),
            )

    def _after_lost_answer(self, before: Seen, error: ClusterError) -> Json | None:
        """The Workspace, if it shows that the request was done; None if it cannot have been.

        Raises GkewsError if that cannot be told: the request may still be on its way.
        """
        try:
            seen = look(self._cluster, self.observer.namespace, self.observer.name)
        except ClusterError:
            seen = Seen()
        if seen.workspace is None:
            raise GkewsError(
                "cluster_unreachable",
                f"Whether the workspace is being paused is not known: {error.message}",
                "The request is not repeated. `jupyter gkews workspace status` will show it.",
            ) from error
        if _version(seen.workspace) == _version(before.workspace):
            raise GkewsError(
                "cluster_unreachable",
                f"The cluster has not answered the request to pause: {error.message}",
                "The request is not repeated. `jupyter gkews workspace status` will show whether "
                "it was done; so far the workspace runs.",
            ) from error
        done = seen.paused or seen.checkpoint_state == CHECKPOINTING
        return seen.workspace if done else None

    def _verified(
        self, before: Seen, found: Json, checks: list[Check], *, stateless: bool
    ) -> Requested:
        state = annotations_of(found).get(CHECKPOINT_STATE)
        paused = bool((found.get("spec") or {}).get("paused"))
        if not paused and state == CHECKPOINTING:
            return Requested("begun", _version(found), False, checks)
        if paused and annotations_of(found).get(LAST_CHECKPOINT):
            return Requested(
                "begun", _version(found), False, checks
            )  # a lost answer, and the snapshot is whole
        if paused:
            if stateless:
                return Requested("begun", _version(found), True, checks)
            self._take_back(found)
        raise GkewsError(
            "snapshot_failed",
            "The cluster took the request, but did not begin a snapshot.",
            "The workspace runs on as it did.",
        )

    def _take_back(self, found: Json) -> None:
        """Nobody takes a snapshot: say no again at once, before the pod is stopped."""
        why = (
            "The snapshot addon did not act on the request: the pod would stop without a snapshot."
        )
        try:
            seen = self._unpaused(Seen(found))
        except ClusterError as error:
            raise GkewsError(
                "snapshot_failed",
                f"{why} It could not be called off: {error.message}",
                "The pod may be stopping. Kernels come back from their checkpoints.",
            ) from error
        if seen.pod is None or seen.terminating:
            raise GkewsError(
                "snapshot_failed",
                f"{why} It was called off, but the pod is stopping already.",
                "A new one starts. Kernels come back from their checkpoints.",
            )
        raise GkewsError(
            "snapshot_failed",
            f"{why} It was called off in time.",
            "The workspace runs on, nothing was lost. Whoever runs the cluster should look at the "
            "addon gke-workspace-snapshot-addon.",
        )

    def _unpaused(self, seen: Seen) -> Seen:
        """The workspace after `paused` was set back, however often others write meanwhile."""
        place = (self.observer.namespace, self.observer.name)
        for turn in range(10):
            try:
                self._merge(seen, {"spec": {"paused": False}})
            except ClusterError as error:
                if turn == 9 or not (error.conflict or error.maybe_done):
                    raise
            seen = look(self._cluster, *place)
            if not seen.paused:
                break
        return seen

    def wait_paused(
        self, requested: Requested, seconds: float, progress: Progress | None = None, *,
        abort: bool = True, grace_s: float = GRACE_S,
    ) -> WorkspaceState:  # fmt: skip
        """Wait for the end of the pause. A snapshot that fails or hangs is called off (`abort`).

        The state is `paused`; or that of a next pod, if somebody has resumed it already: then
        this may be the very process that was paused.

        Raises GkewsError: snapshot_failed, with the cluster's words; cancelled, if somebody called
        it off; cluster_unreachable.
        """
        end = time.monotonic() + seconds
        told = _Teller(progress)
        failed_since: float | None = None
        if not self.observer.catch_up(requested.version, seconds):
            return self._give_up(requested, seconds, abort=abort)
        while True:
            until, news = end, failed_since is None
            if failed_since is not None:
                until = min(end, failed_since + grace_s)
            state = self.observer.wait(
                lambda _, state, news=news: (  # type: ignore[misc]
                    told(state) or state.state != "pausing" or (news and state.reason is not None)
                ),
                max(0.0, until - time.monotonic()),
            )
            state = state or self.observer.state()
            if state.state == "paused" or _is_back(requested, self.observer.seen()):
                return state
            if state.state in ("running", "resuming"):
                raise _called_off(state)
            if state.state == "unknown":
                raise _out_of_sight(state)
            if state.reason == "snapshot_failed":
                failed_since = failed_since or time.monotonic()
                over = time.monotonic() - failed_since >= grace_s
            else:
                failed_since, over = None, False
            if over or time.monotonic() >= end:
                return self._give_up(requested, seconds, abort=abort)

    def _give_up(self, requested: Requested, seconds: float, *, abort: bool) -> WorkspaceState:
        """Look once more, as this process may have slept meanwhile; then call it off, and raise."""
        try:
            seen = look(self._cluster, self.observer.namespace, self.observer.name)
        except ClusterError as error:
            raise GkewsError(
                "cluster_unreachable",
                f"The pause runs, but the cluster does not answer: {error.message}",
                "It is not called off. `jupyter gkews workspace status` will show what became "
                "of it.",
            ) from error
        state = read(seen)
        if state.state == "paused" or _is_back(requested, seen):
            return state
        if state.state == "unknown":
            raise _out_of_sight(state)
        if state.state != "pausing":
            raise _called_off(state)
        what = state.message
        if state.reason != "snapshot_failed":
            what = f"No end of the pause after {age(seconds)}: {state.message}"
        if state.phase == "releasing" or not abort:
            raise GkewsError(
                "snapshot_failed", what, "It is not called off: the pod may stop at any time."
            )
        hint = self.abort()
        raise GkewsError("snapshot_failed", what, hint)

    # -- call off ----------------------------------------------------------------------------

    def abort(self, seconds: float = 60.0) -> str:
        """Call off a snapshot that runs, and wait until the server can be reached again.

        What to tell the user. Raises GkewsError: not_cancellable, cluster_unreachable.
        """
        for _ in range(TRIES):
            seen = self._look()
            if seen.checkpoint_state != CHECKPOINTING:
                if seen.paused:
                    raise GkewsError(
                        "not_cancellable",
                        "The snapshot is whole and the pod is being stopped.",
                        "Resume the workspace when it is paused.",
                    )
                return "It was called off already. The workspace runs on."
            gone = {CHECKPOINT_STATE: None, CHECKPOINT_STARTED: None}
            try:
                found = self._merge(seen, {"metadata": {"annotations": gone}})
            except ClusterError as error:
                if error.conflict or error.maybe_done:
                    continue
                raise error.explain() from error
            self.observer.catch_up(_version(found), seconds)
            back = self.observer.wait(
                lambda seen, _: (
                    seen.checkpoint_state != CHECKPOINTING
                    and (seen.pod_ready or "pods" in seen.hidden)
                ),
                seconds,
            )
            if back is None:
                return (
                    "The pause was called off; the pod is not reachable again yet. The processes "
                    "in it still run, and the checkpoints of the kernels are safe."
                )
            return "The pause was called off: the workspace runs on, nothing was lost."
        raise _raced("call off the pause of")

    # -- resume ------------------------------------------------------------------------------

    def request_resume(self) -> Requested:
        """Ask for the resume, once: `begun`, or `joined` if it is on its way up already.

        Raises GkewsError: not_paused, operation_running, cluster_unreachable.
        """
        for _ in range(TRIES):
            seen = self._look()
            state = read(seen)
            if state.state == "resuming":
                return Requested("joined", _version(seen.workspace))
            if state.state == "running":
                raise GkewsError("not_paused", "The workspace runs.", "Open it.")
            if state.state != "paused":
                raise GkewsError(
                    "operation_running",
                    f"The workspace is still being paused: {state.message}",
                    "Resume it when it is paused.",
                )
            try:
                found = self._merge(seen, {"spec": {"paused": False}})
            except ClusterError as error:
                if error.conflict or error.maybe_done:
                    continue  # onto the same version only: never a second restore
                raise error.explain() from error
            return Requested("begun", _version(found))
        raise _raced("resume")

    def wait_running(
        self, requested: Requested, seconds: float, progress: Progress | None = None
    ) -> WorkspaceState:
        """Wait until the workspace runs. Waiting for a node has no deadline but this one.

        Raises GkewsError: restore_failed, at the deadline, with what it waits for.
        """
        told = _Teller(progress)
        self.observer.catch_up(requested.version, seconds)
        state = self.observer.wait(
            lambda _, state: told(state) or state.state != "resuming",
            seconds,
        )
        if state is None:
            state = self.observer.state()
            if state.state != "running":
                trouble = self.observer.trouble
                raise GkewsError(
                    "cluster_unreachable" if trouble else "restore_failed",
                    f"The workspace does not run after {age(seconds)}: "
                    + (trouble.message if trouble else state.message),
                    state.hint or "It is still on its way up; nothing was called off.",
                )
        if state.state == "unknown":
            raise _out_of_sight(state)
        if state.state != "running":
            raise GkewsError(
                "cancelled", f"Somebody paused it again: {state.message}", "Nothing was lost."
            )
        return state

    # -- inside ------------------------------------------------------------------------------

    def _followed(self) -> Seen | None:
        """As the watches have it; None unless all of them see well."""
        if not self.observer.sees_well:
            return None
        seen = self.observer.seen()
        return seen if seen.workspace is not None else None

    def _look(self) -> Seen:
        try:
            seen = look(self._cluster, self.observer.namespace, self.observer.name)
        except ClusterError as error:
            raise error.explain() from error
        if seen.workspace is None:
            raise no_such_workspace(self._cluster, self.observer.namespace, self.observer.name)
        return seen

    def _merge(self, seen: Seen, patch: Json) -> Json:
        """Onto the version that was looked at, and no other."""
        metadata: Json = {**patch.get("metadata", {}), "resourceVersion": _version(seen.workspace)}
        return self._cluster.merge(
            WORKSPACES,
            self.observer.namespace,
            self.observer.name,
            {**patch, "metadata": metadata},
        )


class _Teller:
    """Passes a state on when its words have changed. Always false: it stops no wait."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._last: Any = None

    def __call__(self, state: WorkspaceState) -> bool:
        key = (state.state, state.phase, state.reason, state.hint)
        if self._progress is not None and key != self._last:
            self._progress(state)
        self._last = key
        return False


def _version(found: Json | None) -> str:
    return str(((found or {}).get("metadata") or {}).get("resourceVersion") or "")


def _uid(seen: Seen) -> str:
    return str(((seen.pod or {}).get("metadata") or {}).get("uid") or "")


def _is_back(requested: Requested, seen: Seen) -> bool:
    """The pause is over, and the resume after it has begun."""
    if seen.paused or seen.checkpoint_state == CHECKPOINTING:
        return False
    if seen.checkpoint_state == RESTORING:
        return True
    return bool(requested.pod_uid and _uid(seen) and _uid(seen) != requested.pod_uid)


def _called_off(state: WorkspaceState) -> GkewsError:
    return GkewsError(
        "cancelled", f"The pause was called off: {state.message}", "Nothing was lost."
    )


def _out_of_sight(state: WorkspaceState) -> GkewsError:
    """Deleted, or no longer to be read, while it was waited for."""
    gone = state.reason == "no_workspace"
    message = "The workspace was deleted." if gone else state.message
    hint = "Kernels' checkpoints stay in their store, if the home volume is kept."
    return GkewsError(state.reason or "no_workspace", message, hint)


def _raced(what: str) -> GkewsError:
    return GkewsError(
        "operation_running",
        f"Somebody else keeps changing the workspace: could not {what} it.",
        "Nothing was changed. Try again in a moment.",
    )
