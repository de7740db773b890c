"""Chunks of one checkpoint are checked by several threads, which leave the imports a core."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_gkews.kernel.checkpoint import chunks, mapping
from jupyter_gkews.kernel.checkpoint.manifest import Manifest
from jupyter_gkews.kernel.checkpoint.memory import CheckpointMemory, DamagedError
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

#: Seconds that no thread of a test that passes waits.
LONG_S = 60.0
_FOUR = 4 * chunks.CHUNK // 8


@pytest.fixture
def saved(store: CheckpointStore) -> CheckpointStore:
    """One array of four chunks, beside what of the process is kept."""
    save({"numbers": np.arange(_FOUR, dtype=np.int64)}, store, checkpoint="one", prove=False)
    return store


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], threading.Semaphore]:
    """Checks that wait until so many have begun at the same time; a permit for each that has."""
    monkeypatch.setattr(chunks, "threads", lambda: 4)

    def set_up(together: int) -> threading.Semaphore:
        begun, real = threading.Semaphore(0), chunks.matches
        barrier, awaited = threading.Barrier(together), iter(range(together))

        def matches(*args: Any, **kwargs: Any) -> bool:
            begun.release()
            if next(awaited, None) is not None:  # numpy's random numbers may be one chunk more
                barrier.wait(LONG_S)
            return real(*args, **kwargs)

        monkeypatch.setattr(chunks, "matches", matches)
        return begun

    return set_up


def _view(manifest: Manifest) -> int:
    """The number of the view that is the array."""
    return max(range(len(manifest.views)), key=lambda number: manifest.views[number][2])


def _verifying() -> int:
    return sum(thread.name == "gkews-verify" for thread in threading.enumerate())


def test_one_array_is_checked_by_all_threads_once_the_imports_are_done(
    saved: CheckpointStore, met: Callable[[int], threading.Semaphore]
) -> None:
    begun = met(4)
    with CheckpointMemory(saved, saved.manifest("one"), "fast") as memory:
        for _ in range(2):
            assert begun.acquire(timeout=LONG_S)
        assert _verifying() == 2  # of four: a core is for the imports
        memory.imports_done()
        memory.check_all()
        assert memory.bytes_done == memory.bytes_total
    assert _verifying() == 0


def test_leaving_early_ends_the_threads_though_chunks_are_left(
    saved: CheckpointStore, met: Callable[[int], threading.Semaphore]
) -> None:
    met(1)
    with CheckpointMemory(saved, saved.manifest("one"), "fast"):
        pass
    assert _verifying() == 0


def test_a_damaged_chunk_in_the_middle_spoils_what_stands_on_it(saved: CheckpointStore) -> None:
    manifest = saved.manifest("one")
    block = max(manifest.blocks, key=len)
    path = saved.chunk_path(manifest.chunk(block[2]).name)
    path.chmod(0o600)
    with open(path, "r+b") as file:
        file.write(b"\xff")
    with CheckpointMemory(saved, manifest, "fast") as memory:
        memory.imports_done()
        memory.check_all()
        with pytest.raises(DamagedError, match="has other bytes than were saved"):
            memory.view(_view(manifest))


def test_memory_that_cannot_be_asked_for_is_read_when_it_is_used(
    saved: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(address: int, nbytes: int) -> None:
        raise OSError("no")

    monkeypatch.setattr(mapping, "read_ahead", broken)
    with CheckpointMemory(saved, saved.manifest("one"), "fast") as memory:
        memory.imports_done()
        memory.check_all()
        buffer, _ = memory.view(_view(saved.manifest("one")))
        assert np.array_equal(np.frombuffer(buffer, np.int64), np.arange(_FOUR))
