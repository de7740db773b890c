"""Matplotlib's settings for the whole process: rcParams, the backend, registered colour maps, and
which figures pyplot has open, in which order, with which numbers.

Figures themselves are objects of the graph. It opens no window and draws nothing.
"""

from __future__ import annotations

import contextlib
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
    pylab = sys.modules.get("matplotlib._pylab_helpers")
    figures = getattr(getattr(pylab, "Gcf", None), "figs", None)
    if figures:
        state["_figures"] = [
            (number, each.canvas.figure, _current_axes(each.canvas.figure))
            for number, each in figures.items()
        ]
    return state


def _current_axes(figure: Any) -> int | None:
    """The position of a figure's current axes among its axes."""
    stack = getattr(figure, "_axstack", None)
    current = stack.current() if stack is not None else None
    return next((at for at, axes in enumerate(figure.axes) if axes is current), None)


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
    _put_figures(state.get("_figures") or [])
    one_by_one(params, matplotlib.rcParams.__setitem__)


def _put_figures(saved: list[tuple[Any, Any, Any]]) -> None:
    """Give the figures their numbers and order again; pickle numbers them as it meets them."""
    pylab = sys.modules.get("matplotlib._pylab_helpers")
    if pylab is None or not saved:
        return
    figures = pylab.Gcf.figs
    managers = {id(each.canvas.figure): each for each in figures.values()}
    found = [(number, managers.pop(id(f))) for number, f, _ in saved if id(f) in managers]
    for _, figure, at in saved:
        if type(figure) is not Lost and at is not None and at < len(figure.axes):
            figure.sca(figure.axes[at])
    taken = {number for number, _ in found}
    figures.clear()
    for each in managers.values():  # opened by an import of this process: below the others
        number = each.num
        while number in taken:
            number += 1
        taken.add(number)
        each.num = number
        figures[number] = each
    for number, each in found:
        each.num = number
        figures[number] = each
        with contextlib.suppress(Exception):  # a backend without windows
            if not each.canvas.figure.get_label():
                each.set_window_title(f"Figure {number:d}")


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
