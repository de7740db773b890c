"""Objects of a cluster that belong together, followed: a watch for each kind, and one state of all.

What the objects are and what they mean is its heirs' to know. Between changes nothing is asked;
changes nothing in the cluster.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.watching import ObjectWatch, Pace
from ..cluster.words import Json, Resource
from .access import AccessReviews
from .state import WorkspaceState

SeenT = TypeVar("SeenT")


class Follower(ABC, Generic[SeenT]):
    """Callbacks of watches come in their threads; `wait` is for one that may block.

    What is followed has the names of access.NEEDS.
    """

    #: Seconds after which a state is looked at again, unasked: it also ages without any change.
    ages_s = 5.0

    def __init__(
        self, cluster: Cluster, namespace: str, access: AccessReviews, pace: Pace | None
    ) -> None:
        self.cluster, self.namespace, self.access = cluster, namespace, access
        self._pace = pace
        self._changed = threading.Condition()
        self._version = 0
        self._hidden: set[str] = set()  # what may not be read, or is not served
        self._listed: set[str] = set()
        self._watches: dict[str, ObjectWatch] = {}
        self._replaced: list[ObjectWatch] = []
        self._stopped = False

    @abstractmethod
    def _copy(self) -> SeenT:
        """What is known now; called while `_changed` is held."""

    @abstractmethod
    def _read(self, seen: SeenT) -> WorkspaceState:
        """What that means."""

    # -- what is known -----------------------------------------------------------------------

    def seen(self) -> SeenT:
        """The objects as they are known now."""
        with self._changed:
            return self._copy()

    def state(self) -> WorkspaceState:
        """The state as it is known now."""
        return self._read(self.seen())

    def wait(
        self, enough: Callable[[SeenT, WorkspaceState], bool], seconds: float
    ) -> WorkspaceState | None:
        """Wait for changes until `enough`; None if the time is over."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                version, seen = self._version, self._copy()
                state = self._read(seen)
                if enough(seen, state):
                    return state
                left = end - time.monotonic()
                if left <= 0 or self._stopped:
                    return None
                self._changed.wait_for(
                    lambda v=version: self._version != v or self._stopped,  # type: ignore[misc]
                    min(left, self.ages_s),
                )

    # -- the watches -------------------------------------------------------------------------

    def stop(self, wait_s: float = 0.0) -> None:
        """End all watches, and wait so long for their threads: a process that ends while one of
        them still runs may be aborted by it."""
        with self._changed:
            self._stopped = True
            watches = [*self._watches.values(), *self._replaced]
            self._changed.notify_all()
        for watch in watches:
            watch.stop()
        end = time.monotonic() + wait_s
        for watch in watches:
            watch.join(max(0.0, end - time.monotonic()))

    def _follow(
        self, need: str, resource: Resource, changed: Callable[[str, Json | None], None], *,
        labels: str = "", fields: str = "",
    ) -> None:  # fmt: skip
        """Follow this, in place of what was followed under the same name before."""
        watch = ObjectWatch(
            self.cluster, resource, self.namespace, changed, labels=labels, fields=fields,
            pace=self._pace, listed=lambda: self._note_listed(need),
            troubled=lambda error: self._troubled(need, error),
        )  # fmt: skip
        with self._changed:
            if self._stopped:
                return
            before, self._watches[need] = self._watches.get(need), watch
            if before is not None:
                self._replaced = [one for one in self._replaced if not one.join(0.0)] + [before]
        if before is not None:
            before.stop()
        watch.start()

    # -- in the threads of the watches -------------------------------------------------------

    def _keep(self, among: dict[str, Json], name: str, found: Json | None) -> None:
        with self._changed:
            if found is None:
                among.pop(name, None)
            else:
                among[name] = found
        self._news()

    def _news(self) -> None:
        """Something is another than it was."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _note_listed(self, need: str) -> None:
        """It has been read once."""
        with self._changed:
            self._listed.add(need)
            self._version += 1
            self._changed.notify_all()

    def _troubled(self, need: str, error: ClusterError | None) -> None:
        with self._changed:
            if error is None:
                self._hidden.discard(need)
            elif error.forbidden or error.missing:
                self._hidden.add(need)
                self._listed.add(need)  # it will not come: nobody need wait for it
        self._news()


__all__ = ["Follower"]
