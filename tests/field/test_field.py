"""A field of small notebooks, paused and resumed through REST: nothing comes back wrong unsaid.

Short form: the notebooks of a family share one kernel, as the cells of one long notebook. Long
form (`make test-long`): each has a kernel of its own.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

import pytest
from live_server import LiveKernel, LiveServer

from .rows_bad import ROWS as BAD
from .rows_data import ROWS as DATA
from .rows_process import ROWS as PROCESS
from .rows_python import ROWS as PYTHON
from .rows_torch import ROWS as TORCH

Rows = dict[str, dict[str, Any]]
FAMILIES: dict[str, Rows] = {
    "python": PYTHON,
    "process": PROCESS,
    "data": DATA,
    "torch": TORCH,
    "bad": BAD,
}
ALL = [(family, row) for family, rows in FAMILIES.items() for row in rows]
CELL = "\n# %%\n"


@dataclass
class Outcome:
    """What a pause and a resume made of some notebooks: errors by notebook, losses by name."""

    errors: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def runnable(rows: Rows) -> Rows:
    """Those whose libraries are here."""
    return {
        name: row
        for name, row in rows.items()
        if "needs" not in row or importlib.util.find_spec(row["needs"])
    }


def in_turn(rows: Rows) -> list[tuple[str, dict[str, Any]]]:
    """In the order of their setups; what later cells would disturb comes last."""
    return sorted(rows.items(), key=lambda item: item[1].get("order") == "last")


def carry(server: LiveServer, path: str, rows: Rows) -> Outcome:
    """Set all up in one kernel, pause it, resume it, and check in reverse order."""
    outcome = Outcome()
    kernel = server.notebook(path).ready()
    try:
        order = in_turn(rows)
        for name, row in order:
            for cell in row["setup"].split(CELL):
                _run(kernel, cell, name, outcome)
        assert not outcome.errors, f"before the pause: {outcome.errors}"
        paused = kernel.do("pause", {"timeout_s": 60})
        resumed = kernel.do("resume")
        outcome.said = {loss["name"]: loss["reason"] for loss in paused["result"]["lost"]}
        assert resumed["result"]["provenance"] == "recovered"
        again = {loss["name"]: loss["reason"] for loss in resumed["result"]["lost"]}
        assert again == outcome.said, "the resume says other than the pause said"
        for name, row in reversed(order):
            for cell in row["check"].split(CELL):
                _run(kernel, cell, name, outcome)
    finally:
        kernel.close()
        server.ask("DELETE", f"api/kernels/{kernel.id}", status=204)
    return outcome


def _run(kernel: LiveKernel, cell: str, name: str, outcome: Outcome) -> None:
    answer = kernel.answer(kernel.send(cell))
    if answer.reply["status"] != "ok":
        said = f"{answer.reply.get('ename')}: {answer.reply.get('evalue')}"
        outcome.errors.setdefault(name, said + "\n" + "\n".join(answer.reply.get("traceback", [])))


def judge(row: dict[str, Any], said: dict[str, str]) -> None:
    """What must be lost is, with its true reason."""
    for name, word in row.get("lost", {}).items():
        assert name in said, f"{name} was not named as lost, only {sorted(said)}"
        assert word in said[name], f"{name}: {said[name]}"
    for name, word in row.get("may_lose", {}).items():
        assert word in said.get(name, word), f"{name}: {said[name]}"


def unexpected(rows: Rows, said: dict[str, str]) -> dict[str, str]:
    """Losses that no notebook allows."""
    allowed = {
        name for row in rows.values() for key in ("lost", "may_lose") for name in row.get(key, {})
    }
    return {name: reason for name, reason in said.items() if name not in allowed}


@pytest.fixture(scope="module")
def field_of(server: LiveServer) -> Any:
    """`field_of(family)`: its notebooks, carried once."""

    outcomes: dict[str, Outcome | BaseException] = {}

    def carried(family: str) -> Outcome:
        if family not in outcomes:
            try:
                outcomes[family] = carry(server, f"{family}/all.ipynb", runnable(FAMILIES[family]))
            except BaseException as error:
                outcomes[family] = error
        outcome = outcomes[family]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return carried


@pytest.mark.parametrize(("family", "row"), ALL)
def test_a_small_notebook_goes_on_after_a_pause(field_of: Any, family: str, row: str) -> None:
    notebook = FAMILIES[family][row]
    if row not in runnable(FAMILIES[family]):
        pytest.skip(f"{notebook['needs']} is not installed")
    outcome = field_of(family)
    assert row not in outcome.errors, outcome.errors[row]
    judge(notebook, outcome.said)


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_else_of_a_family_is_lost(field_of: Any, family: str) -> None:
    assert unexpected(FAMILIES[family], field_of(family).said) == {}


@pytest.mark.soak
@pytest.mark.parametrize(("family", "row"), ALL)
def test_a_small_notebook_goes_on_in_a_kernel_of_its_own(
    server: LiveServer, family: str, row: str
) -> None:
    notebook = FAMILIES[family][row]
    if row not in runnable({row: notebook}):
        pytest.skip(f"{notebook['needs']} is not installed")
    outcome = carry(server, f"{family}/{row}.ipynb", {row: notebook})
    assert not outcome.errors, outcome.errors[row]
    judge(notebook, outcome.said)
    assert unexpected({row: notebook}, outcome.said) == {}
