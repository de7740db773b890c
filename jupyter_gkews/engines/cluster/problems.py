"""What an API server or the way to it refuses, typed, and the sentence that a user gets for it."""

from __future__ import annotations

import json
from typing import Any

from ...errors import GkewsError


class ClusterError(Exception):
    """A request that was not answered as hoped. `code`: HTTP status, 0 if there was no answer.

    `maybe_done`: a write whose answer was lost; whether it was done must be looked up.
    """

    def __init__(
        self, code: int, reason: str, message: str, doing: str = "", *, maybe_done: bool = False
    ) -> None:
        self.code, self.reason, self.message = code, reason, message
        self.doing, self.maybe_done = doing, maybe_done
        super().__init__(f"{doing}: {code} {reason}: {message}".strip(": "))

    @property
    def unreachable(self) -> bool:
        """No answer, or one that says "not now": the same may work in a while."""
        return self.code in (0, 429, 500, 502, 503, 504)

    @property
    def forbidden(self) -> bool:
        """Refused for want of a right, or by an admission policy."""
        return self.code == 403

    @property
    def missing(self) -> bool:
        """There is no such object, or no such resource."""
        return self.code == 404

    @property
    def conflict(self) -> bool:
        """Somebody else changed the object meanwhile."""
        return self.code == 409

    @property
    def gone(self) -> bool:
        """What is asked from is no longer known: list again."""
        return self.code == 410

    @property
    def by_policy(self) -> bool:
        """Refused by an admission policy or webhook, not by RBAC: never worth a second try."""
        words = ("ValidatingAdmissionPolicy", "admission webhook", "admission-policy")
        return self.code in (400, 403, 422) and any(word in self.message for word in words)

    def explain(self) -> GkewsError:
        """As a user is told."""
        doing = self.doing or "ask the cluster"
        if self.code == 0:
            return GkewsError(
                "cluster_unreachable",
                f"The cluster did not answer: cannot {doing} ({self.message}).",
                "Nothing is known to have changed. Look at the network and try again.",
            )
        if self.by_policy:
            return GkewsError(
                "forbidden",
                f"The cluster's rules do not allow to {doing}: {self.message}",
                "Nothing was changed. Whoever runs the cluster can say why.",
            )
        if self.code == 401:
            return GkewsError(
                "forbidden",
                f"The cluster does not know who asks: cannot {doing} ({self.message}).",
                "Nothing was changed. The login may have expired: log in to the cluster again.",
            )
        if self.forbidden:
            return GkewsError(
                "forbidden",
                f"No right to {doing}: {self.message}",
                "Nothing was changed. The manifests in deploy/ name the rights that are needed.",
            )
        if self.missing:
            return GkewsError(
                "no_workspace",
                f"Cannot {doing}: {self.message}.",
                "Nothing was changed. Look at the namespace and the name.",
            )
        if self.unreachable:
            return GkewsError(
                "cluster_unreachable",
                f"The cluster cannot {doing} now: {self.message}",
                "Nothing is known to have changed. Try again in a while.",
            )
        return GkewsError(
            "internal",
            f"The cluster refused to {doing}: {self.code} {self.reason}: {self.message}",
            "Nothing was changed.",
        )


def from_status(body: Any, code: int, doing: str) -> ClusterError:
    """From a `Status` object (or whatever came instead of one)."""
    found: Any = body
    if isinstance(body, (str, bytes)):
        try:
            found = json.loads(body)
        except ValueError:
            found = None
    if isinstance(found, dict):
        reason = str(found.get("reason") or "")
        return ClusterError(code, reason, str(found.get("message") or reason or "refused"), doing)
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    return ClusterError(code, "", text.strip()[:300] or "refused", doing)
