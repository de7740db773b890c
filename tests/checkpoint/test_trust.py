"""What somebody else signed, or nobody, is loaded only after its user has said so."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.kernel.checkpoint.trust import describe, trust

Make = Callable[..., dict[str, Any]]

CELLS = "import numpy as np\nbig = np.arange(300_000)\nx = [1]"


@pytest.fixture
def foreign(store: CheckpointStore, namespace: Make, tmp_path: Path) -> CheckpointStore:
    """A store into which another user's checkpoint was copied."""
    save(namespace(CELLS), store, checkpoint="one", name="theirs", prove=False)
    other = CheckpointStore(tmp_path / "mine")
    save({"y": 1}, other, checkpoint="zero", prove=False)
    shutil.copytree(store.directory("one"), other.directory("one"))
    shutil.copytree(store.root / "chunks", other.root / "chunks", dirs_exist_ok=True)
    return other


def refusal(store: CheckpointStore) -> GkewsError:
    namespace: dict[str, Any] = {}
    with pytest.raises(GkewsError) as caught:
        restore(namespace, store, "one")
    assert namespace == {}
    return caught.value


def edit(store: CheckpointStore, change: Callable[[dict[str, Any]], Any]) -> None:
    path = store.directory("one") / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_foreign_checkpoint_is_refused_with_the_way_out_described_and_trusted(
    foreign: CheckpointStore,
) -> None:
    error = refusal(foreign)
    assert error.reason == "checkpoint_foreign_key" and "jupyter gkews trust one" in error.hint
    told = describe(foreign, "one")
    assert told["signature"] == "of another key" and len(told["key"]) == 16
    assert set(told["names"]) == {"np", "big", "x"} and "numpy" in told["modules"]
    assert told["name"] == "theirs" and told["python"] and told["needs"] == []
    seen: list[tuple[int, int]] = []
    summary = trust(foreign, "one", progress=lambda done, total: seen.append((done, total)))
    assert summary["error"] is None and seen[-1][0] == seen[-1][1] > 2_400_000
    target: dict[str, Any] = {}
    assert restore(target, foreign, "one", verify="full").lost == []
    assert target["x"] == [1] and target["big"][-1] == 299_999
    assert [each["id"] for each in foreign.summaries()] == ["one", "zero"], "trusted last"
    assert describe(foreign, "one")["signature"] == "yours"
    path = foreign.directory("one") / "manifest.json"
    before = path.read_bytes()
    trust(foreign, "one")
    assert path.read_bytes() == before


def test_an_unsigned_checkpoint_is_refused_with_the_way_out_and_trusted(
    foreign: CheckpointStore,
) -> None:
    edit(foreign, lambda content: content.pop("signature"))
    error = refusal(foreign)
    assert error.reason == "checkpoint_unsigned" and "jupyter gkews trust one" in error.hint
    assert describe(foreign, "one")["signature"] == "none"
    trust(foreign, "one")
    assert restore({}, foreign, "one").kept == 3


def test_one_that_was_changed_after_it_was_signed_wants_more_than_a_yes(
    store: CheckpointStore, namespace: Make
) -> None:
    save(namespace(CELLS), store, checkpoint="one", prove=False)
    edit(store, lambda content: content["manifest"].update(notebook="/other.ipynb"))
    assert refusal(store).reason == "checkpoint_damaged"
    assert describe(store, "one")["signature"] == "changed after it was signed"
    with pytest.raises(GkewsError) as caught:
        trust(store, "one")
    assert caught.value.reason == "checkpoint_damaged" and "--altered" in caught.value.hint
    assert trust(store, "one", altered=True)["notebook"] == "/other.ipynb"
    assert restore({}, store, "one").kept == 3


@pytest.mark.parametrize("what", ["graph.pkl", "chunk", "chunk gone", "chunk a link"])
def test_nothing_is_trusted_whose_bytes_are_not_what_it_names_and_nothing_is_unpickled(
    foreign: CheckpointStore, tmp_path: Path, what: str
) -> None:
    proof = tmp_path / "it-ran"
    manifest = foreign.directory("one") / "manifest.json"
    before = manifest.read_bytes()
    if what == "graph.pkl":
        path = foreign.directory("one") / "graph.pkl"
        path.write_bytes(b"cos\nmkdir\n(V" + os.fsencode(proof) + b"\ntR.")
    else:
        path = max(foreign.root.glob("chunks/*/*"), key=lambda path: path.stat().st_size)
        data = bytearray(path.read_bytes())
        data[7] ^= 1
        path.unlink()
        if what == "chunk":
            path.write_bytes(data)
        elif what == "chunk a link":
            (tmp_path / "there").write_bytes(data)
            path.symlink_to(tmp_path / "there")
    with pytest.raises(GkewsError) as caught:
        trust(foreign, "one")
    assert caught.value.reason == "checkpoint_damaged" and "not whole" in caught.value.message
    assert not proof.exists() and manifest.read_bytes() == before
    assert refusal(foreign).reason == "checkpoint_foreign_key"


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(id="another"),
        lambda m: m.update(names=[1, 2]),
        lambda m: m.update(views=[[0, 0, 1 << 60, 0]]),
        lambda m: m.update(views=[[0, -8, 8, 0]]),
        lambda m: m.update(blocks=[[99]]),
        lambda m: m.update(chunks=[["../../key", 32, None]]),
        lambda m: m.update(chunks=[["blake3-" + "0" * 63 + "/", 32, None]]),
        lambda m: m.update(graph={"name": "md5-00", "bytes": 1}),
        lambda m: m.update(pickle_buffers=[10**6]),
        lambda m: m.pop("created"),
        lambda m: m.update(state=None),
    ],
)
def test_a_manifest_that_is_none_is_not_trusted(
    foreign: CheckpointStore, change: Callable[[dict[str, Any]], Any]
) -> None:
    edit(foreign, lambda content: change(content["manifest"]))
    with pytest.raises(GkewsError) as caught:
        trust(foreign, "one", altered=True)
    assert caught.value.reason == "checkpoint_damaged"


