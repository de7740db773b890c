"""A damaged chunk costs the variables that stand on it, by name, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import mapping
from jupyter_gkews.kernel.checkpoint.placeholders import Lost
from jupyter_gkews.kernel.checkpoint.restore import RestoreReport, restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

CELLS = """
import numpy as np
huge = np.arange(6_000_000)          # 48 MB: three chunks
front, back = huge[:1000], huge[-1000:]
head = {'inside': front}
other = np.ones(300_000)             # a block of its own
tiny = [np.full(2000, n) for n in range(3)]   # packed together
text = bytearray(b'q' * 9000)
plain = {'a': [1, 2, 3]}
same = plain
"""


def spoil(path: Path, fault: str) -> None:
    """Flip a byte, cut the file off, or take it away."""
    data = bytearray(path.read_bytes())
    path.unlink()
    if fault == "flipped":
        data[len(data) // 2] ^= 1
    if fault != "gone":
        path.write_bytes(data[:-1] if fault == "truncated" else data)


def chunk_holding(store: CheckpointStore, checkpoint: str, block_bytes: int, which: int) -> Path:
    """The file of the `which`-th chunk of the block of this size."""
    manifest = store.manifest(checkpoint)
    for block in manifest.blocks:
        if sum(manifest.chunk(i).nbytes for i in block) == block_bytes:
            return store.chunk_path(manifest.chunk(block[which]).name)
    raise AssertionError("no such block")


def restored(store: CheckpointStore, verify: str = "fast") -> tuple[dict[str, Any], RestoreReport]:
    target: dict[str, Any] = {}
    return target, restore(target, store, "one", verify=verify)


def lost_names(report: RestoreReport) -> set[str]:
    """Of variables: what this process holds in small memory (states of random numbers) may lie in
    the same chunk."""
    return {row["name"] for row in report.lost if not row["name"].startswith("a part of ")}


@pytest.mark.parametrize("fault", ["flipped", "truncated", "gone"])
@pytest.mark.parametrize("verify", ["fast", "full"])
def test_a_chunk_of_a_shared_block_takes_the_variables_on_it_and_no_others(
    store: CheckpointStore, namespace: Make, fault: str, verify: str
) -> None:
    save(namespace(CELLS), store, checkpoint="one", prove=False)
    spoil(chunk_holding(store, "one", 48_000_000, -1), fault)
    target, report = restored(store, verify)
    assert lost_names(report) == {"huge", "back"}
    assert all("memory is damaged: chunk blake3-" in row["reason"] for row in report.lost)
    assert all(row["reason"].startswith("an array:") for row in report.lost)
    assert type(target["huge"]) is Lost and type(target["back"]) is Lost
    # the first chunk of the same block is whole: what stands on it alone is right
    assert target["front"][-1] == 999 and target["head"]["inside"] is target["front"]
    assert target["other"].sum() == 300_000 and target["tiny"][2][0] == 2
    assert target["text"] == b"q" * 9000 and target["same"] is target["plain"]
    assert report.kept + report.rebuilt + 2 == len(target)


@pytest.mark.parametrize("mapped", [True, False])
def test_packed_small_memory_is_lost_by_name(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    if not mapped:
        monkeypatch.setattr(mapping, "_libc", None)
    save(namespace(CELLS), store, checkpoint="one", prove=False)
    packed = min(store.root.glob("chunks/*/*"), key=lambda path: path.stat().st_size)
    spoil(packed, "flipped")
    target, report = restored(store)
    assert lost_names(report) == {"tiny[0]", "tiny[1]", "tiny[2]"}
    assert len(target["tiny"]) == 3 and target["text"] == b"q" * 9000
    assert target["huge"][-1] == 5_999_999 and target["front"].base is not None
    assert target["plain"] == {"a": [1, 2, 3]}


def test_frames_and_out_of_band_buffers_are_lost_by_name(
    store: CheckpointStore, namespace: Make
) -> None:
    cells = """
import numpy as np, pandas as pd, pickle
class Held:
    def __init__(self, data): self.data = data
    def __reduce_ex__(self, protocol): return Held, (pickle.PickleBuffer(self.data),)
held = Held(np.arange(400_000))
frame = pd.DataFrame({'x': np.arange(500_000), 'y': np.arange(500_000.)})
fine = pd.Series(range(5))
"""
    save(namespace(cells), store, checkpoint="one", prove=False)
    for path in store.root.glob("chunks/*/*"):
        if path.stat().st_size > 1_000_000:
            spoil(path, "flipped")
    target, report = restored(store)
    named = " ".join(lost_names(report))
    assert "held" in named and "frame" in named and "fine" not in named
    with pytest.raises(Exception, match="memory is damaged"):
        target["frame"]["x"].sum()
    assert list(target["fine"]) == [0, 1, 2, 3, 4]


def test_tied_weights_are_lost_together_and_the_rest_of_the_model_is_there(
    store: CheckpointStore, namespace: Make
) -> None:
    pytest.importorskip("torch")
    cells = """
