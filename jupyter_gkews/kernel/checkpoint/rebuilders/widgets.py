"""ipywidgets: the state of their models, their observers and callbacks; comms are opened again.

A model keeps its id, so that a view which a page still has, or a new display(), finds it again.
Nothing is sent in a test load.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from ..reduction import one_line
from .interface import CannotKeepError, Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

_AGAIN = "its connection to the page is opened again: display it once more where no view is shown"


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Widgets and comms, as far as they are imported."""
    found: dict[type, Handler] = {}
    for module, name, handler in (
        ("ipywidgets.widgets.widget", "Widget", reduce_widget),
        ("comm.base_comm", "BaseComm", reduce_comm),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found[cls] = handler
    return found


def reduce_widget(writer: GraphWriter, widget: Any) -> Reduced:
    """Values of its traits, attributes, and what was observed on this very object."""
    events = sys.modules["traitlets"].EventHandler
    own = dict(vars(widget))
    values = dict(own.pop("_trait_values", {}))
    values.pop("comm", None)
    observers = []
    for name, kinds in own.pop("_trait_notifiers", {}).items():
        for kind, functions in kinds.items():
            # those of the class are there already in a new object
            mine = [f for f in functions if not isinstance(f, events)]
            if mine:
                observers.append((name, kind, mine))
    validators = own.pop("_trait_validators", {})
    validators = {k: v for k, v in validators.items() if not isinstance(v, events)}
    for name in ("_cross_validation_lock", "_all_trait_default_generators", "_traits"):
        own.pop(name, None)
    own["_model_id"] = widget.comm.comm_id if widget.comm is not None else own.get("_model_id")
    writer.note_rebuilt(_AGAIN, widget)
    state = (values, own, observers, validators)
    return bare_widget, (type(widget),), state, None, None, set_widget


def reduce_comm(writer: GraphWriter, comm: Any) -> Any:
    """A comm that a cell opened: opened again under its id, with its callbacks."""
    own = vars(comm)
    target = getattr(comm, "target_name", "")
    if getattr(comm, "_closed", False):
        raise CannotKeepError("a connection to the page (comm)", "it was closed")
    writer.note_rebuilt("its connection to the page is opened again", comm)
    callbacks = (own.get("_msg_callback"), own.get("_close_callback"))
    data = own.get("_open_data")
    return open_comm, (target, comm.comm_id, data), callbacks, None, None, set_comm


def capture() -> Any:
    """All widgets of the process: a page may show those that no variable names."""
    module: Any = sys.modules.get("ipywidgets.widgets.widget")
    table = getattr(module, "_instances", None)
    return list(table.values()) if table else None


def apply(widgets: Any) -> list[str]:
    """Open the comms: of a box after what is in it. Returns sentences about what could not be."""
    begun: set[int] = set()
    problems = []
    for widget in widgets if isinstance(widgets, list) else ():
        if isinstance(widget, Lost):
            continue
        try:
            _open(widget, begun)
        except Exception as error:
            name = type(widget).__name__
            problems.append(f"the connection of a {name} to the page: {one_line(error)}")
    return problems


def _open(widget: Any, begun: set[int]) -> None:
    if id(widget) in begun or widget.comm is not None:
        return
    begun.add(id(widget))
    base = sys.modules["ipywidgets.widgets.widget"].Widget
    waiting = list(widget._trait_values.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, base):
            _open(value, begun)
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
    widget.open()


# ---- called by the graph ----


def bare_widget(cls: Any) -> Any:
    """A widget without a state: no __init__, no comm."""
    return cls.__new__(cls)


def set_widget(target: Any, saved: tuple[Any, ...]) -> None:
    """What it had; nothing is notified and nothing is sent."""
    values, own, observers, validators = saved
    target.__dict__.update(own)
    target._trait_values.update(values)
    for name, kind, functions in observers:
        there = target._trait_notifiers.setdefault(name, {}).setdefault(kind, [])
        there += [function for function in functions if function not in there]
    target._trait_validators.update(validators)


def open_comm(target: str, comm_id: str, data: Any) -> Any:
    """A comm with that id; one that reaches nobody in a test load."""
    comm: Any = __import__("comm")
    if loading().dry:
        return comm.DummyComm(target_name=target, comm_id=comm_id, primary=False)
    made = comm.create_comm(target_name=target, comm_id=comm_id, data=data or {}, primary=True)
    return made


def set_comm(target: Any, callbacks: tuple[Any, Any]) -> None:
    """What is called when the page sends or closes."""
    message, close = callbacks
    target.on_msg(message)
    target.on_close(close)
