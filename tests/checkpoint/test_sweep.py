"""Collecting takes what nothing needs, at any moment, and never anything else."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import locks, manifest
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

BIG = "import numpy as np\nbig = np.arange(300_000)\nx = [1]"


def make(store: CheckpointStore, make: Make, *names: str, kernel: str = "k") -> None:
    """Checkpoints that share `big`; each has an array of its own as well."""
    for number, name in enumerate(names):
        live = make(BIG, f"own = np.full(200_000, {number + len(names)} + hash({name!r}) % 99991)")
        save(live, store, checkpoint=name, kernel={"id": kernel}, prove=False)


def age(store: CheckpointStore, checkpoint: str, days: float) -> None:
    """Let a checkpoint be of another time, signature and all."""
    directory = store.directory(checkpoint)
    found = store.manifest(checkpoint)
    then = time.time() - days * 86400
    found.created = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(then))
    key = manifest.read_key(store.root)
    assert key is not None
    (directory / "manifest.json").write_bytes(manifest.render(found, key))
    os.utime(directory, (then, then))


def ids(store: CheckpointStore) -> list[str]:
    return [summary["id"] for summary in store.summaries()]


def all_are_right(store: CheckpointStore) -> None:
    for checkpoint in ids(store):
        target: dict[str, Any] = {}
        assert restore(target, store, checkpoint, verify="full").lost == []
        assert target["big"][-1] == 299_999 and len(set(target["own"])) == 1


def test_without_rules_no_checkpoint_goes(store: CheckpointStore, namespace: Make) -> None:
    make(store, namespace, "a", "b")
    age(store, "a", 1000)
    report = store.collect()
    assert report["checkpoints"] == [] and report["bytes_freed"] == 0 and ids(store) == ["b", "a"]
    assert report["store"]["checkpoints"] == 2
    assert report["store"]["bytes"] > 2_400_000 + 2 * 1_600_000


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        ({"older_than_s": 30 * 86400}, {"c40", "c50"}),
        ({"older_than_s": 0}, {"c2", "c20", "c40", "c50"}),
        ({"keep": 2}, {"c40", "c50"}),
        ({"keep": 1, "older_than_s": 30 * 86400}, {"c40", "c50"}),
        ({"keep": 3, "older_than_s": 30 * 86400}, {"c50"}),
        ({"keep": 9}, set()),
    ],
)
def test_old_checkpoints_go_as_asked_and_a_dry_run_tells_just_that(
    store: CheckpointStore, namespace: Make, rules: dict[str, Any], gone: set[str]
) -> None:
    make(store, namespace, "other", kernel="another")
    for days in (50, 40, 20, 2):
        make(store, namespace, f"c{days}")
        age(store, f"c{days}", days)
    save(namespace(BIG), store, checkpoint="named", name="milestone", prove=False)
    age(store, "named", 300)
    before = sorted(store.root.rglob("*"))
    told = store.collect(dry_run=True, **rules)
    assert sorted(store.root.rglob("*")) == before
    done = store.collect(**rules)
    assert {row["id"] for row in done["checkpoints"]} == gone
    assert {**told, "dry_run": False} == done
    assert not gone.intersection(ids(store)) and {"other", "named"} <= set(ids(store))
    if gone:
        assert done["chunks"]["count"] == len(gone), "their own arrays, not the shared one"
        assert done["bytes_freed"] > 1_600_000 * len(gone)
    shutil.rmtree(store.directory("named"))  # it has no `own`
    all_are_right(store)
    assert store.collect()["checkpoints"] == []


def test_what_is_protected_or_just_written_or_of_a_clock_that_jumped_stays(
    store: CheckpointStore, namespace: Make
) -> None:
    make(store, namespace, "needed", "new", "future", "newest")
    age(store, "needed", 100)
    age(store, "future", -100)
    assert store.collect(older_than_s=0, protected=frozenset({"needed"}))["checkpoints"] == []
    assert store.collect(keep=1, protected=frozenset({"needed"}))["checkpoints"] == []
    assert len(ids(store)) == 4


@pytest.mark.parametrize("fault", ["cut off", "gone", "flipped", "newer", "a folder"])
def test_a_manifest_that_cannot_be_read_keeps_every_chunk(
    store: CheckpointStore, namespace: Make, fault: str
) -> None:
    make(store, namespace, "good", "bad")
    path = store.directory("bad") / "manifest.json"
    whole = path.read_bytes()
    path.unlink()
    if fault == "cut off":
        path.write_bytes(whole[:100])
    elif fault == "flipped":
        path.write_bytes(whole.replace(b"blake3-", b"blake4-", 1))
    elif fault == "newer":
        path.write_text(json.dumps({"format": manifest.FORMAT + 1, "parts": ["aa", "bb"]}))
    elif fault == "a folder":
        path.mkdir()
    report = store.collect(older_than_s=0)
    assert report["chunks"]["count"] == 0 and "bad cannot be read" in report["stays"]
    assert store.delete("good") < 100_000
    if fault == "a folder":
        path.rmdir()
    path.write_bytes(whole)
    all_are_right(store)
    assert ids(store) == ["bad"]
    assert store.collect()["chunks"]["count"] == 1  # of the one that was deleted meanwhile


def test_deleting_what_cannot_be_read_frees_what_it_kept(
    store: CheckpointStore, namespace: Make
) -> None:
    make(store, namespace, "good", "bad")
    (store.directory("bad") / "manifest.json").write_bytes(b"{")
    assert store.delete("bad") > 1_600_000
    assert ids(store) == ["good"]
    all_are_right(store)


@pytest.mark.parametrize("signature", ["unsigned", "foreign"])
def test_what_an_untrusted_manifest_names_stays_and_the_rest_goes(
    store: CheckpointStore, namespace: Make, signature: str
) -> None:
    make(store, namespace, "mine", "theirs")
    named = {str(row[0]) for row in store.manifest("theirs").chunks}
    path = store.directory("theirs") / "manifest.json"
    content = json.loads(path.read_text())
    content["signature"] = {**content["signature"], "key": "of someone"}
    if signature == "unsigned":
        del content["signature"]
    path.write_text(json.dumps(content))
    assert store.delete("mine") > 1_600_000
    assert {path.name for path in store.root.glob("chunks/*/*")} == named


def test_files_that_are_no_chunks_are_left_alone(store: CheckpointStore, namespace: Make) -> None:
    make(store, namespace, "a")
    stranger = store.root / "chunks" / "ab" / "notes.txt"
    stranger.parent.mkdir(exist_ok=True)
    stranger.write_text("mine")
    (store.root / "chunks" / "README").write_text("mine")
    store.gc()
    assert stranger.read_text() == "mine" and (store.root / "chunks" / "README").exists()


def test_where_there_are_no_locks_nothing_is_removed_and_saves_work(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoLocks:
        LOCK_SH = LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(fd: int, operation: int) -> None:
            raise OSError(37, "No locks available")

    monkeypatch.setattr(locks, "fcntl", NoLocks)
    make(store, namespace, "a", "b")
    shutil.rmtree(store.directory("a"))
    report = store.collect()
    assert report["bytes_freed"] == 0 and "has no locks" in report["stays"]
    all_are_right(store)
    monkeypatch.undo()
    assert store.gc() >= 1_600_000


def test_what_is_being_loaded_stays_until_it_is_loaded(
    store: CheckpointStore, namespace: Make
) -> None:
    make(store, namespace, "a")
    there = {path.name for path in store.root.glob("chunks/*/*")}
    with store.loading():
        store.delete("a")
        assert {path.name for path in store.root.glob("chunks/*/*")} == there
        assert list((store.root / "checkpoints").glob(".trash-*")), "the sign that more is to go"
    assert store.gc() > 4_000_000 - 1
    assert not list((store.root / "checkpoints").glob(".*"))


def _work(root: str, number: int, until: float, results: Any) -> None:
    import numpy

    store, count, problems = CheckpointStore(root), 0, []
    shared = numpy.arange(300_000)
    while count < 2 or time.monotonic() < until:
        name = f"w{number}-{count}"
        try:
            live = {"shared": shared, "own": numpy.full(200_000, number * 1000 + count % 3)}
            save(live, store, checkpoint=name, prove=False)
            if number == 2:
                store.collect(keep=1)
            target: dict[str, Any] = {}
            report = restore(target, store, name, verify="full")
            if report.lost or target["own"][5] != live["own"][0]:
                problems.append(f"{name}: {report.lost}")
            if number:
                store.delete(name)
        except GkewsError as error:
            problems.append(f"{name}: {error.reason} {error}")
        count += 1
    results.put(problems)


def test_saves_loads_deletions_and_collections_of_several_processes_do_not_meet(
    tmp_path: Path,
) -> None:
    context = multiprocessing.get_context("fork")
    results, root = context.Queue(), str(tmp_path / "s")
    until = time.monotonic() + 3
    workers = [
        context.Process(target=_work, args=(root, number, until, results)) for number in range(3)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join()
    assert [problems for problems in found if problems] == []
    store = CheckpointStore(root)
    for checkpoint in ids(store):
        assert restore({}, store, checkpoint, verify="full").lost == []
    store.gc()
    named = {c[0] for checkpoint in ids(store) for c in store.manifest(checkpoint).chunks}
    assert {path.name for path in store.root.glob("chunks/*/*")} == named


def test_who_was_away_for_too_long_is_alone_no_more(tmp_path: Path) -> None:
    with locks.alone(tmp_path) as alone:
        assert alone and locks.still_alone(tmp_path)
        then = time.time() - 20
        os.utime(tmp_path / "alone", (then, then))
        assert locks.still_alone(tmp_path), "asked again in time"
        assert (tmp_path / "alone").stat().st_mtime > then + 10
        os.utime(tmp_path / "alone", (then - 20, then - 20))
        assert not locks.still_alone(tmp_path)
        assert (tmp_path / "alone").stat().st_mtime < then, "it is not made young again"
    assert not locks.still_alone(tmp_path)
