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
import types
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, TypeVar

Hook = Callable[..., Any]
AnyHook = TypeVar("AnyHook", bound=Hook)

#: What was registered in this kernel, in the order of registration.
_HOOKS: list[Hook] = []
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

    @classmethod
    def from_message(cls, told: Mapping[str, Any]) -> Resumed:
        """As the server says it (protocol.ACTION_RESUMED)."""
        paused, resumed = (_time(told.get(key)) for key in ("paused", "resumed"))
        return cls(str(told["provenance"]), float(told["away_s"]), paused, resumed)


def on_resume(function: AnyHook) -> AnyHook:
    """Run `function(resumed)` after every resume of this kernel, before the next cell.

    To be used as a decorator, or called. Registering a function of the same name again (a cell that
    is run twice) replaces the first; methods of several objects, and several lambdas, are all run.
    `function` gets a `Resumed`, or nothing if it takes no
    argument. It is kept in checkpoints as variables are. Raises TypeError for what cannot be
    called, and for an async function.
    """
    if not callable(function):
        raise TypeError(f"on_resume needs a function, not {type(function).__name__}")
    if asyncio.iscoroutinefunction(function):
        raise TypeError("on_resume needs a plain function: nothing awaits an async one")
    _put(function)
    return function


def forget_on_resume(function: Hook) -> bool:
    """Do not run `function` any more; whether it was registered."""
    key = _key(function)
    left = [hook for hook in _HOOKS if _key(hook) != key]
    found = len(left) < len(_HOOKS)
    _HOOKS[:] = left
    return found


def run_hooks(told: Resumed) -> list[dict[str, Any]]:
    """Run all; [{"name", "error": str | None, "seconds"}]."""
    return [_run_one(_name(hook), hook, told) for hook in list(_HOOKS)]


def _run_one(name: str, hook: Hook, told: Resumed) -> dict[str, Any]:
    began, error = time.monotonic(), None
    try:
        if _takes_argument(hook):
            hook(told)
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
    """What goes into a checkpoint, under names that tell one from the other."""
    return {f"{number}: {_name(hook)}": hook for number, hook in enumerate(_HOOKS, 1)}


def put_hooks_back(hooks: Any) -> None:
    """What a checkpoint had."""
    if type(hooks) is dict:
        _HOOKS[:] = hooks.values()


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


def _put(function: Hook) -> None:
    key = _key(function)
    for at, hook in enumerate(_HOOKS):
        if _key(hook) == key:
            _HOOKS[at] = function
            return
    _HOOKS.append(function)


def _name(function: Hook) -> str:
    """For messages. What a checkpoint could not keep answers to nothing."""
    try:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        module = getattr(function, "__module__", None)
    except Exception:
        return type(function).__qualname__
    return str(name) if module in (None, "__main__") else f"{module}.{name}"


def _key(function: Hook) -> Any:
    """The same for a function that is defined a second time; for a method, of the same object."""
    if not isinstance(function, types.FunctionType):
        if isinstance(function, types.MethodType):
            return (id(function.__self__), function.__func__.__qualname__)
        return id(function)
    code = function.__code__
    where = (code.co_filename, code.co_firstlineno, code.co_code, code.co_consts)
    return (function.__module__, function.__qualname__, where if "<" in code.co_name else None)
