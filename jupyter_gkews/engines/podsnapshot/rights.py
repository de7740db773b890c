"""What each thing that is done with a bare pod needs of the cluster's RBAC; asks nobody.

deploy/podsnapshot-clusterrole.yaml grants these and no others.
"""

from __future__ import annotations

from ..cluster.words import EVENTS, PODS, POLICIES, SNAPSHOTS, TRIGGERS
from ..workspaces.access import AccessReviews, Need
from .targets import Target
from .words import DEPLOYMENTS, NODES, REPLICA_SETS, STATEFUL_SETS, STORAGE

_SEE = ("get", "list", "watch")
_PODS = Need("pods", _SEE, PODS, "the pod is not seen")
_TRIGGERS = Need("triggers", (*_SEE, "create"), TRIGGERS, "no snapshot can be asked for")
_SNAPSHOTS = Need("snapshots", _SEE, SNAPSHOTS, "whether a snapshot is whole is not seen")
_POLICIES = Need("policies", ("list",), POLICIES, "which policy lets the pod be kept is not seen")
_RECREATE = Need("recreate", ("create", "delete"), PODS,
                 "a pod that nothing makes anew cannot be stopped and brought back")  # fmt: skip
_SCALE = {
    one.kind: Need(f"scale-{one.plural}", (*_SEE, "patch"), one,
                   f"a {one.kind} cannot be scaled to 0 and back", True)
    for one in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)
}  # fmt: skip
_CALL_OFF = Need("call-off", ("delete",), TRIGGERS, "a snapshot that hangs cannot be called off")
_DELETE = Need("delete", ("delete",), SNAPSHOTS, "snapshots cannot be deleted from here")
_POLICY = Need("make-policy", ("create",), POLICIES,
               "where no policy selects the pod, none can be made")  # fmt: skip
_EVENTS = Need("events", _SEE, EVENTS, "why a pod waits for a node is not seen")
_STORAGE = Need("storage", ("list",), STORAGE, "a storage config has to be named")
_NODES = Need("nodes", ("get",), NODES, "what kind of machine it ran on is not noted")

#: Those without which a part is missing.
USEFUL = [_CALL_OFF, _DELETE, _POLICY, _EVENTS, _STORAGE, _NODES]
#: All of them, as the manifest grants them.
NEEDS = (_PODS, _TRIGGERS, _SNAPSHOTS, _POLICIES, *_SCALE.values(), _RECREATE, *USEFUL)


def to_pause(target: Target) -> list[Need]:
    """Without which nothing is even begun."""
    stop = _RECREATE if target.bare else _SCALE[target.kind]
    return [_PODS, _TRIGGERS, _SNAPSHOTS, _POLICIES, stop]


def missing(access: AccessReviews, needs: list[Need]) -> list[Need]:
    """Those that are not granted."""
    return [one for one in needs if not access.has(one)]


__all__ = ["NEEDS", "USEFUL", "missing", "to_pause"]
