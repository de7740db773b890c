"""What the lifecycle asks of an engine that freezes processes: `SnapshotEngine`.

Nothing outside this package knows an engine beyond its id. An engine never decides when: it is
asked after the portable checkpoint is durable, and what it cannot do it says in a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Ability:
    """Whether an engine works on this machine; if not, `why_not` in one sentence."""

    available: bool
    why_not: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class Estimate:
    """What a snapshot would cost: bytes of the image, seconds to take and to restore it."""

    image_bytes: int
    seconds: float
    restore_seconds: float


@dataclass(frozen=True)
class Objection:
    """Something in a process that a snapshot cannot hold, as the preflight found it."""

    what: str
    reason: str
    hint: str


@dataclass
class Snapshot:
    """One image on disk, as it is listed beside the checkpoints."""

    id: str
    engine: str
    kernel: str
    checkpoint: str
    created: str
    bytes: int
    environment: dict[str, Any] = field(default_factory=dict)
    held_by: str = ""
    """The operation that held the kernel: it is let go by this id after a restore."""

    def to_json(self) -> dict[str, Any]:
        """As it is listed."""
        return {
            "id": self.id,
            "engine": self.engine,
            "kernel": self.kernel,
            "checkpoint": self.checkpoint,
            "created": self.created,
            "bytes": self.bytes,
            "environment": self.environment,
        }


class SnapshotEngine(Protocol):
    """Freezes the processes of one kernel to disk and brings the same processes back."""

    @property
    def id(self) -> str:
        """A word for it in `status`, in records and in the UI."""

    def ability(self) -> Ability:
        """Whether it works here. May take a second the first time."""

    def keeps(self) -> list[str]:
        """What a restored process has that a recovered one has not, in the user's words."""

    def estimate(self, kernel: str) -> Estimate:
        """What a snapshot of this kernel would cost now."""

    def preflight(self, kernel: str) -> list[Objection]:
        """What on this machine stands in the way; the kernel is asked for its own objections by
        the lifecycle. Changes nothing."""

    async def snapshot(
        self, kernel: str, checkpoint: str, held_by: str, mapped: Sequence[str] = ()
    ) -> Snapshot:
        """Freeze the kernel's processes; when this returns, the image is durable and their memory
        is free. `held_by`: the operation that holds the kernel, for `restore`'s caller. `mapped`:
        files that the processes have mapped, which an image need not hold but needs.

        Raises GkewsError (`snapshot_failed`): the process's phase says whether it runs on.
        """

    async def restore(self, snapshot: Snapshot) -> None:
        """Bring the same processes back. A failure keeps the image and starts nothing.

        Raises GkewsError (`snapshot_failed`).
        """

    def find(self, snapshot: str) -> Snapshot | None:
        """One image by its id; None if it is gone or cannot be read."""

    def snapshots(self) -> list[Snapshot]:
        """All images, newest first."""

    def delete(self, snapshot: str) -> int:
        """Remove an image; bytes freed."""


__all__ = ["Ability", "Estimate", "Objection", "Snapshot", "SnapshotEngine"]
