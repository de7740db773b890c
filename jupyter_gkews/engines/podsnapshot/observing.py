"""One target, followed: its maker, pods and their events, triggers and snapshots of its namespace.

One watch for each kind of object; between changes nothing is asked. Changes nothing in the cluster.
"""

from __future__ import annotations

from datetime import timedelta

from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.watching import Pace
from ..cluster.words import EVENTS, PODS, POLICIES, SNAPSHOTS, TRIGGERS, Json, Resource, name_of
from ..workspaces.access import AccessReviews
from ..workspaces.following import Follower
from ..workspaces.state import WorkspaceState
from .seen import TargetSeen, about, assembled, pods_query
from .state import SIGN, read
from .targets import Target

#: What is watched, by the names that rights have; "see": what makes the pod.
_NEEDS = {SNAPSHOTS: "snapshots", TRIGGERS: "triggers", EVENTS: "events", PODS: "pods"}


class TargetObserver(Follower[TargetSeen]):
    """Follows one target. `sign`: how long after a pod is ready GKE may take to say that it was
    restored."""

    def __init__(
        self, cluster: Cluster, target: Target, *, pace: Pace | None = None,
        access: AccessReviews | None = None, sign: timedelta = SIGN,
    ) -> None:  # fmt: skip
        access = access or AccessReviews(cluster, target.namespace, target.name)
        super().__init__(cluster, target.namespace, access, pace)
        self.target, self.sign = target, sign
        self.ages_s = min(5.0, max(0.05, sign.total_seconds() / 4))
        self._objects: dict[Resource, dict[str, Json]] = {}
        self._policies: list[Json] = []
        self._policies_read = False
        self._events_of = ""

    def start(self) -> TargetObserver:
        """Begin to follow. Raises ClusterError if what makes the pod cannot be read."""
        target = self.target
        owner = None
        if not target.bare:
            owner = self.cluster.find(target.resource, target.namespace, target.name)
            self._watch(target.resource, fields=f"metadata.name={target.name}")
        if target.bare or owner is not None:
            self._watch(PODS, **pods_query(target, owner))
        self._watch(TRIGGERS)
        self._watch(SNAPSHOTS)
        return self

    @property
    def trouble(self) -> ClusterError | None:
        """Why something that counts is not seen just now; None if all is."""
        with self._changed:
            watches = [watch for need, watch in self._watches.items() if need != "events"]
        return next((watch.trouble for watch in watches if watch.trouble is not None), None)

    @property
    def all_seen(self) -> bool:
        """Everything that is followed has been read once, or may not be read."""
        with self._changed:
            return set(self._watches) - {"events"} <= self._listed

    def wait_until_seen(self, seconds: float) -> bool:
        """Whether `all_seen`, after so long at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self.all_seen, seconds)

    # -- in the threads of the watches -------------------------------------------------------

    def _copy(self) -> TargetSeen:
        def all_of(resource: Resource) -> list[Json]:
            return list(self._objects.get(resource, {}).values())

        owner = None if self.target.bare else self._objects.get(self.target.resource, {})
        return assembled(
            self.target, (owner or {}).get(self.target.name), all_of(PODS), all_of(TRIGGERS),
            all_of(SNAPSHOTS), self._policies, all_of(EVENTS), self._hidden,
        )  # fmt: skip

    def _read(self, seen: TargetSeen) -> WorkspaceState:
        return read(seen, sign=self.sign)

    def _watch(self, resource: Resource, labels: str = "", fields: str = "") -> None:
        self._follow(
            _NEEDS.get(resource, "see"), resource,
            lambda name, found: self._note(resource, name, found), labels=labels, fields=fields,
        )  # fmt: skip

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
            self._watch(EVENTS, fields=about(self._events_of))

    def _read_policies(self) -> None:
        """Once: how long a snapshot is kept does not change while we wait."""
        self._policies_read = True
        try:
            found, _ = self.cluster.list(POLICIES, self.target.namespace)
        except ClusterError:
            return  # the date is missing, no more
        with self._changed:
            self._policies = found


__all__ = ["TargetObserver"]
