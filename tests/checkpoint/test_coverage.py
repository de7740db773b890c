"""Every kind of object comes back as promised, in a new process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .rows_arrays import ROWS as ARRAYS
from .rows_caches import ROWS as CACHES
from .rows_classes import ROWS as CLASSES
from .rows_graph import ROWS as GRAPH
from .rows_identity import ROWS as IDENTITY
from .rows_memory import ROWS as MEMORY
from .rows_modules import ROWS as MODULES
from .rows_process import ROWS as PROCESS
from .rows_python import ROWS as PYTHON
from .rows_rebuilt import ROWS as REBUILT
from .rows_references import ROWS as REFERENCES
from .rows_state import ROWS as STATE
from .rows_subclasses import ROWS as SUBCLASSES
from .rows_torch import ROWS as TORCH

FAMILIES = {
    "python": PYTHON,
    "arrays": ARRAYS,
    "process": PROCESS,
    "references": REFERENCES,
    "state": STATE,
    "torch": TORCH,
    "rebuilt": REBUILT,
    "graph": GRAPH,
    "caches": CACHES,
    "memory": MEMORY,
    "modules": MODULES,
    "subclasses": SUBCLASSES,
    "classes": CLASSES,
    "identity": IDENTITY,
}


@pytest.mark.parametrize(
    ("family", "row"), [(family, row) for family, rows in FAMILIES.items() for row in rows]
)
def test_what_was_made_in_one_process_works_in_another(
    carried: Callable[[str, dict[str, Any]], Any], family: str, row: str
) -> None:
    saved, checked = carried(family, FAMILIES[family])
    assert "error" not in saved[row], saved[row]["error"]
    assert "error" not in checked[row], checked[row]["error"]
    lost = [loss["name"] for loss in saved[row]["summary"]["lost"]]
    assert sorted(lost) == sorted(FAMILIES[family][row].get("lost", []))
    assert checked[row]["lost"] == saved[row]["summary"]["lost"]
    if "rebuilt" in FAMILIES[family][row]:  # told before the kernel is released
        rebuilt = [each["name"] for each in saved[row]["summary"]["rebuilt"]]
        assert sorted(rebuilt) == sorted(FAMILIES[family][row]["rebuilt"])
