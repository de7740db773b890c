"""A checkpoint travels whole or not at all, and carries no trust with it."""

from __future__ import annotations

import io
import resource
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.kernel.checkpoint.transfer import export, import_
from jupyter_gkews.kernel.checkpoint.trust import describe, trust

Make = Callable[..., dict[str, Any]]

CELLS = "import numpy as np\nbig = np.arange(300_000)\nother = np.ones(200_000)\nx = [1]"


@pytest.fixture
def source(store: CheckpointStore, namespace: Make) -> CheckpointStore:
    save(namespace(CELLS), store, checkpoint="one", prove=False)
    return store


@pytest.fixture
def mine(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "mine")


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")} - {"lock", "key", "chunks",
                                                                       "checkpoints"}  # fmt: skip


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_what_was_exported_is_imported_untrusted_and_works_once_it_is_trusted(
    source: CheckpointStore, mine: CheckpointStore, tmp_path: Path, name: str
) -> None:
    done = export(source, "one", tmp_path / name)
    assert done["bytes"] > 4_000_000 and done["needs"] == []
    assert (tmp_path / name).is_dir() is (name == "out")
    shutil.rmtree(source.root)
    got = import_(mine, tmp_path / name)
    assert got["id"] == "one" and got["new"] > 4_000_000
    (listed,) = mine.summaries()
    assert listed["error"]["reason"] == "checkpoint_foreign_key"
    with pytest.raises(GkewsError):
        restore({}, mine, "one")
    assert describe(mine, "one")["signature"] == "of another key"
    trust(mine, "one")
    target: dict[str, Any] = {}
    assert restore(target, mine, "one", verify="full").lost == []
    assert target["big"][-1] == 299_999 and target["other"].sum() == 200_000
    for path in mine.root.rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_what_the_store_has_is_not_copied_again_and_a_damaged_piece_is(
    source: CheckpointStore, tmp_path: Path
) -> None:
    export(source, "one", tmp_path / "out.tar")
    assert import_(source, tmp_path / "out.tar")["new"] == 0, "it is there already, the very one"
    shutil.rmtree(source.directory("one"))
    path = max(source.root.glob("chunks/*/*"), key=lambda path: path.stat().st_size)
    path.write_bytes(b"\0" * path.stat().st_size)
    assert 2_400_000 <= import_(source, tmp_path / "out.tar")["new"] < 2_500_000
    assert restore({}, source, "one", verify="full").lost == [], "the key is the same: trusted"


def test_nothing_is_overwritten(source: CheckpointStore, namespace: Make, tmp_path: Path) -> None:
    export(source, "one", tmp_path / "out")
    before = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    with pytest.raises(GkewsError) as caught:
        export(source, "one", tmp_path / "out")
    assert caught.value.reason == "bad_request"
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == before
    source.delete("one")
    save(namespace("y = 2"), source, checkpoint="one", prove=False)
    with pytest.raises(GkewsError) as caught:
        import_(source, tmp_path / "out")
    assert caught.value.reason == "bad_request" and "already" in caught.value.message
    target: dict[str, Any] = {}
    restore(target, source, "one")
    assert target == {"y": 2, "__builtins__": target.get("__builtins__")} or target == {"y": 2}


@pytest.mark.parametrize("name", ["out", "out.tar"])
@pytest.mark.parametrize("fault", ["flipped", "cut off", "gone", "longer"])
def test_what_is_not_whole_is_not_taken_and_leaves_nothing(
    source: CheckpointStore, mine: CheckpointStore, tmp_path: Path, name: str, fault: str
) -> None:
    export(source, "one", tmp_path / "whole")
    path = max((tmp_path / "whole").rglob("blake3-*"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[5] ^= fault == "flipped"
    path.unlink()
    if fault != "gone":
        path.write_bytes(data[:-1] if fault == "cut off" else data + b"x" * (fault == "longer"))
    what = tmp_path / "whole"
    if name == "out.tar":
        what = tmp_path / name
        with tarfile.open(what, "w") as archive:
            archive.add(tmp_path / "whole", arcname=".")
    mine.prepare()
    before = tree(mine.root)
    with pytest.raises(GkewsError) as caught:
        import_(mine, what)
    assert caught.value.reason == "checkpoint_damaged"
    assert tree(mine.root) == before


def test_a_tar_file_that_is_cut_off_or_none_is_refused(
    source: CheckpointStore, mine: CheckpointStore, tmp_path: Path
) -> None:
    export(source, "one", tmp_path / "out.tar")
    data = (tmp_path / "out.tar").read_bytes()
    for length in (0, 100, 2000, len(data) // 2):
        (tmp_path / "cut.tar").write_bytes(data[:length])
        with pytest.raises(GkewsError) as caught:
            import_(mine, tmp_path / "cut.tar")
        assert caught.value.reason in ("bad_request", "checkpoint_damaged")
    for what in (tmp_path / "nothing", tmp_path, Path("/dev/null")):
        with pytest.raises(GkewsError) as caught:
            import_(mine, what)
        assert caught.value.reason == "bad_request"
    assert not (mine.root / "checkpoints").exists() or mine.summaries() == []


def test_names_and_links_that_lead_outside_are_not_followed(
    source: CheckpointStore, mine: CheckpointStore, tmp_path: Path
) -> None:
    export(source, "one", tmp_path / "out")
    chunk = max((tmp_path / "out").rglob("blake3-*"), key=lambda path: path.stat().st_size)
    inside = str(chunk.relative_to(tmp_path / "out"))
    shutil.move(chunk, tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(GkewsError) as caught:
        import_(mine, tmp_path / "out")
    assert "link" in caught.value.message
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for path in sorted((tmp_path / "out").rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.add(path, arcname=str(path.relative_to(tmp_path / "out")))
        for name in ("../escaped", "/tmp/escaped-gkews", "chunks/../../escaped"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        link = tarfile.TarInfo(inside)
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(link)
    with pytest.raises(GkewsError) as caught:
        import_(mine, tmp_path / "evil.tar")
    assert caught.value.reason == "checkpoint_damaged" and "missing" in caught.value.message
    assert not (tmp_path / "escaped").exists() and not Path("/tmp/escaped-gkews").exists()
    assert not (mine.root.parent / "escaped").exists()


def test_an_export_of_something_damaged_leaves_nothing(
    source: CheckpointStore, tmp_path: Path
) -> None:
    path = max(source.root.glob("chunks/*/*"), key=lambda path: path.stat().st_size)
    path.write_bytes(b"\0" * path.stat().st_size)
    for name in ("out", "out.tar"):
        with pytest.raises(GkewsError) as caught:
            export(source, "one", tmp_path / name)
        assert caught.value.reason == "checkpoint_damaged"
    with pytest.raises(GkewsError) as caught:
        export(source, "one", tmp_path / "no" / "such" / "out")
    assert caught.value.reason == "store_not_writable"
    assert {path.name for path in tmp_path.iterdir()} == {"store"}


def test_a_full_disk_ends_an_export_and_an_import_without_a_trace(
    source: CheckpointStore, mine: CheckpointStore, tmp_path: Path
) -> None:
    export(source, "one", tmp_path / "whole.tar")
    mine.prepare()
    before = tree(mine.root)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for work in (
        lambda: export(source, "one", tmp_path / "out"),
        lambda: export(source, "one", tmp_path / "out.tar"),
        lambda: import_(mine, tmp_path / "whole.tar"),
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            with pytest.raises(GkewsError) as caught:
                work()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.reason == "disk_full"
    assert tree(mine.root) == before
    assert {path.name for path in tmp_path.iterdir()} == {"store", "mine", "whole.tar"}
