"""What is paused: the pod that is named, or rather what would make it anew once it is gone.

A pod of a Deployment is that Deployment, a pod that nothing has made is itself. Refuses what cannot
be brought back by scaling. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import GkewsError
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import (
    PODS,
    TRIGGERS,
    WORKSPACE_LABEL,
    Json,
    Resource,
    annotations_of,
    labels_of,
    name_of,
)
from .words import DEPLOYMENTS, MAKERS, REPLICA_SETS, SHORT, STATEFUL_SETS, TARGET, controller_of


@dataclass(frozen=True)
class Target:
    """`kind`: Deployment, StatefulSet, ReplicaSet, or Pod (one that nothing would make anew)."""

    namespace: str
    kind: str
    name: str

    @property
    def resource(self) -> Resource:
        """As the API serves it."""
        return MAKERS[self.kind]

    @property
    def bare(self) -> bool:
        """Nothing makes the pod anew."""
        return self.kind == "Pod"

    @property
    def id(self) -> str:
        """`Deployment/name`."""
        return f"{self.kind}/{self.name}"

    @property
    def text(self) -> str:
        """For messages."""
        return f"{self.kind} {self.namespace}/{self.name}"


def parse_target(text: str) -> tuple[str, str, str]:
    """`NS/NAME` or `NS/KIND/NAME` of the command line: (namespace, kind or "", name).

    Raises GkewsError (`bad_request`).
    """
    parts = text.split("/")
    kind = SHORT.get(parts[1].lower(), "?") if len(parts) == 3 else ""
    if len(parts) not in (2, 3) or not all(parts) or kind == "?":
        raise GkewsError(
            "bad_request",
            f"{text!r} is neither NAMESPACE/NAME nor NAMESPACE/KIND/NAME.",
            "Nothing was changed. KIND is pod, deployment, statefulset or replicaset.",
        )
    return parts[0], kind, parts[-1]


def find_target(cluster: Cluster, namespace: str, kind: str, name: str) -> Target:
    """What is meant. Raises GkewsError: no_workspace, bad_request (several), snapshot_unavailable
    (it cannot be brought back by us), forbidden."""
    found: dict[Target, None] = {}
    refused: list[ClusterError] = []
    for resource in (PODS, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS):
        if kind and resource.kind != kind:
            continue
        try:
            one = cluster.find(resource, namespace, name)
        except ClusterError as error:
            if not error.forbidden:
                raise error.explain() from error
            refused.append(error)
            continue
        if one is not None:
            found[_made_by(cluster, namespace, resource.kind, one)] = None
    bare = Target(namespace, "Pod", name)
    if not found and kind in ("", "Pod") and _was_paused(cluster, bare):
        found[bare] = None
    if len(found) > 1:
        ways = ", ".join(f"{namespace}/{one.kind.lower()}/{one.name}" for one in found)
        raise GkewsError("bad_request", f"{name!r} is the name of several.", f"Name one of {ways}.")
    if not found:
        if refused:
            raise refused[0].explain()
        what = kind or "pod, Deployment, StatefulSet or ReplicaSet"
        raise GkewsError(
            "no_workspace",
            f"There is no {what} {namespace}/{name}, and none was paused from here.",
            "Nothing was changed. `jupyter gkews podsnapshot list NAMESPACE` shows what is kept.",
        )
    return next(iter(found))


def _was_paused(cluster: Cluster, bare: Target) -> bool:
    try:
        triggers, _ = cluster.list(TRIGGERS, bare.namespace)
    except ClusterError as error:
        if error.forbidden or error.missing:
            return False
        raise error.explain() from error
    return any(annotations_of(one).get(TARGET) == bare.id for one in triggers)


def _made_by(cluster: Cluster, namespace: str, kind: str, found: Json) -> Target:
    """Up from what is named to what is not itself made by anything."""
    workspace = labels_of(found).get(WORKSPACE_LABEL)
    if workspace:
        raise GkewsError(
            "snapshot_unavailable",
            f"{kind} {namespace}/{name_of(found)} belongs to the workspace {workspace}.",
            f"Nothing was changed. Use `jupyter gkews workspace pause {namespace}/{workspace}`.",
        )
    reference = controller_of(found)
    if reference is None:
        return Target(namespace, kind, name_of(found))
    above, name = str(reference.get("kind")), str(reference.get("name"))
    group = str(reference.get("apiVersion") or "").partition("/")[0]
    if group != "apps" or above not in MAKERS:
        raise GkewsError(
            "snapshot_unavailable",
            f"{kind} {namespace}/{name_of(found)} is kept by {above} {name}, which would make it "
            "anew at once, without its snapshot.",
            f"Nothing was changed. Stop it by what {above} offers, or pause kernels one by one.",
        )
    try:
        maker = cluster.get(MAKERS[above], namespace, name)
    except ClusterError as error:
        raise error.explain() from error
    return _made_by(cluster, namespace, above, maker)


__all__ = ["Target", "find_target", "parse_target"]
