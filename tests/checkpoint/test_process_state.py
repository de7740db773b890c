"""What belongs to the process: looked at truly, put back carefully, secrets never written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import process_state
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "OPENAI_API_KEY", "MY_CREDENTIALS"]
)
def test_a_secret_is_named_as_lost_and_written_nowhere(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hush-4711")
    monkeypatch.setenv("MY_SETTING", "loud-1147")
    save({"a": 1}, store, checkpoint="one", prove=False)
    process = store.manifest("one").process
    (row,) = [row for row in process if row["what"] == f"environment variable {name}"]
    assert row["fate"] == "lost" and "secret" in row["reason"]
    written = b"".join(path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    assert b"hush-4711" not in written and b"loud-1147" in written


def test_only_what_cells_changed_in_the_environment_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = process_state.capture().state["environ"]["set"]
    assert "PATH" not in state
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/more")
    assert process_state.capture().state["environ"]["set"]["PATH"].endswith(":/more")


def test_a_child_process_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        rows = {row["what"]: row for row in process_state.capture().rows}
        child.communicate(b"\n")
    assert rows["child processes"]["fate"] == "lost"
    assert f"({child.pid})" in rows["child processes"]["reason"]


def test_another_python_keeps_its_own_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/here/lib"])
    saved = ["/mine", "/old/env/lib/python3.9/site-packages", ""]
    state: dict[str, Any] = {"sys_path": saved, "prefixes": ["/old/env"]}
    assert process_state.apply_paths(state) == []
    assert sys.path == ["/mine", "", "/here/lib"]
    here = sorted({sys.prefix, sys.base_prefix})
    process_state.apply_paths({"sys_path": saved, "prefixes": here})
    assert sys.path == [*saved, "/here/lib"]


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    problems = process_state.apply_paths({"cwd": str(tmp_path / "gone")})
    assert len(problems) == 1 and "gone could not be entered" in problems[0]
