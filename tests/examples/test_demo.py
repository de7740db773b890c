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


def command(work: Path, notebook: Path = NOTEBOOK, *more: str) -> dict[str, Any]:
    """The arguments of subprocess that start the demo."""
    return {
        "args": [
            *(sys.executable, "-m", "examples.demo"),
            *("--work", str(work), "--notebook", str(notebook)),
            *more,
        ],
        "cwd": ROOT,
        "env": {**os.environ, "DEMO_MODEL": "tiny"},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def run_demo(work: Path, notebook: Path = NOTEBOOK, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**command(work, notebook, *more), timeout=280)


def processes_that_mention(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or []):
            found.append(process)
    return found


def notebook_with(tmp_path: Path, *, before_the_pause: str, after_the_resume: str) -> Path:
    """A copy of the demo notebook, beside its module, with one more cell in each of its parts."""
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    pause = next(i for i, c in enumerate(cells) if "pause" in c["metadata"].get("tags", []))
    for position, source in ((pause + 1, after_the_resume), (pause, before_the_pause)):
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
        cells.insert(position, cell)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "qwen_model.py").write_bytes((NOTEBOOK.parent / "qwen_model.py").read_bytes())
    copy = folder / "demo.ipynb"
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    return copy


def test_the_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    work = tmp_path / "work"
    done = run_demo(work)
    if "Process snapshots are left out" not in done.stdout:
        assert "ok   snapshot: and ticks on" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything came back" in done.stdout
    assert "RANDOM weights" in done.stdout  # said plainly
    assert "WRONG" not in done.stdout
    for label in ("bytes written", "kernel memory paused", "pause, s a phase", "lost"):
        assert label in done.stdout
    assert not work.exists()
    assert not processes_that_mention(work)


def test_the_demo_fails_when_something_is_wrong_or_lost_that_should_not_be(tmp_path: Path) -> None:
    notebook = notebook_with(
        tmp_path,
        before_the_pause="also_lost = (line for line in 'ab')\nnext(also_lost)",
        after_the_resume="assert answer == 'other'",
    )
    done = run_demo(tmp_path / "work", notebook, "--no-snapshot")
    assert done.returncode == 1
    assert "WRONG cell 1 after the resume" in done.stdout
    assert "WRONG first pause: lost the generator and nothing else" in done.stdout
    assert "also_lost" in done.stdout
    assert not processes_that_mention(tmp_path / "work")


def test_the_demo_empties_no_folder_that_it_did_not_make(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("mine", encoding="utf-8")
    done = run_demo(tmp_path)
    assert done.returncode == 2
    assert "will not empty it" in done.stderr
    assert mine.read_text(encoding="utf-8") == "mine"


def test_the_demo_that_is_told_to_end_takes_its_server_and_kernel_along(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with subprocess.Popen(**command(work)) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:  # its first cell has run: there are a server and a kernel
            if line.lstrip().startswith("[1]"):
                break
        assert len(processes_that_mention(work)) >= 2
        demo.terminate()
        demo.communicate(timeout=60)
    assert demo.returncode == 143
    assert not processes_that_mention(work)
