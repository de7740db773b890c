"""How many of the small notebooks of tests/field come back right: with us, dill and cloudpickle.

Not a matter of time: it counts. Each notebook has processes of its own, with every tool.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from examples.headless import CellError, JupyterServer, Kernel, RefusedError
from tests.field.rows_bad import ROWS as BAD
from tests.field.rows_data import ROWS as DATA
from tests.field.rows_process import ROWS as PROCESS
from tests.field.rows_python import ROWS as PYTHON
from tests.field.rows_torch import ROWS as TORCH

from .figures import Figure

SCRIPT = Path(__file__).with_name("field_process.py")
RIVALS = ("dill", "cloudpickle")
#: Outcomes in the order in which they are told.
OUTCOMES = ("right", "lost, and said so", "wrong, success reported", "save refused", "load died")
#: Seconds for one side of one notebook; one of them hangs on purpose.
LIMIT_S = 60

Row = dict[str, Any]


def rows() -> dict[str, Row]:
    """The notebooks whose libraries are here."""
    found = {**PYTHON, **PROCESS, **DATA, **TORCH, **BAD}
    return {
        name: row
        for name, row in found.items()
        if "needs" not in row or importlib.util.find_spec(row["needs"])
    }


def with_rival(tool: str, row: Row, folder: Path) -> str:
    """The outcome of one notebook with another tool."""
    notebook = folder / "notebook.json"
    notebook.write_text(json.dumps(row))
    answers = []
    for what in ("save", "load"):
        command = [sys.executable, str(SCRIPT), what, tool, str(notebook), str(folder / "saved")]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            lines = done.stdout.strip().splitlines()
            answers.append(json.loads(lines[-1]) if lines and not done.returncode else "ended")
        except (subprocess.TimeoutExpired, ValueError):
            answers.append("ended")
        if answers[-1] != "ok":
            break
    if len(answers) == 1:
        return "save refused"
    if answers[1] == "ok":
        return "right"
    return "wrong, success reported" if answers[1].startswith("wrong") else "load died"


def with_us(server: JupyterServer, name: str, row: Row) -> str:
    """The outcome of one notebook, paused and resumed through REST."""
    kernel = Kernel(server, f"{name}.ipynb")
    try:
        for cell in row["setup"].split("\n# %%\n"):
            kernel.run(cell)
        try:
            paused = server.operate(kernel.id, "pause", {"timeout_s": LIMIT_S})
        except RefusedError:
            return "save refused"
        try:
            server.operate(kernel.id, "resume")
        except RefusedError:
            return "load died"
        lost = {loss["name"] for loss in paused["result"]["lost"]}
        try:
            for cell in row["check"].split("\n# %%\n"):
                kernel.run(cell)
        except CellError:
            return "lost, and said so" if lost else "wrong, success reported"
        return "lost, and said so" if lost else "right"
    finally:
        server.rest.delete(f"api/kernels/{kernel.id}")
        kernel.close()


def run(folder: Path, size: str) -> list[Figure]:
    """Counts, of all notebooks; nothing here depends on the model's size."""
    del size
    todo = rows()
    counts: dict[str, Counter[str]] = {}
    for tool in RIVALS:
        counts[tool] = Counter()
        for name, row in todo.items():
            place = folder / tool / name
            place.mkdir(parents=True)
            counts[tool][with_rival(tool, row, place)] += 1
    root = folder / "root"
    root.mkdir()
    counts["jupyter-gkews"] = Counter()
    with JupyterServer(folder / "server", root) as server:
        for name, row in todo.items():
            (root / name).mkdir()
            counts["jupyter-gkews"][with_us(server, f"{name}/{name}", row)] += 1
    return [figure(tool, found, len(todo)) for tool, found in counts.items()]


def figure(tool: str, found: Counter[str], total: int) -> Figure:
    """One tool's notebooks that are wrong unsaid, refused or dead; only ours has a bound."""
    bad = sum(found[outcome] for outcome in OUTCOMES[2:])
    how = ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome])
    return Figure(
        f"small notebooks wrong unsaid, refused or dead: {tool}",
        bad,
        0 if tool == "jupyter-gkews" else None,
        f"of {total}",
        how,
    )
