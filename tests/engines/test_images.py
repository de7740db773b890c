"""Images on the disk: which of them a paused kernel needs, and which nobody does."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.base import Snapshot
from jupyter_gkews.engines.registry import engines_of
from jupyter_gkews.errors import GkewsError
from jupyter_gkews.lifecycle.records import PausedRecord, PausedRecords
from jupyter_gkews.lifecycle.snapshots import SnapshotShelf

Take = Callable[..., Path]
SINCE = "2026-11-30T18:00:00.000Z"


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """An image of a kernel, as a pause leaves it; `whole=False`: one that ended half way."""

    def taken(name: str, kernel: str, *, whole: bool = True) -> Path:
        place = tmp_path / "snapshots" / name
        (place / "image").mkdir(parents=True)
        (place / "image" / "checkpoint.img").write_bytes(b"x" * 3000)
        if whole:
            found = Snapshot(name, "gvisor", kernel, "20261130-180000-aa", SINCE, 3000)
            (place / "snapshot.json").write_text(json.dumps(asdict(found)))
        else:
            os.utime(place, (1, 1))
        return place

    return taken


def record(kernel: str, snapshot: str | None) -> PausedRecord:
    return PausedRecord(kernel, "python3-pausable", "20261130-180000-aa", SINCE, snapshot=snapshot)


def leave(store: Path, *records: PausedRecord) -> None:
    """As a server that has ended leaves its paused kernels."""
    server = PausedRecords(store)
    for each in records:
        server.write(each)
    server.close()


def shelf(store: Path, **about: Any) -> SnapshotShelf:
    """As `jupyter gkews gc` sees the store where no server runs, or with what a server knows."""
    return SnapshotShelf(engines_of(store, lambda _: None), PausedRecords(store), **about)


def removed(report: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["why"] for row in report["removed"]}


def test_only_images_go_that_no_paused_kernel_needs(tmp_path: Path, take: Take) -> None:
    leave(tmp_path, record("needs", "needed"), record("again", "newer"))
    needed, gone, older = take("needed", "needs"), take("gone", "ended"), take("older", "again")
    half = take("half", "?", whole=False)
    told = shelf(tmp_path).collect(dry_run=True)
    assert removed(told) == {
        "gone": "its kernel is not paused any more",
        "older": "its kernel was paused again, or rests on its checkpoint",
        "half": "the pause that took it ended before it was whole",
    }
    assert gone.exists() and half.exists() and told["held"]["count"] == 4
    done = shelf(tmp_path).collect(dry_run=False)
    assert removed(done) == removed(told) and done["bytes"] == told["bytes"] == 9000
    assert needed.exists() and not any(path.exists() for path in (gone, older, half))
    assert shelf(tmp_path).collect(dry_run=False)["removed"] == []


def test_what_is_being_taken_stays(tmp_path: Path, take: Take) -> None:
    place = take("now", "k", whole=False)
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # as the engine has it while runsc writes
        assert shelf(tmp_path).collect(dry_run=False)["removed"] == []
    finally:
        os.close(fd)
    assert "now" in removed(shelf(tmp_path).collect(dry_run=False))


def test_what_has_just_begun_stays(tmp_path: Path, take: Take) -> None:
    os.utime(take("new", "k", whole=False))
    assert shelf(tmp_path).collect(dry_run=False)["removed"] == []


def test_an_image_stays_whose_server_may_be_about_to_note_it(tmp_path: Path, take: Take) -> None:
    owner = PausedRecords(tmp_path)
    owner.write(record("k", None))  # as a pause has it while the image is written
    place = take("image", "k")
    assert shelf(tmp_path).collect(dry_run=False)["removed"] == []
    owner.close()
    assert "image" in removed(shelf(tmp_path).collect(dry_run=False)) and not place.exists()


def test_images_of_a_working_server_stay(tmp_path: Path, take: Take) -> None:
    take("resumes", "busy"), take("unrecorded", "frozen")
    there = shelf(tmp_path, busy=lambda: {"busy"}, frozen=lambda: {"unrecorded"})
    assert there.collect(dry_run=False)["removed"] == []


def test_an_image_stays_whose_server_died_before_it_noted_it(tmp_path: Path, take: Take) -> None:
    crashed = record("k", None)
    crashed.engine = "gvisor"
    leave(tmp_path, crashed)
    take("image", "k")
    assert shelf(tmp_path).collect(dry_run=False)["removed"] == []
    adopting = PausedRecords(tmp_path)  # claimed, not noted yet
    assert adopting.claim("k")
    there = SnapshotShelf(engines_of(tmp_path, lambda _: None), adopting)
    assert there.collect(dry_run=False)["removed"] == []
    adopting.close()
    crashed.since = "2026-11-30T19:00:00.000Z"  # a later pause, which rests on its checkpoint
    leave(tmp_path, crashed)
    assert "image" in removed(shelf(tmp_path).collect(dry_run=False))


def test_an_image_that_is_all_there_is_of_a_kernel_is_not_deleted(
    tmp_path: Path, take: Take
) -> None:
    alone = record("k", "image")
    alone.checkpoint, alone.in_cell = None, True
    leave(tmp_path, alone)
    place = take("image", "k")
    with pytest.raises(GkewsError) as caught:
        shelf(tmp_path).delete("image")
    assert caught.value.reason == "checkpoint_in_use" and place.exists()
    assert shelf(tmp_path).all()[0]["in_cell"]


def test_an_image_of_a_kernel_whose_record_cannot_be_read_stays(tmp_path: Path, take: Take) -> None:
    (tmp_path / "paused").mkdir()
    (tmp_path / "paused" / "k.json").write_text("{")
    take("image", "k")
    assert shelf(tmp_path).collect(dry_run=False)["removed"] == []


def test_a_deleted_image_leaves_a_kernel_that_rests_on_its_checkpoint(
    tmp_path: Path, take: Take
) -> None:
    leave(tmp_path, record("k", "image"))
    place = take("image", "k")
    gone = shelf(tmp_path).delete("image")
    assert gone["bytes_freed"] > 3000 and gone["checkpoint"] == "20261130-180000-aa"
    left = PausedRecords(tmp_path).get("k")
    assert not place.exists() and left == record("k", None)


def test_an_image_that_another_server_needs_is_not_deleted(tmp_path: Path, take: Take) -> None:
    owner = PausedRecords(tmp_path)
    owner.write(record("k", "image"))
    place = take("image", "k")
    with pytest.raises(GkewsError) as caught:
        shelf(tmp_path).delete("image")
    assert caught.value.reason == "paused_elsewhere" and place.exists()
    owner.close()


@pytest.mark.parametrize("name", ["no-such", "..", "../paused", ""])
def test_there_is_no_other_image(tmp_path: Path, take: Take, name: str) -> None:
    take("image", "k")
    (tmp_path / "snapshot.json").write_text("{}")
    with pytest.raises(GkewsError) as caught:
        shelf(tmp_path).delete(name)
    assert caught.value.reason == "snapshot_not_found"


def test_what_is_wrong_with_an_image_is_listed(tmp_path: Path, take: Take) -> None:
    place = take("image", "k")
    (place / "image" / "checkpoint.img").write_bytes(b"x")
    (shown,) = shelf(tmp_path).all()
    assert "cut off" in shown["problem"]["message"] and shown["unneeded"] and not shown["in_use"]


def test_a_store_without_images_makes_no_engine(tmp_path: Path) -> None:
    engines = engines_of(tmp_path, lambda _: None)
    assert engines.with_images() == []
    (tmp_path / "snapshots").mkdir()
    assert engines.with_images() == []
