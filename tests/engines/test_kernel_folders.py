"""What kernels in sandboxes leave in the store when they end with their server, and who may still
need it. Without runsc: folders, marks and processes as it leaves them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gkews.engines.gvisor import kernel_folders
from jupyter_gkews.engines.registry import engines_of
from jupyter_gkews.kernel.checkpoint import locks

YOUNG = 0.0
OLD = 2 * kernel_folders.YOUNG_S
SILENT = 2 * kernel_folders.SILENT_S


def leave(store: Path, kernel: str, age_s: float, *, place: str | None = None) -> Path:
    """The folder of a kernel, and its mark in the lock; `place`: of another machine, "" for one
    that says none. The mark."""
    folder = store / "sandboxes" / kernel
    kernel_folders.claim(folder)
    if place is not None:
        (folder / kernel_folders.PLACE_FILE).write_text(place)
    then = time.time() - age_s
    os.utime(folder, (then, then))
    mark = store / "sharing" / f"{kernel}.0123"
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    return mark


def left(store: Path) -> tuple[list[str], list[str]]:
    """(kernels with a folder, kernels with a mark)."""
    folders = sorted(path.name for path in (store / "sandboxes").iterdir())
    return folders, sorted(locks.marks(store))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[str]:
    """A kernel whose runsc runs; that knows the store by another name."""
    name = "3f7c-runs"
    root = tmp_path / "by-another-name" / "sandboxes" / name / "runsc"
    process = subprocess.Popen(
        [sys.executable, "-c", "input()", f"--root={root}", "run"], stdin=subprocess.PIPE
    )
    yield name
    process.communicate()


def test_what_ended_kernels_have_left_goes_once_nothing_can_be_behind_it(tmp_path: Path) -> None:
    leave(tmp_path, "just-ended", YOUNG)
    leave(tmp_path, "ended", OLD)
    told = kernel_folders.tidy(tmp_path, dry_run=True)
    assert left(tmp_path) == (["ended", "just-ended"],) * 2, "it was only asked"
    gone = kernel_folders.tidy(tmp_path)
    assert gone == told and [each.id for each in gone] == ["ended"] and gone[0].bytes > 0
    # the folder may be one of a kernel that is being started; a mark comes later than that
    assert left(tmp_path) == (["just-ended"], [])


def test_what_a_running_sandbox_has_stays(tmp_path: Path, runs: str) -> None:
    leave(tmp_path, runs, SILENT)
    assert kernel_folders.tidy(tmp_path) == []
    assert not kernel_folders.forget(tmp_path, runs)
    assert left(tmp_path) == ([runs], [runs])
    with locks.alone(tmp_path) as alone:
        assert not alone


def test_what_an_image_holds_stays_also_while_it_is_written(tmp_path: Path) -> None:
    for kernel in ("frozen", "being-frozen"):
        leave(tmp_path, kernel, SILENT)
        (tmp_path / "snapshots" / kernel).mkdir(parents=True)
    whole = tmp_path / "snapshots" / "frozen" / "snapshot.json"
    whole.write_text('{"kernel": "frozen"}')
    half = tmp_path / "snapshots" / "being-frozen" / kernel_folders.TAKEN_OF_FILE
    half.write_text("being-frozen")
    assert kernel_folders.tidy(tmp_path) == []
    assert not kernel_folders.forget(tmp_path, "frozen")
    assert left(tmp_path) == (["being-frozen", "frozen"],) * 2
    half.unlink()
    whole.unlink()
    assert len(kernel_folders.tidy(tmp_path)) == 2
    assert left(tmp_path) == ([], [])


def test_a_paused_kernel_keeps_its_folder_and_has_no_process(tmp_path: Path) -> None:
    leave(tmp_path, "paused", OLD)
    (tmp_path / "paused").mkdir()
    (tmp_path / "paused" / "paused.json").write_text("{}")
    assert kernel_folders.tidy(tmp_path) == []
    assert left(tmp_path) == (["paused"], [])


def test_one_on_another_machine_is_believed_while_it_gives_signs_of_life(tmp_path: Path) -> None:
    mine = (tmp_path / "x" / "mine", tmp_path / "x" / "mine" / kernel_folders.PLACE_FILE)
    kernel_folders.claim(mine[0])
    boot, processes = mine[1].read_text().split()
    rebooted, container = f"{boot[::-1]} {processes}", f"{boot} pid:[1]"
    leave(tmp_path, "elsewhere", OLD, place=rebooted)
    leave(tmp_path, "in-a-container", OLD, place=container)
    leave(tmp_path, "unknown", OLD, place="")
    silent = leave(tmp_path, "silent", SILENT, place=rebooted)
    assert [each.id for each in kernel_folders.tidy(tmp_path)] == ["silent"]
    assert left(tmp_path) == (["elsewhere", "in-a-container", "unknown"],) * 2
    assert not silent.exists()
    with locks.alone(tmp_path) as alone:
        assert not alone
    # it is taken over by this machine, and ends here
    kernel_folders.claim(tmp_path / "sandboxes" / "elsewhere")
    kernel_folders.tidy(tmp_path)
    assert left(tmp_path)[1] == ["in-a-container", "unknown"]


def test_a_mark_without_any_folder_is_believed_for_an_hour(tmp_path: Path) -> None:
    mark = leave(tmp_path, "by-hand", OLD)
    kernel_folders.forget(tmp_path, "by-hand")
    kernel_folders.tidy(tmp_path)
    with locks.alone(tmp_path) as alone:
        assert not alone and mark.exists()
    then = time.time() - SILENT
    os.utime(mark, (then, then))
    with locks.alone(tmp_path) as alone:
        assert alone and not mark.exists()


def test_a_claim_says_where_and_is_a_sign_of_life(tmp_path: Path) -> None:
    folder = tmp_path / "sandboxes" / "k"
    leave(tmp_path, "k", SILENT, place="elsewhere")
    kernel_folders.claim(folder)
    assert time.time() - folder.stat().st_mtime < kernel_folders.YOUNG_S
    assert (folder / kernel_folders.PLACE_FILE).read_text() != "elsewhere"
    assert [path.name for path in folder.iterdir()] == [kernel_folders.PLACE_FILE]


def test_a_store_where_no_process_has_left_anything_makes_no_engine(tmp_path: Path) -> None:
    made = []
    engines = engines_of(tmp_path, lambda _: None)
    original = engines._factories["gvisor"]
    engines._factories["gvisor"] = lambda: made.append(1) or original()  # type: ignore[func-returns-value]
    (tmp_path / "sandboxes").mkdir()
    assert engines.tidy() == [] and made == []
    leave(tmp_path, "ended", OLD)
    assert [each.id for each in engines.tidy()] == ["ended"] and made == [1]
