"""What would go wrong with a pause of this workspace, before it is asked for: each a sentence.

Judges what was read; changes nothing. What cannot be read is said to be unknown, never passed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from ..cluster.words import (
    ACCELERATOR_LABEL,
    ENABLED,
    GPU,
    MACHINE_FAMILY_LABEL,
    MACHINE_TYPE_LABEL,
    MIGRATION_ENABLED,
    PARTITION_LABEL,
    TPU,
    Json,
    annotations_of,
)
from .access import Need
from .seen import Seen

_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20,
             "Gi": 2**30, "Ti": 2**40}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One item. `passed` None: cannot be told here. `costs`: what a failure means for a pause:
    "refused" (it cannot be asked), "memory" (paused without a snapshot), "risk" (it may fail)."""

    id: str
    passed: bool | None
    message: str
    costs: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class Facts:
    """What is known from elsewhere: whether GKE's API is served, what the pod's node is labelled
    with, bytes of GPU memory in use and of the container's memory that is resident.

    None: not known. Of a workspace seen from outside nothing but the first ever is.
    """

    snapshot_api: bool | None = None
    node_labels: dict[str, str] | None = None
    vram: int | None = None
    resident: int | None = None


def check(seen: Seen, missing: Collection[Need] = (), facts: Facts | None = None) -> list[Check]:
    """All items, those that failed too, in the order in which they matter."""
    facts = facts or Facts()
    refused = {need.id for need in missing}
    return [
        _right(refused),
        _enabled(seen),
        _no_tpu(seen),
        _runs(seen),
        _in_gvisor(seen),
        _prepared(seen),
        _served(facts),
        _no_restart_pending(seen),
        _whole_gpu(seen, facts),
        _number_of_gpus(seen, facts),
        _machine(seen, facts),
        _room_for_vram(seen, facts),
    ]


def pod_checks(seen: Seen, facts: Facts | None = None) -> list[Check]:
    """Those of them that are about the pod alone, whoever has made it."""
    facts = facts or Facts()
    return [
        _no_tpu(seen),
        _runs(seen),
        _in_gvisor(seen),
        _served(facts),
        _whole_gpu(seen, facts),
        _number_of_gpus(seen, facts),
        _machine(seen, facts),
        _room_for_vram(seen, facts),
    ]


def costs_memory(checks: Collection[Check]) -> list[Check]:
    """Those for which the pause would be one without a snapshot."""
    return [one for one in checks if one.passed is False and one.costs == "memory"]


def refuses(checks: Collection[Check]) -> list[Check]:
    """Those for which a pause cannot even be asked for."""
    return [one for one in checks if one.passed is False and one.costs == "refused"]


def _right(refused: set[str]) -> Check:
    passed = "pause" not in refused
    message = (
        "The workspace may be paused from here."
        if passed
        else "There is no right to pause this workspace from here (patch workspaces.kubeflow.org)."
    )
    hint = "" if passed else "Pause it in the dashboard, or see deploy/clusterrole.yaml."
    return Check("right", passed, message, "refused", hint)


def _enabled(seen: Seen) -> Check:
    passed, why = enabled(seen)
    hint = "" if passed else f'Its annotation {ENABLED}: "true" turns them on.'
    return Check("enabled", passed, why, "memory", hint)


def enabled(seen: Seen) -> tuple[bool | None, str]:
    """Whether snapshots are on for this workspace, as the addon decides it, and the sentence."""
    own = annotations_of(seen.workspace or {})
    if own.get(ENABLED) == "false":
        return False, "Snapshots are turned off for this workspace."
    if own.get(ENABLED) == "true" or own.get(MIGRATION_ENABLED) == "true":
        return True, "Snapshots are turned on for this workspace."
    if seen.kind is None and "kinds" in seen.hidden:
        then = "they were when the pod started" if seen.gated else "not known"
        return None, f"Whether snapshots are turned on for its kind may not be read here ({then})."
    of_kind = annotations_of(seen.kind or {})
    if of_kind.get(ENABLED) == "true" or of_kind.get(MIGRATION_ENABLED) == "true":
        return True, "Snapshots are turned on for this kind of workspace."
    return False, "Snapshots are not turned on for this workspace, nor for its kind."


def _no_tpu(seen: Seen) -> Check:
    wants = any(TPU in _limits(container) for container in seen.spec.get("containers") or [])
    message = "A pod with a TPU cannot be snapshotted." if wants else "The pod uses no TPU."
    return Check("tpu", _known(seen, not wants), _or_unknown(seen, message), "memory")


def _runs(seen: Seen) -> Check:
    phase = ((seen.pod or {}).get("status") or {}).get("phase")
    passed = phase == "Running" and not seen.terminating
    message = "The pod runs." if passed else f"The pod does not run ({phase or 'there is none'})."
    if seen.pod is None and "pods" not in seen.hidden:
        return Check("runs", False, message, "memory", "Without a running pod nothing is kept.")
    return Check("runs", _known(seen, passed), _or_unknown(seen, message), "memory")


def _in_gvisor(seen: Seen) -> Check:
    message = "The pod runs in gVisor." if seen.gvisor else "The pod does not run in gVisor."
    known = _known(seen, seen.gvisor)
    hint = "It was made before snapshots were turned on: restart it once."
    hint = hint if known is False else ""
    return Check("gvisor", known, _or_unknown(seen, message), "memory", hint)


