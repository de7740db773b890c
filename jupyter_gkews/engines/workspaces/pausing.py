"""What came of a request to pause or resume a workspace, waited for to its end.

Takes no snapshot itself: the cluster does. Blocks its thread; ends when the cluster has done it, or
at its deadline, which then calls off a snapshot that failed or hangs. The requests themselves are
in requesting.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...errors import GkewsError
from ..base import UnsureError
from ..cluster.problems import ClusterError
from ..cluster.words import CHECKPOINTING, RESTORING, uid_of
from .observing import look
from .requesting import Requested, Requests
from .seen import Seen
from .state import SIGN_OF_RESTORE, WorkspaceState, age, read

Progress = Callable[[WorkspaceState], None]
#: Seconds that the addon is given to try again by itself after a snapshot has failed.
GRACE_S = 10.0
#: Seconds until it is known of a pod that runs whether it was restored; clocks may differ a little.
TOLD_S = SIGN_OF_RESTORE.total_seconds() + 15.0


def deadline_s(resident: int | None) -> float:
    """Seconds that a pause may take: a minute and 20 s for each GiB, between 3 and 20 minutes."""
    size = 60.0 if resident is None else 60.0 + 20.0 * resident / 2**30
    return min(max(size, 180.0), 1200.0)


def not_followed() -> UnsureError:
    """What a pause ends with here, when whoever waits has gone."""
    return UnsureError(
        "cancelled",
        "The pause runs, but nobody here follows it any longer.",
        "It is not called off. `jupyter gkews workspace status` will show what became of it.",
    )


class Pauses(Requests):
    """Of one workspace, through its observer: requests, and waiting for what comes of them.

    `given_up()`: whether whoever waits has gone; then nothing more is asked, nor called off.
    """

    given_up: Callable[[], bool] = staticmethod(lambda: False)

    def wait_paused(
        self, requested: Requested, seconds: float, progress: Progress | None = None, *,
        abort: bool = True, grace_s: float = GRACE_S,
    ) -> WorkspaceState:  # fmt: skip
        """Wait for the end of the pause. A snapshot that fails or hangs is called off (`abort`).

        The state is `paused`; or that of a next pod, if somebody has resumed it already: then
        this may be the very process that was paused.

        Raises GkewsError: snapshot_failed, with the cluster's words; cancelled, if somebody called
        it off; UnsureError, where the pod may still stop: it is out of sight, or no longer to be
        called off.
        """
        end = time.monotonic() + seconds
        told = Teller(progress)
        failed_since: float | None = None
        if not self.observer.catch_up(requested.version, seconds):
            self._must_follow()
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
            self._must_follow()
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

    def _must_follow(self) -> None:
        if self.given_up():
            raise not_followed()

    def _give_up(self, requested: Requested, seconds: float, *, abort: bool) -> WorkspaceState:
        """Look once more, as this process may have slept meanwhile; then call it off, and raise."""
        try:
            seen = look(self._cluster, self.observer.namespace, self.observer.name)
        except ClusterError as error:
            raise UnsureError(
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
            hint = "It is not called off: the pod may stop at any time."
            raise UnsureError("snapshot_failed", what, hint)
        try:
            done = self.abort()
        except GkewsError as error:
            raise UnsureError("snapshot_failed", what, str(error)) from error
        raise GkewsError("snapshot_failed", what, done.message)

    def wait_running(
        self, requested: Requested, seconds: float, progress: Progress | None = None
    ) -> WorkspaceState:
        """Wait until the workspace runs. Waiting for a node has no deadline but this one.

        Raises GkewsError: restore_failed, at the deadline, with what it waits for; cancelled, if
        somebody paused it again; cluster_unreachable, if no more is seen of it.
        """
        began = time.monotonic()
        told = Teller(progress)
        if not self.observer.catch_up(requested.version, seconds):
            raise self._not_seen(time.monotonic() - began)
        state = self.observer.wait(
            lambda _, state: told(state) or state.state != "resuming",
            max(0.0, began + seconds - time.monotonic()),
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

    def wait_told(
        self, running: WorkspaceState, seconds: float = TOLD_S, progress: Progress | None = None
    ) -> WorkspaceState:
        """`running` once it is known whether it was restored: GKE says so some time after the pod
        is ready, and after a while of silence it was not. At most `seconds`; where nobody will
        say it, or the workspace does not run any longer, at once."""
        told = Teller(progress)
        found = self.observer.wait(
            lambda seen, state: (
                told(state)
                or state.state != "running"
                or state.provenance is not None
                or not seen.wanted_snapshot
            ),
            seconds if running.provenance is None else 0.0,
        )
        return found if found is not None and found.state == "running" else running

    def _not_seen(self, seconds: float) -> GkewsError:
        """What is known of the workspace is older than the request: nothing may be said of it."""
        trouble = self.observer.trouble
        why = f": {trouble.message}" if trouble else "."
        return GkewsError(
            "cluster_unreachable",
            f"The cluster took the request to resume; what came of it was not seen after "
            f"{age(seconds)}{why}",
            "Nothing was called off. `jupyter gkews workspace status` will show it.",
        )


class Teller:
    """Passes a state on when its words have changed. Always false: it stops no wait."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._last: Any = None

    def __call__(self, state: WorkspaceState) -> bool:
        """Pass it on if it is news."""
        key = (state.state, state.phase, state.reason, state.hint)
        if self._progress is not None and key != self._last:
            self._progress(state)
        self._last = key
        return False


def _is_back(requested: Requested, seen: Seen) -> bool:
    """The pause is over, and the resume after it has begun."""
    if seen.paused or seen.checkpoint_state == CHECKPOINTING:
        return False
    if seen.checkpoint_state == RESTORING:
        return True
    return bool(requested.pod_uid and uid_of(seen.pod) and uid_of(seen.pod) != requested.pod_uid)


def _called_off(state: WorkspaceState) -> GkewsError:
    return GkewsError(
        "cancelled", f"The pause was called off: {state.message}", "Nothing was lost."
    )


def _out_of_sight(state: WorkspaceState) -> GkewsError:
    """Deleted, or no longer to be read, while it was waited for."""
    gone = state.reason == "no_workspace"
    message = "The workspace was deleted." if gone else state.message
    hint = "Kernels' checkpoints stay in their store, if the home volume is kept."
    return UnsureError(state.reason or "no_workspace", message, hint)
