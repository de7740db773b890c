"""One request to a cluster about a workspace: pause it, call that off, resume it.

A request is sent once, onto the version that was judged, and never while a snapshot is being taken:
it would begin anew. What an answer says is verified, a lost answer is looked up. Waits for no end
of a pause or a resume: pausing.py does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from ...errors import GkewsError
from ..base import UnsureError
from ..cluster.problems import ClusterError
from ..cluster.words import (
    CHECKPOINT_STARTED,
    CHECKPOINT_STATE,
    CHECKPOINTING,
    LAST_CHECKPOINT,
    RESTORING,
    SNAPSHOTS,
    WORKSPACES,
    Json,
    annotations_of,
    uid_of,
    version_of,
)
from .access import need
from .observing import WorkspaceObserver, look, no_such_workspace
from .preflight import Check, Facts, check, costs_memory, refuses
from .seen import Seen
from .state import read

#: How often a request is judged anew when somebody else changed the Workspace in between.
TRIES = 4
#: Seconds for which a pod is watched whose pause was taken back, before it is said to run on.
SETTLED_S = 2.0


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


@dataclass(frozen=True)
class CalledOff:
    """What calling off has come to: `aborted` by us, or there was `nothing` to call off."""

    how: str
    message: str
    """What to tell the user."""


class Requests:
    """Of one workspace, through its observer (started, but for `preflight` and `judge`)."""

    def __init__(self, observer: WorkspaceObserver, facts: Facts | None = None) -> None:
        self.observer = observer
        self._cluster = observer.cluster
        self._facts = facts
        self.snapshot_api = None if facts is None else facts.snapshot_api
        """Whether GKE's API is served; None before it was asked."""

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
            served = self._cluster.serves(SNAPSHOTS.group, SNAPSHOTS.version)
            facts = Facts(served, facts.node_labels, facts.vram, facts.resident)
        self._facts = facts
        self.snapshot_api = facts.snapshot_api
        return check(seen, missing, facts)

    # -- pause -------------------------------------------------------------------------------

    def request(self, *, stateless: bool = False, pod_uid: str = "") -> Requested:
        """Ask for the pause, once. `stateless`: also if its memory will be lost; `pod_uid`: of this
        pod alone.

        Raises GkewsError: already_paused, operation_running, snapshot_unavailable (nothing was
        asked), cancelled (it is another pod), snapshot_failed (asked for, but it is one without a
        snapshot), cluster_unreachable; UnsureError, if it may still be done.
        """
        for turn in range(TRIES):
            # what is followed is as good as what is read: the request is onto its version alone
            seen = self._followed() if turn == 0 else None
            seen = seen or self._look()
            _must_be(pod_uid, seen)
            joined = self._running_pause(seen)
            if joined is not None:
                return joined
            checks = self.judge(seen)
            refused = refusal(checks) or (None if stateless else loss(checks))
            if refused is not None:
                raise refused
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
            return replace(begun, pod_uid=uid_of(seen.pod))
        raise _raced("pause")

    def _running_pause(self, seen: Seen) -> Requested | None:
        if seen.checkpoint_state == CHECKPOINTING:
            return Requested("joined", version_of(seen.workspace), pod_uid=uid_of(seen.pod))
        if seen.paused:
            if seen.state == "Paused":
                raise GkewsError(
                    "already_paused", "The workspace is paused.", "Resume it when you need it."
                )
            stateless = not seen.last_snapshot
            return Requested(
                "joined", version_of(seen.workspace), stateless, pod_uid=uid_of(seen.pod)
            )
        state = read(seen)
        if state.state == "resuming":
            raise GkewsError(
                "operation_running",
                f"The workspace is on its way up: {state.message}",
                "Pause it when it runs.",
            )
        return None

    def _after_lost_answer(self, before: Seen, error: ClusterError) -> Json | None:
        """The Workspace, if it shows that the request was done; None if it cannot have been.

        Raises UnsureError if that cannot be told: the request may still be on its way.
        """
        try:
            seen = look(self._cluster, self.observer.namespace, self.observer.name)
        except ClusterError:
            seen = Seen()
        if seen.workspace is None:
            raise UnsureError(
                "cluster_unreachable",
                f"Whether the workspace is being paused is not known: {error.message}",
                "The request is not repeated. `jupyter gkews workspace status` will show it.",
            ) from error
        if version_of(seen.workspace) == version_of(before.workspace):
            raise UnsureError(
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
            return Requested("begun", version_of(found), False, checks)
        last = annotations_of(found).get(LAST_CHECKPOINT)
        if paused and last and last != before.last_snapshot:  # its answer was lost; it is whole
            return Requested("begun", version_of(found), False, checks)
        if paused:
            if stateless:
                return Requested("begun", version_of(found), True, checks)
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
            seen = self._settled(self._unpaused(Seen(found)))
        except ClusterError as error:
            raise UnsureError(
                "snapshot_failed",
                f"{why} It could not be called off: {error.message}",
                "The pod may be stopping. Kernels come back from their checkpoints.",
            ) from error
        if seen.pod is None or seen.terminating:
            raise UnsureError(
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

    def _settled(self, seen: Seen) -> Seen:
        """What became of the pod: a controller that had read the request may still stop it."""
        place = (self.observer.namespace, self.observer.name)
        end = time.monotonic() + SETTLED_S
        while seen.pod is not None and not seen.terminating and time.monotonic() < end:
            time.sleep(0.25)
            seen = look(self._cluster, *place)
        return seen

    # -- call off ----------------------------------------------------------------------------

    def abort(self, seconds: float = 60.0) -> CalledOff:
        """Call off a snapshot that runs, and wait until the server can be reached again.

        Raises GkewsError: not_cancellable, cluster_unreachable.
        """
        end = time.monotonic() + seconds
        for turn in range(TRIES):
            seen = self._look()
            if seen.checkpoint_state != CHECKPOINTING:
                return _nothing_runs(seen, asked=turn > 0)
            gone = {CHECKPOINT_STATE: None, CHECKPOINT_STARTED: None}
            try:
                found = self._merge(seen, {"metadata": {"annotations": gone}})
            except ClusterError as error:
                if error.conflict or error.maybe_done:
                    continue
                raise error.explain() from error
            safe = "The processes in it still run, and the checkpoints of the kernels are safe."
            if not self.observer.catch_up(version_of(found), seconds):
                words = "whether the pod can be reached again was not seen"
                return CalledOff("aborted", f"The pause was called off; {words}. {safe}")
            back = self.observer.wait(
                lambda seen, _: (
                    seen.checkpoint_state != CHECKPOINTING
                    and (seen.pod_ready or "pods" in seen.hidden)
                ),
                max(0.0, end - time.monotonic()),
            )
            if back is None:
                words = "the pod is not reachable again yet"
                return CalledOff("aborted", f"The pause was called off; {words}. {safe}")
            words = "the workspace runs on, nothing was lost"
            return CalledOff("aborted", f"The pause was called off: {words}.")
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
                return Requested("joined", version_of(seen.workspace))
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
            return Requested("begun", version_of(found))
        raise _raced("resume")

    # -- inside ------------------------------------------------------------------------------

    def outlook(self) -> tuple[Seen, list[Check]]:
        """What is known now, and all items judged by it; read only where it is not followed well.

        Raises GkewsError.
        """
        seen = self._followed() or self._look()
        return seen, self.judge(seen)

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
        metadata: Json = {
            **patch.get("metadata", {}),
            "resourceVersion": version_of(seen.workspace),
        }
        return self._cluster.merge(
            WORKSPACES,
            self.observer.namespace,
            self.observer.name,
            {**patch, "metadata": metadata},
        )


def refusal(checks: list[Check]) -> GkewsError | None:
    """Why a pause cannot even be asked for."""
    for one in refuses(checks):
        return GkewsError("forbidden", one.message, one.hint)
    return None


def loss(checks: list[Check]) -> GkewsError | None:
    """Why the memory would be lost in a pause."""
    losing = costs_memory(checks)
    if not losing:
        return None
    return GkewsError(
        "snapshot_unavailable",
        "A pause now would stop the pod without a snapshot: its memory would be lost. "
        + " ".join(one.message for one in losing),
        "Nothing was asked for. "
        + " ".join(dict.fromkeys(one.hint for one in losing if one.hint))
        + " Kernels that have checkpoints come back from them: pause without a snapshot "
        "if that is enough.",
    )


def _must_be(pod_uid: str, seen: Seen) -> None:
    """Whoever was frozen between its decision and its request must not pause its next life."""
    if pod_uid and uid_of(seen.pod) and uid_of(seen.pod) != pod_uid:
        raise GkewsError(
            "cancelled",
            "The workspace was paused by somebody else meanwhile, and is in another pod now.",
            "Nothing was asked for. Pause it again if you still want to.",
        )


def _nothing_runs(seen: Seen, *, asked: bool) -> CalledOff:
    """No snapshot is being taken. `asked`: one was when we looked before, and it was called off.

    Raises GkewsError (`not_cancellable`) where it is too late.
    """
    state = read(seen)
    words = f"No snapshot runs any more: {state.message}"
    if seen.paused:
        raise GkewsError("not_cancellable", words, "Resume the workspace when it is paused.")
    if seen.checkpoint_state == RESTORING or (state.state == "resuming" and not asked):
        raise GkewsError("not_cancellable", words, "Pause the workspace when it runs.")
    if asked:
        return CalledOff("aborted", "It was called off already. The workspace runs on.")
    return CalledOff("nothing", f"No pause runs: {state.message}")


def _raced(what: str) -> GkewsError:
    return GkewsError(
        "operation_running",
        f"Somebody else keeps changing the workspace: could not {what} it.",
        "Nothing was changed. Try again in a moment.",
    )
