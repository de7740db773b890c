"""Options that libraries hold for the whole process: precision, threads, how errors are treated.

Only of libraries that the kernel has imported, and only what differs from a new process. It never
raises: what cannot be taken or put back becomes a sentence.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable

from .rebuilders import context_variables

State = dict[str, Any]
#: Adds a row of `survives`: what, fate, reason.
AddRow = Callable[[str, str, "str | None"], None]

#: Set by the process that shows figures, not by the user's cells.
_SURROUNDINGS = frozenset({"backend", "backend_fallback", "interactive", "toolbar"})


@dataclass(frozen=True)
class Start:
    """What the process had before the first cell."""

    builtins: frozenset[str]
    handlers: frozenset[int]
    recursion_limit: int


def _now() -> Start:
    named = logging.Logger.manager.loggerDict.values()
    loggers = [logging.getLogger(), *(each for each in named if isinstance(each, logging.Logger))]
    handlers = frozenset(id(handler) for logger in loggers for handler in logger.handlers)
    return Start(frozenset(vars(builtins)), handlers, sys.getrecursionlimit())


start = _now()


def note_start() -> None:
    """Remember what the process has now as its own, and not the work of cells."""
    global start
    start = _now()


#: Libraries that keep their settings in context variables.
_OF_A_CONTEXT = frozenset({"numpy", "decimal"})
_pending: dict[str, State] = {}
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _is_plain(value: Any) -> bool:
    """Whether a value means the same in another process."""
    if type(value) in (tuple, list):
        return all(_is_plain(each) for each in value)
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(each) for key, each in value.items())
    return type(value) in _PLAIN


# ---- torch ----


def _take_torch(torch: Any) -> State:
    state: State = {}
    if torch.get_default_dtype() is not torch.float32:
        state["default_dtype"] = str(torch.get_default_dtype()).rsplit(".", 1)[-1]
    if not torch.is_grad_enabled():
        state["grad_enabled"] = False
    if torch.are_deterministic_algorithms_enabled():
        warn = torch.is_deterministic_algorithms_warn_only_enabled()
        state["deterministic_algorithms"] = "warn only" if warn else "on"
    # What torch would choose by itself is not told anywhere: so always, with what it hangs on.
    state["num_threads"] = torch.get_num_threads()
    return state


def _put_torch(torch: Any, state: State) -> None:
    if "default_dtype" in state:
        torch.set_default_dtype(getattr(torch, state["default_dtype"]))
    if "grad_enabled" in state:
        torch.set_grad_enabled(state["grad_enabled"])
    if "deterministic_algorithms" in state:
        warn_only = state["deterministic_algorithms"] == "warn only"
        torch.use_deterministic_algorithms(True, warn_only=warn_only)
    threads = state.get("num_threads")
    if threads is not None and torch.get_num_threads() != threads:
        if threads > (os.cpu_count() or 1):
            raise ValueError(f"{threads} threads are more than the processors here")
        torch.set_num_threads(threads)


# ---- numpy ----

_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_NUMPY_PRINT = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "formatter": None,
    "legacy": False,
    "override_repr": None,
}


def _take_numpy(numpy: Any) -> State:
    state: State = {}
    errors = dict(numpy.geterr())
    if errors != _NUMPY_ERRORS:
        state["seterr"] = errors
    options = numpy.get_printoptions()
    changed = {
        name: value
        for name, value in options.items()
        if name in _NUMPY_PRINT and value != _NUMPY_PRINT[name]
    }
    for name, value in changed.items():
        state[f"printoptions {name}"] = value
    if numpy.geterrcall() is not None:
        state["seterrcall"] = numpy.geterrcall()
    return state


def _put_numpy(numpy: Any, state: State) -> None:
    if "seterr" in state:
        numpy.seterr(**state["seterr"])
    options = {
        name.split(" ", 1)[1]: value for name, value in state.items() if name.startswith("print")
    }
    if options:
        numpy.set_printoptions(**options)


# ---- pandas, matplotlib ----


def _take_pandas(pandas: Any) -> State:
    config = importlib.import_module("pandas._config.config")  # part of pandas: is there already
    registered, state = config._registered_options, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated options
        for name, option in registered.items():
            value = pandas.get_option(name)
            if value is not option.defval and value != option.defval:
                state[name] = value
    # pandas sets this one itself, by the terminal that it finds
    state.pop("display.notebook_repr_html", None)
    return state


def _put_pandas(pandas: Any, state: State) -> None:
    _one_by_one(state, pandas.set_option)


def _take_matplotlib(matplotlib: Any) -> State:
    defaults, now = matplotlib.rcParamsOrig, dict.copy(matplotlib.rcParams)
    return {
        name: value
        for name, value in now.items()
        if name not in _SURROUNDINGS and name in defaults and value != dict.get(defaults, name)
    }


def _put_matplotlib(matplotlib: Any, state: State) -> None:
    # A cycle of properties is kept as what it cycles through.
    _one_by_one(state, matplotlib.rcParams.__setitem__)


def _one_by_one(state: State, put: Callable[[str, Any], Any]) -> None:
    """All that can be put; then ValueError with the names of those that cannot."""
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in state.items():
            try:
                put(name, value)
            except Exception:
                failed.append(name)
    if failed:
        raise ValueError(f"not accepted here: {', '.join(failed)}")


# ---- decimal, logging ----


def _take_decimal(decimal: Any) -> State:
    context, fresh = decimal.getcontext(), decimal.Context()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    state: State = {
        name: getattr(context, name)
        for name in names
        if getattr(context, name) != getattr(fresh, name)
    }
    traps = sorted(signal.__name__ for signal, on in context.traps.items() if on)
    if traps != sorted(signal.__name__ for signal, on in fresh.traps.items() if on):
        state["traps"] = traps
    return state


def _put_decimal(decimal: Any, state: State) -> None:
    context = decimal.getcontext()
    for name, value in state.items():
        if name == "traps":
            for signal in context.traps:
                context.traps[signal] = signal.__name__ in value
        else:
            setattr(context, name, value)


def _take_logging(_: Any) -> State:
    level = logging.getLogger().level
    return {} if level == logging.WARNING else {"root level": level}


def _put_logging(_: Any, state: State) -> None:
    logging.getLogger().setLevel(state["root level"])


#: module -> (its name in words, take, put). `take` gives what differs from a new process.
_Rule = tuple[str, Callable[[Any], State], Callable[[Any, State], None]]
LIBRARIES: dict[str, _Rule] = {
    "torch": ("PyTorch settings", _take_torch, _put_torch),
    "numpy": ("NumPy settings", _take_numpy, _put_numpy),
    "pandas": ("pandas options", _take_pandas, _put_pandas),
    "matplotlib": ("Matplotlib rcParams", _take_matplotlib, _put_matplotlib),
    "decimal": ("decimal context", _take_decimal, _put_decimal),
    "logging": ("root logger", _take_logging, _put_logging),
}


def capture(add_row: AddRow) -> dict[str, State]:
    """What differs from a new process, by library; a row for each that has something."""
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
        kept = {key: value for key, value in state.items() if _is_plain(value)}
        other = sorted(set(state) - set(kept))
        if kept:
            found[name] = kept
            add_row(what, "kept", ", ".join(_said(key, value) for key, value in kept.items()))
        if other:
            add_row(f"{what}: {', '.join(other)}", "lost", "a function or object: set it again")
    return found


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
    context_variables.apply_in_context()


# ---- what is only told ----


def tell_what_is_not_kept(add_row: AddRow) -> None:
    """Rows for the user's own modules and new builtins."""
    added = sorted(name for name in vars(builtins) if name not in start.builtins and name != "_")
    added = [name for name in added if not name.startswith("__") and name not in _IPYTHONS]
    if added:
        text = f"{', '.join(added)}: names added to builtins are not kept"
        add_row("builtins", "lost", text)
    modules = sorted(name for name, module in list(sys.modules.items()) if _is_own(name, module))
    if modules:
        text = "imported anew from their files: what cells have set in them is not kept"
        add_row(f"state of modules {', '.join(modules)}", "lost", text)


#: What IPython puts into builtins when it starts a shell.
_IPYTHONS = frozenset({"get_ipython", "display", "exit", "quit", "copyright", "credits"})


@functools.lru_cache(maxsize=8192)
def _real(path: str) -> str:
    return os.path.realpath(path)


def _is_own(name: str, module: ModuleType | None) -> bool:
    """Whether a module is a file of the user's, under the working directory."""
    path = getattr(module, "__file__", None)
    if name in ("__main__", "__mp_main__") or not isinstance(path, str) or not os.path.isabs(path):
        return False
    try:
        here = os.path.join(_real(os.getcwd()), "")
    except OSError:
        return False
    path = _real(path)
    libraries = ("site-packages", "dist-packages", _real(sys.prefix))
    if any(each in path for each in libraries) or name.split(".")[0] == "jupyter_gkews":
        return False
    return path.startswith(here)
