"""What is known of one target at one moment: its maker, pods, our attempts, their snapshots.

Reads it once (`look`) or takes it from whoever follows it. Decides nothing, changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import (
    EVENTS,
    PODS,
    POLICIES,
    SNAPSHOTS,
    TRIGGERS,
    Json,
    annotations_of,
    name_of,
    uid_of,
)
from ..workspaces.observing import newest
from ..workspaces.seen import PS_NAME, Seen
from .attempts import Attempt, attempts
from .policies import selector_text
from .targets import Target
from .words import MADE_OF, REPLICAS, SNAPSHOT, controller_of


@dataclass
class TargetSeen(Seen):
    """`owner`: what makes the pod; None for a bare pod, or if it is gone. Of `Seen`: `pod` is the
    newest, `policy` that of the snapshot that counts, `workspace` and `kind` are not used."""

    target: Target = field(default_factory=lambda: Target("", "Pod", ""))
    owner: Json | None = None
    pods: list[Json] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    triggers: list[Json] = field(default_factory=list)
    policies: list[Json] = field(default_factory=list)

    @property
    def replicas(self) -> int:
        """As many pods as are wanted."""
        if self.target.bare:
            return 1 if self.pods else 0
        wanted = ((self.owner or {}).get("spec") or {}).get("replicas")
        return 1 if wanted is None else int(wanted)

    @property
    def template(self) -> Json:
        """Of the next pod."""
        if self.target.bare:
            kept = self.kept
            return (kept.manifest() if kept else None) or self.pod or {}
        return ((self.owner or {}).get("spec") or {}).get("template") or {}

    @property
    def attempt(self) -> Attempt | None:
        """The last one that is about a pod that is there."""
        here = {uid_of(one) for one in self.pods}
        mine = [one for one in self.attempts if one.pod_uid in here]
        return mine[-1] if mine else None

    @property
    def kept(self) -> Attempt | None:
        """Of a bare pod: the last whole attempt, by which it is made again."""
        done = [one for one in self.attempts if one.complete and one.snapshot_name]
        return done[-1] if done else None

    @property
    def wanted(self) -> str:
        """The snapshot that a resume would be, or is being, restored from; empty: none."""
        if self.target.bare:
            return self.wanted_snapshot or (self.kept.snapshot_name if self.kept else "")
        return annotations_of(self.owner or {}).get(SNAPSHOT, "") or self.wanted_snapshot

    @property
    def to_restore(self) -> str:
        """The snapshot that the present pod was to be restored from. A pod may have been made
        without that word, although its maker has it: its rollout was paused, say."""
        mine = self.wanted_snapshot
        if mine or self.target.bare:
            return mine
        return annotations_of(self.template).get(PS_NAME, "")

    @property
    def scale_before(self) -> int:
        """The replicas that a pause has taken away."""
        try:
            return max(1, int(annotations_of(self.owner or {}).get(REPLICAS, "1")))
        except ValueError:
            return 1

    @property
    def made_of(self) -> Json | None:
        """What the pod was made of when it was paused; None: not known."""
        try:
            found = json.loads(annotations_of(self.owner or {}).get(MADE_OF, ""))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def choose_policy(self) -> None:
        """Set `policy` to that of the snapshot that counts."""
        attempt = self.attempt or (self.attempts[-1] if self.attempts else None)
        snapshot = self.snapshot(self.wanted) or (attempt.snapshot if attempt else None)
        name = ((snapshot or {}).get("spec") or {}).get("policyName")
        self.policy = next((one for one in self.policies if name_of(one) == name), None)


def assembled(
    target: Target, owner: Json | None, pods: Iterable[Json], triggers: Iterable[Json],
    snapshots: Iterable[Json], policies: Iterable[Json], events: Iterable[Json] = (),
    hidden: Iterable[str] = (),
) -> TargetSeen:  # fmt: skip
    """From lists of the namespace. Pods that belong to somebody else are left out, and those that
    have ended (evicted, say): what makes them makes another, and leaves them lying."""
    mine = [
        pod for pod in pods if belongs(target, owner, pod) and (target.bare or not ended(pod))
    ]  # fmt: skip
    among, asked = list(snapshots), list(triggers)
    seen = TargetSeen(
        pod=newest(mine), snapshots=among, events=list(events), hidden=frozenset(hidden),
        target=target, owner=owner, pods=mine, attempts=attempts(target, asked, among),
        triggers=asked, policies=list(policies),
    )  # fmt: skip
    seen.choose_policy()
    return seen


def ended(pod: Json) -> str:
    """Succeeded or Failed: its processes are gone for good; empty if they are not."""
    phase = str((pod.get("status") or {}).get("phase") or "")
    return phase if phase in ("Succeeded", "Failed") else ""


def belongs(target: Target, owner: Json | None, pod: Json) -> bool:
    """Whether the pod is the target's."""
    controller = controller_of(pod)
    if target.bare:
        return name_of(pod) == target.name and controller is None
    if controller is None or owner is None:
        return False
    if target.kind == "Deployment":  # through a ReplicaSet, whose name begins with its own
        name = str(controller.get("name"))
        return controller.get("kind") == "ReplicaSet" and name.startswith(f"{target.name}-")
    return controller.get("uid") == uid_of(owner)


def pods_query(target: Target, owner: Json | None) -> dict[str, str]:
    """`labels` or `fields` by which the target's pods are listed."""
    if target.bare:
        return {"fields": f"metadata.name={target.name}"}
    return {"labels": selector_text(((owner or {}).get("spec") or {}).get("selector") or {})}


def look(cluster: Cluster, target: Target) -> TargetSeen:
    """Read everything once. Raises ClusterError for what cannot be done without.

    Events and policies that may not be read are left out and named in `hidden`.
    """
    hidden: set[str] = set()

    def or_hidden(need: str, ask: Callable[[], list[Json]]) -> list[Json]:
        try:
            return ask()
        except ClusterError as error:
            if not (error.forbidden or error.missing):
                raise
            hidden.add(need)
            return []

    where = target.namespace
    owner = None if target.bare else cluster.find(target.resource, where, target.name)
    query: dict[str, Any] = pods_query(target, owner)
    gone = owner is None and not target.bare
    pods = [] if gone else cluster.list(PODS, where, **query)[0]
    triggers = or_hidden("triggers", lambda: cluster.list(TRIGGERS, where)[0])
    snapshots = or_hidden("snapshots", lambda: cluster.list(SNAPSHOTS, where)[0])
    policies = or_hidden("policies", lambda: cluster.list(POLICIES, where)[0])
    seen = assembled(target, owner, pods, triggers, snapshots, policies)
    if seen.pod is not None:
        fields = about(name_of(seen.pod))
        seen.events = or_hidden("events", lambda: cluster.list(EVENTS, where, fields=fields)[0])
    seen.hidden = frozenset(hidden)
    return seen


def about(pod: str) -> str:
    """By which events of a pod are listed."""
    return f"involvedObject.kind=Pod,involvedObject.name={pod}"


__all__ = ["TargetSeen", "about", "assembled", "belongs", "ended", "look", "pods_query"]
