"""A save that has to start again without a name, because a test load showed it to be wanting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

np = pytest.importorskip("numpy")

CELL = """
class Deadly:
    def __reduce__(self):
        return (make, ())

def make():
    import os

    if os.environ.get("JUPYTER_GKEWS_SCRATCH"):
        os._exit(3)
    return Deadly()

deadly = Deadly()
"""


def test_memory_that_was_written_for_the_first_try_is_used_by_the_second(
    store: CheckpointStore, namespace: Callable[..., dict[str, Any]]
) -> None:
    cells = namespace(CELL)
    cells["numbers"] = np.arange(1_000_000.0)  # 8 MB: a chunk of its own

    summary = save(cells, store, checkpoint="second-try")

    assert [row["name"] for row in summary["lost"]] == ["deadly"]
    assert "loading it ends the process" in summary["lost"][0]["reason"]
    found: dict[str, Any] = {}
    restore(found, store, "second-try", verify="full")
    assert np.array_equal(found["numbers"], cells["numbers"])


@pytest.mark.parametrize("memory", ["the same", "a copy"])
def test_a_chunk_that_was_damaged_in_the_store_is_written_again(
    store: CheckpointStore, memory: str
) -> None:
    live = {"x": np.arange(3_000_000)}
    save(live, store, checkpoint="first")
    for path in (store.root / "chunks").glob("*/*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    if memory == "a copy":
        live = {"x": live["x"].copy()}
    summary = save(live, store, checkpoint="second")
    assert summary["bytes"]["written"] > live["x"].nbytes
    for checkpoint in ("first", "second"):
        target: dict[str, Any] = {}
        restore(target, store, checkpoint)
        assert (target["x"] == live["x"]).all()


def test_a_chunk_that_is_whole_is_not_written_again(store: CheckpointStore) -> None:
    live = {"x": np.arange(3_000_000)}
    save(live, store, checkpoint="first")
    for value in (live["x"], live["x"].copy()):
        summary = save({"x": value}, store, checkpoint=f"again-{id(value)}")
        assert summary["bytes"]["written"] < 100_000
