"""The process snapshots in the store as the user sees them: which a paused kernel needs, whether
each could be restored now, which nobody needs any more.

Knows engines by their interface only. A collection never removes one that a paused kernel needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..engines.base import Leftover, Snapshot, SnapshotEngine
from ..engines.registry import Engines
from ..errors import GkewsError
from .records import PausedRecord, PausedRecords


class SnapshotShelf:
    """Lists and deletes snapshots. All methods read the disk: call them in a thread."""

    def __init__(
        self,
        engines: Engines,
        records: PausedRecords,
        busy: Callable[[], set[str]] = set,
        frozen: Callable[[], set[str]] = set,
    ) -> None:
        self._engines, self._records = engines, records
        self._busy = busy  # kernels of this server on which an operation runs just now
        self._frozen = frozen  # snapshots of which kernels of this server would be resumed

    def all(self) -> list[dict[str, Any]]:
        """All snapshots, newest first."""
        found = [
            self._shown(engine, snapshot)
            for engine in self._engines.with_images()
            for snapshot in engine.snapshots()
        ]
        return sorted(found, key=lambda shown: str(shown["created"]), reverse=True)

    def get(self, snapshot: str) -> dict[str, Any]:
        """One snapshot; raises `snapshot_not_found`."""
        return self._shown(*self._find(snapshot))

    def delete(self, snapshot: str) -> dict[str, Any]:
        """Delete one; {"bytes_freed", "kernel", "checkpoint"}. A paused kernel that needs it is
        resumed from that checkpoint from now on.

        Raises `snapshot_not_found`, `operation_running`, `paused_elsewhere`,
        and `checkpoint_in_use` for one that is all there is of a paused kernel.
        """
        engine, found = self._find(snapshot)
        if found.kernel in self._busy():
            raise GkewsError(
                "operation_running",
                "The kernel of this snapshot is being paused or resumed.",
                "Nothing was deleted. Wait until that has ended.",
            )
        record = self._records.get(found.kernel)
        if record is not None and record.snapshot == snapshot:
            self._let_record_go(record)
        freed = engine.delete(snapshot)
        checkpoint = found.checkpoint if record is None else record.checkpoint
        return {"bytes_freed": freed, "kernel": found.kernel, "checkpoint": checkpoint or None}

    def _let_record_go(self, record: PausedRecord) -> None:
        """Let the kernel be resumed from its checkpoint: durable before the image goes."""
        if record.checkpoint is None:
            raise GkewsError(
                "checkpoint_in_use",
                "This snapshot is all there is of a paused kernel, which has no checkpoint.",
                "Nothing was deleted. Resume the kernel, or shut it down, and the snapshot goes.",
            )
        ours = self._records.owned(record.kernel)
        if not ours and not self._records.claim(record.kernel):
            raise GkewsError(
                "paused_elsewhere",
                "The paused kernel that needs this snapshot is held by another server.",
                "Nothing was deleted. Delete it there, or resume the kernel there.",
            )
        try:
            self._records.update(record.kernel, snapshot=None)
        finally:
            if not ours:
                self._records.give_up(record.kernel)

    def collect(self, *, dry_run: bool) -> dict[str, Any]:
        """Remove (or tell) what no paused kernel needs: images of kernels that go on without them
        or are gone, and what tries left that ended half way.

        {"count", "bytes", "removed": [{"id", "kernel", "created", "bytes", "why"}], "held":
        {"count", "bytes"} (of all, before)}
        """
        removed, held = [], {"count": 0, "bytes": 0}
        for engine, row in self._rows():
            held["count"] += 1
            held["bytes"] += row["bytes"]
            if row["why"] is not None:
                if not dry_run:
                    engine.delete(row["id"])
                removed.append(row)
        nbytes = sum(row["bytes"] for row in removed)
        return {"count": len(removed), "bytes": nbytes, "removed": removed, "held": held}

    def tidy(self, *, dry_run: bool) -> list[Leftover]:
        """Remove (or tell) what processes that ended with their server have left besides images."""
        return self._engines.tidy(dry_run=dry_run)

    def _rows(self) -> Iterator[tuple[SnapshotEngine, dict[str, Any]]]:
        """All that lies on the disk; `why` nobody needs it, or None."""
        for engine in self._engines.with_images():
            for snapshot in engine.snapshots():
                shown = snapshot.to_json()
                row = {key: shown[key] for key in ("id", "kernel", "created", "bytes")}
                yield engine, {**row, "why": self._why_not_needed(snapshot)}
            for left in engine.leftovers():
                why = "the pause that took it ended before it was whole"
                row = {"id": left.id, "kernel": None, "created": None, "bytes": left.bytes}
                yield engine, {**row, "why": why}

    def _why_not_needed(self, snapshot: Snapshot) -> str | None:
        """Why nobody needs it; None if somebody does, or may."""
        kernel = snapshot.kernel
        if kernel in self._busy() or kernel in self._records.unreadable():
            return None
        if snapshot.id in self._frozen():
            return None
        record = self._records.get(kernel)
        if record is None:
            return "its kernel is not paused any more"
        if record.snapshot == snapshot.id:
            return None
        if record.snapshot is None:
            if self._records.owned_elsewhere(kernel):
                return None  # that server may be about to note it
            if record.engine and snapshot.created >= record.since:
                return None  # its server died before it noted it: the next one does (adoption)
        return "its kernel was paused again, or rests on its checkpoint"

    def _find(self, snapshot: str) -> tuple[SnapshotEngine, Snapshot]:
        for engine in self._engines.with_images():
            found = engine.find(snapshot)
            if found is not None:
                return engine, found
        raise GkewsError(
            "snapshot_not_found",
            f"There is no process snapshot {snapshot!r}.",
            "Its kernel was resumed, or it was deleted. Checkpoints are kept.",
        )

    def _shown(self, engine: SnapshotEngine, snapshot: Snapshot) -> dict[str, Any]:
        record = self._records.get(snapshot.kernel)
        needed = snapshot.id in self._frozen()
        needed = needed or (record is not None and record.snapshot == snapshot.id)
        problem = None
        with contextlib.suppress(OSError):
            problem = engine.unfit(snapshot)
        return {
            **snapshot.to_json(),
            "notebook": record.notebook if record is not None else None,
            "in_cell": record is not None and record.in_cell,
            "in_use": needed,
            "unneeded": None if needed else self._why_not_needed(snapshot),
            "problem": problem.to_json() if problem is not None else None,
        }
