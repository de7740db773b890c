"""What the server knows of one kernel's life: its state, since when, and why; and how it is said.

Holds data and words only; `service` and the procedures beside it change it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ..errors import GkewsError
from .interfaces import KernelFacts, KernelTalk
from .operations import Operation, utcnow
from .run import Run

#: The step of an operation while its kernel waits, held, for the end of a pause of the workspace.
HELD = "held"
_PHASE_WORDS = {
    "waiting_for_idle": "waiting until no cell runs",
    "checkpointing": "writing the checkpoint",
    "snapshotting": "taking the snapshot",
    "releasing": "stopping the process",
    "waiting_for_capacity": "waiting for capacity",
    "restoring": "loading the checkpoint",
    "verifying": "checking what came back",
}


def age_s(since: str) -> float:
    """Seconds since an ISO 8601 time."""
    then = datetime.fromisoformat(since.replace("Z", "+00:00"))
    return round(max(0.0, (datetime.now(timezone.utc) - then).total_seconds()), 3)


def died(kind: str) -> GkewsError:
    """`kernel_died` during an operation of this kind, before anything was released."""
    return GkewsError(
        "kernel_died",
        f"The kernel died during the {kind}.",
        "What it held since its last complete checkpoint is gone; "
        "that checkpoint is kept and can be restored.",
    )


@dataclass
class KernelEntry:
    """One kernel of this server."""

    id: str
    talk: KernelTalk | None = None
    state: str = "running"
    since: str = field(default_factory=utcnow)
    provenance: str | None = None
    checkpoint: str | None = None
    snapshot: str | None = None  # of a paused kernel, beside the checkpoint
    in_cell: bool = False  # paused in the middle of a cell: `checkpoint` is of an earlier state
    earlier: bool = False  # paused with a checkpoint that was written some time before
    engine: str | None = None
    last_error: GkewsError | None = None
    run: Run | None = None  # the operation that runs
    background: Run | None = None  # a checkpoint that is still written while `run` runs
    last_operation: Operation | None = None
    after_cell: set[asyncio.Future[None]] = field(default_factory=set)
    """What waits for the end of a cell that was frozen."""
    left_behind: str | None = None
    """The last checkpoint of the process before an empty one was started: not of this one."""
    paused_before: bool = False
    notebook: str | None = None  # as in the record of a paused kernel, absolute
    survives: dict[str, Any] | None = None  # the last table, with "as_of"

    def runs(self) -> list[Run]:
        """All that is being done with it."""
        return [run for run in (self.run, self.background) if run is not None]

    def enter(self, state: str, since: str | None = None) -> None:
        """Change the state; its age starts anew only if it is another one."""
        if state != self.state:
            self.state = state
            self.since = since or utcnow()

    def sentence(self) -> str:
        """The state as a sentence for the user."""
        operation = self.run.operation if self.run else None
        if operation is not None and operation.step == HELD:
            return "Running, held: the workspace is being paused."
        if operation is not None:
            doing = _PHASE_WORDS.get(operation.phase, operation.phase)
            word = {"restore": "Restoring", "checkpoint": "Running"}.get(
                operation.kind, self.state.capitalize()
            )
            return f"{word}: {doing}."
        if self._died_and_started_again():
            failed = self.last_operation.kind if self.last_operation else "last operation"
            return (
                f"Running, fresh: the kernel died during the {failed} and was started again; "
                "its variables are gone."
            )
        if self.last_error is not None:
            failed = self.last_operation.kind if self.last_operation else "last operation"
            said = self.last_error.message
            return f"{self.state.capitalize()}; the {failed} did not succeed: {said}"
        if self.state == "paused" and self.snapshot and self.in_cell:
            return "Paused in the middle of a cell: the process is frozen on disk, its memory free."
        if self.state == "paused" and self.snapshot:
            return "Paused: the process is frozen on disk and its memory is free."
        if self.state == "paused" and self.earlier:
            return "Paused: its memory is gone; the checkpoint is of some time before the pause."
        if self.state == "paused":
            return "Paused: the process is stopped and its memory is free; the checkpoint is kept."
        if self.provenance == "fresh":
            return "Running, fresh: nothing of what the kernel held before is in memory."
        if self.provenance == "restored":
            return "Running, restored: the same process goes on."
        if self.provenance == "recovered":
            return "Running, recovered from its checkpoint."
        return "Running."

    def _died_and_started_again(self) -> bool:
        return (
            self.state == "running"
            and self.provenance == "fresh"
            and self.last_error is not None
            and self.last_error.reason == "kernel_died"
        )

    def hint(self) -> str:
        """What can be done now; may be empty."""
        if self.run is not None:
            return ""
        if self._died_and_started_again() and not self.checkpoint:
            return "There is no checkpoint of it: run the cells of the notebook again."
        if self.last_error is not None and not self._died_and_started_again():
            return self.last_error.hint
        if self.state == "paused":
            return "Resume it, or run a cell."
        if self.provenance == "fresh" and self.checkpoint:
            return "The last checkpoint is kept: it can be restored into this kernel."
        return ""

    def to_json(
        self, facts: KernelFacts, *, why_not: GkewsError | None, auto_resume: bool
    ) -> dict[str, Any]:
        """One of `status`'s kernels."""
        stopped = self.state in ("paused", "resuming")
        return {
            "id": self.id,
            "name": facts.name,
            "display_name": facts.display_name,
            "language": facts.language,
            "path": facts.path,
            "state": self.state,
            "since": self.since,
            "age_s": age_s(self.since),
            "provenance": self.provenance,
            "reason": self.last_error.reason if self.last_error else None,
            "message": self.sentence(),
            "hint": self.hint(),
            "engine": self.engine,
            "snapshot": self.snapshot,
            "operation": self.run.operation.to_json() if self.run else None,
            "last_operation": self.last_operation.to_json() if self.last_operation else None,
            "checkpoint": self.checkpoint,
            "pausable": why_not is None,
            "why_not": why_not.to_json() if why_not else None,
            "auto_resume": auto_resume,
            "execution_state": "idle" if self.state == "paused" else facts.execution_state,
            "ram": None if stopped else facts.ram,
        }
