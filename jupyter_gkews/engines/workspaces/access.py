"""What this identity may do, asked of the API server itself (access reviews) and remembered.

A question is one request; the answer is believed for ten minutes. Tries nothing out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import EVENTS, KINDS, PODS, POLICIES, SNAPSHOTS, TRIGGERS, WORKSPACES, Resource

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)
BELIEVED_S = 600.0
#: Questions that are asked at the same time.
AT_ONCE = 4


@dataclass(frozen=True)
class Need:
    """What one thing that we do needs; without it `without` says what is missing to the user."""

    id: str
    verbs: tuple[str, ...]
    resource: Resource
    without: str
    named: bool = False
    """On the one workspace: a role may name it."""


#: In the order in which they are shown. Only the first two are needed to pause and resume.
NEEDS = (
    Need(
        "see", ("get", "list", "watch"), WORKSPACES, "the state of the workspace is not seen", True
    ),
    Need("pause", ("patch",), WORKSPACES, "the workspace cannot be paused or resumed", True),
    Need("pods", ("get", "list", "watch"), PODS, "where the pod runs and waits is not seen"),
    Need("events", ("get", "list", "watch"), EVENTS, "why a pod waits for a node is not seen"),
    Need("triggers", ("get", "list", "watch"), TRIGGERS, "why a snapshot failed is not seen"),
    Need("snapshots", ("get", "list", "watch"), SNAPSHOTS, "how far a snapshot is, is not seen"),
    Need("policies", ("get",), POLICIES, "how long a snapshot is kept is not seen"),
    Need("kinds", ("get",), KINDS, "whether the kind of workspace allows snapshots is not seen"),
)


class AccessReviews:
    """For one workspace. `clock` is monotonic."""

    def __init__(
        self, cluster: Cluster, namespace: str, workspace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._cluster, self._namespace, self._workspace = cluster, namespace, workspace
        self._clock = clock
        self._answers: dict[tuple[str, Resource, str], tuple[float, bool]] = {}

    def may(self, verb: str, resource: Resource, name: str = "") -> bool:
        """Whether it is allowed. Raises ClusterError if that cannot be asked."""
        known = self._known(verb, resource, name)
        if known is not None:
            return known
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
        if resource.namespaced:
            attributes["namespace"] = self._namespace
        if name:
            attributes["name"] = name
        answer = self._cluster.create(
            REVIEWS,
            {
                "apiVersion": f"{REVIEWS.group}/{REVIEWS.version}",
                "kind": REVIEWS.kind,
                "spec": {"resourceAttributes": attributes},
            },
        )
        allowed = bool((answer.get("status") or {}).get("allowed"))
        self._answers[verb, resource, name] = (self._clock(), allowed)
        return allowed

    def _settled(self, need: Need) -> bool | None:
        """Whether all its verbs are allowed, by what is known; None if that does not tell."""
        answers = [self._known(*key) for key in self._asks(need)]
        if False in answers:
            return False
        return None if None in answers else True

    def _known(self, verb: str, resource: Resource, name: str) -> bool | None:
        answer = self._answers.get((verb, resource, name))
        if answer is None or self._clock() - answer[0] >= BELIEVED_S:
            return None
        return answer[1]

    def _asks(self, need: Need) -> list[tuple[str, Resource, str]]:
        name = self._workspace if need.named else ""
        return [(verb, need.resource, name) for verb in need.verbs]

    def has(self, need: Need) -> bool:
        """Whether all its verbs are allowed; True where that cannot be asked: it is then tried."""
        try:
            return all(self.may(*key) for key in self._asks(need))
        except ClusterError as error:
            if error.forbidden or error.missing:
                return True
            raise

    def missing(self) -> list[Need]:
        """What is not allowed here, in the order of NEEDS; what is not known is asked at once.

        Raises ClusterError if it cannot be asked.
        """
        found = {one.id: self._settled(one) for one in NEEDS}
        asked = [one for one in NEEDS if found[one.id] is None]
        if asked:
            threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="gkews access")
            try:
                answers = threads.map(self.has, asked)
                found |= {one.id: may for one, may in zip(asked, answers, strict=True)}
            finally:  # a server that is away: nobody asks it who has not begun to
                threads.shutdown(cancel_futures=True)
        return [one for one in NEEDS if not found[one.id]]

    def forget(self) -> None:
        """Ask anew: after a restore, or after a 403 that was not expected."""
        self._answers.clear()


def need(id_: str) -> Need:
    """One of NEEDS by its id."""
    return next(one for one in NEEDS if one.id == id_)
