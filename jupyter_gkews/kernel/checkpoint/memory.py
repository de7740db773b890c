"""The memory of a checkpoint being read: blocks are opened, checked by threads, handed out.

No byte of a chunk is handed out before it was checked; checking runs beside the imports. The
chunks themselves are never changed.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from ...errors import GkewsError
from . import chunks, mapping
from .known import FileIdentity, identity_of
from .manifest import Manifest
from .store import CheckpointStore


class CheckpointMemory:
    """Blocks of `manifest`, by index. `verify` ("fast", "full") and `trusted` as in `restore`.
    Use as a context manager: leaving it stops the threads."""

    def __init__(
        self,
        store: CheckpointStore,
        manifest: Manifest,
        verify: str,
        trusted: frozenset[str] = frozenset(),
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._verify = verify
        self._trusted = trusted
        self._blocks: dict[int, mapping.BlockMemory] = {}
        self._lock = threading.Lock()
        self._done = [threading.Event() for _ in manifest.blocks]
        self._errors: dict[int, GkewsError] = {}
        self._next = 0
        self._stop = False
        self._threads: list[threading.Thread] = []
        self.identities: dict[str, FileIdentity] = {}  # by chunk, from before it was read
        self.bytes_done = 0
        self.bytes_total = sum(manifest.chunk(i).nbytes for block in manifest.blocks for i in block)
        self._check_sizes()

    def _check_sizes(self) -> None:
        for index in range(len(self._manifest.chunks)):
            chunk = self._manifest.chunk(index)
            identity = identity_of(self._store.chunk_path(chunk.name))
            if identity is None:
                raise self._damaged(f"the chunk {chunk.name} is gone")
            self.identities[chunk.name] = identity
            size = identity[1]
            if size != chunk.nbytes:
                raise self._damaged(f"the chunk {chunk.name} has {size} bytes of {chunk.nbytes}")

    def _damaged(self, what: str) -> GkewsError:
        return GkewsError(
            "checkpoint_damaged",
            f"Checkpoint {self._manifest.id} is damaged: {what}.",
            "Nothing was loaded. Use an older checkpoint.",
        )

    def __enter__(self) -> CheckpointMemory:
        for _ in range(min(chunks.threads(), len(self._done))):
            thread = threading.Thread(target=self._work, name="gkews-verify", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while not self._stop:
            with self._lock:
                index = self._next
                self._next += 1
            if index >= len(self._done):
                return
            try:
                self._check(index)
            except GkewsError as error:
                self._errors[index] = error
            except OSError as error:
                self._errors[index] = self._damaged(f"a chunk cannot be read ({error.strerror})")
            except BaseException as error:
                self._errors[index] = self._damaged(f"a chunk cannot be checked ({error})")
            finally:
                self._done[index].set()

    def _check(self, index: int) -> None:
        block = self._open(index)
        offset = 0
        for number in self._manifest.blocks[index]:
            if self._stop:
                return
            chunk = self._manifest.chunk(number)
            data = memoryview(block.view(offset, chunk.nbytes)).cast("B")
            trusted = chunk.name in self._trusted
            if not trusted and not chunks.matches(data, chunk, full=self._verify == "full"):
                raise self._damaged(f"the chunk {chunk.name} has other bytes than were saved")
            offset += chunk.nbytes
            self.bytes_done += chunk.nbytes

    def _open(self, index: int) -> mapping.BlockMemory:
        with self._lock:
            block = self._blocks.get(index)
            if block is None:
                parts = [self._manifest.chunk(i) for i in self._manifest.blocks[index]]
                paths = [self._store.chunk_path(part.name) for part in parts]
                try:
                    block = mapping.open_block(paths, [part.nbytes for part in parts])
                except OSError as error:
                    raise self._damaged(f"a chunk cannot be read ({error})") from None
                self._blocks[index] = block
        return block

    def check_all(self) -> None:
        """Wait until every chunk has been checked; raises checkpoint_damaged."""
        for index in range(len(self._done)):
            self._wait(index)

    def _wait(self, index: int) -> None:
        self._done[index].wait()
        error = self._errors.get(index)
        if error is not None:
            raise error

    def view(self, index: int) -> tuple[Any, bool]:
        """The buffer of view `index`, checked; and whether it should get memory of its own."""
        block, offset, nbytes, alone = self._manifest.views[index]
        self._wait(block)
        return self._open(block).view(offset, nbytes), bool(alone)

    def ranges(self) -> list[tuple[int, int, chunks.Chunk]]:
        """(address, nbytes, chunk) of what is mapped: what a later save need not write again."""
        found = []
        for index, block in self._blocks.items():
            offset = 0
            for number in self._manifest.blocks[index]:
                chunk = self._manifest.chunk(number)
                found.append((block.address + offset, chunk.nbytes, chunk))
                offset += chunk.nbytes
        return found


def torch_of(buffer: Any) -> Any:
    """A torch UntypedStorage on `buffer`."""
    torch = sys.modules["torch"]
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
