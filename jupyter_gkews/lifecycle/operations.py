"""Operations: one running pause, resume, checkpoint or restore, as the user and REST see it."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from ..errors import GkewsError
from ..journal.records import iso

#: Phases by kind, in order (DESIGN, "State machine"). A kernel-only pause skips `snapshotting`,
#: an embedded resume skips `waiting_for_capacity`.
PHASES: dict[str, tuple[str, ...]] = {
    "pause": ("waiting_for_idle", "checkpointing", "snapshotting", "releasing"),
    "resume": ("waiting_for_capacity", "restoring", "verifying"),
    "checkpoint": ("waiting_for_idle", "checkpointing"),
    # a checkpoint loaded into a kernel: what a running one holds is saved first
    "restore": ("waiting_for_idle", "checkpointing", "releasing", "restoring", "verifying"),
}

CANCELLABLE = frozenset(("waiting_for_idle", "checkpointing", "waiting_for_capacity", "restoring"))


def utcnow() -> str:
    """Now, ISO 8601 UTC with milliseconds and a Z."""
    return iso(time.time())


@dataclass
class Result:
    """What an operation achieved. Sizes in bytes, durations in seconds by phase."""

    provenance: str | None = None  # resume only: "restored" | "recovered" | "fresh"
    checkpoint: str | None = None
    kept: int = 0
    rebuilt: int = 0
    rebuilt_details: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)  # {"ram", "vram"}
    bytes_written: int = 0
    proved: dict[str, Any] | None = None  # how the checkpoint was proved: checkpoint-format.md
    compressed: dict[str, Any] | None = None  # the graph, where it is: Manifest.compressed
    bytes_referenced: int = 0  # weights that stand in files of their own
    blocked_s: float | None = None  # checkpoint: how long the kernel was blocked for it
    note: str | None = None  # why it was blocked, why there is no snapshot, and the like
    snapshot: str | None = None  # pause: the process snapshot that was taken
    saved_before: str | None = None  # restore only: the checkpoint of what the kernel held before

    def to_json(self) -> dict[str, Any]:
        """DESIGN's `operation.result`."""
        return {
            "provenance": self.provenance,
            "checkpoint": self.checkpoint,
            "kept": self.kept,
            "rebuilt": self.rebuilt,
            "rebuilt_details": self.rebuilt_details,
            "lost": self.lost,
            "seconds": self.seconds,
            "released": self.released,
            "bytes_written": self.bytes_written,
            "proved": self.proved,
            "compressed": self.compressed,
            "bytes_referenced": self.bytes_referenced,
            "blocked_s": self.blocked_s,
            "note": self.note,
            "snapshot": self.snapshot,
            "saved_before": self.saved_before,
        }


@dataclass
class Operation:
    """One pause, resume, checkpoint or restore. Its shape is DESIGN's `operation`."""

    kind: str  # a key of PHASES
    kernel: str
    phase: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    step: str | None = None  # the kernel's own step within the phase (kernel.protocol.Progress)
    bytes_done: int = 0
    bytes_total: int = 0
    eta_s: float | None = None
    started: str = field(default_factory=utcnow)
    finished: str | None = None
    result: Result | None = None
    error: GkewsError | None = None

    def to_json(self) -> dict[str, Any]:
        """DESIGN's `operation`, with `step` and `cancellable` added."""
        return {
            "id": self.id,
            "kind": self.kind,
            "kernel": self.kernel,
            "phase": self.phase,
            "step": self.step,
            "bytes_done": self.bytes_done,
            "bytes_total": self.bytes_total,
            "eta_s": self.eta_s,
            "started": self.started,
            "finished": self.finished,
            "cancellable": self.cancellable,
            "result": self.result.to_json() if self.result else None,
            "error": self.error.to_json() if self.error else None,
        }

    @property
    def cancellable(self) -> bool:
        """Whether DELETE is still honoured.

        Until the process is being stopped for a finished checkpoint; and while a process loads
        one, for the kernel then stays paused.
        """
        return self.finished is None and self.phase in CANCELLABLE

    @property
    def as_before(self) -> str:
        """What is so again after it was cancelled."""
        return "The kernel is as it was before."
