"""Weights in safetensors files are referred to, and a file that is not as it was is told."""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from safetensors.numpy import save_file

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import safetensors_files
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.placeholders import LostVariableError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Namespace = Callable[..., dict[str, Any]]

MB = 1 << 20
LOAD = "from safetensors.numpy import load_file\nweights = load_file({path!r})\nother = [1, 2]"


@pytest.fixture(autouse=True)
def durable_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests' own folders, which are temporary ones, count as folders that stay."""
    monkeypatch.setattr(safetensors_files, "NOT_DURABLE", ())
    monkeypatch.setattr(safetensors_files, "_opened", {})
    original = getattr(safetensors.safe_open, "_original", safetensors.safe_open)
    monkeypatch.setattr(safetensors, "safe_open", original)
    safetensors_files.watch()
    monkeypatch.setattr("safetensors.numpy.safe_open", safetensors.safe_open, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two tensors that are large enough, and a small one."""
    return write(tmp_path / "weights" / "model.safetensors")


def write(path: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {
        "up": random.standard_normal((1024, 512), dtype=np.float32),
        "down": random.standard_normal((700, 700), dtype=np.float32),
        "bias": random.standard_normal(5, dtype=np.float32),
    }
    save_file(tensors, path)
    return path


def take(ns: dict[str, Any], store: CheckpointStore, **how: Any) -> dict[str, Any]:
    return save(ns, store, checkpoint="one", prove=False, **how)


def offset_of(path: Path, name: str) -> int:
    data = path.read_bytes()
    import json

    length = int.from_bytes(data[:8], "little")
    return 8 + length + int(json.loads(data[8 : 8 + length])[name]["data_offsets"][0])


def flip(path: Path, at: int, *, unseen: bool = False) -> None:
    """Change one byte of a file in place; `unseen`: its times say nothing of it."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    if unseen:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_weights_that_stand_in_a_file_are_not_written_again(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    ns = namespace(LOAD.format(path=str(file)))
    expected = {name: array.copy() for name, array in ns["weights"].items()}
    nothing = save(namespace(), store, checkpoint="none", prove=False)["bytes"]["written"]
    summary = take(ns, store)
    assert summary["bytes"]["written"] < nothing + 50_000  # besides what the process holds
    assert summary["bytes"]["referenced"] == 1024 * 512 * 4 + 700 * 700 * 4
    (row,) = summary["files"]
    assert row["path"] == str(file) and row["names"] == ["weights"] and row["problem"] is None
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    back = namespace()
    report = restore(back, store, "one")
    assert not report.lost
    for name, array in expected.items():
        assert np.array_equal(back["weights"][name], array)
    back["weights"]["up"][:] = 0
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    again = save(back, store, checkpoint="two", prove=False)
    assert again["bytes"]["referenced"] == 700 * 700 * 4  # "up" was changed: it is a copy now


def test_memory_that_maps_a_file_is_mapped_again_and_small_parts_with_it(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    at = {name: offset_of(file, name) for name in ("up", "bias")}
    with open(file, "rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    ns = namespace()
    ns["up"] = np.frombuffer(mapped, "f4", 1024 * 512, at["up"])
    ns["bias"] = np.frombuffer(mapped, "f4", 5, at["bias"])
    expected = ns["up"].copy(), ns["bias"].copy()
    summary = take(ns, store)
    assert summary["bytes"]["referenced"] == 1024 * 512 * 4 + 5 * 4
    (reference,) = store.manifest("one").referenced()
    assert reference.how == "map" and reference.names == ["up", "bias"]
    back = namespace()
    restore(back, store, "one", verify="full")
    assert np.array_equal(back["up"], expected[0]) and np.array_equal(back["bias"], expected[1])
    # the same place within a page: what a sum gives may depend on it
    for name in ("up", "bias"):
        assert back[name].ctypes.data % 4096 == ns[name].ctypes.data % 4096
    back["bias"][0] = 9.0
    assert np.array_equal(back["up"], expected[0])


def test_memory_that_was_written_to_is_not_a_reference_unless_it_is_equal(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    with open(file, "rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    ns = namespace()
    for name, count in (("up", 1024 * 512), ("down", 700 * 700)):
        ns[name] = np.frombuffer(mapped, "f4", count, offset_of(file, name))
    ns["up"][1000] += 1
    ns["down"][1000] += 0  # written to, with what was there
    expected = ns["up"].copy()
    assert take(ns, store)["bytes"]["referenced"] == 700 * 700 * 4
    back = namespace()
    restore(back, store, "one")
    assert np.array_equal(back["up"], expected) and np.array_equal(back["down"], ns["down"])


@pytest.mark.parametrize(("source", "target"), [("f4", "f2"), ("f2", "f4"), ("f8", "f4")])
def test_a_cast_is_recorded_and_checked(
    namespace: Namespace, store: CheckpointStore, tmp_path: Path, source: str, target: str
) -> None:
    values = np.random.default_rng(1).standard_normal(3 * MB).astype(source)
    values[:3] = np.nan, np.inf, -0.0
    path = tmp_path / "cast.safetensors"
    save_file({"w": values}, path)
    ns = namespace(LOAD.format(path=str(path)))
    ns["weights"] = ns["weights"]["w"].astype(target)
    summary = take(ns, store)
    assert summary["bytes"]["referenced"] == ns["weights"].nbytes
    (reference,) = store.manifest("one").referenced()
    assert reference.cast is not None and reference.how == "read"
    back = namespace()
    restore(back, store, "one")
    assert back["weights"].tobytes() == ns["weights"].tobytes()
    back["weights"][0] = 1  # the process's own memory
    flip(path, offset_of(path, "w") + 40)
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    assert caught.value.reason == "weights_missing"


def test_a_cast_with_one_number_changed_is_copied(
    namespace: Namespace, store: CheckpointStore, tmp_path: Path
) -> None:
    path = tmp_path / "cast.safetensors"
    save_file({"w": np.random.default_rng(1).standard_normal(MB)}, path)
    ns = namespace(LOAD.format(path=str(path)))
    ns["weights"] = ns["weights"]["w"].astype("f4")
    ns["weights"][17] += 1
    assert take(ns, store)["bytes"]["referenced"] == 0


def test_a_file_that_vanished_is_told_before_anything_is_loaded(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    take(namespace(LOAD.format(path=str(file))), store)
    file.unlink()
    back = namespace("mine = 3")
    with pytest.raises(GkewsError) as caught:
        restore(back, store, "one")
    error = caught.value
    assert error.reason == "weights_missing" and str(file) in error.message
    assert "weights" in error.message and "accept_missing" in error.hint
    assert back["mine"] == 3 and "weights" not in back
    told = store.missing_files("one")
    assert told is not None and told.reason == "weights_missing"
    assert store.summary("one")["files"][0]["problem"] == "it is not there any more"


def test_without_the_file_only_what_needs_it_is_lost(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    take(namespace(LOAD.format(path=str(file))), store)
    bias = namespace(LOAD.format(path=str(file)))["weights"]["bias"]
    file.unlink()
    back = namespace()
    report = restore(back, store, "one", accept_missing=True)
    assert sorted(row["name"] for row in report.lost) == ["weights['down']", "weights['up']"]
    assert all(str(file) in row["reason"] for row in report.lost)
    assert back["other"] == [1, 2] and np.array_equal(back["weights"]["bias"], bias)
    with pytest.raises(LostVariableError):
        back["weights"]["up"] + 1


@pytest.mark.parametrize("unseen", [False, True])
def test_a_file_changed_by_one_byte_never_gives_wrong_numbers(
    namespace: Namespace, store: CheckpointStore, file: Path, unseen: bool
) -> None:
    take(namespace(LOAD.format(path=str(file))), store)
    flip(file, offset_of(file, "down") + 5, unseen=unseen)
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    assert caught.value.reason == "weights_missing" and "changed" in caught.value.message
    if not unseen:  # the server looks into files that were touched, and trusts those that were not
        assert store.missing_files("one") is not None
    back = namespace()
    report = restore(back, store, "one", accept_missing=True)
    assert [row["name"] for row in report.lost] == ["weights['down']"]
    assert back["weights"]["up"].shape == (1024, 512)


def test_all_names_are_told_that_need_what_was_changed(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    load = LOAD.format(path=str(file))
    copies = "half = weights['up'].astype('float16')\nother_copy = weights['up'].copy()"
    take(namespace(load, copies), store)
    flip(file, offset_of(file, "up") + 5, unseen=True)
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    report = restore(namespace(), store, "one", accept_missing=True)
    lost = {row["name"].split("[")[0] for row in report.lost}
    assert lost >= {"weights", "other_copy"}
    assert all(name in caught.value.message for name in lost), caught.value.message


def test_a_change_of_what_is_not_used_is_no_change(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    ns = namespace(LOAD.format(path=str(file)), "weights = weights['up']")
    take(ns, store)
    flip(file, offset_of(file, "down") + 5)
    assert store.missing_files("one") is None
    back = namespace()
    restore(back, store, "one")
    assert np.array_equal(back["weights"], ns["weights"])


@pytest.mark.parametrize("how", ["replaced", "cut", "grown"])
def test_a_file_that_was_replaced_counts_by_its_bytes(
    namespace: Namespace, store: CheckpointStore, file: Path, how: str
) -> None:
    ns = namespace(LOAD.format(path=str(file)))
    take(ns, store)
    copy = file.with_name("copy")
    shutil.copyfile(file, copy)
    os.replace(copy, file)
    if how == "cut":
        os.truncate(file, file.stat().st_size - 5)
    if how == "grown":
        with open(file, "ab") as opened:
            opened.write(b"more")
    if how == "cut":
        with pytest.raises(GkewsError, match="shorter"):
            restore(namespace(), store, "one")
        return
    assert store.missing_files("one") is None
    back = namespace()
    assert not restore(back, store, "one").lost
    assert np.array_equal(back["weights"]["up"], ns["weights"]["up"])


def test_a_hub_cache_that_moved_is_found_and_one_that_is_gone_can_be_fetched_again(
    namespace: Namespace,
    store: CheckpointStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = tmp_path / "hub"
    folder = hub / "models--acme--tiny"
    blob = write(folder / "blobs" / "0123abcd")
    link = folder / "snapshots" / "c0ffee" / "model.safetensors"
    link.parent.mkdir(parents=True)
    link.symlink_to(Path("../../blobs/0123abcd"))
    take(namespace(LOAD.format(path=str(link))), store)
    assert store.summary("one")["files"][0]["path"] == str(link)
    moved = tmp_path / "elsewhere"
    hub.rename(moved)
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    assert "hf download acme/tiny model.safetensors --revision c0ffee" in caught.value.hint
    monkeypatch.setenv("HF_HUB_CACHE", str(moved))
    back = namespace()
    assert store.missing_files("one") is None and not restore(back, store, "one").lost
    assert back["weights"]["up"].shape == (1024, 512)
    (moved / blob.relative_to(hub)).unlink()
    assert store.missing_files("one") is not None


def test_files_that_will_not_stay_are_copied(
    namespace: Namespace, store: CheckpointStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns = namespace(LOAD.format(path=str(file)))
    monkeypatch.setattr(safetensors_files, "NOT_DURABLE", (str(file.parent),))
    assert take(ns, store)["bytes"]["referenced"] == 0


def test_with_references_off_everything_is_copied(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    ns = namespace(LOAD.format(path=str(file)))
    summary = take(ns, store, reference_files=False)
    assert summary["bytes"]["referenced"] == 0 and summary["files"] == []
    assert store.manifest("one").format == 1
    file.unlink()
    back = namespace()
    assert not restore(back, store, "one").lost


def test_what_survives_tells_the_weights_that_need_not_be_written(
    namespace: Namespace, store: CheckpointStore, file: Path
) -> None:
    ns = namespace(LOAD.format(path=str(file)))
    told = survives(ns, store)["bytes"]
    assert told["referenced"] == 1024 * 512 * 4 + 700 * 700 * 4 and told["to_write"] < 50_000
    assert survives(ns, store, reference_files=False)["bytes"]["referenced"] == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\0\0\0\0\0\0\0{}",
        b"\xff" * 8 + b"{" + b"x" * 100,
        b"\x10\0\0\0\0\0\0\0{not json at all",
        b'\x3b\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}    ',
    ],
)
def test_files_that_only_look_like_weights_are_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "strange.safetensors"
    path.write_bytes(data)
    found = safetensors_files.read(str(path))
    assert found is None or found.tensors == []


def test_safe_open_is_as_it_was_but_for_the_note(file: Path) -> None:
    opened = safetensors.safe_open(str(file), framework="np")
    assert isinstance(opened, safetensors.safe_open)
    assert not isinstance(3, safetensors.safe_open)
    assert safetensors.safe_open.__name__ == "safe_open"
    with pytest.raises(FileNotFoundError):
        safetensors.safe_open(str(file) + ".not", framework="np")
    with safetensors.safe_open(filename=str(file), framework="np") as entered:
        assert sorted(entered.keys()) == ["bias", "down", "up"]
    assert safetensors_files.opened() == [os.path.realpath(file)]
