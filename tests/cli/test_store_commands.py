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


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_a_checkpoint_goes_from_one_user_to_another_and_is_trusted_by_its_path(
    gkews: Gkews, store: CheckpointStore, tmp_path: Path, name: str
) -> None:
    said = gkews("export", "one", tmp_path / name)
    assert said.code == 0 and str(tmp_path / name) in said.out, said.err
    mine = CheckpointStore(tmp_path / "mine")
    said = gkews("trust", tmp_path / name, "--store", mine.root)
    assert said.code == 1 and "bad_request" in said.err and "--yes" in said.err
    assert "of another key" in said.out and "variables   x" in said.out
    assert "runs code" in said.out
    assert mine.summaries()[0]["error"]["reason"] == "checkpoint_foreign_key"
    said = gkews("trust", tmp_path / name, "--yes", "--store", mine.root)
    assert said.code == 0 and "signed with your key now" in said.out, said.err
    assert mine.summary("one")["counts"]["kept"] == 1
    assert "already" in gkews("trust", "one", "--store", mine.root).out
    assert gkews("trust", "one", "--store", mine.root, "--json").json["id"] == "one"


def test_an_answer_decides_about_trust(
    gkews: Gkews, store: CheckpointStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gkews("export", "one", tmp_path / "out.tar")
    mine = CheckpointStore(tmp_path / "mine")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("", 1), ("no", 1), ("y", 0)):
        monkeypatch.setattr("builtins.input", lambda _question, answer=answer: answer)
        assert gkews("trust", tmp_path / "out.tar", "--store", mine.root).code == code
    assert mine.summary("one")["error"] is None


def test_import_says_that_it_is_not_trusted_yet(
    gkews: Gkews, store: CheckpointStore, tmp_path: Path
) -> None:
    gkews("export", "one", tmp_path / "out")
    said = gkews("import", tmp_path / "out", "--store", tmp_path / "mine")
    assert said.code == 0 and "jupyter gkews trust one" in said.out
    said = gkews("import", tmp_path / "out", "--store", tmp_path / "mine", "--json")
    assert said.json["signature"] == "of another key" and said.json["new"] == 0
    said = gkews("import", tmp_path / "nothing")
    assert said.code == 1 and "bad_request" in said.err and "hint: " in said.err
    said = gkews("export", "nothing", tmp_path / "x")
    assert said.code == 1 and "checkpoint_not_found" in said.err
    assert gkews("trust", "../one", "--yes").code == 1


def test_what_a_stranger_wrote_cannot_command_the_terminal(
    gkews: Gkews, store: CheckpointStore, tmp_path: Path
) -> None:
    path = store.directory("one") / "manifest.json"
    content = json.loads(path.read_text())
    content["manifest"]["notebook"] = "x\x1b]0;owned\x07\nall is well"
    path.write_text(json.dumps(content))
    said = gkews("trust", "one")
    assert "\x1b" not in said.out and "\x07" not in said.out
    assert "changed after it was signed" in said.out


def test_show_tells_what_a_checkpoint_is_and_what_differs_here(
    gkews: Gkews, store: CheckpointStore
) -> None:
    save(
        {"x": 1, "lines": (n for n in "ab")},
        store,
        checkpoint="two",
        name="milestone",
        kernel={"id": "k", "name": "python3"},
        prove=False,
    )
    said = gkews("show", "two")
    assert said.code == 0, said.err
    assert "milestone" in said.out and "generator" in said.out and "Nothing differs" in said.out
    assert gkews("show", "two", "--json").json["differences"] == []
    assert "not known" in gkews("show", "one").out, "it was made by no kernel"
    said = gkews("show", "nothing")
    assert said.code == 1 and "checkpoint_not_found" in said.err


def test_show_asks_the_server(
    server: LiveServer, gkews: Gkews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.base / "runtime"))
    kernel = server.notebook("show.ipynb").ready()
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    said = gkews("show", checkpoint, "--kernel", "show.ipynb")
    assert said.code == 0 and "show.ipynb" in said.out and "Nothing differs" in said.out
    assert gkews("show", "nothing").code == 1
