"""A graph that is compressed loads as a plain one does, and is never read further than it says."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import compression, transfer, trust
from jupyter_gkews.kernel.checkpoint import manifest as manifests
from jupyter_gkews.kernel.checkpoint.environment import differences
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

CELLS = """
words = ["a word like the others", "another"] * 500
table = {n: words[n % 7] * 3 for n in range(2000)}
twin = words
def f():
    return len(table)
"""


@pytest.fixture(params=["zstandard", "pyarrow", "gzip"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a kernel's environment has: one of the libraries, or none and so gzip."""
    kind: str = request.param
    if kind != "gzip":
        pytest.importorskip(kind)
    found = {"zstandard": "zstandard", "pyarrow": "pyarrow", "gzip": None}[kind]
    monkeypatch.setattr(compression, "_zstd", lambda *, reading: found)
    return kind


def test_what_was_compressed_comes_back_equal_and_says_how(
    store: CheckpointStore, namespace: Make, library: str
) -> None:
    live = namespace(CELLS)
    plain = save(live, store, checkpoint="plain", prove="off")
    summary = save(live, store, checkpoint="packed", compress="zstd", prove="off")
    told = summary["compressed"]
    assert told["codec"] == ("gzip" if library == "gzip" else "zstd")
    assert bool(told["why"]) == (library == "gzip")
    assert plain["compressed"] is None and plain["format"] < summary["format"] == 3
    size = (store.directory("packed") / "graph.pkl").stat().st_size
    assert size == told["bytes"] < told["plain"] / 4
    assert summary["bytes"]["written"] < plain["bytes"]["written"] / 4
    target = namespace()
    progress: list[tuple[int, int]] = []
    restore(
        target,
        store,
        "packed",
        progress=lambda step, done, total: (
            progress.append((done, total)) if step == "rebuilding" else None
        ),
    )
    assert target["table"] == live["table"] and target["twin"] is target["words"]
    assert target["f"]() == 2000
    assert progress[-1][0] <= progress[-1][1] == told["plain"]


