"""Options that libraries hold for the whole process: precision, threads, how errors are treated.

Only of libraries that the kernel has imported, and only what differs from a new process. It never
raises: what cannot be taken or put back becomes a sentence.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from . import figure_state, library_settings, torch_settings
from .library_settings import Rule, State
from .placeholders import Lost

#: Adds a row of `survives`: what, fate, reason.
AddRow = Callable[[str, str, "str | None"], None]


@dataclass(frozen=True)
class Start:
    """What the process had before the first cell."""

    handlers: frozenset[int]


def _now() -> Start:
    named = logging.Logger.manager.loggerDict.values()
    loggers = [logging.getLogger(), *(each for each in named if isinstance(each, logging.Logger))]
    return Start(frozenset(id(handler) for logger in loggers for handler in logger.handlers))


start = _now()


def note_start() -> None:
    """Remember what the process has now as its own, and not the work of cells."""
    global start
    start = _now()


#: module -> (its name in words, take, put). `take` gives what differs from a new process.
LIBRARIES: dict[str, Rule] = {
    "torch": torch_settings.RULE,
    **library_settings.RULES,
    "matplotlib": figure_state.RULE,
}
#: Libraries that keep their settings in context variables.
_OF_A_CONTEXT = frozenset({"numpy", "decimal"})
_pending: dict[str, State] = {}


def capture(add_row: AddRow) -> dict[str, State]:
    """What differs from a new process, by library; a row for each that has something. A key that
    begins with "_" is not told."""
    found: dict[str, State] = {}
    for name, (what, take, _) in LIBRARIES.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            state = {key: _unwrapped(value) for key, value in take(module).items()}
        except Exception as error:  # a module half imported, or one that is called the same
            add_row(what, "lost", f"they could not be read: {type(error).__name__}: {error}")
            continue
        if state:
            found[name] = state
        said = [_said(key, value) for key, value in state.items() if key[:1] != "_"]
        if said:
            add_row(what, "kept", ", ".join(said))
    return found


def labels(states: Mapping[str, State]) -> dict[str, Any]:
    """What `capture` found, by names to tell losses by."""
    return {
        f"{LIBRARIES[name][0]}: {key.lstrip('_')}": value
        for name, state in states.items()
        for key, value in state.items()
    }


def _unwrapped(value: Any) -> Any:
    """A property cycle of Matplotlib as what makes it anew: cycler("color", [...])."""
    if type(value).__module__ == "cycler" and hasattr(value, "by_key"):
        keys = value.by_key()
        inner = ", ".join(f"{key}={list(values)!r}" for key, values in keys.items())
        return f"cycler({inner})"
    return value


def _said(key: str, value: Any) -> str:
    text = str(value)
    return f"{key} {text if len(text) <= 40 else text[:37] + '...'}"


def apply(saved: Mapping[str, Any]) -> list[str]:
    """Put back what `capture` took. Returns sentences about what could not be."""
    problems = []
    for name, state in saved.items():
        rule = LIBRARIES.get(name)
        if rule is None or not isinstance(state, dict):
            continue
        state = {key: value for key, value in state.items() if type(value) is not Lost}
        try:
            # No variable may name it, but a later import must find it as it was.
            rule[2](importlib.import_module(name), state)
            if name in _OF_A_CONTEXT:
                _pending[name] = state
        except Exception as error:
            problems.append(f"{rule[0]}: {error}")
    return problems


def apply_in_context() -> None:
    """Put back, once more, what belongs to a contextvars.Context: ipykernel runs the cells in one
    of its own, which a restore before the first message is not in. To be called within it."""
    while _pending:
        name, state = _pending.popitem()
        with contextlib.suppress(Exception):  # it went well, or was told, a moment ago
            LIBRARIES[name][2](sys.modules[name], state)
    # not imported here: it wants cloudpickle, which may come with the first checkpoint alone
    family = sys.modules.get(f"{__package__}.rebuilders.context_variables")
    if family is not None:
        family.apply_in_context()
