"""What the lifecycle asks of an engine that freezes processes: `SnapshotEngine`.

Nothing outside this package knows an engine beyond its id. An engine never decides when: it is
asked after the portable checkpoint is durable, and what it cannot do it says in a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import GkewsError


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


@dataclass(frozen=True)
class Inside:
    """What a kernel says of its own process before a snapshot (kernel/holdings.py)."""

    objections: list[Objection] = field(default_factory=list)
    holds: dict[str, Any] = field(default_factory=dict)
    """What is shown of it: {"pid", "python", "threads", "generators", "children", "files"}."""
    needs: dict[str, list[str]] = field(default_factory=dict)
    """Paths that a restore needs: {"open", "folders"} must be there, {"mapped"} as they were."""


@dataclass(frozen=True)
class Leftover:
    """What a try or a process that ended half way has left: nothing can be restored from it."""

    id: str
    bytes: int


@dataclass
class Snapshot:
    """One image on disk, as it is listed beside the checkpoints."""

    id: str
    engine: str
    kernel: str
    checkpoint: str  # empty: none was ever written
    created: str
    bytes: int
    environment: dict[str, Any] = field(default_factory=dict)
    held_by: str = ""
    """The operation that held the kernel: it is let go by this id after a restore."""
    holds: dict[str, Any] = field(default_factory=dict)
    """As `Inside.holds`, when it was taken."""
    needs: dict[str, Any] = field(default_factory=dict)
    """What the engine compares before a restore; its own affair."""

    def to_json(self) -> dict[str, Any]:
        """As it is listed."""
        return {
            "id": self.id,
            "engine": self.engine,
            "kernel": self.kernel,
            "checkpoint": self.checkpoint or None,
            "created": self.created,
            "bytes": self.bytes,
            "environment": self.environment,
            "holds": self.holds,
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

    def estimate(self, kernel: str, stored: int = 0) -> Estimate:
        """What a snapshot of this kernel would cost now. `stored`: bytes of its memory that would
        be mapped from the checkpoint, and need not be in the image."""

    def preflight(self, kernel: str) -> list[Objection]:
        """What on this machine stands in the way; the kernel is asked for its own objections by
        the lifecycle. Changes nothing."""

    async def snapshot(
        self, kernel: str, checkpoint: str, held_by: str, inside: Inside
    ) -> Snapshot:
        """Freeze the kernel's processes; when this returns, the image is durable and their memory
        is free. `held_by`: the operation that holds the kernel, for `restore`'s caller; `inside`:
        what the kernel has just said of itself.

        Raises GkewsError (`snapshot_failed`): the process's phase says whether it runs on.
        """

    async def restore(self, snapshot: Snapshot) -> None:
        """Bring the same processes back. A failure keeps the image and starts nothing.

        Raises GkewsError: `snapshot_incompatible` before anything is tried (as `unfit`),
        `snapshot_failed` otherwise.
        """

    def unfit(self, snapshot: Snapshot) -> GkewsError | None:
        """Why this image cannot be restored here and now, as far as can be told without trying:
        `snapshot_incompatible`, or `snapshot_failed` if it is damaged. None if nothing is known
        against it. Looks at the disk."""

    def find(self, snapshot: str) -> Snapshot | None:
        """One image by its id; None if it is gone or cannot be read."""

    def snapshots(self) -> list[Snapshot]:
        """All images, newest first."""

    def leftovers(self) -> list[Leftover]:
        """What tries of processes that are gone have left; never one that is being taken."""

    def delete(self, snapshot: str) -> int:
        """Remove an image or a leftover; bytes freed."""

    def tidy(self, *, dry_run: bool = False) -> list[Leftover]:
        """Remove (or tell) what else lies in the store of processes that ended with their server,
        and let go of what they had locked there. Nothing of one that may still run, here or
        elsewhere, or that an image holds. Never raises: what cannot be removed now stays."""


class UnsureError(GkewsError):
    """Whether what was asked of a cluster takes effect is not known, or no longer seen: what was
    prepared for it must stay prepared."""


@dataclass(frozen=True)
class Outlook:
    """What a pause of the workspace would meet, as things are now."""

    namespace: str
    name: str
    pod: str
    pod_uid: str
    checks: list[dict[str, Any]]
    """Sentences, in the order in which they matter: {"id", "passed": true | false | null (not
    known), "message", "costs": "refused" | "memory" | "risk", "hint"}."""
    refused: GkewsError | None = None
    """Why it cannot even be asked for."""
    loses: GkewsError | None = None
    """Why its memory would be lost."""

    @property
    def stateless(self) -> bool | None:
        """Whether the memory would be lost; None if that cannot be told."""
        if self.loses is not None:
            return True
        unknown = any(one["costs"] == "memory" and one["passed"] is None for one in self.checks)
        return None if unknown else False


class Asked(Protocol):
    """A request that a cluster has taken."""

    @property
    def how(self) -> str:
        """begun | joined: it ran already."""

    @property
    def stateless(self) -> bool:
        """The pod is stopped without a snapshot of its memory."""


class WorkspaceEngine(Protocol):
    """Has the whole workspace frozen and stopped by whoever runs it, this server with it.

    What it resumes from is not this server's: a resume is asked for from outside.
    """

    @property
    def id(self) -> str:
        """A word for it in `status`, in records and in the UI."""

    def subscribe(
        self, told: Callable[[dict[str, Any]], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Be told every new state, in the loop, once `state` has begun to follow."""

    async def state(self) -> dict[str, Any]:
        """The workspace's state, with its sentence; keys as in `status`. The first call begins to
        follow. Raises GkewsError: `no_workspace` if this server lives in none."""

    def seen(self) -> dict[str, Any] | None:
        """The same as it is known now, asking nobody; None before the first look."""

    async def rights(self) -> list[dict[str, Any]]:
        """What is allowed: {"id", "allowed", "without"}. Raises GkewsError."""

    async def outlook(self, *, measured: bool = True) -> Outlook:
        """What a pause would meet. Not `measured`: with what is in memory as it was found last,
        which is a risk and no more, and takes long to find out. Raises GkewsError."""

    async def ask(self, *, stateless: bool, pod_uid: str) -> Asked:
        """Ask for the pause of this very pod, once. `stateless`: also if its memory is lost.

        Raises GkewsError: the workspace runs on; UnsureError: that is not known.
        """

    async def follow(self, asked: Asked) -> dict[str, Any]:
        """Wait for the end of the pause, and call off one that fails or hangs; the state after it.

        In a process that was frozen and restored this returns in its next life. Raises GkewsError:
        the workspace runs on, and the message says why; UnsureError: that is not known.
        """

    async def abort(self) -> str:
        """Call off a pause that runs; what to tell the user. Raises GkewsError."""

    def woke_up(self) -> None:
        """This process was restored: every connection is dead, the pod another."""

    def close(self) -> None:
        """End what it follows."""


__all__ = [
    "Ability",
    "Asked",
    "Estimate",
    "Inside",
    "Leftover",
    "Objection",
    "Outlook",
    "Snapshot",
    "SnapshotEngine",
    "UnsureError",
    "WorkspaceEngine",
]
