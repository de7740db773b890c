"""A pause of the whole workspace as the user and REST see it: an operation with all its kernels.

Data and words only; workspace_pausing.py changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import GkewsError
from ..journal.pauses import JournalledKernel
from .operations import Operation

#: While the cluster can still be told to stop.
CANCELLABLE = frozenset(("checkpointing", "snapshotting"))


@dataclass
class KernelRow:
    """One kernel of the workspace, and its checkpoint of this pause.

    `state`: waiting | checkpointing | written; paused: it was so before, with a checkpoint of its
    own; none: there is no checkpoint, `why_not` says why.
    """

    kernel: str
    kernel_name: str
    path: str | None
    notebook: str | None
    state: str = "waiting"
    operation: Operation | None = None
    checkpoint: str | None = None
    why_not: GkewsError | None = None

    def refuse(self, error: GkewsError) -> None:
        """There will be no checkpoint."""
        self.state, self.why_not = "none", error

    def to_json(self) -> dict[str, Any]:
        """As the operation lists it."""
        return {
            "kernel": self.kernel,
            "path": self.path,
            "name": self.kernel_name,
            "state": self.state,
            "operation": self.operation.id if self.operation else None,
            "checkpoint": self.checkpoint,
            "why_not": self.why_not.to_json() if self.why_not else None,
        }

    def journalled(self, taken: str | None = None) -> JournalledKernel:
        """As the journal has it. `taken`: when its checkpoint was written, if before this pause."""
        return JournalledKernel(
            kernel=self.kernel,
            kernel_name=self.kernel_name,
            path=self.path,
            notebook=self.notebook,
            state="paused" if self.state == "paused" else "running",
            checkpoint=self.checkpoint,
            why_not=self.why_not.to_json() if self.why_not else None,
            taken=taken,
        )


@dataclass
class WorkspaceOperation(Operation):
    """Of no kernel; its bytes are those of its kernels together."""

    namespace: str = ""
    name: str = ""
    message: str | None = None
    """What happens just now, in the cluster's words where it is the cluster's doing."""
    stateless: bool = False
    """The memory is lost with the pod, as far as is known."""
    rows: list[KernelRow] = field(default_factory=list)

    @property
    def cancellable(self) -> bool:
        """As long as the pod cannot stop at any moment."""
        return self.finished is None and self.phase in CANCELLABLE

    @property
    def as_before(self) -> str:
        """What is so again after it was cancelled."""
        return "The workspace runs on, and its kernels with it."

    def to_json(self) -> dict[str, Any]:
        """An operation, with the workspace, the sentence and the kernels added."""
        running = [row.operation for row in self.rows if row.operation is not None]
        return {
            **super().to_json(),
            "kernel": None,
            "bytes_done": sum(each.bytes_done for each in running),
            "bytes_total": sum(each.bytes_total for each in running),
            "workspace": {"namespace": self.namespace, "name": self.name},
            "message": self.message,
            "stateless": self.stateless,
            "kernels": [row.to_json() for row in self.rows],
        }


def missing(rows: list[KernelRow]) -> GkewsError | None:
    """Kernels without a checkpoint, as the error that a pause ends with unless that is accepted;
    its reason is that of the first of them."""
    without = [row for row in rows if row.state == "none"]
    if not without:
        return None
    reasons = [row.why_not.reason for row in without if row.why_not is not None]
    told = [
        f"{row.path or row.kernel[:8]}: {row.why_not.message if row.why_not else 'not known'}"
        for row in without
    ]
    count = f"{len(without)} of {len(rows)} kernels" if len(rows) > 1 else "The only kernel"
    verb = "has" if len(without) == 1 and len(rows) == 1 else "have"
    return GkewsError(
        (reasons or ["checkpoint_failed"])[0],
        f"{count} {verb} no checkpoint of now: " + " ".join(told),
        "Nothing was asked of the cluster; all kernels go on, and what was written is kept. "
        "Pause without these checkpoints if the snapshot is enough for them, or try again.",
    )
