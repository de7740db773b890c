"""The hidden folder in which a checkpoint is written, and the rename that makes it one.

Until that rename nothing of it can be seen in the store; nothing that is there is ever overwritten.
"""

from __future__ import annotations

import os
import shutil
import threading

from ...errors import GkewsError
from . import chunks
from .manifest import Manifest, render
from .store import CheckpointStore
from .writing import install

#: Seconds that the removal of what a save has left may keep its kernel.
REMOVE_S = 0.3


class Staging:
    """The folder `.saving-<id>-...` of one save."""

    def __init__(self, store: CheckpointStore, checkpoint: str) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self.path = store.directory(checkpoint).with_name(
            f".saving-{checkpoint}-{os.urandom(4).hex()}"
        )
        self.graph = self.path / "graph.pkl"
        self.chunks = self.path / "chunks"

    def make(self) -> None:
        """Make it. Raises checkpoint_failed if there is such a checkpoint already; OSError."""
        if self._store.directory(self._checkpoint).exists():
            raise GkewsError(
                "checkpoint_failed",
                f"There is a checkpoint {self._checkpoint} already.",
                "It was not touched. Checkpoints are never overwritten.",
            )
        os.mkdir(self.path, 0o700)
        os.mkdir(self.chunks, 0o700)

    def write_manifest(self, manifest: Manifest, key: bytes, *, durable: bool = False) -> None:
        """manifest.json, signed; in place of the one before. One that is only for a test load need
        not be `durable`. Raises OSError."""
        path = self.path / "manifest.json"
        if path.exists():
            path.unlink()
        chunks.write_file(path, [render(manifest, key)], durable=durable)

    def install(self, new: list[str]) -> None:
        """Move the chunks `new` into the store, durable. Raises OSError."""
        install(self._store, self.chunks, new)
        shutil.rmtree(self.chunks)

    def commit(self, manifest: Manifest, key: bytes) -> None:
        """Write the final manifest and make the checkpoint visible, durable. Raises OSError."""
        manifest.sequence = self._store.next_sequence()
        self.write_manifest(manifest, key, durable=True)
        chunks.fsync_file(self.path)
        final = self._store.directory(self._checkpoint)
        os.rename(self.path, final)
        chunks.fsync_file(final.parent)

    def remove(self) -> None:
        """Whatever is left of it; nothing after a commit. Gigabytes take the disk seconds, and
        nobody waits for it; what a dying process leaves, the next collection takes."""
        if not self.path.exists():
            return
        remover = threading.Thread(
            target=shutil.rmtree, args=(self.path, True), name="gkews-remove", daemon=True
        )
        remover.start()
        remover.join(REMOVE_S)
