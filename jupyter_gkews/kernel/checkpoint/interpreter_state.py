"""What cells have set in the interpreter and the process: limits, signals, hooks, locale, masks.

Only what differs from the start of the process. It never raises: what cannot be taken or put back
becomes a sentence.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import locale
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable

from .cell_made import is_cell_made
from .placeholders import Lost

AddRow = Callable[[str, str, "str | None"], None]
_resource: ModuleType | None
try:
    _resource = importlib.import_module("resource")
except ImportError:  # Windows
    _resource = None


@dataclass(frozen=True)
class Setting:
    """One setting: its name in words, how to read it, how to set what was read."""

    what: str
    read: Callable[[], Any]
    put: Callable[[Any], Any]
    said: Callable[[Any], str] = str


def _umask() -> int:
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _limits() -> dict[str, tuple[int, int]]:
    if _resource is None:
        return {}
    names = [name for name in dir(_resource) if name.startswith("RLIMIT_")]
    found = {}
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            found[name] = _resource.getrlimit(getattr(_resource, name))
    return found


def _put_limits(limits: Mapping[str, tuple[int, int]]) -> None:
    for name, pair in limits.items():
        if _resource is not None and _limits().get(name) != tuple(pair):
            soft, hard = pair
            _, most = _resource.getrlimit(getattr(_resource, name))
            if most != _resource.RLIM_INFINITY and (hard > most or hard < 0):
                hard = most  # nobody may raise it
            _resource.setrlimit(getattr(_resource, name), (soft, hard))


def _locale() -> dict[str, str]:
    names = [name for name in dir(locale) if name.startswith("LC_") and name != "LC_ALL"]
    return {name: locale.setlocale(getattr(locale, name)) for name in names}


def _put_locale(saved: Mapping[str, str]) -> None:
    for name, value in saved.items():
        locale.setlocale(getattr(locale, name), value)


def _put_collector(saved: tuple[bool, tuple[int, int, int], int]) -> None:
    enabled, threshold, debug = saved
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)


def _put_max_digits(value: int) -> None:
    set_digits = getattr(sys, "set_int_max_str_digits", None)
    if set_digits is not None:
        set_digits(value)


def _niceness() -> int:
    return os.nice(0) if hasattr(os, "nice") else 0


def _affinity() -> tuple[int, ...]:
    get = getattr(os, "sched_getaffinity", None)
    return tuple(sorted(get(0))) if get is not None else ()


def _put_affinity(processors: Sequence[int]) -> None:
    if processors:
        os.sched_setaffinity(0, processors)


def _put_faulthandler(enabled: bool) -> None:
    (faulthandler.enable if enabled else faulthandler.disable)()


SETTINGS: dict[str, Setting] = {
    "argv": Setting(
        "sys.argv", lambda: list(map(str, sys.argv)), lambda v: sys.argv.__setitem__(slice(None), v)
    ),
    "umask": Setting("umask", _umask, os.umask, "{:04o}".format),
    "limits": Setting("resource limits", _limits, _put_limits),
    "locale": Setting("locale", _locale, _put_locale),
    "time_zone": Setting("time zone", lambda: (time.tzname, time.timezone), lambda v: time.tzset()),
    "recursion_limit": Setting("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    "switch_interval": Setting(
        "switch interval of threads", sys.getswitchinterval, sys.setswitchinterval
    ),
    "max_str_digits": Setting(
        "most digits of an int in a string",
        getattr(sys, "get_int_max_str_digits", lambda: 0),
        _put_max_digits,
    ),
    "stack_size": Setting("stack size of threads", threading.stack_size, threading.stack_size),
    "collector": Setting(
        "garbage collector",
        lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        _put_collector,
        lambda v: f"{'on' if v[0] else 'off'}, thresholds {v[1]}",
    ),
    "faulthandler": Setting(
        "faulthandler",
        lambda: faulthandler.is_enabled(),
        _put_faulthandler,
        lambda v: "on" if v else "off",
    ),
    "socket_timeout": Setting(
        "default time-out of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout
    ),
    "write_bytecode": Setting(
        "sys.dont_write_bytecode",
        lambda: bool(sys.dont_write_bytecode),
        lambda v: setattr(sys, "dont_write_bytecode", v),
    ),
    "traceback_limit": Setting(
        "sys.tracebacklimit",
        lambda: getattr(sys, "tracebacklimit", None),
        lambda v: setattr(sys, "tracebacklimit", v),
    ),
    "niceness": Setting("niceness", _niceness, lambda v: os.nice(v - _niceness())),
    "affinity": Setting("processors that it may use", _affinity, _put_affinity),
}


def _read_all() -> dict[str, Any]:
    found = {}
    for key, setting in SETTINGS.items():
        with contextlib.suppress(Exception):
            found[key] = setting.read()
    return found


def _handlers() -> dict[int, Any]:
    return {int(number): signal.getsignal(number) for number in signal.valid_signals()}


@dataclass
class Start:
    """What the process had before the first cell."""

    settings: dict[str, Any]
    handlers: dict[int, Any]
    finders: frozenset[int]


def _now() -> Start:
    finders = frozenset(map(id, [*sys.meta_path, *sys.path_hooks]))
    return Start(_read_all(), _handlers(), finders)


start = _now()


def note_start() -> None:
    """Remember what the process has now as its own, and not the work of cells."""
    global start
    start = _now()


def capture(add_row: AddRow, user_ns: dict[str, Any], calls: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the start; a row for each. `calls`: paths of what cells call."""
    state: dict[str, Any] = {}
    for key, setting in SETTINGS.items():
        try:
            value = setting.read()
        except Exception as error:
            add_row(setting.what, "lost", f"it could not be read: {type(error).__name__}: {error}")
            continue
        before = start.settings.get(key)
        if value == before:
            continue
        if type(value) is dict and type(before) is dict:
            value = {name: each for name, each in value.items() if before.get(name) != each}
        state[key] = value
        add_row(setting.what, "kept", setting.said(value))
    _take_signals(state, add_row, user_ns)
    _take_finders(state, add_row, user_ns)
    _take_warnings(state)
    callbacks = [each for each in gc.callbacks if is_cell_made(each, user_ns)]
    if callbacks:
        state["gc_callbacks"] = callbacks
        add_row("callbacks of the garbage collector", "kept", f"{len(callbacks)}")
    _tell_the_rest(add_row, calls)
    return state