def _prepared(seen: Seen) -> Check:
    message = (
        "The addon has prepared the pod."
        if seen.gated
        else "The addon for snapshots has not prepared this pod; it may not run in this cluster."
    )
    known = _known(seen, seen.gated)
    hint = "Restart the workspace once while the addon runs." if known is False else ""
    return Check("prepared", known, _or_unknown(seen, message), "memory", hint)


def _served(facts: Facts) -> Check:
    words = {
        True: "The cluster has Pod Snapshots.",
        False: "The cluster has no Pod Snapshots (podsnapshot.gke.io/v1 is not served).",
        None: "Whether the cluster has Pod Snapshots is not known.",
    }
    return Check("snapshot_api", facts.snapshot_api, words[facts.snapshot_api], "memory")


def _no_restart_pending(seen: Seen) -> Check:
    pending = bool(seen.status.get("pendingRestart"))
    if not pending:
        message = "Nothing of the workspace has changed since its start."
        return Check("pending_restart", True, message, "risk")
    return Check(
        "pending_restart",
        False,
        "The workspace or its kind was changed since the pod started: the next start will be with "
        "another specification, and the snapshot will not fit it.",
        "risk",
        "It will come back from the checkpoints of its kernels. Restart it first to avoid that.",
    )


def _whole_gpu(seen: Seen, facts: Facts) -> Check:
    labels = {**(facts.node_labels or {}), **(seen.spec.get("nodeSelector") or {})}
    part = labels.get(PARTITION_LABEL)
    by_name = [name for name in _limits(seen.main) if name.startswith("nvidia.com/mig-")]
    if part or by_name:
        message = (
            f"The GPU is a part of one (MIG {part or by_name[0]}): snapshots need a whole one."
        )
        return Check("whole_gpu", False, message, "risk", "Use a whole GPU.")
    message = _or_unknown(seen, "No part of a GPU is used.")
    return Check("whole_gpu", _known(seen, True), message, "risk")


def _number_of_gpus(seen: Seen, facts: Facts) -> Check:
    count = _whole(_limits(seen.main).get(GPU))
    labels = {**(facts.node_labels or {}), **(seen.spec.get("nodeSelector") or {})}
    kind = str(labels.get(ACCELERATOR_LABEL) or "")
    if count > 1 and not kind:
        message = f"The pod has {count} GPUs: only L4 can be several, and what they are is unknown."
        return Check("gpus", None, message, "risk")
    if count > 1 and "l4" not in kind.split("-"):
        message = f"The pod has {count} GPUs; more than one can be snapshotted only with L4."
        return Check("gpus", False, message, "risk", "Use one GPU, or several L4.")
    message = {0: "The pod uses no GPU.", 1: "The pod uses one GPU."}.get(
        count, f"The pod uses {count} L4."
    )
    return Check("gpus", _known(seen, True), _or_unknown(seen, message), "risk")


def _machine(seen: Seen, facts: Facts) -> Check:
    labels = {**(seen.spec.get("nodeSelector") or {}), **(facts.node_labels or {})}
    machine = labels.get(MACHINE_TYPE_LABEL) or labels.get(MACHINE_FAMILY_LABEL) or ""
    if not machine:
        return Check("machine", None, "What kind of machine this is may not be read here.", "risk")
    if machine.split("-")[0] == "e2":
        message = f"The node is an E2 machine ({machine}); snapshots of whole pods need another."
        return Check("machine", False, message, "risk", "Use a node pool of another series.")
    return Check("machine", True, f"The node is a {machine}.", "risk")


def _room_for_vram(seen: Seen, facts: Facts) -> Check:
    limit = quantity(str(_limits(seen.main).get("memory") or ""))
    if not facts.vram and seen.pod is not None and not _whole(_limits(seen.main).get(GPU)):
        return Check("vram", True, "The pod uses no GPU.", "risk")
    if not facts.vram:
        known = facts.vram == 0
        message = "No GPU memory is in use." if known else "GPU memory in use is not known."
        return Check("vram", True if known else None, message, "risk")
    if limit is None or facts.resident is None:
        message = "Whether memory has room for the GPU's is not known."
        return Check("vram", None, message, "risk")
    need = facts.vram + facts.resident
    numbers = f"{facts.vram / 1e9:.1f} GB of GPU memory beside {facts.resident / 1e9:.1f} GB, "
    numbers += f"limit {limit / 1e9:.1f} GB"
    if need > limit:
        message = (
            f"A snapshot copies the GPU's memory into the pod's, which has no room: {numbers}."
        )
        hint = "Free memory in a kernel, or use an option with a higher memory limit."
        return Check("vram", False, message, "risk", hint)
    return Check("vram", True, f"Memory has room for the GPU's: {numbers}.", "risk")


def quantity(text: str) -> int | None:
    """Bytes of a Kubernetes quantity: `40Gi`, `512M`, `1.5G`, `1e9`; None if it is none."""
    match = re.fullmatch(r"([0-9.]+(?:[eE][0-9]+)?)([kMGT]i?|Ki)?", text)
    if match is None:
        return None
    try:
        return int(float(match[1]) * _SUFFIXES[match[2] or ""])
    except (ValueError, KeyError):
        return None


def _limits(container: Json) -> Json:
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _whole(value: object) -> int:
    try:
        return int(str(value or 0))
    except ValueError:
        return 0


def _known(seen: Seen, passed: bool) -> bool | None:
    return None if seen.pod is None else passed


def _or_unknown(seen: Seen, message: str) -> str:
    return "The pod may not be read here." if seen.pod is None else message
