"""The demo that `make demo` runs, end to end with a tiny model: a real server, a real kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "qwen_pause_resume.ipynb"


def run_demo(work: Path, notebook: Path = NOTEBOOK) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "examples.demo"),
            *("--work", str(work), "--notebook", str(notebook)),
        ],
        cwd=ROOT,
        env={**os.environ, "DEMO_MODEL": "tiny"},
        capture_output=True,
        text=True,
        timeout=280,
    )


def processes_that_mention(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or []):
            found.append(process)
    return found


def notebook_with(tmp_path: Path, cell: str, *, after_the_pause: bool) -> Path:
    """A copy of the demo notebook, beside its module, with one more cell in one of the parts."""
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    pause = next(i for i, c in enumerate(cells) if "pause" in c["metadata"].get("tags", []))
    added = {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell}
    cells.insert(pause + 1 if after_the_pause else pause, added)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "qwen_model.py").write_bytes((NOTEBOOK.parent / "qwen_model.py").read_bytes())
    copy = folder / "demo.ipynb"
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    return copy


def test_the_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    work = tmp_path / "work"
    done = run_demo(work)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything came back" in done.stdout
    assert "RANDOM weights" in done.stdout  # said plainly
    assert "WRONG" not in done.stdout
    for label in ("bytes written", "kernel memory paused", "pause, s a phase", "lost"):
        assert label in done.stdout
    assert not work.exists()
    assert not processes_that_mention(work)


def test_the_demo_fails_when_a_cell_after_the_resume_finds_something_wrong(tmp_path: Path) -> None:
    notebook = notebook_with(tmp_path, "assert answer == 'other'", after_the_pause=True)
    done = run_demo(tmp_path / "work", notebook)
    assert done.returncode == 1
    assert "WRONG cell 1 after the resume" in done.stdout
    assert not processes_that_mention(tmp_path / "work")


def test_the_demo_fails_when_something_unexpected_is_lost(tmp_path: Path) -> None:
    cell = "also_lost = (line for line in 'ab')\nnext(also_lost)"
    notebook = notebook_with(tmp_path, cell, after_the_pause=False)
    done = run_demo(tmp_path / "work", notebook)
    assert done.returncode == 1
    assert "WRONG first pause: lost the generator and nothing else" in done.stdout
    assert "also_lost" in done.stdout


def test_the_demo_empties_no_folder_that_it_did_not_make(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("mine", encoding="utf-8")
    done = run_demo(tmp_path)
    assert done.returncode == 2
    assert "will not empty it" in done.stderr
    assert mine.read_text(encoding="utf-8") == "mine"
