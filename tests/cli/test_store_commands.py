"""The commands that work on a store: with a server that has it, and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from live_server import LiveServer

from jupyter_gkews.cli import main
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Gkews = Callable[..., Said]


@pytest.fixture
def gkews(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> Gkews:
    """Run a command where no server runs and the store is in the data directory."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "no-servers"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)

    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """The store that a server of this user would have, with one checkpoint."""
    made = CheckpointStore(tmp_path / "data" / "gkews")
    save({"x": [1]}, made, checkpoint="one", kernel={"id": "k"}, prove=False)
    return made


def stray(store: Path) -> Path:
    path = store / "chunks" / "ab" / f"blake3-{'ab' * 32}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 5000)
    return path


def test_gc_without_a_server_works_on_the_configured_store(
    gkews: Gkews, store: CheckpointStore
) -> None:
    path = stray(store.root)
    told = gkews("gc", "--dry-run")
    assert told.code == 0, told.err
    assert "5.0 kB would be freed" in told.out and "Would be removed: 0 checkpoints" in told.out
    assert str(store.root) in told.out and path.exists()
    report = gkews("gc", "--json").json["stores"][0]
    assert report["path"] == str(store.root) and report["bytes_freed"] == 5000
    assert not path.exists() and store.summaries()[0]["error"] is None


def test_gc_keeps_what_a_paused_kernel_needs_also_if_its_record_cannot_be_read(
    gkews: Gkews, store: CheckpointStore
) -> None:
    from jupyter_gkews.kernel.checkpoint import sweep

    save({"x": [2]}, store, checkpoint="two", kernel={"id": "k"}, prove=False)
    paused = store.root / "paused"
    paused.mkdir()
    record = {
        "kernel": "k",
        "kernel_name": "python3",
        "checkpoint": "one",
        "since": "",
        "format": 1,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "JUST_WRITTEN_S", -1.0)
        for text, going in ((json.dumps(record), []), ("{", []), (None, ["one"])):
            if text is None:
                (paused / "k.json").unlink()
            else:
                (paused / "k.json").write_text(text)
            report = gkews("gc", "--keep", "1", "--dry-run", "--json").json["stores"][0]
            assert [row["id"] for row in report["checkpoints"]] == going


def test_gc_takes_a_store_by_its_folder(gkews: Gkews, tmp_path: Path) -> None:
    other = CheckpointStore(tmp_path / "other")
    save({"x": 1}, other, checkpoint="one", prove=False)
    stray(other.root)
    assert gkews("gc", "--store", other.root, "--json").json["stores"][0]["bytes_freed"] == 5000
    assert gkews("gc", "--store", tmp_path / "nothing").code == 0
    assert not (tmp_path / "nothing").exists()


def test_gc_finds_the_store_of_the_configuration(
    gkews: Gkews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    (config / "jupyter_server_config.py").write_text(
        f"c.GkewsApp.store_dir = {str(tmp_path / 'elsewhere')!r}"
    )
    save({"x": 1}, CheckpointStore(tmp_path / "elsewhere"), checkpoint="one", prove=False)
    assert "elsewhere: 1 checkpoints" in gkews("gc", "--dry-run").out


@pytest.mark.parametrize(
    "words",
    [
        ("--older-than", "soon"),
        ("--older-than", "30"),
        ("--older-than", "-1d"),
        ("--keep", "0"),
        ("--keep", "-3"),
        ("--keep", "two"),
    ],
)
def test_a_rule_that_makes_no_sense_is_a_usage_error(gkews: Gkews, words: tuple[str, str]) -> None:
    said = gkews("gc", *words)
    assert said.code == 2 and "usage:" in said.err


def test_gc_goes_through_the_server_that_has_the_store(
    server: LiveServer, gkews: Gkews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.base / "runtime"))
    kernel = server.notebook("gc.ipynb").ready()
    kernel.run("x = 41")
    kernel.do("pause")
    path = stray(server.store)
    assert "5.0 kB would be freed" in gkews("gc", "--dry-run", "--keep", "1").out
    said = gkews("gc", "--store", server.store, "--older-than", "0s")
    assert "5.0 kB freed" in said.out and not path.exists()
    assert kernel.run("x + 1") == "42"
