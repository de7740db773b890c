"""Ask GKE for the snapshot of a pod, once, and call that off. The pod is not touched here.

Judged before, and never asked for while a snapshot of the same pod runs, whoever asked for it: the
trigger's name follows from what was seen, so that of two at once one is second. A lost answer is
asked again under the same name, which cannot begin a second one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import GkewsError
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import (
    MACHINE_TYPE_LABEL,
    POLICIES,
    SNAPSHOTS,
    TRIGGERS,
    condition_of,
    labels_of,
    name_of,
    uid_of,
)
from ..workspaces.preflight import Check, Facts
from .attempts import Attempt, attempt, next_name, trigger_for
from .observing import TargetObserver
from .policies import KEEP, our_policy, policy_for
from .preflight import check, stops
from .rights import missing, to_pause
from .seen import TargetSeen, look
from .state import read
from .targets import Target
from .words import NODES, STORAGE, created_of, deleted

#: How often a request is judged anew when somebody was faster, or an answer was lost.
TRIES = 5


@dataclass(frozen=True)
class Requested:
    """What a request has come to: `begun` by us, or `joined` (it ran already)."""

    how: str
    trigger: str
    """Its name."""
    pod_uid: str
    checks: list[Check] = field(default_factory=list)


@dataclass(frozen=True)
class CalledOff:
    """What calling off has come to: `aborted` by us, or there was `nothing` to call off."""

    how: str
    message: str


class Requests:
    """Of one target, through its observer (started, but for `preflight` and `judge`).

    `storage`: the storage config of a policy that has to be made; empty: the only one there is.
    `keep`: how long that policy keeps a snapshot that nobody uses.
    """

    def __init__(
        self, observer: TargetObserver, *, storage: str = "", keep: str = KEEP,
        facts: Facts | None = None,
    ) -> None:  # fmt: skip
        self.observer = observer
        self._storage, self._keep, self._facts = storage, keep, facts

    @property
    def target(self) -> Target:
        """What is paused."""
        return self.observer.target

    @property
    def _cluster(self) -> Cluster:
        return self.observer.cluster

    # -- before ------------------------------------------------------------------------------

    def look(self) -> TargetSeen:
        """As things are now. Raises GkewsError."""
        try:
            return look(self._cluster, self.target)
        except ClusterError as error:
            raise error.explain() from error

    def judge(self, seen: TargetSeen) -> list[Check]:
        """All items of the preflight. Raises ClusterError."""
        facts = self._facts or Facts()
        served = facts.snapshot_api
        if served is None:
            served = self._cluster.serves(SNAPSHOTS.group, SNAPSHOTS.version)
        labels = facts.node_labels or self._labels_of_node(str(seen.spec.get("nodeName") or ""))
        self._facts = Facts(served, labels, facts.vram, facts.resident)
        lacking = missing(self.observer.access, to_pause(self.target))
        found = policy_for(seen.pod or {}, seen.policies)
        problem = None
        if found.policy is None and seen.pod is not None and served:
            problem = self._choose_storage()
        return check(seen, lacking, self._facts, found, problem)

    def _labels_of_node(self, name: str) -> dict[str, str] | None:
        if not name:
            return None
        try:
            return labels_of(self._cluster.get(NODES, "", name))
        except ClusterError as error:
            if error.forbidden or error.missing:
                return None
            raise

    def _choose_storage(self) -> str | None:
        """Why no storage config can be chosen; None: `_storage` is one."""
        try:
            found, _ = self._cluster.list(STORAGE, "")
        except ClusterError as error:
            if not (error.forbidden or error.missing):
                raise
            if self._storage:
                return None  # a name that cannot be looked up is believed
            return "the storage configs may not be listed here: name one with --storage-config."
        good = [one for one in found
                if (condition_of(one, "Ready") or {}).get("status") != "False"]  # fmt: skip
        if self._storage:
            if self._storage in map(name_of, good):
                return None
            there = ", ".join(sorted(map(name_of, good))) or "none"
            return f"there is no PodSnapshotStorageConfig {self._storage} that is ready ({there})."
        if len(good) == 1:
            self._storage = name_of(good[0])
            return None
        if not good:
            return "the cluster has no PodSnapshotStorageConfig that is ready."
        names = ", ".join(sorted(name_of(one) for one in good))
        return f"there are several storage configs: --storage-config one of {names}."

    # -- the request -------------------------------------------------------------------------

    def request(self, judged: Callable[[list[Check]], None] | None = None) -> Requested:
        """Ask for the snapshot, once; `judged` is told the preflight before that.

        Raises GkewsError: already_paused, operation_running, snapshot_unavailable or forbidden
        (nothing was asked for), cluster_unreachable.
        """
        mark = secrets.token_hex(8)
        lost: ClusterError | None = None
        for _ in range(TRIES):
            seen = self.look()
            joined = self._running(seen, mark)
            if joined is not None:
                return joined
            try:
                checks = self.judge(seen)
                self._refuse(checks)
                if judged is not None:
                    judged(checks)
                    judged = None
                self._ensure_policy(seen)
                labels = (self._facts or Facts()).node_labels or {}
                body = trigger_for(
                    self.target, seen.pod or {}, seen.owner, seen.attempts, mark,
                    labels.get(MACHINE_TYPE_LABEL, ""),
                )  # fmt: skip
                self._cluster.create(TRIGGERS, body, self.target.namespace)
            except ClusterError as error:
                if error.conflict:
                    self._refuse_blocked(seen, error)
                    continue
                if error.maybe_done:
                    lost = error
                    continue
                raise error.explain() from error
            return Requested("begun", name_of(body), uid_of(seen.pod), checks)
        if lost is not None:
            raise GkewsError(
                "cluster_unreachable",
                f"Whether a snapshot is being taken is not known: {lost.message}",
                "`jupyter gkews podsnapshot status` will show it. The pod runs on in any case.",
            ) from lost
        raise GkewsError(
            "operation_running",
            f"Somebody else keeps asking for snapshots of {self.target.text}.",
            "Nothing was changed. Try again in a moment.",
        )

    def _running(self, seen: TargetSeen, mark: str) -> Requested | None:
        state = read(seen, sign=self.observer.sign)
        if state.state == "paused":
            raise GkewsError("already_paused", state.message, "Resume it when you need it.")
        if state.state == "unknown":
            raise GkewsError(state.reason or "no_workspace", state.message, state.hint)
        # With several pods one may always be on its way up: that they are several is what to say.
        single = seen.replicas <= 1
        if state.state == "resuming" and state.phase != "verifying" and single:
            raise GkewsError(
                "operation_running", f"It is on its way up: {state.message}",
                "Pause it when it runs.",
            )  # fmt: skip
        if state.phase == "releasing":
            raise GkewsError("operation_running", state.message, "Nothing was asked for.")
        mine = seen.attempt
        for one in self._of_pod(seen):
            if not self._runs(one, seen) or (mine is not None and one.name == mine.name):
                continue
            raise GkewsError(
                "operation_running",
                f"Somebody else has a snapshot of the pod taken (trigger {one.name}).",
                "Nothing was asked for. Wait for its end; if it hangs, whoever made it can delete "
                f"it: kubectl delete {TRIGGERS} {one.name} -n {self.target.namespace}",
            )
        if mine is not None and (self._runs(mine, seen) or mine.request == mark):
            if deleted(mine.trigger):
                raise self._blocked(mine)
            how = "begun" if mine.request == mark else "joined"
            return Requested(how, mine.name, mine.pod_uid)
        return None

    def _runs(self, one: Attempt, seen: TargetSeen) -> bool:
        """It may still come to a snapshot. That of one that is `gone` was deleted: `look` reads the
        snapshots after the triggers."""
        return one.running and not (one.gone and "snapshots" not in seen.hidden)

    def _of_pod(self, seen: TargetSeen) -> list[Attempt]:
        """What anybody has asked for about this very pod."""
        name, born = name_of(seen.pod or {}), created_of(seen.pod)
        found = []
        for one in seen.triggers:
            about = attempt(one, seen.snapshots)
            same = about.pod_uid == uid_of(seen.pod) if about.pod_uid else created_of(one) >= born
            if about.pod == name and same:
                found.append(about)
        return found

    def _refuse(self, checks: list[Check]) -> None:
        stopping = stops(checks)
        if not stopping:
            return
        first = stopping[0]
        reason = "forbidden" if first.id == "right" else "snapshot_unavailable"
        raise GkewsError(
            reason,
            " ".join(one.message for one in stopping),
            " ".join(dict.fromkeys(one.hint for one in stopping if one.hint))
            or "Nothing was asked for.",
        )

    def _ensure_policy(self, seen: TargetSeen) -> None:
        if policy_for(seen.pod or {}, seen.policies).policy is not None:
            return
        body = our_policy(self.target, seen.pod or {}, seen.owner, self._storage, self._keep)
        try:
            self._cluster.create(POLICIES, body, self.target.namespace)
        except ClusterError as error:
            name = name_of(body)
            if not error.conflict:
                raise
            found, _ = self._cluster.list(POLICIES, self.target.namespace)
            there = [one for one in found if name_of(one) == name]
            if policy_for(seen.pod or {}, there).policy is None:
                raise GkewsError(
                    "snapshot_unavailable",
                    f"There is a policy {name} already, and it does not select this pod.",
                    "Nothing was asked for. Delete it when no snapshot was taken under it, or let "
                    "another policy select the pod.",
                ) from error

    def _refuse_blocked(self, seen: TargetSeen, error: ClusterError) -> None:
        """The name is taken: by another request, or by one that is being deleted for ever."""
        name = next_name(self.target, seen.pod or {}, seen.attempts)
        try:
            there = self._cluster.find(TRIGGERS, self.target.namespace, name)
        except ClusterError as lost:
            raise lost.explain() from lost
        if there is not None and deleted(there):
            raise self._blocked(Attempt(there)) from error

    def _blocked(self, one: Attempt) -> GkewsError:
        finalizers = ", ".join((one.trigger.get("metadata") or {}).get("finalizers") or [])
        return GkewsError(
            "operation_running",
            f"The last request ({one.name}) was called off, and the cluster has not let go of it "
            f"yet{': finalizer ' + finalizers if finalizers else ''}.",
            "Nothing was asked for; the pod runs. Try again in a while.",
        )

    # -- call off ----------------------------------------------------------------------------

    def abort(self, seconds: float = 30.0) -> CalledOff:
        """Call off a snapshot that runs, or that is whole while the pod is not stopped yet.

        Raises GkewsError: not_cancellable, forbidden, cluster_unreachable.
        """
        for _ in range(TRIES):
            seen = self.look()
            state = read(seen, sign=self.observer.sign)
            if state.state == "paused" or state.phase == "releasing":
                raise GkewsError("not_cancellable", state.message, "Resume it when it is paused.")
            mine = seen.attempt
            if mine is None or mine.failure is not None or deleted(mine.trigger):
                return CalledOff("nothing", f"No pause runs: {state.message}")
            try:
                self._cluster.delete(
                    TRIGGERS, self.target.namespace, mine.name, uid_of(mine.trigger)
                )
            except ClusterError as error:
                if error.missing or error.conflict or error.maybe_done:
                    continue
                raise error.explain() from error
            return CalledOff("aborted", self._after_abort(mine, seconds))
        return CalledOff("nothing", "It was called off already.")

    def _after_abort(self, called_off: Attempt, seconds: float) -> str:
        uid, end = uid_of(called_off.trigger), time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                there = self._cluster.find(TRIGGERS, self.target.namespace, called_off.name)
            except ClusterError:
                return (
                    "The pause was called off; whether the cluster let go of the request is not "
                    "known. " + self.how_the_pod_is(called_off.pod_uid)
                )
            if there is None or uid_of(there) != uid:
                break
            self.observer.wait(
                lambda seen, _: all(uid_of(one.trigger) != uid for one in seen.attempts),
                min(5.0, max(0.0, end - time.monotonic())),
            )
            time.sleep(0.2)  # the watch may be ahead of what is read, or not see it at all
        else:
            return (
                "The pause was called off, but the cluster has not let go of the request yet. "
                + self.how_the_pod_is(called_off.pod_uid)
            )
        return "The pause was called off. " + self.how_the_pod_is(called_off.pod_uid)

    def how_the_pod_is(self, uid: str) -> str:
        """What is known now of the pod with this uid, for who has just failed to pause it."""
        try:
            seen = look(self._cluster, self.target)
        except ClusterError:
            return "How the pod is now is not known."
        pod = next((one for one in seen.pods if uid_of(one) == uid), None)
        if pod is None:
            return "The pod is gone; somebody else has stopped it."
        phase = (pod.get("status") or {}).get("phase")
        if deleted(pod) or phase != "Running":
            return f"The pod is no longer running ({'Terminating' if deleted(pod) else phase})."
        if (condition_of(pod, "Ready") or {}).get("status") != "True":
            return "The pod is there, but not ready: its processes may still be held."
        return "The pod runs on, nothing was lost."


__all__ = ["CalledOff", "Requested", "Requests"]
