"""In, Out, the execution count and `_`: taken into a checkpoint and put back into IPython.

They travel as `extras` in the namespace's own graph, so `Out[3]` stays the object that a variable
names. Never touches IPython's history database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .checkpoint.placeholders import Lost


def history_extras(shell: Any) -> dict[str, Any]:
    """What of the interactive history goes into a checkpoint."""
    history, hook = shell.history_manager, shell.displayhook
    return {
        "In": list(history.input_hist_parsed),
        "In_raw": list(history.input_hist_raw),
        "Out": dict(shell.user_ns.get("_oh", {})),
        "last_outputs": [getattr(hook, name, "") for name in ("_", "__", "___")],
        "directories": [str(each) for each in history.dir_hist],
        # Within a cell (%checkpoint) its input is stored already and the count not yet raised.
        "execution_count": max(shell.execution_count, len(history.input_hist_parsed)),
    }


def _texts(extras: Mapping[str, Any], name: str, default: Iterable[Any] = ("",)) -> list[str]:
    """A list of strings among the extras, without those that could not be read here."""
    found = extras.get(name, default)
    return [str(each) if type(each) is not Lost else "" for each in found]


def put_history_back(shell: Any, extras: Mapping[str, Any]) -> None:
    """Make a fresh shell go on where `history_extras` was taken; in place, as others hold them."""
    history, hook = shell.history_manager, shell.displayhook
    extras = {name: value for name, value in extras.items() if type(value) is not Lost}
    parsed, raw = _texts(extras, "In"), _texts(extras, "In_raw")
    history.input_hist_parsed[:] = parsed
    history.input_hist_raw[:] = raw
    history.dir_hist[:] = _texts(extras, "directories", history.dir_hist)
    hidden = {f"_i{number}": source for number, source in enumerate(raw) if number}
    for name, offset in (("_i00", 1), ("_i", 2), ("_ii", 3), ("_iii", 4)):
        source = raw[-offset] if len(raw) > offset else ""
        setattr(history, name, source)
        if name != "_i00":
            hidden[name] = source
    out = shell.user_ns.get("_oh")
    if out is not None:
        out.clear()
        out.update(extras.get("Out", {}))
        hidden.update({f"_{number}": value for number, value in out.items()})
    for name, value in zip(("_", "__", "___"), extras.get("last_outputs", ())):
        setattr(hook, name, value)
        if name not in shell.user_ns or shell.user_ns_hidden.get(name) is shell.user_ns[name]:
            hidden[name] = value  # else the user had bound the name, and the restore has done so
    shell.push(hidden, interactive=False)
    shell.execution_count = int(extras.get("execution_count", 1))
