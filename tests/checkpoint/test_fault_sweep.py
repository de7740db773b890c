"""Killed, refused or damaged at any step: the last good checkpoint loads, no other is offered."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy
import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.placeholders import Lost
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.kernel.checkpoint.transfer import export, import_
from jupyter_gkews.kernel.checkpoint.trust import trust

Work = Callable[[CheckpointStore], Any]


def state(number: int) -> dict[str, Any]:
    """A namespace: shared memory, memory of its own, small objects."""
    return {
        "shared": numpy.arange(200_000),
        "own": numpy.full(150_000, number),
        "small": {"number": number},
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the checkpoints `old` and `good`, what a dead save left, and an export."""
    root = tmp_path_factory.mktemp("template") / "store"
    store = CheckpointStore(root)
    for number, name in enumerate(("old", "good")):
        save(state(number), store, checkpoint=name, kernel={"id": "k"}, prove=False)
    (root / "checkpoints" / ".saving-dead-1" / "chunks").mkdir(parents=True)
    (root / "checkpoints" / ".saving-dead-1" / "chunks" / "half").write_bytes(b"x" * 99)
    for number in range(4):  # chunks of a checkpoint that is gone
        name = f"blake3-{number:064x}"
        (root / "chunks" / name[7:9]).mkdir(exist_ok=True)
        (root / "chunks" / name[7:9] / name).write_bytes(b"x" * 999)
    other = CheckpointStore(root.parent / "other")
    save(state(7), other, checkpoint="theirs", prove=False)
    export(other, "theirs", root.parent / "theirs.tar")
    return root


@pytest.fixture
def store(template: Path, tmp_path: Path) -> CheckpointStore:
    shutil.copytree(template, tmp_path / "store")
    return CheckpointStore(tmp_path / "store")


def again(store: CheckpointStore, template: Path) -> None:
    shutil.rmtree(store.root)
    shutil.copytree(template, store.root)


NUMBERS = {"old": 0, "good": 1, "new": 2, "theirs": 7}


def assert_right(store: CheckpointStore, *, there: set[str]) -> set[str]:
    """Every checkpoint that is offered as good is; `there` are among them. Returns the ids."""
    good = set()
    for summary in store.summaries():
        if summary["error"] is not None:
            assert summary["error"]["reason"] == "checkpoint_foreign_key", summary["error"]
            continue
        target: dict[str, Any] = {}
        report = restore(target, store, summary["id"], verify="full")
        number = NUMBERS[summary["id"]]
        assert report.lost == [] and target["small"] == {"number": number}
        assert int(target["own"].sum()) == number * 150_000
        assert int(target["shared"][-1]) == 199_999
        good.add(summary["id"])
    assert there <= good
    return good


def works(template: Path) -> dict[str, tuple[Work, set[str]]]:
    """What is done to a store, and which checkpoints must outlive it however it ends."""
    tar = template.parent / "theirs.tar"

    def take_in(store: CheckpointStore) -> None:
        import_(store, tar)
        trust(store, "theirs")

    def save_one(store: CheckpointStore) -> None:
        save(state(2), store, checkpoint="new", prove=False)

    return {
        "save": (save_one, {"old", "good"}),
        "delete": (lambda store: store.delete("old"), {"good"}),
        "gc": (lambda store: store.collect(), {"old", "good"}),
        "import": (take_in, {"old", "good"}),
    }


@pytest.mark.parametrize("what", ["save", "delete", "gc", "import"])
def test_killed_before_any_change_of_a_file(
    store: CheckpointStore, template: Path, what: str
) -> None:
    work, there = works(template)[what]
    step = 0
    died = True
    while died:
        step += 1
        again(store, template)
        died = faults.dies_at(store.root, step, lambda: work(store))
        assert_right(store, there=there)
        # what was begun is done again, and what is left of the first time goes
        if died and what == "save" and store.directory("new").exists():
            store.delete("new")
        if died and (what != "delete" or store.directory("old").exists()):
            work(store)
        store.gc()
        assert_right(store, there=there)
        assert not list((store.root / "checkpoints").glob(".*"))
    assert step > {"save": 22, "delete": 4, "gc": 6, "import": 22}[what], step