def test_the_same_is_compressed_to_the_same_bytes_and_its_proof_is_carried_over(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(CELLS)
    first = save(live, store, checkpoint="one", compress="zstd")
    assert first["proved"]["how"] == "scratch"
    again = save(live, store, checkpoint="two", compress="zstd")
    assert again["proved"]["by"] == "one"


def test_a_small_graph_and_one_that_does_not_get_smaller_stay_as_they_are(
    store: CheckpointStore, namespace: Make
) -> None:
    assert (
        save(namespace("x = 1"), store, checkpoint="a", compress="zstd", prove="off")["compressed"]
        is None
    )
    assert (store.directory("a") / "graph.pkl").stat().st_size < compression.SMALL
    noise = namespace("import os; x = os.urandom(100_000)")
    summary = save(noise, store, checkpoint="b", compress="zstd", prove="off")
    assert summary["compressed"] is None and summary["format"] == 1
    assert [p.name for p in store.directory("b").iterdir() if "packed" in p.name] == []


def test_arrays_are_never_compressed(store: CheckpointStore, namespace: Make) -> None:
    pytest.importorskip("numpy")
    live = namespace("import numpy\nz = numpy.zeros(1 << 20)\n" + CELLS)
    save(live, store, checkpoint="one", compress="zstd", prove="off")
    chunks = list((store.root / "chunks").glob("*/*"))
    assert sum(path.stat().st_size for path in chunks) >= 8 << 20


def test_an_environment_without_the_codec_says_what_to_install_and_loses_nothing(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compression.can_read("zstd"):
        pytest.skip("nothing here can read zstd")
    pytest.importorskip("pyarrow")
    live = namespace(CELLS)
    save(live, store, checkpoint="one", compress="zstd", prove="off")
    before = (store.directory("one") / "graph.pkl").read_bytes()
    with monkeypatch.context() as without:
        without.setattr(compression, "_zstd", lambda *, reading: None)
        target = namespace("mine = 1")
        with pytest.raises(GkewsError) as caught:
            restore(target, store, "one")
        assert caught.value.reason == "restore_failed" and "zstandard" in caught.value.hint
        assert set(target) >= {"mine"} and "words" not in target
    assert (store.directory("one") / "graph.pkl").read_bytes() == before
    rows = differences({}, {"python": "3.11.7", "packages": {}}, [], ["zstd"])
    assert [row["what"] for row in rows] == ["zstandard"]
    assert differences({}, {"python": "3.11.7", "packages": {"zstandard": "1"}}, [], ["zstd"]) == []
    assert differences({}, {"python": "3.14.0", "packages": {}}, [], ["zstd"]) == []


def test_an_older_reader_refuses_it_clearly(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    monkeypatch.setattr(manifests, "FORMAT", 2)
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    assert caught.value.reason == "checkpoint_too_new"


@pytest.mark.parametrize(
    ("plain", "told"), [(-1000, "more than was saved"), (1000, "ends too early")]
)
def test_no_more_is_decompressed_than_the_manifest_states(
    store: CheckpointStore, namespace: Make, plain: int, told: str, library: str
) -> None:
    save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    manifest = store.manifest("one")
    manifest.graph["plain"] += plain
    path = store.directory("one") / "graph.pkl"
    with pytest.raises(GkewsError, match=told) as caught, compression.open_graph(
        path, manifest
    ) as graph:  # fmt: skip
        while graph.read(1 << 16):
            pass
    assert caught.value.reason == "checkpoint_damaged"


def test_what_is_no_compressed_data_is_damage_and_not_an_error_of_its_library(
    store: CheckpointStore, namespace: Make, library: str
) -> None:
    save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    manifest = store.manifest("one")
    path = store.directory("one") / "graph.pkl"
    path.write_bytes(b"certainly not a compressed file" * 100)
    with pytest.raises(GkewsError) as caught, compression.open_graph(path, manifest) as graph:
        graph.read()
    assert caught.value.reason == "checkpoint_damaged"
    with pytest.raises(GkewsError) as caught:
        restore(namespace(), store, "one")
    assert caught.value.reason == "checkpoint_damaged"


def test_it_travels_is_trusted_and_is_collected_like_any_other(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    transfer.export(store, "one", tmp_path / "one.tar")
    other = CheckpointStore(tmp_path / "other")
    transfer.import_(other, tmp_path / "one.tar")
    with pytest.raises(GkewsError):
        restore(namespace(), other, "one")
    trust.trust(other, "one")
    target = namespace()
    restore(target, other, "one")
    assert len(target["table"]) == 2000
    other.gc()
    restore(namespace(), other, "one")
    assert other.delete("one") > 0


def test_a_manifest_that_names_an_unknown_codec_is_not_trusted(
    store: CheckpointStore, namespace: Make
) -> None:
    save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    path = store.directory("one") / "manifest.json"
    outer = json.loads(path.read_text())
    outer["manifest"]["graph"]["codec"] = "rot13"
    outer["signature"] = None
    path.write_text(json.dumps(outer))
    with pytest.raises(GkewsError) as caught:
        trust.trust(store, "one")
    assert caught.value.reason == "checkpoint_damaged"


def test_a_cancel_while_it_is_compressed_leaves_nothing(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = []
    real = compression.pack

    def pack(*args: Any, **kwargs: Any) -> None:
        packing.append(True)
        real(*args, **kwargs)

    monkeypatch.setattr(compression, "pack", pack)
    with pytest.raises(GkewsError) as caught:
        save(
            namespace(CELLS),
            store,
            checkpoint="one",
            compress="zstd",
            prove="off",
            cancelled=lambda: bool(packing),
        )
    assert caught.value.reason == "cancelled"
    assert list((store.root / "checkpoints").iterdir()) == []


def test_another_way_to_compress_is_refused(store: CheckpointStore, namespace: Make) -> None:
    with pytest.raises(GkewsError) as caught:
        save(namespace("x = 1"), store, checkpoint="one", compress="lzma", prove="off")
    assert caught.value.reason == "bad_request"


def test_gzip_files_are_those_that_any_tool_reads(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_zstd", lambda *, reading: None)
    summary = save(namespace(CELLS), store, checkpoint="one", compress="zstd", prove="off")
    data = gzip.decompress((store.directory("one") / "graph.pkl").read_bytes())
    assert len(data) == summary["compressed"]["plain"]


def test_a_large_library_is_not_imported_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    if sys.version_info < (3, 14):
        assert compression._zstd(reading=False) is None
