"""Torch, Hugging Face and what shows itself: the promise of test_coverage, and its long form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .rows_shows import ROWS as SHOWS
from .rows_torch import MORE as MORE_TORCH
from .rows_torch_programs import MORE as MORE_PROGRAMS
from .rows_torch_programs import ROWS as PROGRAMS

FAMILIES = {"programs": PROGRAMS, "shows": SHOWS}
LONG = {"torch (long)": MORE_TORCH, "programs (long)": MORE_PROGRAMS}


def check(carried: Callable[..., Any], family: str, rows: dict[str, Any], row: str) -> None:
    """As test_coverage does."""
    saved, checked = carried(family, rows)
    assert "error" not in saved[row], saved[row]["error"]
    assert "error" not in checked[row], checked[row]["error"]
    lost = [loss["name"] for loss in saved[row]["summary"]["lost"]]
    assert sorted(lost) == sorted(rows[row].get("lost", []))
    assert checked[row]["lost"] == saved[row]["summary"]["lost"]


@pytest.mark.parametrize(
    ("family", "row"), [(family, row) for family, rows in FAMILIES.items() for row in rows]
)
def test_what_torch_made_in_one_process_works_in_another(
    carried: Callable[[str, dict[str, Any]], Any], family: str, row: str
) -> None:
    check(carried, family, FAMILIES[family], row)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("family", "row"), [(family, row) for family, rows in LONG.items() for row in rows]
)
def test_what_torch_made_in_one_process_works_in_another_in_many_more_kinds(
    carried: Callable[[str, dict[str, Any]], Any], family: str, row: str
) -> None:
    check(carried, family, LONG[family], row)
