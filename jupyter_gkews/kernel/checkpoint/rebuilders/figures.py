"""Figures of matplotlib: with their numbers, known to pyplot, and with the callbacks of cells.

matplotlib's own pickling numbers figures anew and drops callbacks. Canvases and windows belong to
the process and are made anew by the backend that is in use there.
"""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: What these are for is connected again by a new canvas and its window.
_OF_THE_CANVAS = ("FigureManagerBase", "NavigationToolbar2", "FigureCanvasBase", "ToolManager")


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Figures and registries of callbacks."""
    found: dict[type, Handler] = {}
    for module, name, handler in (
        ("matplotlib.figure", "Figure", reduce_figure),
        ("matplotlib.cbook", "CallbackRegistry", reduce_callbacks),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found[cls] = handler
    return found


def _managers() -> dict[int, Any]:
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return {} if helpers is None else helpers.Gcf.figs


def reduce_figure(writer: GraphWriter, figure: Any) -> Any:
    """As matplotlib pickles it, with the number that it has in pyplot."""
    cls: Any = type(figure)
    base: Any = sys.modules["matplotlib.figure"].Figure
    plain: Any = object.__reduce_ex__
    if cls.__reduce_ex__ is not plain or cls.__setstate__ is not base.__setstate__:
        return NotImplemented
    state = figure.__getstate__()
    state.pop("_restore_to_pylab", None)
    numbers = [n for n, manager in _managers().items() if manager.canvas.figure is figure]
    number = numbers[0] if numbers else None
    label = figure.get_label()
    return bare_figure, (cls,), (state, number, label), None, None, set_figure


def reduce_callbacks(writer: GraphWriter, registry: Any) -> Any:
    """All callbacks but those of the canvas itself."""
    cls = type(registry)
    if not hasattr(registry, "_pickled_cids") or not hasattr(registry, "_cid_gen"):
        return NotImplemented
    kept: dict[Any, dict[int, Any]] = {}
    for signal, table in registry.callbacks.items():
        found = {cid: reference() for cid, reference in table.items()}
        kept[signal] = {
            cid: function
            for cid, function in found.items()
            if function is not None and not _is_of_the_canvas(function)
        }
    following = next(copy.copy(registry._cid_gen))  # of a copy: nothing is changed here
    own = dict(vars(registry))
    own.update(callbacks=kept, _func_cid_map=None, _cid_gen=following)
    return bare_figure, (cls,), own


def _is_of_the_canvas(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if owner is None:
        return str(getattr(function, "__module__", "")).startswith("matplotlib.backend")
    names = {cls.__name__ for cls in type(owner).__mro__}
    return not names.isdisjoint(_OF_THE_CANVAS)


def capture() -> Any:
    """The figures that pyplot knows, the current one last; None without pyplot."""
    figures = [manager.canvas.figure for manager in list(_managers().values())]
    return figures or None


def apply(figures: Any) -> None:
    """Bring pyplot's figures into the order that they had, so that the current one is current."""
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None or not isinstance(figures, list):
        return
    for figure in figures:
        if isinstance(figure, Lost):
            continue
        for number, manager in list(helpers.Gcf.figs.items()):
            if manager.canvas.figure is figure:
                helpers.Gcf.figs.move_to_end(number)


# ---- called by the graph ----


def bare_figure(cls: Any) -> Any:
    """An object without a state."""
    return cls.__new__(cls)


def set_figure(target: Any, saved: tuple[dict[str, Any], int | None, str]) -> Reduced | None:
    """Its state; and under its number in pyplot, where that is free."""
    state, number, label = saved
    target.__setstate__(dict(state))
    load = loading()
    if number is None or load.dry:
        return None
    import matplotlib.pyplot as plt
    from matplotlib import _pylab_helpers

    taken = _pylab_helpers.Gcf.figs
    free = number if number not in taken else max(taken) + 1
    if free != number:
        load.note(f"figure {number} has the number {free} now: another one has its number")
    backend = plt._get_backend_mod()
    manager = backend.new_figure_manager_given_figure(free, target)
    if label:
        manager.set_window_title(label)
        target.set_label(label)
    _pylab_helpers.Gcf._set_new_active_manager(manager)
    return None