@pytest.mark.parametrize(
    "error",
    [
        errno.ENOSPC,
        errno.EACCES,
        pytest.param(errno.EROFS, marks=pytest.mark.soak),
        pytest.param(errno.EIO, marks=pytest.mark.soak),
    ],
)
def test_refused_by_the_disk_at_any_change_of_a_file(
    store: CheckpointStore, template: Path, error: int
) -> None:
    reasons = {"disk_full"} if error == errno.ENOSPC else {"store_not_writable"}
    work, there = works(template)["save"]
    for step in range(1, 200):
        again(store, template)
        with faults.armed(store.root, step, error) as steps:
            try:
                work(store)
                failed = None
            except GkewsError as raised:
                failed = raised
        good = assert_right(store, there=there)
        if steps.count < step:
            break
        if failed is None:  # what failed was no part of the checkpoint (cleaning up)
            assert "new" in good
            continue
        # a commit whose last sync was refused may be there: whole, then
        assert failed.reason in reasons and failed.hint, (step, failed)
        store.gc()
        assert not list((store.root / "checkpoints").glob(".*"))
    assert step > 22


def test_a_store_that_cannot_be_written_is_loaded_and_listed(store: CheckpointStore) -> None:
    class Refusing(faults.Steps):
        def __call__(self) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

    faults.watch(store.root, Refusing(0))
    try:
        assert_right(store, there={"old", "good"})
        with pytest.raises(GkewsError) as caught:
            store.collect()
        assert caught.value.reason == "store_not_writable"
        assert store.collect(dry_run=True)["leftovers"]["count"] == 1
    finally:
        faults.watch(store.root, None)


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("fault", ["flipped", "cut off", "emptied", "gone"])
def test_any_one_file_damaged_never_gives_wrong_numbers(
    store: CheckpointStore, template: Path, fault: str
) -> None:
    count = 0
    for original in files(template):
        again(store, template)
        path = store.root / original.relative_to(template)
        data = bytearray(path.read_bytes())
        if fault == "gone":
            path.unlink()
        elif data:
            if fault == "flipped":
                data[len(data) // 2] ^= 0x10
            path.write_bytes(data if fault == "flipped" else data[: len(data) // 2]
                             if fault == "cut off" else b"")  # fmt: skip
        else:
            continue
        count += 1
        right = 0
        for name in ("old", "good"):
            target: dict[str, Any] = {}
            try:
                report = restore(target, store, name)
            except GkewsError as error:
                assert error.reason in (
                    "checkpoint_damaged", "checkpoint_foreign_key", "checkpoint_not_found",
                    "checkpoint_unsigned",
                ), error  # fmt: skip
                assert target == {}
                continue
            lost = {row["name"] for row in report.lost}
            lost = {name for name in lost if not name.startswith("a part of ")}  # the process's own
            assert lost <= {"own", "shared"}
            for variable in ("own", "shared"):
                assert (type(target[variable]) is Lost) == (variable in lost)
            if "own" not in lost:
                assert int(target["own"].sum()) == NUMBERS[name] * 150_000
            if "shared" not in lost:
                assert int(target["shared"].sum()) == 199_999 * 100_000
            assert target["small"] == {"number": NUMBERS[name]}
            right += not lost
        relative = str(path.relative_to(store.root))
        if relative != "key" and "shared" not in relative:
            # one file, one checkpoint at most, but for memory that both share
            assert right >= 1 or relative.startswith("chunks/"), relative
        named = "chunks/*/blake3-[!0]*"  # not those that no manifest names
        before = {path.name for path in store.root.glob(named)}
        if relative.endswith("manifest.json") or relative == "key":
            store.gc()
            assert {path.name for path in store.root.glob(named)} == before
    assert count >= 10


def test_a_store_that_was_moved_works_where_it_is_now(
    store: CheckpointStore, tmp_path: Path
) -> None:
    shutil.move(store.root, tmp_path / "elsewhere")
    moved = CheckpointStore(tmp_path / "elsewhere")
    assert_right(moved, there={"old", "good"})
    target: dict[str, Any] = {}
    restore(target, moved, "good")
    target["small"] = {"number": 2}
    target["own"] = numpy.full(150_000, 2)
    summary = save(target, moved, checkpoint="new", prove=False)
    assert summary["bytes"]["written"] < 1_300_000, "what both share is not written again"
    assert_right(moved, there={"old", "good", "new"})
    os.symlink(tmp_path / "elsewhere", tmp_path / "link")
    assert_right(CheckpointStore(tmp_path / "link"), there={"old", "good", "new"})


@pytest.mark.soak
@pytest.mark.parametrize("what", ["save"])
def test_killed_before_any_change_of_a_file_with_the_proof(
    store: CheckpointStore, template: Path, what: str
) -> None:
    step, died = 0, True
    while died:
        step += 1
        again(store, template)
        died = faults.dies_at(
            store.root, step, lambda: save(state(2), store, checkpoint="new", prove=True)
        )
        assert_right(store, there={"old", "good"})
        store.gc()
        assert not list((store.root / "checkpoints").glob(".*"))
    assert step > 25