import torch
one = torch.nn.Linear(800, 800, bias=False)
two = torch.nn.Linear(800, 800, bias=False)
two.weight = one.weight
three = torch.nn.Linear(700, 700, bias=False)
n = 5
"""
    save(namespace(cells), store, checkpoint="one", prove=False)
    spoil(chunk_holding(store, "one", 800 * 800 * 4, 0), "flipped")
    target, report = restored(store)
    lost = lost_names(report)
    assert any(name.startswith("one") for name in lost)
    assert any(name.startswith("two") for name in lost)
    assert not any(name.startswith("three") for name in lost)
    assert target["n"] == 5
    assert target["three"].weight.shape == (700, 700) and bool(
        target["three"].weight.isfinite().all()
    )


def test_with_every_chunk_gone_what_needs_none_is_there(
    store: CheckpointStore, namespace: Make
) -> None:
    save(namespace(CELLS), store, checkpoint="one", prove=False)
    for path in store.root.glob("chunks/*/*"):
        path.unlink()
    target, report = restored(store)
    assert target["plain"] == {"a": [1, 2, 3]} and target["same"] is target["plain"]
    assert {"huge", "front", "other"} <= lost_names(report)


def test_the_next_save_after_a_damaged_load_writes_the_truth(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(CELLS)
    save(live, store, checkpoint="one", prove=False)
    spoil(chunk_holding(store, "one", 48_000_000, 0), "flipped")
    target, _ = restored(store)
    save(target, store, checkpoint="two", prove=False)
    again: dict[str, Any] = {}
    report = restore(again, store, "two", verify="full")
    assert type(again["huge"]) is Lost and again["back"][0] == 5_999_000
    assert "memory is damaged" in " ".join(row["reason"] for row in report.lost)
    # who still has the numbers writes the chunk again
    save(live, store, checkpoint="three", prove=False)
    assert restore({}, store, "three", verify="full").lost == []


@pytest.mark.parametrize("fault", ["flipped", "truncated", "gone"])
@pytest.mark.parametrize("name", ["graph.pkl", "manifest.json"])
def test_a_damaged_graph_or_manifest_is_refused_and_the_good_one_before_it_offered(
    store: CheckpointStore, namespace: Make, fault: str, name: str
) -> None:
    kernel = {"id": "k1", "name": "python3"}
    for checkpoint, whose in (("one", kernel), ("elsewhere", {"id": "k2"}), ("bad", kernel)):
        save(namespace("a = 1"), store, checkpoint=checkpoint, kernel=whose, prove=False)
    spoil(store.directory("bad") / name, fault)
    target: dict[str, Any] = {"untouched": 1}
    with pytest.raises(GkewsError) as caught:
        restore(target, store, "bad")
    assert caught.value.reason == "checkpoint_damaged" and target == {"untouched": 1}
    if name == "graph.pkl":
        assert "The good checkpoint before it can be restored: one" in caught.value.hint
    else:
        assert "one" in caught.value.hint or "jupyter gkews list" in caught.value.hint
    assert restore({}, store, "one").kept == 1


def test_checkpoints_are_in_the_order_of_their_commits_whatever_the_clock_says(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datetime

    from jupyter_gkews.kernel.checkpoint import preparing

    class Jumping(datetime.datetime):
        at = datetime.datetime(2031, 5, 1, tzinfo=datetime.timezone.utc)

        @classmethod
        def now(cls, tz: Any = None) -> datetime.datetime:
            return cls.at

    monkeypatch.setattr(preparing, "datetime", Jumping)
    for number, year in enumerate((2031, 1999, 2025, 2025)):
        Jumping.at = Jumping.at.replace(year=year)
        if number == 2:
            (store.root / "sequence").unlink()  # lost: found again from the checkpoints
        save(namespace("a = 1"), store, checkpoint=f"c{number}", prove=False)
    assert [summary["id"] for summary in store.summaries()] == ["c3", "c2", "c1", "c0"]
    (store.directory("c1") / "graph.pkl").unlink()
    path = store.directory("c2") / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"mac": "', b'"mac": "0', 1))
    assert [summary["id"] for summary in store.summaries()] == ["c3", "c2", "c1", "c0"]
