"""One target, followed: its maker, pods and their events, triggers and snapshots of its namespace.

One watch for each kind of object; between changes nothing is asked. Changes nothing in the cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from ..workspaces.access import AccessReviews
from ..workspaces.cluster import Cluster
from ..workspaces.problems import ClusterError
from ..workspaces.state import WorkspaceState
from ..workspaces.watching import ObjectWatch, Pace
from ..workspaces.words import EVENTS, PODS, POLICIES, SNAPSHOTS, TRIGGERS, Json, Resource, name_of
from .seen import TargetSeen, about, assembled, pods_query
from .state import SIGN, read
from .targets import Target


class TargetObserver:
    """Callbacks of watches come in their threads; `wait` is for one that may block.

    `sign`: how long after a pod is ready GKE may take to say that it was restored.
    """

    def __init__(
        self, cluster: Cluster, target: Target, *, pace: Pace | None = None,
        access: AccessReviews | None = None, sign: timedelta = SIGN,
    ) -> None:  # fmt: skip
        self.cluster, self.target, self.sign = cluster, target, sign
        self.access = access or AccessReviews(cluster, target.namespace, target.name)
        self._pace = pace
        self._changed = threading.Condition()
        self._objects: dict[Resource, dict[str, Json]] = {}
        self._listed: set[Resource] = set()
        self._hidden: set[str] = set()
        self._policies: list[Json] = []
        self._policies_read = False
        self._watches: dict[Resource, ObjectWatch] = {}
        self._replaced: list[ObjectWatch] = []
        self._events_of = ""
        self._version = 0
        self._stopped = False

    def start(self) -> TargetObserver:
        """Begin to follow. Raises ClusterError if what makes the pod cannot be read."""
        target = self.target
        owner = None
        if not target.bare:
            owner = self.cluster.find(target.resource, target.namespace, target.name)
            self._follow(target.resource, fields=f"metadata.name={target.name}")
        if target.bare or owner is not None:
            self._follow(PODS, **pods_query(target, owner))
        self._follow(TRIGGERS)
        self._follow(SNAPSHOTS)
        return self

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

    @property
    def trouble(self) -> ClusterError | None:
        """Why something that counts is not seen just now; None if all is."""
        with self._changed:
            watches = [w for resource, w in self._watches.items() if resource != EVENTS]
        return next((watch.trouble for watch in watches if watch.trouble is not None), None)

    def seen(self) -> TargetSeen:
        """The objects as they are known now."""
        with self._changed:
            return self._copy()

    def state(self) -> WorkspaceState:
        """The state as it is known now."""
        return read(self.seen(), sign=self.sign)

    @property
    def all_seen(self) -> bool:
        """Everything that is followed has been read once, or may not be read."""
        with self._changed:
            return set(self._watches) - {EVENTS} <= self._listed

    def wait_until_seen(self, seconds: float) -> bool:
        """Whether `all_seen`, after so long at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self.all_seen, seconds)

    def wait(
        self, enough: Callable[[TargetSeen, WorkspaceState], bool], seconds: float
    ) -> WorkspaceState | None:
        """Wait for changes until `enough`; None if the time is over."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                version, seen = self._version, self._copy()
                state = read(seen, sign=self.sign)
                if enough(seen, state):
                    return state
                left = end - time.monotonic()
                if left <= 0 or self._stopped:
                    return None
                self._changed.wait_for(
                    lambda v=version: self._version != v or self._stopped,  # type: ignore[misc]
                    # a state also ages, without any change
                    min(left, 5.0, max(0.05, self.sign.total_seconds() / 4)),
                )

    # -- in the threads of the watches -------------------------------------------------------

    def _copy(self) -> TargetSeen:
        def all_of(resource: Resource) -> list[Json]:
            return list(self._objects.get(resource, {}).values())

        owner = None if self.target.bare else self._objects.get(self.target.resource, {})
        return assembled(
            self.target, (owner or {}).get(self.target.name), all_of(PODS), all_of(TRIGGERS),
            all_of(SNAPSHOTS), self._policies, all_of(EVENTS), self._hidden,
        )  # fmt: skip

    def _follow(self, resource: Resource, **query: str) -> None:
        watch = ObjectWatch(
            self.cluster, resource, self.target.namespace,
            lambda name, found: self._note(resource, name, found), pace=self._pace,
            listed=lambda: self._note_listed(resource),
            troubled=lambda error: self._troubled(resource, error),
            labels=query.get("labels", ""), fields=query.get("fields", ""),
        )  # fmt: skip
        with self._changed:
            if self._stopped:
                return
            before, self._watches[resource] = self._watches.get(resource), watch
            if before is not None:
                self._replaced = [one for one in self._replaced if not one.join(0.0)] + [before]
        if before is not None:
            before.stop()
        watch.start()

    def _note(self, resource: Resource, name: str, found: Json | None) -> None:
        if resource == SNAPSHOTS and found is not None and not self._policies_read:
            self._read_policies()
        with self._changed:
            among = self._objects.setdefault(resource, {})
            if found is None:
                among.pop(name, None)
            else:
                among[name] = found
            self._version += 1
            pod = self._copy().pod if resource == PODS else None
            follow = pod is not None and name_of(pod) != self._events_of
            if follow:
                self._events_of = name_of(pod or {})
                self._objects.pop(EVENTS, None)
            self._changed.notify_all()
        if follow:
            self._follow(EVENTS, fields=about(self._events_of))

    def _read_policies(self) -> None:
        """Once: how long a snapshot is kept does not change while we wait."""
        self._policies_read = True
        try:
            found, _ = self.cluster.list(POLICIES, self.target.namespace)
        except ClusterError:
            return  # the date is missing, no more
        with self._changed:
            self._policies = found

    def _note_listed(self, resource: Resource) -> None:
        with self._changed:
            self._listed.add(resource)
            self._version += 1
            self._changed.notify_all()

    def _troubled(self, resource: Resource, error: ClusterError | None) -> None:
        names = {SNAPSHOTS: "snapshots", TRIGGERS: "triggers", EVENTS: "events", PODS: "pods"}
        name = names.get(resource, "see")
        with self._changed:
            if error is None:
                self._hidden.discard(name)
            elif error.forbidden or error.missing:
                self._hidden.add(name)
                self._listed.add(resource)  # it will not come: nobody need wait for it
            self._version += 1
            self._changed.notify_all()


__all__ = ["TargetObserver"]
