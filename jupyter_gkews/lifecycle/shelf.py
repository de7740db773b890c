"""The checkpoints in the store as the user sees them: which a paused kernel needs, which may go.

Deletes only what no record of a paused kernel points to, of this server or of another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import GkewsError
from ..journal.pauses import WorkspacePauses
from .interfaces import Kernels, Store
from .records import PausedRecord, PausedRecords


class CheckpointShelf:
    """Lists and deletes checkpoints. All methods read the disk: call them in a thread."""

    def __init__(
        self,
        store: Store,
        records: PausedRecords,
        kernels: Kernels,
        loading: Callable[[], set[str]],
    ) -> None:
        self._store, self._records, self._kernels = store, records, kernels
        self._loading = loading  # the checkpoints that operations read just now

    def all(self) -> list[dict[str, Any]]:
        """All checkpoints, newest first, with `in_use` and `why_in_use`."""
        users = self._users()
        return [self._shown(summary, users) for summary in self._store.summaries()]

    def get(self, checkpoint: str) -> dict[str, Any]:
        """One checkpoint; raises `checkpoint_not_found`."""
        return self._shown(self._store.summary(checkpoint), self._users())

    def delete(self, checkpoint: str) -> int:
        """Delete a checkpoint; the bytes freed.

        Raises `checkpoint_not_found`, `checkpoint_in_use`. A record that no server owns and that
        none can bring back goes with it.
        """
        if checkpoint in self._loading():
            raise GkewsError(
                "checkpoint_in_use",
                "The checkpoint is being loaded into a kernel.",
                "Nothing was deleted. Wait until that has ended.",
            )
        users = self._users().get(checkpoint, [])
        for record in users:
            if (why := self._why_in_use(record)) is not None:
                raise GkewsError("checkpoint_in_use", why, "Nothing was deleted.")
        abandoned = []
        try:
            for record in users:
                # claimed first, so that no server adopts the kernel while its checkpoint goes
                if not self._records.claim(record.kernel):
                    raise GkewsError(
                        "checkpoint_in_use",
                        "Another server has just taken the paused kernel over that needs it.",
                        "Nothing was deleted.",
                    )
                abandoned.append(record.kernel)
            freed = self._store.delete(checkpoint)
        except BaseException:
            for kernel in abandoned:
                self._records.give_up(kernel)
            raise
        for kernel in abandoned:
            self._records.remove(kernel)
        return freed

    def prune(self, kernel: str, keep: int) -> list[str]:
        """Delete the oldest unnamed checkpoints of a kernel beyond `keep`; the ids deleted."""
        summaries = self._store.summaries()
        in_use = self._needed(summaries) | self._loading()
        unnamed = [
            summary["id"]
            for summary in summaries
            if (summary.get("kernel") or {}).get("id") == kernel
            and summary.get("name") is None
            and summary.get("error") is None
        ]
        old = [identifier for identifier in unnamed[max(1, keep) :] if identifier not in in_use]
        for identifier in old:
            self._store.delete(identifier)
        return old

    def collect(
        self, *, older_than_s: float | None, keep: int | None, dry_run: bool
    ) -> dict[str, Any]:
        """Remove what no manifest names, and old checkpoints as asked (Store.collect). Never one
        that a paused kernel needs or an operation reads."""
        return self._store.collect(
            older_than_s=older_than_s,
            keep=keep,
            protected=frozenset(self._needed(self._store.summaries()) | self._loading()),
            dry_run=dry_run,
        )

    def _needed(self, summaries: list[dict[str, Any]]) -> set[str]:
        return needed(self._records, WorkspacePauses(self._store.root), summaries)

    def _users(self) -> dict[str, list[PausedRecord]]:
        users: dict[str, list[PausedRecord]] = {}
        for record in self._records:
            if record.checkpoint is not None:
                users.setdefault(record.checkpoint, []).append(record)
        return users

    def _why_in_use(self, record: PausedRecord) -> str | None:
        """Why the checkpoint of a record must stay; None for one that nobody can bring back."""
        what = f"The paused kernel {record.kernel[:8]}"
        if record.notebook:
            what += f" of {record.notebook}"
        if self._records.owned(record.kernel):
            return f"{what} needs it: resume or shut down the kernel first."
        if self._records.owned_elsewhere(record.kernel):
            return f"{what}, held by another server, needs it."
        if (
            record.notebook
            and os.path.isfile(record.notebook)
            and self._kernels.has_kernelspec(record.kernel_name)
        ):
            return f"{what} needs it: a server started above that folder offers it again."
        return None

    def _shown(
        self, summary: dict[str, Any], users: dict[str, list[PausedRecord]]
    ) -> dict[str, Any]:
        why = None
        for record in users.get(summary["id"], []):
            why = why or self._why_in_use(record)
        return {**summary, "in_use": why is not None, "why_in_use": why}


def needed(
    records: PausedRecords, pauses: WorkspacePauses, summaries: list[dict[str, Any]]
) -> set[str]:
    """The checkpoints that paused kernels need, whoever holds them, and those of a pause of the
    workspace whose end is not known. Where a record cannot be read, every checkpoint of its kernel
    may be the one."""
    unreadable = records.unreadable()
    found = {record.checkpoint for record in records}
    found |= {kernel.checkpoint for entry in pauses.open_entries() for kernel in entry.kernels}
    return {checkpoint for checkpoint in found if checkpoint is not None} | {
        summary["id"]
        for summary in summaries
        if (summary.get("kernel") or {}).get("id") in unreadable
    }
