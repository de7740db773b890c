"""Matplotlib's settings for the whole process: rcParams, the backend and registered colour maps.

Figures are in rebuilders/figures.py. It opens no window and draws nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

from .library_settings import Rule, State, one_by_one
from .placeholders import Lost

#: rcParams with rules of their own, or set by the process that shows figures.
_SURROUNDINGS = frozenset({"backend", "backend_fallback", "interactive", "toolbar"})


def _take(matplotlib: Any) -> State:
    defaults, now = matplotlib.rcParamsOrig, dict.copy(matplotlib.rcParams)
    state: State = {
        name: value
        for name, value in now.items()
        if name not in _SURROUNDINGS and name in defaults and value != dict.get(defaults, name)
    }
    state["_interactive"] = bool(matplotlib.is_interactive())
    own = _own_colormaps(matplotlib)
    if own:
        state["colormaps"] = own
    return state


def _own_colormaps(matplotlib: Any) -> dict[str, Any]:
    registry = getattr(matplotlib, "colormaps", None)
    if registry is None or not hasattr(registry, "_builtin_cmaps"):
        return {}
    return {
        name: each for name, each in registry._cmaps.items() if name not in registry._builtin_cmaps
    }


def _put(matplotlib: Any, state: State) -> None:
    # A cycle of properties is kept as what it cycles through.
    params = {key: v for key, v in state.items() if key[:1] != "_" and key != "colormaps"}
    for name, each in (state.get("colormaps") or {}).items():
        if type(each) is not Lost:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an import has registered it already
                matplotlib.colormaps.register(each, name=name, force=True)
    if "_interactive" in state:
        matplotlib.interactive(state["_interactive"])
    one_by_one(params, matplotlib.rcParams.__setitem__)


RULE: Rule = ("Matplotlib rcParams", _take, _put)


# ---- the backend: before figures are loaded ----


def backend() -> str | None:
    """The backend that cells have chosen; None where it is the one that a new process takes."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None:
        return None
    chosen = dict.get(matplotlib.rcParams, "backend")
    surroundings = os.environ.get("MPLBACKEND")
    if not isinstance(chosen, str) or chosen == surroundings:
        return None
    if surroundings is None and "matplotlib.pyplot" not in sys.modules:
        return None if chosen.startswith("module://matplotlib_inline") else chosen
    return chosen


def choose_backend(name: str) -> str | None:
    """Choose it again. Returns a sentence if that fails."""
    try:
        importlib.import_module("matplotlib").use(name)
    except Exception as error:
        return f"Matplotlib's backend {name}: {error}"
    return None
