"""`on_resume`: the user's functions that run after each resume, to open anew what no pause keeps.

Runs them one after another and reports what they raised; an exception in one harms neither the
others nor the resume. Standard library only: `from jupyter_gkews import on_resume` works anywhere.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, TypeVar

Hook = Callable[..., Any]
AnyHook = TypeVar("AnyHook", bound=Hook)

#: What was registered in this kernel, by name, in the order of registration.
_HOOKS: dict[str, Hook] = {}
#: What hooks raised, not yet shown: the next cell shows it.
_UNTOLD: list[str] = []


@dataclass(frozen=True)
class Resumed:
    """What a function registered with `on_resume` is told."""

    provenance: str
    """`restored`: the same process goes on, as it was. `recovered`: a new process has loaded the
    checkpoint."""
    away_s: float
    """Seconds since the pause; for a checkpoint that no pause wrote, since it was written."""
    paused: datetime
    """When that was (UTC)."""
    resumed: datetime
    """When the kernel went on (UTC)."""


def on_resume(function: AnyHook) -> AnyHook:
    """Run `function(resumed)` after every resume of this kernel, before the next cell.

    To be used as a decorator, or called. Registering a function of the same name again (a cell that
    is run twice) replaces the first. `function` gets a `Resumed`, or nothing if it takes no
    argument. It is kept in checkpoints as variables are. Raises TypeError for what cannot be
    called, and for an async function.
    """
    if not callable(function):
        raise TypeError(f"on_resume needs a function, not {type(function).__name__}")
    if asyncio.iscoroutinefunction(function):
        raise TypeError("on_resume needs a plain function: nothing awaits an async one")
    _HOOKS[_name(function)] = function
    return function


def forget_on_resume(function: Hook) -> bool:
    """Do not run `function` any more; whether it was registered."""
    return _HOOKS.pop(_name(function), None) is not None


def run_hooks(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run all, with what the server says; [{"name", "error": str | None, "seconds"}]."""
    paused, resumed = (_time(told.get(key)) for key in ("paused", "resumed"))
    what = Resumed(str(told["provenance"]), float(told["away_s"]), paused, resumed)
    return [_run_one(name, hook, what) for name, hook in list(_HOOKS.items())]


def _run_one(name: str, hook: Hook, what: Resumed) -> dict[str, Any]:
    began, error = time.monotonic(), None
    try:
        if _takes_argument(hook):
            hook(what)
        else:
            hook()
    except BaseException as raised:  # also an interrupt, and sys.exit: it is the hook that ends
        error = f"{type(raised).__name__}: {raised}".strip(": ")
        lines = traceback.format_exception(type(raised), raised, _inside(raised))
        _UNTOLD.append(f"on_resume: {name} failed after the resume:\n{''.join(lines)}")
    return {"name": name, "error": error, "seconds": round(time.monotonic() - began, 3)}


def show_untold(*_: Any) -> None:
    """Before a cell: print what hooks raised since the last one, as part of its output."""
    while _UNTOLD:
        print(_UNTOLD.pop(0), file=sys.stderr)


def hooks_to_keep() -> dict[str, Hook]:
    """What goes into a checkpoint."""
    return dict(_HOOKS)


def put_hooks_back(hooks: Any) -> None:
    """What a checkpoint had."""
    if type(hooks) is dict:
        _HOOKS.clear()
        _HOOKS.update(hooks)


def _takes_argument(hook: Hook) -> bool:
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):  # of some builtins it is not known
        return True
    return any(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        for each in parameters
    )


def _inside(raised: BaseException) -> Any:
    """The traceback from the hook on, without the line here that called it."""
    return raised.__traceback__.tb_next if raised.__traceback__ is not None else None


def _time(said: Any) -> datetime:
    try:
        return datetime.fromisoformat(str(said).replace("Z", "+00:00"))
    except ValueError:
        return datetime.now(timezone.utc)


def _name(function: Hook) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return name if module in (None, "__main__") else f"{module}.{name}"
