"""A save that has to start again without a name, because a test load showed it to be wanting."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

np = pytest.importorskip("numpy")

CELL = """
import os

class Deadly:
    def __reduce__(self):
        return (make, ())

def make():
    if os.environ.get("JUPYTER_GKEWS_SCRATCH"):
        os._exit(3)
    return Deadly()

deadly = Deadly()
"""


def test_memory_that_was_written_for_the_first_try_is_used_by_the_second(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    main: dict[str, Any] = vars(sys.modules["__main__"])
    namespace: dict[str, Any] = {"__name__": main["__name__"]}
    exec(CELL, namespace)
    namespace["numbers"] = np.arange(1_000_000.0)  # 8 MB: a chunk of its own

    summary = save(namespace, store, checkpoint="second-try")

    assert [row["name"] for row in summary["lost"]] == ["deadly"]
    found: dict[str, Any] = {}
    restore(found, store, "second-try", verify="full")
    assert np.array_equal(found["numbers"], namespace["numbers"])
