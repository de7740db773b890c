"""One workspace, followed: its Workspace, pod, trigger, snapshots and events, as one state.

Holds one watch for each kind of object that may be read; between changes nothing is asked. Changes
nothing in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ...errors import GkewsError
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.watching import Changed, Pace
from ..cluster.words import (
    EVENTS,
    KINDS,
    PODS,
    POLICIES,
    SNAPSHOTS,
    TRIGGERED_BY,
    TRIGGERS,
    WORKSPACE_LABEL,
    WORKSPACES,
    Json,
    Resource,
    name_of,
    policy_of,
    trigger_of,
    version_of,
)
from .access import AccessReviews
from .following import Follower
from .seen import Seen
from .state import WorkspaceState, read


def look(cluster: Cluster, namespace: str, name: str) -> Seen:
    """Read everything once. Raises ClusterError if the Workspace itself cannot be read.

    What may not be read, or is not served here, is left out and named in `hidden`.
    """
    hidden: set[str] = set()

    def or_hidden(need: str, ask: Callable[[], object]) -> object:
        try:
            return ask()
        except ClusterError as error:
            if not (error.forbidden or error.missing):
                raise
            hidden.add(need)
            return None

    seen = Seen(cluster.find(WORKSPACES, namespace, name))
    if seen.workspace is None:
        return seen
    pods = or_hidden("pods", lambda: cluster.list(PODS, namespace, _label(name))[0])
    seen.pod = newest(pods) if isinstance(pods, list) else None
    trigger = or_hidden("triggers", lambda: cluster.find(TRIGGERS, namespace, trigger_of(name)))
    seen.trigger = trigger if isinstance(trigger, dict) else None
    labels = f"{TRIGGERED_BY}={trigger_of(name)}"
    snapshots = or_hidden("snapshots", lambda: cluster.list(SNAPSHOTS, namespace, labels)[0])
    seen.snapshots = snapshots if isinstance(snapshots, list) else []
    if seen.pod is not None:
        fields = _about(name_of(seen.pod))
        events = or_hidden("events", lambda: cluster.list(EVENTS, namespace, fields=fields)[0])
        seen.events = events if isinstance(events, list) else []
    _add_rarely_changed(cluster, namespace, name, seen, or_hidden)
    seen.hidden = frozenset(hidden)
    return seen


def _add_rarely_changed(
    cluster: Cluster, namespace: str, name: str, seen: Seen,
    or_hidden: Callable[[str, Callable[[], object]], object],
) -> None:  # fmt: skip
    kind = ((seen.workspace or {}).get("spec") or {}).get("kind")
    if kind:
        found = or_hidden("kinds", lambda: cluster.find(KINDS, "", str(kind)))
        seen.kind = found if isinstance(found, dict) else None
    found = or_hidden("policies", lambda: cluster.find(POLICIES, namespace, policy_of(name)))
    seen.policy = found if isinstance(found, dict) else None


def no_such_workspace(cluster: Cluster, namespace: str, name: str) -> GkewsError:
    """Why there is none: the name is wrong, or the cluster knows no Workspaces at all."""
    if cluster.serves(WORKSPACES.group, WORKSPACES.version):
        return GkewsError(
            "no_workspace",
            f"There is no workspace {namespace}/{name}.",
            "Nothing was changed. `kubectl get workspaces -A` lists them.",
        )
    return GkewsError(
        "no_workspace",
        f"This cluster has no Workspaces ({WORKSPACES.group}/{WORKSPACES.version} is not served).",
        "Nothing was changed. Is it the right cluster? `kubectl config current-context` tells.",
    )


def newest(pods: Iterable[Json]) -> Json | None:
    """The pod that counts: one that is not going before one that is, then the youngest."""
    ranked = sorted(
        pods,
        key=lambda pod: (
            "deletionTimestamp" not in pod["metadata"],
            str(pod["metadata"].get("creationTimestamp") or ""),
        ),
    )
    return ranked[-1] if ranked else None


class WorkspaceObserver(Follower[Seen]):
    """Follows one workspace. Callbacks come in the threads of the watches."""

    def __init__(
        self, cluster: Cluster, namespace: str, name: str, *, pace: Pace | None = None,
        access: AccessReviews | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            cluster, namespace, access or AccessReviews(cluster, namespace, name), pace
        )
        self.name = name
        self._seen = Seen()
        self._pods: dict[str, Json] = {}
        self._snapshots: dict[str, Json] = {}
        self._events: dict[str, Json] = {}
        self._events_of = ""
        self._told: list[Callable[[WorkspaceState], None]] = []

    def start(self) -> WorkspaceObserver:
        """Begin to follow. Raises ClusterError if it cannot be asked what may be followed."""
        self._hidden = {need.id for need in self.access.missing()}
        by_name = {"fields": f"metadata.name={trigger_of(self.name)}"}
        labels = {"labels": f"{TRIGGERED_BY}={trigger_of(self.name)}"}
        workspace = {"fields": f"metadata.name={self.name}"}
        wanted: tuple[tuple[str, Resource, Changed, dict[str, str]], ...] = (
            ("see", WORKSPACES, self._workspace_changed, workspace),
            ("pods", PODS, self._pod_changed, {"labels": _label(self.name)}),
            ("triggers", TRIGGERS, self._trigger_changed, by_name),
            ("snapshots", SNAPSHOTS, self._snapshot_changed, labels),
        )
        for need, resource, changed, selected in wanted:
            if need not in self._hidden:
                self._follow(need, resource, changed, **selected)
        return self

    def restart(self) -> None:
        """After a wake-up in another pod: every connection is dead, and rights may be others."""
        self.access.forget()
        self.cluster.renew()
        with self._changed:
            watches = list(self._watches.values())
        for watch in watches:
            watch.restart()

    def subscribe(self, told: Callable[[WorkspaceState], None]) -> None:
        """Be told every new state, in the thread of the watch that saw it."""
        with self._changed:
            self._told.append(told)

    @property
    def knows(self) -> bool:
        """Whether the Workspace was looked for: before, nothing may be said of it."""
        with self._changed:
            return self._seen.workspace is not None or "see" in self._listed

    @property
    def trouble(self) -> ClusterError | None:
        """Why the Workspace is not seen just now; None if it is."""
        watch = self._watches.get("see")
        return None if watch is None else watch.trouble

    @property
    def sees_well(self) -> bool:
        """Everything that may be read has been read, and no watch is blind just now."""
        with self._changed:
            watches = dict(self._watches)
            listed = set(self._listed)
            # of what the cluster does not even serve there is nothing that could have been missed
            nothing = {
                need
                for need, found in (
                    ("triggers", self._seen.trigger),
                    ("snapshots", self._snapshots),
                )
                if need in self._hidden and not found
            }
        needed = set(watches) - {"events"}
        return (
            "see" in needed
            and needed <= listed
            and all(watch.trouble is None for need, watch in watches.items() if need not in nothing)
        )

    def wait_until_seen(self, seconds: float) -> bool:
        """Whether everything that may be read has been read once."""
        with self._changed:
            needed = set(self._watches) - {"events", "triggers", "snapshots"}
            return self._changed.wait_for(lambda: needed <= self._listed, seconds)

    def catch_up(self, version: str, seconds: float) -> bool:
        """Wait until the watch has seen what an answer with this resourceVersion has said, or
        that the Workspace is gone since."""

        def enough(seen: Seen, _: WorkspaceState) -> bool:
            gone = seen.workspace is None and "see" in self._listed
            return gone or reached(seen.workspace, version)

        return self.wait(enough, seconds) is not None

    # -- in the threads of the watches -------------------------------------------------------

    def _copy(self) -> Seen:
        return replace(
            self._seen,
            hidden=frozenset(self._hidden),
            pod=newest(self._pods.values()),
            snapshots=list(self._snapshots.values()),
            events=list(self._events.values()),
        )

    def _read(self, seen: Seen) -> WorkspaceState:
        return read(seen)

    def _workspace_changed(self, name: str, found: Json | None) -> None:
        del name
        kind = ((found or {}).get("spec") or {}).get("kind")
        have = name_of(self._seen.kind or {})
        if found is not None and kind and kind != have and "kinds" not in self._hidden:
            extra = Seen(found)
            self._read_rarely_changed(extra)
            with self._changed:
                self._seen.kind, self._seen.policy = extra.kind, extra.policy
        self._set(workspace=found)

    def _read_rarely_changed(self, extra: Seen) -> None:
        def or_nothing(need: str, ask: Callable[[], object]) -> object:
            if need in self._hidden:
                return None
            try:
                return ask()
            except ClusterError:
                return None

        _add_rarely_changed(self.cluster, self.namespace, self.name, extra, or_nothing)

    def _pod_changed(self, name: str, found: Json | None) -> None:
        with self._changed:
            if found is None:
                self._pods.pop(name, None)
            else:
                self._pods[name] = found
            pod = newest(self._pods.values())
        if pod is not None:
            self._follow_events(name_of(pod))
        self._news()

    def _follow_events(self, pod: str) -> None:
        if pod != self._events_of and "events" not in self._hidden:
            self._events_of = pod
            with self._changed:
                self._events.clear()
            self._follow("events", EVENTS, self._event_changed, fields=_about(pod))

    def _event_changed(self, name: str, found: Json | None) -> None:
        self._keep(self._events, name, found)

    def _trigger_changed(self, name: str, found: Json | None) -> None:
        del name
        self._set(trigger=found)

    def _snapshot_changed(self, name: str, found: Json | None) -> None:
        self._keep(self._snapshots, name, found)

    def _set(self, **changed: Json | None) -> None:
        with self._changed:
            for key, value in changed.items():
                setattr(self._seen, key, value)
        self._news()

    def _news(self) -> None:
        with self._changed:
            self._version += 1
            # what comes in before the Workspace itself says nothing of it, least that there is none
            known = self._seen.workspace is not None or "see" in self._listed
            told = list(self._told) if known else []
            state = read(self._copy()) if told else None
            self._changed.notify_all()
        if state is not None:
            for one in told:
                one(state)

    def _note_listed(self, need: str) -> None:
        super()._note_listed(need)
        if need == "see":
            self._news()

    def _troubled(self, need: str, error: ClusterError | None) -> None:
        if need != "events":  # those of the next pod are asked for again
            super()._troubled(need, error)


def reached(found: Json | None, version: str) -> bool:
    """Whether an object is there, and as new as an answer with this resourceVersion."""
    if found is None:
        return False
    have = version_of(found)
    try:
        return int(have) >= int(version)
    except ValueError:  # by its documentation it need not be a number
        return have == version


def _label(name: str) -> str:
    return f"{WORKSPACE_LABEL}={name}"


def _about(pod: str) -> str:
    return f"involvedObject.kind=Pod,involvedObject.name={pod}"
