"""Whatever goes wrong in a save, what was there before is there afterwards, and nothing else."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

CELLS = "import numpy as np\nbig = np.arange(4_000_000)\nsmall = {'a': [1, 2]}"


def contents(store: CheckpointStore) -> set[str]:
    found = set()
    for folder, folders, files in os.walk(store.root):
        found |= {str(Path(folder, name).relative_to(store.root)) for name in [*folders, *files]}
    return found - {"lock"}


@pytest.fixture
def live(store: CheckpointStore, namespace: Make) -> dict[str, Any]:
    """A namespace with one good checkpoint, changed since."""
    live = namespace(CELLS)
    save(live, store, checkpoint="good", prove=False)
    live["big"] = live["big"] + 1
    return live


def assert_only_the_good_one(store: CheckpointStore, before: set[str]) -> None:
    assert contents(store) == before
    assert [summary["id"] for summary in store.summaries()] == ["good"]
    target: dict[str, Any] = {}
    restore(target, store, "good", verify="full")
    assert target["big"][1] == 1 and target["small"] == {"a": [1, 2]}


def test_a_full_disk_leaves_the_kernel_and_the_last_good_checkpoint(
    store: CheckpointStore, live: dict[str, Any]
) -> None:
    before = contents(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A real refusal by the kernel at different places: in the graph, and in a chunk.
    for limit in (100, 1 << 20):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(GkewsError) as caught:
                save(live, store, checkpoint="bad", prove=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.reason == "disk_full" and "as they were" in caught.value.hint
        assert_only_the_good_one(store, before)
    assert live["big"][0] == 1
    assert save(live, store, checkpoint="better", prove=False)["counts"]["kept"] == 3


def test_a_store_that_cannot_be_written_is_said_to_be_so(namespace: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for root in (tmp_path / "file" / "store", Path("/proc/jupyter-gkews-store")):
        with pytest.raises(GkewsError) as caught:
            save(namespace("a = 1"), CheckpointStore(root), checkpoint="x", prove=False)
        assert caught.value.reason == "store_not_writable"


@pytest.mark.parametrize("step", ["graph", "writing", "verifying", "committing"])
def test_a_cancel_is_honoured_within_a_second_of_work_and_leaves_nothing(
    store: CheckpointStore, live: dict[str, Any], step: str
) -> None:
    before = contents(store)
    asked: list[float] = []

    def progress(now: str, _done: int, _total: int) -> None:
        if now == step and not asked:
            asked.append(time.process_time())

    with pytest.raises(GkewsError) as caught:
        if step == "committing":
            # the last moment at which it can be asked: after the proof
            save(
                live,
                store,
                checkpoint="bad",
                cancelled=lambda: bool(asked),
                progress=lambda now, done, total: (
                    asked.append(time.process_time())
                    if now == "verifying" and done == total and not asked
                    else None
                ),
            )
        else:
            save(
                live,
                store,
                checkpoint="bad",
                progress=progress,
                cancelled=lambda: bool(asked),
            )
    assert caught.value.reason == "cancelled"
    # of this process alone: what the machine does meanwhile is no matter of the cancel
    assert time.process_time() - asked[0] < 1.0
    assert_only_the_good_one(store, before)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gkews-")]


def test_a_cancel_is_honoured_in_the_middle_of_one_variable(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(
        """
import time
seen = []
class Slow:
    def __getstate__(self):
        seen.append(1)
        time.sleep(0.02)
        return {}
many = [Slow() for _ in range(400)]
"""
    )
    with pytest.raises(GkewsError) as caught:
        save(live, store, checkpoint="bad", prove=False, cancelled=lambda: len(live["seen"]) > 3)
    assert caught.value.reason == "cancelled"
    assert len(live["seen"]) < 10
    assert not store.directory("bad").exists()


def test_a_checkpoint_is_never_overwritten(store: CheckpointStore, live: dict[str, Any]) -> None:
    before = contents(store)
    with pytest.raises(GkewsError) as caught:
        save(live, store, checkpoint="good", prove=False)
    assert caught.value.reason == "checkpoint_failed"
    assert_only_the_good_one(store, before)


def test_a_save_from_another_thread_works_too(store: CheckpointStore, live: dict[str, Any]) -> None:
    result: list[Any] = []
    thread = threading.Thread(
        target=lambda: result.append(save(live, store, checkpoint="two", prove=False))
    )
    thread.start()
    thread.join()
    assert result[0]["counts"]["kept"] == 3


def test_memory_that_a_thread_changes_meanwhile_is_stored_as_it_was_at_some_moment(
    store: CheckpointStore, live: dict[str, Any]
) -> None:
    stop, big = threading.Event(), live["big"]

    def spin() -> None:
        while not stop.is_set():
            big[::512] += 1

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        save(live, store, checkpoint="moving", prove=False)
    finally:
        stop.set()
        thread.join()
    target: dict[str, Any] = {}
    restore(target, store, "moving", verify="full")
    assert target["big"][1] == 2 and target["big"].shape == big.shape
