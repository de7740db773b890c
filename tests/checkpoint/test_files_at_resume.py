"""What has become of a file between pause and resume is told, and no file is changed by it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import zygote
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.placeholders import Lost, LostVariableError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

OPEN = {
    "text": "f = open(path)\nf.readline()",
    "binary": "f = open(path, 'rb')\nf.read(3)",
    "unbuffered": "f = open(path, 'rb', buffering=0)\nf.read(3)",
    "writing": "f = open(path, 'r+')\nf.seek(6)",
    "memmap": "import numpy\nf = numpy.memmap(path, 'u1', 'r+')",
    "map": "import mmap\nwith open(path, 'r+b') as g: f = mmap.mmap(g.fileno(), 0)",
}
MEANWHILE: dict[str, Callable[[Path], Any]] = {
    "deleted": lambda path: path.unlink(),
    "moved": lambda path: path.rename(path.with_name("elsewhere")),
    "a_directory_now": lambda path: (path.unlink(), path.mkdir()),
    "a_pipe_now": lambda path: (path.unlink(), os.mkfifo(path)),
}


def paused(live: dict[str, Any], store: CheckpointStore) -> dict[str, Any]:
    """Save, and close what the live namespace has open, as the end of its process does."""
    summary = save(live, store, checkpoint="one", prove=False)
    f = live.pop("f")
    if hasattr(f, "close"):
        f.close()
    return summary


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("kind", OPEN)
def test_a_file_that_is_gone_is_named_and_nothing_else_is_lost(
    store: CheckpointStore, namespace: Make, tmp_path: Path, kind: str, meanwhile: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\nline2\n")
    live = namespace(f"path = {str(path)!r}", OPEN[kind], "box = [good := [1], f]")
    paused(live, store)
    live["box"].clear()
    MEANWHILE[meanwhile](path)
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1] and target["box"][0] is target["good"]
    assert type(target["f"]) is Lost and target["box"][1] is target["f"]
    (loss, *_) = [loss for loss in report.lost if loss["name"] == "f"]
    assert str(path) in loss["reason"]
    with pytest.raises(LostVariableError, match=r"data\.txt"):
        target["f"].read()
    assert not report.lenient, "one file that is gone must not make the whole load slow"
    if meanwhile in ("deleted", "moved"):
        assert not path.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_any_more_is_named(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\n")
    paused(namespace(f"path = {str(path)!r}", OPEN["text"]), store)
    path.chmod(0)
    report = restore(namespace(), store, "one")
    assert (
        "Permission denied" in report.lost[0]["reason"] and "data.txt" in report.lost[0]["reason"]
    )


@pytest.mark.parametrize("kind", ["text", "binary", "unbuffered", "writing"])
def test_a_file_that_is_shorter_now_is_opened_at_its_end_and_that_is_told(
    store: CheckpointStore, namespace: Make, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\nline2\n")
    paused(namespace(f"path = {str(path)!r}", OPEN[kind]), store)
    path.write_text("l")
    target = namespace()
    report = restore(target, store, "one")
    (row,) = (row for row in report.rebuilt_details if row["name"] == "f")
    assert "is shorter than it was" in row["reason"] and report.lost == []
    assert target["f"].read() in ("", b"") and target["f"].tell() == 1
    if kind == "writing":
        target["f"].write("x")
    target["f"].close()
    assert path.read_text() == ("lx" if kind == "writing" else "l")


@pytest.mark.parametrize("kind", ["memmap", "map"])
def test_a_map_of_a_file_that_is_shorter_now_is_lost_and_does_not_make_it_longer(
    store: CheckpointStore, namespace: Make, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\nline2\n")
    paused(namespace(f"path = {str(path)!r}", OPEN[kind]), store)
    path.write_text("l")
    target = namespace()
    report = restore(target, store, "one")
    assert "shorter" in report.lost[0]["reason"] and path.read_text() == "l"


def test_a_file_that_was_changed_or_replaced_is_told(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\nline2\n")
    paused(namespace(f"path = {str(path)!r}", OPEN["text"]), store)
    path.unlink()
    path.write_text("LINE1\nLINE2\nLINE3\n")
    target = namespace()
    report = restore(target, store, "one")
    (row,) = (row for row in report.rebuilt_details if row["name"] == "f")
    assert "has changed since the pause" in row["reason"]
    with target["f"] as file:
        assert file.readline() == "LINE2\n"


def test_an_unchanged_file_has_nothing_told_but_that_it_is_open(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("line1\nline2\n")
    paused(namespace(f"path = {str(path)!r}", "f = open(path, 'r+')\nf.write('x')"), store)
    target = namespace()
    report = restore(target, store, "one")
    (row,) = (row for row in report.rebuilt_details if row["name"] == "f")
    assert row["reason"] == f"the file {path} is opened again at its position"
    target["f"].close()


def test_temporary_files_and_directories_that_were_swept_away_are_made_again(
    store: CheckpointStore, namespace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    live = namespace(
        "import os, tempfile",
        "t = tempfile.NamedTemporaryFile('w+'); t.write('hello'); t.seek(1); name = t.name",
        "d = tempfile.TemporaryDirectory(); os.mkdir(d.name + '/sub')",
        "with open(d.name + '/sub/f', 'w') as file: file.write('inside')",
        "f = open(d.name + '/sub/f'); f.read(2)",
    )
    save(live, store, checkpoint="one")
    assert Path(live["name"]).exists() and Path(live["d"].name, "sub", "f").exists()
    folder = live["d"].name
    live.pop("f").close()
    live.pop("t").close()
    live.pop("d").cleanup()
    zygote.end()  # it has a folder for temporary files, too
    assert [each.name for each in tmp_path.iterdir()] == ["store"]
    target = namespace()
    report = restore(target, store, "one")
    assert report.lost == [] and target["t"].name == target["name"] and target["d"].name == folder
    assert target["t"].read() == "ello" and target["f"].read() == "side"
    target["f"].close()
    target["t"].close()
    target["d"].cleanup()
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_temporary_file_that_is_too_big_to_travel_is_told(
    store: CheckpointStore, namespace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("jupyter_gkews.kernel.checkpoint.rebuilders.contents.LIMIT", 10)
    live = namespace(
        "import os, tempfile",
        "t = tempfile.NamedTemporaryFile('w+'); t.write('hello' * 10); t.seek(1)",
        "n = tempfile.TemporaryFile('w+'); n.write('hello' * 10); n.flush()",
        "d = tempfile.TemporaryDirectory()",
        "with open(d.name + '/f', 'w') as file: file.write('inside' * 10)",
    )
    summary = save(live, store, checkpoint="one")
    told = {row["name"]: row["reason"] for row in summary["rebuilt"]}
    assert "only if" in told["t"] and "only if" in told["d"]
    assert [loss["name"] for loss in summary["lost"]] == ["n"]
    target = namespace()
    assert [loss["name"] for loss in restore(target, store, "one").lost] == ["n"]
    assert target["t"].read(4) == "ello"
    target["t"].close()
    target["d"]._finalizer.detach()
    live["n"].close()
    live["t"].delete = live["t"]._closer.delete = False
    live.pop("t").close()
    live.pop("d").cleanup()
    report = restore(third := namespace(), store, "one")
    assert {loss["name"] for loss in report.lost} == {"t", "n", "d"} and "os" in third


def test_looking_at_what_survives_does_not_touch_a_file(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    live = namespace(
        f"f = open({str(path)!r}, 'w'); f.write('pending')",
        f"g = open({__file__!r})\nfor line in g: break",
    )
    rows = {row["name"]: row for row in survives(live, store)["variables"]}
    assert path.read_text() == "" and rows["f"]["fate"] == rows["g"]["fate"] == "rebuilt"
    assert next(live["g"]) == "\n"
    live["f"].close()
    live["g"].close()
