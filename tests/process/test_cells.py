"""Which cell made a name, from the input history alone."""

from __future__ import annotations

import pytest

from jupyter_gkews.kernel.cells import CellIndex

HISTORY = [
    "",
    "import numpy as np, os.path\nx = 1",
    "def f():\n    inner = 1\nclass C:\n    attribute = 2",
    "for i in range(3):\n    with open('f') as fd:\n        a, (b, *c) = 1, (2, 3)",
    "x += 1; [hidden for hidden in ()]",
    "get_ipython().run_line_magic('timeit', '1')\nif (walrus := 1): pass",
    "this is not Python",
    "try: pass\nexcept Exception as e: pass",
    "x",
]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("np", 1),
        ("os", 1),
        ("f", 2),
        ("C", 2),
        ("inner", None),
        ("attribute", None),
        ("i", 3),
        ("fd", 3),
        ("a", 3),
        ("b", 3),
        ("c", 3),
        ("x", 4),
        ("walrus", 5),
        ("e", 7),
        ("never", None),
    ],
)
def test_the_last_cell_that_bound_a_name_is_found(name, cell):
    assert CellIndex().cell_of(name, HISTORY) == cell


def test_a_history_that_is_replaced_is_read_again():
    index = CellIndex()
    assert index.cell_of("x", ["", "x = 1"]) == 1
    assert index.cell_of("x", ["", "y = 1", "x = 1"]) == 2
    assert index.cell_of("y", ["", "y = 1", "x = 1"]) == 1


def test_names_bound_only_inside_a_comprehension_are_not_the_cells():
    assert CellIndex().cell_of("hidden", HISTORY) is None
