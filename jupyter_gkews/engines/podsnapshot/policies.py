"""Which PodSnapshotPolicy lets a pod be snapshotted by hand, and ours where there is none.

A policy of somebody else is used as it is, never changed; ours is never deleted: it must outlive
the snapshots that were taken under it, or their files stay in the bucket (gke-labs/workspaces,
pod_snapshot_webhook_design.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..cluster.words import POLICIES, Json, labels_of, name_of
from .targets import Target
from .words import deleted

#: How long ours keeps a snapshot that nobody uses.
KEEP = "7d"


@dataclass(frozen=True)
class PolicyFound:
    """The policy that applies to a pod. `problem`: why it will not do, in a sentence."""

    policy: Json | None
    problem: str | None = None
    hint: str = ""


def policy_for(pod: Json, policies: Iterable[Json]) -> PolicyFound:
    """Of those whose selector matches the pod; none: ours has to be made."""
    matching = [one for one in policies if not deleted(one) and matches(one, labels_of(pod))]
    if not matching:
        return PolicyFound(None)
    by_hand = [one for one in matching if _trigger(one).get("type") == "manual"]
    good = [one for one in by_hand if _trigger(one).get("postCheckpoint", "resume") != "stop"
            and _spec(one).get("snapshotScope", "whole-pod") == "whole-pod"]  # fmt: skip
    if good:
        return PolicyFound(sorted(good, key=name_of)[0])
    if not by_hand:
        one = matching[0]
        return PolicyFound(
            one,
            f"The policy {name_of(one)} selects this pod, for snapshots of type "
            f"{_trigger(one).get('type')}: they cannot be asked for from here.",
            "Change its triggerConfig to manual, or let it select other pods.",
        )
    one = by_hand[0]
    if _spec(one).get("snapshotScope", "whole-pod") != "whole-pod":
        return PolicyFound(
            one,
            f"The policy {name_of(one)} keeps only files, not memory.",
            "Set its snapshotScope to whole-pod.",
        )
    return PolicyFound(
        one,
        f"The policy {name_of(one)} stops the pod as soon as its memory is copied, before the "
        "snapshot is safe in its storage: if that fails, the memory is lost.",
        "Set its triggerConfig.postCheckpoint to resume: jupyter-gkews stops the pod by itself.",
    )


def our_policy(target: Target, pod: Json, owner: Json | None, storage: str, keep: str) -> Json:
    """The policy to create for this target alone."""
    selector: Any = _spec(owner or {}).get("selector") or {"matchLabels": labels_of(pod)}
    return {
        "apiVersion": f"{POLICIES.group}/{POLICIES.version}",
        "kind": POLICIES.kind,
        "metadata": {"name": policy_name(target)},
        "spec": {
            "storageConfigName": storage,
            "selector": selector,
            # it goes on until the snapshot is whole: a snapshot that fails costs nothing
            "triggerConfig": {"type": "manual", "postCheckpoint": "resume"},
            "snapshotScope": "whole-pod",
            "retentionConfig": {"lastAccessTimeout": keep},
        },
    }


def policy_name(target: Target) -> str:
    """Ours."""
    return f"gkews-{target.kind.lower()}-{target.name}"[:253].rstrip("-.")


def matches(policy: Json, labels: dict[str, str]) -> bool:
    """Whether its selector takes an object with these labels. An empty one takes all."""
    selector = _spec(policy).get("selector") or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expressed(one, labels) for one in selector.get("matchExpressions") or [])


def selector_text(selector: Json) -> str:
    """A selector as lists and watches take it."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or []:
        key, values = one.get("key"), ",".join(one.get("values") or [])
        text = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})",
                "Exists": f"{key}", "DoesNotExist": f"!{key}"}  # fmt: skip
        parts.append(text[one.get("operator")])
    return ",".join(parts)


def _expressed(one: Json, labels: dict[str, str]) -> bool:
    key, values = str(one.get("key")), one.get("values") or []
    has = key in labels
    return {
        "In": has and labels.get(key) in values,
        "NotIn": not has or labels.get(key) not in values,
        "Exists": has,
        "DoesNotExist": not has,
    }.get(str(one.get("operator")), False)


def _spec(found: Json) -> Json:
    return found.get("spec") or {}


def _trigger(policy: Json) -> Json:
    return _spec(policy).get("triggerConfig") or {}


__all__ = ["KEEP", "PolicyFound", "matches", "our_policy", "policy_for", "policy_name",
           "selector_text"]  # fmt: skip
