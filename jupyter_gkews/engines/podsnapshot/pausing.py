"""From a request for a snapshot to a stopped pod: the pod is stopped when its snapshot is whole.

What is stopped is looked at once more, afresh, right before: the snapshot, the pod that it is of,
the request. Whatever goes wrong before that leaves the pod running; a snapshot that fails or hangs
ends at our deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from ...errors import GkewsError
from ..cluster.problems import ClusterError
from ..cluster.words import PODS, Json, annotations_of, name_of, uid_of, version_of
from ..workspaces.pausing import Teller
from ..workspaces.seen import PS_NAME
from ..workspaces.state import WorkspaceState, age, iso
from .attempts import Attempt
from .made_of import made_of
from .requesting import Requested, Requests
from .seen import TargetSeen
from .state import read
from .words import MACHINE, MADE_OF, PAUSED_AT, REPLICAS, SNAPSHOT, deleted

Progress = Callable[[WorkspaceState], None]
#: Seconds after which it is looked whether a request that no watch shows is still there.
LOOK_S = 2.0
#: Seconds until a cluster that does not answer is looked at again.
AGAIN_S = 1.0
#: Seconds beside its grace period that a stopped pod is given to go.
STOP_S = 120.0


class Pauses(Requests):
    """Of one target, through its observer: requests, and what comes of them."""

    _stopped_by: Attempt | None = None

    def wait_paused(
        self, requested: Requested, seconds: float, progress: Progress | None = None, *,
        abort: bool = True,
    ) -> WorkspaceState:  # fmt: skip
        """Wait for the snapshot, stop the pod, wait until it is gone.

        Raises GkewsError: snapshot_failed with GKE's own words, cancelled if somebody called it
        off, operation_running if the pod does not go, cluster_unreachable.
        """
        end = time.monotonic() + seconds
        following = _Following(requested, Teller(progress))
        while True:
            left = end - time.monotonic()
            state = self.observer.wait(following.news, max(0.0, min(left, LOOK_S)))
            try:
                if state is not None and self._settled(self.observer.seen(), requested):
                    return self._gone(requested, progress)
                if state is None and not following.trigger_seen:
                    self._raise_if_gone(requested)
            except GkewsError as error:
                if error.reason != "cluster_unreachable":
                    raise
                time.sleep(AGAIN_S)  # nothing is decided before the cluster can be looked at
            if time.monotonic() >= end:
                return self._deadline(requested, seconds, progress, abort=abort)

    def _settled(self, seen: TargetSeen, requested: Requested) -> bool:
        """Whether the pod is being stopped now, by us or by another. Raises as `wait_paused`."""
        if _is_down(seen, requested):
            return True
        mine = _mine(seen, requested)
        if mine is None:  # seen by the watch, and gone since
            self._raise_if_gone(requested)
            return False
        if mine.failure is not None:
            raise GkewsError(
                "snapshot_failed",
                f"The snapshot failed: {mine.failure}",
                self.how_the_pod_is(requested.pod_uid),
            )
        if all(uid_of(one) != requested.pod_uid for one in seen.pods):
            self._raise_if_gone(requested)
            return False
        return self._stop(requested) if mine.whole else False

    def _deadline(
        self, requested: Requested, seconds: float, progress: Progress | None, *, abort: bool
    ) -> WorkspaceState:
        """Look once more, as this process may have slept; then call it off, and raise."""
        try:
            seen = self.look()
        except GkewsError as error:
            raise GkewsError(
                "cluster_unreachable",
                f"A snapshot is being taken, but the cluster does not answer: {error.message}",
                "It is not called off. The pod runs on: it is stopped by a pause only.",
            ) from error
        if _mine(seen, requested) is not None and self._settled(seen, requested):
            return self._gone(requested, progress)
        state = read(seen, sign=self.observer.sign)
        what = f"No end of the snapshot after {age(seconds)}: {state.message}"
        if not abort:
            how = self.how_the_pod_is(requested.pod_uid)
            raise GkewsError("snapshot_failed", what, f"It is not called off. {how}")
        try:
            hint = self.abort().message
        except GkewsError as error:
            if error.reason == "not_cancellable":  # another has just stopped it
                return self._gone(requested, progress)
            how = self.how_the_pod_is(requested.pod_uid)
            hint = f"It could not be called off: {error.message} {how}"
        raise GkewsError("snapshot_failed", what, hint)

    def _raise_if_gone(self, requested: Requested) -> None:
        """The watches of triggers and pods are not in step: look before anything is said."""
        seen = self.look()
        if _is_down(seen, requested):
            return
        if _mine(seen, requested) is None:
            raise GkewsError(
                "cancelled", "The pause was called off.", self.how_the_pod_is(requested.pod_uid)
            )
        if all(uid_of(one) != requested.pod_uid for one in seen.pods):
            what = "replaced by another" if seen.pods else "deleted by somebody"
            raise GkewsError(
                "snapshot_failed",
                f"The pod was {what} while its snapshot was taken.",
                read(seen, sign=self.observer.sign).message,
            )

    # -- stop --------------------------------------------------------------------------------

    def _stop(self, requested: Requested) -> bool:
        """Stop the pod, if now, too, all is as it must be. False: it is not, look again."""
        for _ in range(10):
            seen = self.look()
            if _is_down(seen, requested):
                return True
            mine = _mine(seen, requested)
            if mine is None or all(uid_of(one) != requested.pod_uid for one in seen.pods):
                self._raise_if_gone(requested)
                return False
            if not mine.whole:  # the watch is a moment ahead of this look, or behind it
                time.sleep(0.2)
                return False
            if not seen.target.bare and (seen.replicas != 1 or len(seen.pods) != 1):
                raise GkewsError(
                    "snapshot_failed",
                    f"{self.target.text} was scaled to {seen.replicas} while the snapshot was "
                    "taken.",
                    "It was not stopped. The snapshot is whole; pause it again at a scale of 1.",
                )
            try:
                self._stop_now(seen, mine)
                return True
            except ClusterError as error:
                if not (error.conflict or error.missing or error.maybe_done):
                    raise GkewsError(
                        error.explain().reason,
                        f"The snapshot is whole, but the pod could not be stopped: {error.message}",
                        self.how_the_pod_is(requested.pod_uid),
                    ) from error
        raise GkewsError(
            "operation_running",
            f"Somebody else keeps changing {self.target.text}: it was not stopped.",
            "The snapshot is whole and the pod runs on. Try again in a moment.",
        )

    def _stop_now(self, seen: TargetSeen, mine: Attempt) -> None:
        if seen.target.bare:
            self._stopped_by = mine
            # its manifest is on the trigger, which is there: it was looked at just now
            self._cluster.delete(PODS, self.target.namespace, name_of(seen.pod or {}),
                                 uid_of(seen.pod))  # fmt: skip
            return
        template = {"metadata": {"annotations": {PS_NAME: mine.snapshot_name}}}
        annotations = {
            SNAPSHOT: mine.snapshot_name,
            REPLICAS: str(seen.replicas),
            PAUSED_AT: iso(datetime.now(timezone.utc)),
            MADE_OF: json.dumps(made_of(seen.template), separators=(",", ":")),
            MACHINE: annotations_of(mine.trigger).get(MACHINE) or None,
        }
        # in one change: whoever scales it up again, by whatever means, gets the snapshot
        self._cluster.merge(
            self.target.resource, self.target.namespace, self.target.name,
            {"metadata": {"resourceVersion": version_of(seen.owner), "annotations": annotations},
             "spec": {"replicas": 0, "template": template}},
        )  # fmt: skip

    def _gone(self, requested: Requested, progress: Progress | None) -> WorkspaceState:
        """Wait until the pod is no longer there. It may be back already, resumed by somebody."""
        told = Teller(progress)
        seconds = STOP_S + _grace_s(self.observer.seen())
        self.observer.wait(
            lambda seen, state: (
                told(state) or all(uid_of(one) != requested.pod_uid for one in seen.pods)
            ),
            seconds,
        )
        seen = self._look_when_it_answers("The pod was stopped", STOP_S)
        state = read(seen, sign=self.observer.sign)
        if any(uid_of(one) == requested.pod_uid for one in seen.pods):
            finalizers = (seen.pod or {}).get("metadata", {}).get("finalizers") or []
            raise GkewsError(
                "operation_running",
                f"The pod has not gone after {age(seconds)}"
                + (f" (finalizer {', '.join(finalizers)})." if finalizers else "."),
                "Its snapshot is whole; it will be paused as soon as the pod is gone.",
            )
        if self.target.bare:
            self._bring_back_if_called_off(seen)
        if state.state == "paused" and not _is_ours(seen, requested):
            raise GkewsError(
                "snapshot_failed",
                f"Somebody scaled {self.target.text} to 0 while its snapshot was taken.",
                f"{state.message} `jupyter gkews podsnapshot list` shows what is kept.",
            )
        mine = _mine(seen, requested)
        if mine is None or mine.taken_at is None or state.state != "paused":
            return state
        lost = f"What it did after {iso(mine.taken_at)}, when its memory was copied, is not in it."
        return replace(state, hint=f"{state.hint} {lost}")

    def _look_when_it_answers(self, done: str, seconds: float) -> TargetSeen:
        end = time.monotonic() + seconds
        while True:
            try:
                return self.look()
            except GkewsError as error:
                if error.reason != "cluster_unreachable":
                    raise
                if time.monotonic() >= end:
                    raise GkewsError(
                        "cluster_unreachable",
                        f"{done}, but the cluster does not answer: {error.message}",
                        "The snapshot is whole. `jupyter gkews podsnapshot status` will show it.",
                    ) from error
                time.sleep(AGAIN_S)

    def _bring_back_if_called_off(self, seen: TargetSeen) -> None:
        """Between the last look and the stop somebody may have called it off, and with the trigger
        goes the manifest by which the pod is made again. This process has it still."""
        before = self._stopped_by
        if before is None or any(one.name == before.name for one in seen.attempts):
            return
        manifest = before.manifest()
        if manifest is None or seen.pod is not None:
            return
        manifest["metadata"].setdefault("annotations", {})[PS_NAME] = before.snapshot_name
        try:
            self._cluster.create(PODS, manifest, self.target.namespace)
        except ClusterError as error:
            if not error.conflict:
                raise error.explain() from error
        raise GkewsError(
            "cancelled",
            "The pause was called off while the pod was being stopped.",
            f"It was brought back: it starts from its snapshot {before.snapshot_name}.",
        )


class _Following:
    """When there is something to decide, as the watches show it, each in its own time."""

    def __init__(self, requested: Requested, told: Teller) -> None:
        self._requested, self._told = requested, told
        self.trigger_seen = self._pod_seen = False

    def news(self, seen: TargetSeen, state: WorkspaceState) -> bool:
        """Whether to look."""
        self._told(state)
        mine = _mine(seen, self._requested)
        here = any(uid_of(one) == self._requested.pod_uid for one in seen.pods)
        news = _is_down(seen, self._requested)
        news = news or (mine is None and self.trigger_seen) or (not here and self._pod_seen)
        self.trigger_seen = self.trigger_seen or mine is not None
        self._pod_seen = self._pod_seen or here
        return news or (mine is not None and not mine.running)


def _mine(seen: TargetSeen, requested: Requested) -> Attempt | None:
    """None also if it was called off and the cluster has not let go of it yet."""
    for one in seen.attempts:
        if one.name == requested.trigger:
            return None if deleted(one.trigger) else one
    return None


def _is_down(seen: TargetSeen, requested: Requested) -> bool:
    """It was told to stop: by a pause, ours or another's, or by hand."""
    if seen.target.bare:
        kept = seen.kept
        whole = kept is not None and kept.whole and kept.pod_uid == requested.pod_uid
        return whole and (seen.pod is None or deleted(seen.pod))
    return seen.owner is not None and seen.replicas == 0


def _is_ours(seen: TargetSeen, requested: Requested) -> bool:
    """The snapshot that it is paused with is of this very pod."""
    of_pod = {one.snapshot_name for one in seen.attempts if one.pod_uid == requested.pod_uid}
    return bool(seen.wanted) and seen.wanted in of_pod


def _grace_s(seen: TargetSeen) -> float:
    found: Json = (seen.pod or {}).get("spec") or {}
    return float(found.get("terminationGracePeriodSeconds") or 30)


__all__ = ["Pauses", "Progress"]
