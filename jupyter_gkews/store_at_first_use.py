"""The checkpoint store as the server has it: imported, with its hash functions, when it is first
asked. A server that never pauses does without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import GkewsError

if TYPE_CHECKING:
    from .kernel.checkpoint.manifest import Manifest
    from .kernel.checkpoint.store import CheckpointStore


class StoreAtFirstUse:
    """The checkpoint store, imported (with its hash functions) when it is first asked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _store(self) -> CheckpointStore:
        from .kernel.checkpoint.store import CheckpointStore

        return CheckpointStore(self.root)

    def summaries(self) -> list[dict[str, Any]]:
        """As CheckpointStore."""
        return self._store.summaries()

    def summary(self, checkpoint: str) -> dict[str, Any]:
        """As CheckpointStore."""
        return self._store.summary(checkpoint)

    def manifest(self, checkpoint: str) -> Manifest:
        """As CheckpointStore."""
        return self._store.manifest(checkpoint)

    def missing_files(self, checkpoint: str, stop: Callable[[], bool]) -> GkewsError | None:
        """As CheckpointStore."""
        return self._store.missing_files(checkpoint, stop)

    def delete(self, checkpoint: str) -> int:
        """As CheckpointStore."""
        return self._store.delete(checkpoint)

    def collect(
        self,
        *,
        older_than_s: float | None,
        keep: int | None,
        protected: frozenset[str],
        dry_run: bool,
    ) -> dict[str, Any]:
        """As CheckpointStore."""
        return self._store.collect(
            older_than_s=older_than_s, keep=keep, protected=protected, dry_run=dry_run
        )

    def sweep(self) -> int:
        """Remove what dead saves left half written, unless a save runs; the bytes freed."""
        if not any((self.root / "checkpoints").glob(".*")):
            return 0
        return self._store.gc()