def _take_signals(state: dict[str, Any], add_row: AddRow, user_ns: dict[str, Any]) -> None:
    found: dict[int, Any] = {}
    names, others = [], []
    for number, handler in _handlers().items():
        if handler is start.handlers.get(number) or handler == start.handlers.get(number):
            continue
        plain = handler in (signal.SIG_DFL, signal.SIG_IGN)
        if handler is None or (number == signal.SIGINT and not is_cell_made(handler, user_ns)):
            continue  # set by C code; or by ipykernel for the time that a cell runs
        name = signal.Signals(number).name
        if plain or is_cell_made(handler, user_ns) or _is_importable(handler):
            found[number] = int(handler) if plain else handler
            names.append(name)
        else:
            others.append(f"{name} ({getattr(handler, '__module__', type(handler).__name__)})")
    if found:
        state["signals"] = found
        add_row("signal handlers", "kept", ", ".join(names))
    if others:
        text = f"set by libraries and not kept; let the library set them again: {', '.join(others)}"
        add_row("signal handlers of libraries", "lost", text)


def _is_importable(function: Any) -> bool:
    """Whether a new process finds the very function under its name."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return getattr(module, getattr(function, "__qualname__", ""), None) is function


def _take_finders(state: dict[str, Any], add_row: AddRow, user_ns: dict[str, Any]) -> None:
    for key, what, table in (
        ("meta_path", "sys.meta_path", sys.meta_path),
        ("path_hooks", "sys.path_hooks", sys.path_hooks),
    ):
        own = [
            (at, each)
            for at, each in enumerate(table)
            if id(each) not in start.finders and is_cell_made(each, user_ns)
        ]
        if own:
            state[key] = own
            add_row(what, "kept", f"{len(own)} made by cells")


def _take_warnings(state: dict[str, Any]) -> None:
    state["warnings"] = list(warnings.filters)
    once = getattr(warnings, "onceregistry", None)
    if once:
        state["once"] = dict(once)


def _tell_the_rest(add_row: AddRow, calls: Mapping[str, Any]) -> None:
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        which = getattr(signal, name, None)
        if which is not None and any(signal.getitimer(which)):
            add_row(f"timer {name}", "lost", "a running timer ends with the process: set it again")
    if sys.gettrace() is not None and "pydevd" not in sys.modules and "coverage" not in sys.modules:
        add_row("sys.settrace", "lost", "a trace function is not kept: set it again")
    if "codecs.register" in calls:
        add_row(
            "codecs of cells",
            "lost",
            "Python does not tell what codecs.register was given: run that cell again",
        )
    if any(call in ("atexit.register", "weakref.finalize") for call in calls):
        add_row(
            "functions for the end of the process",
            "lost",
            "Python does not tell what atexit.register was given; a pause does not call it and a "
            "new process does not know it: run that cell again",
        )


def apply(state: Mapping[str, Any]) -> list[str]:
    """Put back what `capture` took. Returns sentences about what could not be."""
    problems: list[str] = []

    def attempt(what: str, call: Callable[..., Any], *args: Any) -> None:
        if any(type(each) is Lost for each in args):
            return  # told by the graph
        try:
            call(*args)
        except Exception as error:
            problems.append(f"{what}: {error or type(error).__name__}")

    for key, setting in SETTINGS.items():
        if key == "limits":
            for name, pair in (state.get(key) or {}).items():
                attempt(f"the resource limit {name}", _put_limits, {name: pair})
        elif key in state:
            attempt(setting.what, setting.put, state[key])
    for number, handler in (state.get("signals") or {}).items():
        attempt(f"the handler of signal {number}", signal.signal, number, handler)
    for key, table in (("meta_path", sys.meta_path), ("path_hooks", sys.path_hooks)):
        for at, each in state.get(key) or ():
            attempt(f"sys.{key}", table.insert, at, each)
    if "path_hooks" in state:
        sys.path_importer_cache.clear()
    for each in state.get("gc_callbacks") or ():
        attempt("a callback of the garbage collector", gc.callbacks.append, each)
    filters = state.get("warnings")
    if isinstance(filters, list):
        warnings.resetwarnings()  # also drops what the module has cached about them
        live: Any = warnings.filters
        live[:] = [each for each in filters if type(each) is not Lost]
    once: Any = getattr(warnings, "onceregistry", None)
    if isinstance(once, dict):
        once.update(state.get("once") or {})
    return problems
