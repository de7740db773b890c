"""A store lists, trusts and deletes only what it should."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import chunks, manifest
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.store_at_first_use import StoreAtFirstUse

Make = Callable[..., dict[str, Any]]

BIG = "import numpy as np\nbig = np.arange(3_000_000)\nx = [1]"


def saved(store: CheckpointStore, make: Make, checkpoint: str = "one", cell: str = BIG) -> Path:
    save(make(cell), store, checkpoint=checkpoint, prove=False)
    return store.directory(checkpoint)


def refusal(store: CheckpointStore, checkpoint: str = "one") -> str:
    namespace = {"untouched": 1}
    with pytest.raises(GkewsError) as caught:
        restore(namespace, store, checkpoint)
    assert namespace == {"untouched": 1}
    assert caught.value.message and caught.value.hint
    return caught.value.reason


def test_everything_in_a_store_is_private_even_under_a_lax_umask(
    store: CheckpointStore, namespace: Make
) -> None:
    before = os.umask(0)
    try:
        saved(store, namespace)
    finally:
        os.umask(before)
    seen = set()
    for folder, folders, files in os.walk(store.root):
        for name in [*folders, *files, "."]:
            path = Path(folder, name)
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path
            seen.add(name)
    assert {"key", "manifest.json", "graph.pkl", "chunks"} <= seen


def test_a_checkpoint_is_listed_with_its_summary_newest_first(
    store: CheckpointStore, namespace: Make
) -> None:
    assert store.summaries() == []
    first = save(namespace("a = 1"), store, checkpoint="one", name="before", prove=False)
    second = save(namespace("g = (i for i in 'ab')"), store, checkpoint="two", prove=False)
    assert store.summaries() == [second, first]
    assert first["name"] == "before" and first["counts"] == {"kept": 1, "rebuilt": 0, "lost": 0}
    assert second["lost"] == [
        {"name": "g", "reason": "a generator: it could not be kept", "cell": None}
    ]
    assert store.summary("one") == first


def test_one_that_is_deleted_while_all_are_listed_is_left_out(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        save(namespace("a = 1"), store, checkpoint=name, prove=False)
    directories = store.directories

    def and_then_deleted() -> list[Path]:
        found = directories()
        CheckpointStore(store.root).delete("one")
        return found

    monkeypatch.setattr(store, "directories", and_then_deleted)
    assert [summary["id"] for summary in store.summaries()] == ["two"]


def test_a_checkpoint_id_cannot_leave_the_store(store: CheckpointStore) -> None:
    for name in ("../x", "", ".hidden", "a/b", "x" * 200):
        with pytest.raises(GkewsError) as caught:
            store.summary(name)
        assert caught.value.reason == "checkpoint_not_found"


def test_what_is_not_there_is_not_found(store: CheckpointStore) -> None:
    assert refusal(store, "nothing") == "checkpoint_not_found"


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_a_truncated_manifest_is_damaged(
    store: CheckpointStore, namespace: Make, length: int
) -> None:
    path = saved(store, namespace) / "manifest.json"
    path.write_bytes(path.read_bytes()[:length])
    assert refusal(store) == "checkpoint_damaged"
    (listed,) = store.summaries()
    assert listed["id"] == "one" and listed["error"]["reason"] == "checkpoint_damaged"


def test_an_unsigned_manifest_is_refused(store: CheckpointStore, namespace: Make) -> None:
    path = saved(store, namespace) / "manifest.json"
    content = json.loads(path.read_text())
    for signature in ({}, None, {"mac": ""}):
        path.write_text(json.dumps({**content, "signature": signature}))
        assert refusal(store) == "checkpoint_unsigned"


def test_a_changed_manifest_is_refused(store: CheckpointStore, namespace: Make) -> None:
    path = saved(store, namespace) / "manifest.json"
    content = json.loads(path.read_text())
    content["manifest"]["modules"].append("antigravity")
    path.write_text(json.dumps(content))
    assert refusal(store) == "checkpoint_damaged"


def test_a_checkpoint_of_another_user_is_refused(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    other = CheckpointStore(tmp_path / "other")
    other.prepare()
    shutil.copytree(saved(store, namespace), other.directory("one"))
    shutil.copytree(store.root / "chunks", other.root / "chunks", dirs_exist_ok=True)
    assert refusal(other) == "checkpoint_foreign_key"


@pytest.mark.parametrize("fault", ["gone", "cut off", "a folder"])
def test_a_store_whose_key_is_lost_says_so_and_makes_no_other(
    store: CheckpointStore, namespace: Make, fault: str
) -> None:
    saved(store, namespace)
    path = store.root / "key"
    key = path.read_bytes()
    path.unlink()
    if fault == "cut off":
        path.write_bytes(key[:16])
    elif fault == "a folder":
        path.mkdir()
    (listed,) = store.summaries()
    assert listed["error"]["reason"] == "checkpoint_foreign_key"
    assert "key is missing or damaged" in listed["error"]["message"]
    assert "Bring the file `key`" in listed["error"]["hint"]
    with pytest.raises(GkewsError) as caught:
        save(namespace("y = 1"), store, checkpoint="two", prove=False)
    assert caught.value.reason == "store_not_writable"
    assert "Bring the key back" in caught.value.hint
    assert path.is_file() is (fault == "cut off")
    if fault == "a folder":
        path.rmdir()
    path.write_bytes(key)
    target: dict[str, Any] = {}
    restore(target, store, "one")
    assert target["x"] == [1]


def test_a_checkpoint_of_a_newer_format_is_refused_before_anything_else(
    store: CheckpointStore, namespace: Make
) -> None:
    path = saved(store, namespace) / "manifest.json"
    path.write_text(json.dumps({"format": manifest.FORMAT + 1, "whatever": True}))
    assert refusal(store) == "checkpoint_too_new"


def test_a_changed_graph_is_never_unpickled(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    graph = saved(store, namespace) / "graph.pkl"
    proof = tmp_path / "it-ran"
    graph.write_bytes(b"cos\nmkdir\n(V" + os.fsencode(proof) + b"\ntR." + graph.read_bytes())
    assert refusal(store) == "checkpoint_damaged"
    assert not proof.exists()
    graph.unlink()
    assert refusal(store) == "checkpoint_damaged"


def test_a_checkpoint_directory_that_vanished_is_not_found(
    store: CheckpointStore, namespace: Make
) -> None:
    shutil.rmtree(saved(store, namespace))
    assert refusal(store) == "checkpoint_not_found"


def test_deleting_frees_only_what_no_other_checkpoint_needs(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(BIG)
    save(live, store, checkpoint="one", prove=False)
    live["more"] = live["big"][:200_000] * 2
    save(live, store, checkpoint="two", prove=False)
    freed = store.delete("one")
    assert 0 < freed < 100_000  # its graph and manifest; the memory belongs to both
    target: dict[str, Any] = {}
    restore(target, store, "two")
    assert target["big"][-1] == 2_999_999 and target["more"][5] == 10
    assert store.delete("two") >= 24_000_000
    assert store.summaries() == [] and not list(store.root.glob("chunks/*/*"))
    assert target["big"].sum() == live["big"].sum()  # mapped memory outlives its files
    with pytest.raises(GkewsError) as caught:
        store.delete("two")
    assert caught.value.reason == "checkpoint_not_found"


def test_collecting_keeps_what_an_unreadable_manifest_names(
    store: CheckpointStore, namespace: Make
) -> None:
    path = saved(store, namespace) / "manifest.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert store.gc() == 0
    path.write_bytes(whole)
    target: dict[str, Any] = {}
    restore(target, store, "one")
    assert target["x"] == [1]


def test_collecting_waits_for_a_save_that_runs(store: CheckpointStore, namespace: Make) -> None:
    directory = saved(store, namespace)
    shutil.rmtree(directory)
    with store.saving():
        assert store.gc() == 0
    assert store.gc() >= 24_000_000


def _save_without_end(root: str, began: Any) -> None:
    store = CheckpointStore(root)
    store.prepare()
    with store.saving():
        (store.root / "checkpoints" / ".saving-x-1" / "chunks").mkdir(parents=True)
        (store.root / "checkpoints" / ".saving-x-1" / "chunks" / "half").write_bytes(b"x" * 5000)
        began.set()
        signal.pause()


def test_what_a_killed_save_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    store = StoreAtFirstUse(tmp_path / "s")
    assert store.sweep() == 0 and not store.root.exists()
    context = multiprocessing.get_context("fork")
    began = context.Event()
    writer = context.Process(target=_save_without_end, args=(str(store.root), began))
    writer.start()
    try:
        assert began.wait(60)
        assert store.sweep() == 0
        assert (store.root / "checkpoints" / ".saving-x-1" / "chunks" / "half").exists()
    finally:
        writer.kill()
        writer.join()
    assert store.sweep() == 5000
    assert list((store.root / "checkpoints").iterdir()) == []


def _make_key(root: str, results: Any) -> None:
    results.put(CheckpointStore(root).prepare())


def test_processes_that_make_the_key_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=_make_key, args=(str(tmp_path / "s"), results)) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    keys = {results.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(keys) == 1 and len(keys.pop()) == 32


def test_chunks_are_named_by_blake2b_where_blake3_is_missing(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "_blake3", None)
        patch.setattr(chunks, "_xxhash", None)
        patch.setattr(chunks, "ALGORITHM", "blake2b")
        saved(store, namespace)
    assert all(path.name.startswith("blake2b-") for path in store.root.glob("chunks/*/*"))
    target: dict[str, Any] = {}
    restore(target, store, "one", verify="full")
    assert target["big"][7] == 7
