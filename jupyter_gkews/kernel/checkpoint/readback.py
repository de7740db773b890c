"""Reads a checkpoint back from the disk and compares the hashes: the bytes are those that were
meant. It unpickles nothing, so it cannot tell whether they can be loaded.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ...errors import GkewsError
from . import chunks as storing
from .chunks import Chunk
from .staging import StagedStore
from .workers import Workers

if TYPE_CHECKING:
    from .manifest import Manifest
    from .store import CheckpointStore


def read_back(
    store: CheckpointStore,
    manifest: Manifest,
    staging: Path,
    check: Callable[[], None],
    *,
    chunks: bool = True,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Read the graph, and with `chunks` all memory, of the checkpoint in `staging`.

    `check` is called often and may raise; `progress(bytes)`. Raises verification_failed.
    """
    graph = manifest.graph
    wanted = str(graph["name"])
    try:
        same = storing.name_of_file(staging / "graph.pkl", wanted.split("-", 1)[0]) == wanted
    except OSError as error:
        raise _failed(f"its graph cannot be read ({error.strerror})") from None
    if not same:
        raise _failed("its graph has other bytes than were written")
    if chunks:
        reader = _Reader(StagedStore(store.root, manifest.id, staging), manifest)
        reader.start()
        try:
            while not reader.wait(0.05):
                check()
                progress(reader.bytes_done)
        finally:
            reader.stop()
        if reader.wrong:
            raise _failed(reader.wrong)


class _Reader:
    """Threads that read chunk after chunk."""

    def __init__(self, store: CheckpointStore, manifest: Manifest) -> None:
        self._store = store
        self._todo = [manifest.chunk(i) for i in range(len(manifest.chunks))]
        self._workers: Workers | None = None
        self._lock = threading.Lock()
        self.wrong = ""
        self.bytes_done = 0

    def start(self) -> None:
        self._workers = Workers("read-back", self._run, len(self._todo))

    def wait(self, timeout_s: float) -> bool:
        return self._workers is None or self._workers.wait(timeout_s)

    def stop(self) -> None:
        with self._lock:
            self._todo.clear()
        if self._workers is not None:
            self._workers.end()

    def _run(self) -> None:
        buffer: Any = storing.aligned_buffer()
        while not self.wrong:
            with self._lock:
                if not self._todo:
                    return
                chunk = self._todo.pop()
            wrong = self._look(chunk, buffer)
            with self._lock:
                self.bytes_done += chunk.nbytes
                self.wrong = self.wrong or wrong

    def _look(self, chunk: Chunk, buffer: Any) -> str:
        try:
            data = storing.read_past_cache(self._store.chunk_path(chunk.name), buffer, chunk.nbytes)
        except OSError as error:
            return f"the chunk {chunk.name} cannot be read ({error.strerror or error})"
        if not storing.matches(data, chunk, full=False):
            return f"the chunk {chunk.name} has other bytes than were written"
        return ""


def _failed(what: str) -> GkewsError:
    return GkewsError(
        "verification_failed",
        f"The checkpoint was read back from the disk, and {what}.",
        "Nothing was released: the kernel and all earlier checkpoints are as they were. Check the "
        "disk.",
    )
