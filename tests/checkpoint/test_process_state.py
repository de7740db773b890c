"""What belongs to the process: looked at truly, put back carefully, secrets never written."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import process_state, random_state
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


def test_only_files_that_a_variable_opens_again_are_told_as_opened_again(
    store: CheckpointStore, tmp_path: Path
) -> None:
    kept, unnamed, log = (str(tmp_path / name) for name in ("kept.txt", "unnamed.txt", "log.txt"))
    script = f"""
import json, os, sys
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
file = open({kept!r}, "w")
number = os.open({unnamed!r}, os.O_CREAT | os.O_RDWR)
again = os.open({log!r}, os.O_WRONLY)  # another descriptor of where the output goes
rows = survives({{"file": file}}, CheckpointStore({str(store.root)!r}))["process"]
json.dump(rows, sys.stderr)
"""
    with open(log, "w") as output:
        done = subprocess.run(
            [sys.executable, "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    rows = {row["what"]: row for row in json.loads(done.stderr)}
    assert rows["open files"]["reason"] == f"opened again at their position: {kept}"
    assert rows["open files"]["fate"] == "rebuilt"
    assert rows["other open files"]["fate"] == "lost"
    assert unnamed in rows["other open files"]["reason"]
    assert log not in done.stderr


def test_a_part_of_the_state_that_cannot_be_read_loses_only_itself() -> None:
    draws = random_state.capture(lambda *_row: None)
    expected = random.random()
    problems = process_state.apply_objects({}, {"interpreter": {"limits": 5}, "rng": draws})
    assert len(problems) == 1 and problems[0].startswith("interpreter: ")
    assert random.random() == expected
