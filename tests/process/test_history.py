"""In, Out and the count go back into a shell, whatever of them another Python could not read."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

from jupyter_gkews.kernel.checkpoint.placeholders import Loss, Lost
from jupyter_gkews.kernel.history import history_extras, put_history_back


def shell() -> Any:
    """A real shell, with nothing of it in the home directory."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    return InteractiveShell(config=config)


def test_folders_travel_as_strings() -> None:
    made = SimpleNamespace(
        history_manager=SimpleNamespace(
            input_hist_parsed=[""], input_hist_raw=[""], dir_hist=[pathlib.Path("/a"), "/b"]
        ),
        displayhook=SimpleNamespace(),
        user_ns={},
        execution_count=1,
    )
    assert history_extras(made)["directories"] == ["/a", "/b"]


def test_what_cannot_be_read_loses_only_itself() -> None:
    here = shell()
    lost = Lost(Loss("pathlib._local.PosixPath", "it is not there"))
    extras = {
        "In": ["", "a = 1"],
        "In_raw": ["", "a = 1"],
        "Out": {1: 5},
        "directories": [lost, "/b"],
        "last_outputs": lost,
        "execution_count": 2,
    }
    put_history_back(here, extras)
    assert here.history_manager.dir_hist == ["", "/b"]
    assert list(here.history_manager.input_hist_raw) == ["", "a = 1"]
    assert here.execution_count == 2 and here.user_ns["_oh"][1] == 5
