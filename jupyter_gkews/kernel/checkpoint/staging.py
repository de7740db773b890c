"""A checkpoint that is being written: readable as if it were in the store, listed nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from .store import CheckpointStore


class StagedStore(CheckpointStore):
    """The store at `root`, with checkpoint `checkpoint` (and its new chunks, all of which are
    there by now) in `staging`."""

    def __init__(self, root: Path | str, checkpoint: str, staging: Path | str) -> None:
        super().__init__(root)
        self._checkpoint = checkpoint
        self._staging = Path(staging)
        try:
            self._new = frozenset(os.listdir(self._staging / "chunks"))
        except FileNotFoundError:
            self._new = frozenset()

    def directory(self, checkpoint: str) -> Path:
        """The staging directory for the staged checkpoint."""
        if checkpoint == self._checkpoint:
            return self._staging
        return super().directory(checkpoint)

    def chunk_path(self, name: str) -> Path:
        """The staged chunk, or the stored one."""
        path = super().chunk_path(name)  # looks at the name first
        return self._staging / "chunks" / name if name in self._new else path
