"""A checkpoint that is being written: readable as if it were in the store, listed nowhere."""

from __future__ import annotations

from pathlib import Path

from .store import CheckpointStore


class StagedStore(CheckpointStore):
    """The store at `root`, with checkpoint `checkpoint` (and its new chunks) in `staging`."""

    def __init__(self, root: Path | str, checkpoint: str, staging: Path | str) -> None:
        super().__init__(root)
        self._checkpoint = checkpoint
        self._staging = Path(staging)

    def directory(self, checkpoint: str) -> Path:
        """The staging directory for the staged checkpoint."""
        if checkpoint == self._checkpoint:
            return self._staging
        return super().directory(checkpoint)

    def chunk_path(self, name: str) -> Path:
        """The staged chunk, or the stored one."""
        path = super().chunk_path(name)
        staged = self._staging / "chunks" / name
        return staged if staged.exists() else path