def test_a_newer_format_is_not_trusted(foreign: CheckpointStore) -> None:
    edit(foreign, lambda content: content.update(format=99))
    with pytest.raises(GkewsError) as caught:
        trust(foreign, "one")
    assert caught.value.reason == "checkpoint_too_new"


def test_after_the_key_was_lost_a_checkpoint_that_is_known_is_trusted_with_a_new_one(
    store: CheckpointStore, namespace: Make
) -> None:
    for checkpoint in ("one", "two"):
        save(namespace(CELLS), store, checkpoint=checkpoint, prove=False)
    (store.root / "key").write_bytes(b"half")
    assert "jupyter gkews trust one" in refusal(store).hint
    with pytest.raises(GkewsError) as caught:
        save({"y": 1}, store, checkpoint="three", prove=False)
    assert "jupyter gkews trust ID" in caught.value.hint
    trust(store, "one")
    assert restore({}, store, "one").kept == 3
    assert store.summaries()[-1]["error"]["reason"] == "checkpoint_foreign_key", "the other is not"
    assert [path.read_bytes() for path in store.root.glob("key.damaged-*")] == [b"half"]
    assert save({"y": 1}, store, checkpoint="three", prove=False)["error"] is None


def test_a_store_that_was_opened_to_others_is_closed_again(
    store: CheckpointStore, namespace: Make
) -> None:
    save(namespace("x = 1"), store, checkpoint="one", prove=False)
    for path, mode in ((store.root, 0o755), (store.root / "key", 0o666)):
        path.chmod(mode)
    save(namespace("x = 2"), store, checkpoint="two", prove=False)
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.root / "key").stat().st_mode) == 0o600


def test_where_permissions_cannot_be_had_nothing_is_written_or_believed(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(namespace("x = 1"), store, checkpoint="one", prove=False)
    # a file system without permissions shows the same rights whatever is set (no mount here)
    for path, mode in ((store.root, 0o777), (store.root / "key", 0o666)):
        path.chmod(mode)
    monkeypatch.setattr(os, "chmod", lambda path, mode: None)
    with pytest.raises(GkewsError) as caught:
        save(namespace("x = 2"), store, checkpoint="two", prove=False)
    assert caught.value.reason == "store_not_writable" and "no permissions" in caught.value.message
    error = refusal(store)
    assert error.reason == "checkpoint_foreign_key" and "other users" in error.message
    monkeypatch.undo()
    assert restore({}, store, "one").kept == 1


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b"null",
        b"\xff\xfe",
        b'{"format": 1, "manifest": null}',
        b'{"format": 1, "signature": {"mac": "x", "key": 5}, "manifest": {"kernel": "x"}}',
    ],
)
def test_whatever_lies_where_a_manifest_should_be_is_listed_with_an_error(
    store: CheckpointStore, data: bytes
) -> None:
    save({"x": 1}, store, checkpoint="good", prove=False)
    store.directory("odd").mkdir()
    (store.directory("odd") / "manifest.json").write_bytes(data)
    listed = {each["id"]: each["error"] for each in store.summaries()}
    assert listed["good"] is None and listed["odd"]["reason"].startswith("checkpoint_")
    for work in (lambda: restore({}, store, "odd"), lambda: trust(store, "odd", altered=True)):
        with pytest.raises(GkewsError) as caught:
            work()
        assert caught.value.reason.startswith("checkpoint_")
    assert store.collect(older_than_s=0)["checkpoints"] == []
    assert restore({}, store, "good").kept == 1


def test_a_link_among_the_leftovers_is_removed_and_what_it_points_to_stays(
    store: CheckpointStore, tmp_path: Path
) -> None:
    save({"x": 1}, store, checkpoint="good", prove=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_bytes(b"x" * 10_000)
    (store.root / "checkpoints" / ".saving-x").symlink_to(tmp_path / "mine")
    (store.root / "chunks" / "zz").symlink_to(tmp_path / "mine")
    assert store.collect()["leftovers"]["bytes"] < 1000
    assert (tmp_path / "mine" / "file").stat().st_size == 10_000
    assert not (store.root / "checkpoints" / ".saving-x").is_symlink()
