"""What cells have told IPython itself: extensions, callbacks, transformers, completers, handlers.

Looks at the running shell, if there is one; what came with the shell or with an extension is not
copied. It never raises: what cannot be put back becomes a sentence. Magics and formatters are in
shell_magics.py, `%config` and switches in shell_config.py.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Callable

from . import rebuild, shell_config, shell_magics
from .cell_made import is_cell_made
from .placeholders import Lost
from .shell_config import Configured
from .shell_magics import Registered

AddRow = Callable[[str, str, "str | None"], None]

#: Lists of functions or objects that a shell calls, by path.
_LISTS = {
    "input_transformers_cleanup": "input transformers (cleanup)",
    "input_transformers_post": "input transformers (post)",
    "ast_transformers": "AST transformers",
    "input_transformer_manager.cleanup_transforms": "input transformers (lines, cleanup)",
    "input_transformer_manager.line_transforms": "input transformers (lines)",
    "input_transformer_manager.token_transformers": "input transformers (tokens)",
    "Completer.custom_matchers": "custom completers",
}


class ShellStart:
    """What the shell had before the first cell."""

    def __init__(self, shell: Any) -> None:
        self.extensions: frozenset[str] = frozenset()
        self.callbacks: frozenset[tuple[str, int]] = frozenset()
        self.registered = Registered(shell)
        self.configured = Configured(shell)
        if shell is not None:
            self.extensions = frozenset(shell.extension_manager.loaded)
            called = shell.events.callbacks.items()
            self.callbacks = frozenset((event, _key(f)) for event, each in called for f in each)


def _key(function: Any) -> int:
    """What stays the same of a bound method, which is made anew each time."""
    return hash(
        (id(getattr(function, "__self__", None)), id(getattr(function, "__func__", function)))
    )


_start = ShellStart(None)


def note_start(shell: Any) -> None:
    """Remember what the shell has now as its own."""
    global _start
    _start = ShellStart(shell)


def capture(add_row: AddRow) -> dict[str, Any]:
    """What differs from the shell's start; a row for each kind of it."""
    shell = rebuild.shell()
    state: dict[str, Any] = {}
    if shell is None:
        return state
    registered = _start.registered

    def magics(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
        shell_magics.take_magics(shell, registered, state, add_row)

    def aliases(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
        shell_magics.take_aliases(shell, registered, state, add_row)

    def printers(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
        shell_magics.take_printers(shell, registered, state, add_row)

    def config(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
        shell_config.take(shell, _start.configured, state, add_row)

    steps: tuple[tuple[str, Callable[[Any, dict[str, Any], AddRow], None]], ...] = (
        ("IPython extensions", _take_extensions),
        ("%config", config),
        ("IPython aliases", aliases),
        ("magics", magics),
        ("display formatters", printers),
        ("IPython event callbacks", _take_callbacks),
        ("IPython transformers and completers", _take_lists),
        ("IPython hooks", _take_hooks),
        ("custom exception handler", _take_exception_handler),
        ("functions of the shell", _take_attributes),
    )
    for what, step in steps:
        try:
            step(shell, state, add_row)
        except Exception as error:  # another IPython than we know
            add_row(what, "lost", f"they could not be read: {type(error).__name__}: {error}")
    return state


def labels(state: Mapping[str, Any]) -> dict[str, Any]:
    """What `capture` found, by names to tell losses by."""
    found: dict[str, Any] = {}
    for kind, name, magic in state.get("magics", ()):
        found[f"%{'%' if kind == 'cell' else ''}{name}"] = magic
    for each in state.get("magic_objects", ()):
        found[f"magics of {type(each).__name__}"] = each
    for mime, cls, function in state.get("printers", ()):
        found[f"display formatter {getattr(cls, '__name__', cls)} ({mime})"] = function
    for event, function in state.get("callbacks", ()):
        found[f"IPython callback {event} {getattr(function, '__name__', '')}".strip()] = function
    for path, entries in state.get("lists", {}).items():
        found[_LISTS[path]] = [entry[1] for entry in entries]
    for key in ("hooks", "exception_handler", "attributes"):
        if key in state:
            found[f"IPython {key.replace('_', ' ')}"] = state[key]
    return found


def _take_extensions(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    loaded = shell.extension_manager.loaded
    names = [name for name in loaded if name not in _start.extensions]
    names.sort()
    if not names:
        return
    state["extensions"] = names
    add_row("IPython extensions", "rebuilt", f"loaded again: {', '.join(names)}")
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    if reloader is None:
        return
    modules, skipped = dict(reloader.modules), dict(reloader.skip_modules)
    if modules or skipped:
        state["aimport"] = (modules, skipped)
        said = [*modules, *(f"-{name}" for name in skipped)]
        add_row("%aimport", "kept", ", ".join(said))
    if reloader.enabled:
        mode = "1"
        if reloader.check_all:
            mode = "3" if getattr(reloader, "autoload_obj", False) else "2"
        state["autoreload"] = mode
        add_row("%autoreload", "kept", mode)


def _take_callbacks(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    found = [
        (event, function)
        for event, each in shell.events.callbacks.items()
        for function in each
        if (event, _key(function)) not in _start.callbacks
        and not shell_magics.comes_back(function, state)
        and not str(getattr(function, "__module__", "")).startswith("matplotlib")
    ]
    if found:
        state["callbacks"] = found
        names = [f"{event}: {getattr(each, '__name__', each)}" for event, each in found]
        add_row("IPython event callbacks", "kept", ", ".join(names))


def _at(shell: Any, path: str) -> Any:
    for step in path.split("."):
        shell = getattr(shell, step, None)
    return shell


def _take_lists(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    found: dict[str, list[tuple[int, Any, bool]]] = {}
    for path, what in _LISTS.items():
        own = []
        for position, each in enumerate(_at(shell, path) or ()):
            bound = type(each) is types.MethodType and each.__self__ is shell.Completer
            inner = each.__func__ if bound else each
            if is_cell_made(inner, shell.user_ns):
                own.append((position, inner, bound))
        if own:
            found[path] = own
            names = [getattr(each, "__name__", type(each).__name__) for _, each, _ in own]
            add_row(what, "kept", ", ".join(names))
    if found:
        state["lists"] = found


def _take_hooks(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    """set_hook: (name, function, priority, string key, regular expression)."""
    found: list[tuple[str, Any, int, Any, Any]] = []

    def look(name: str, chain: Any, text: Any = None, pattern: Any = None) -> None:
        for priority, each in getattr(chain, "chain", ()):
            inner = getattr(each, "__func__", each)
            if is_cell_made(inner, shell.user_ns):
                found.append((name, inner, priority, text, pattern))

    for name, dispatch in shell.strdispatchers.items():
        for text, chain in dispatch.strs.items():
            look(name, chain, text=text)
        for regex, chain in dispatch.regexs.items():
            look(name, chain, pattern=getattr(regex, "pattern", regex))
    for name, chain in vars(shell.hooks).items():
        look(name, chain)
    if found:
        state["hooks"] = found
        add_row("IPython hooks", "kept", ", ".join(name for name, *_ in found))


def _take_exception_handler(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    if not shell.custom_exceptions:
        return
    wrapped = getattr(shell.CustomTB, "__func__", shell.CustomTB)
    cells = dict(zip(wrapped.__code__.co_freevars, wrapped.__closure__ or ()))
    handler = cells["handler"].cell_contents if "handler" in cells else None
    state["exception_handler"] = (tuple(shell.custom_exceptions), handler)
    names = ", ".join(each.__name__ for each in shell.custom_exceptions)
    add_row("custom exception handler", "kept", names)


def _take_attributes(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    """What cells have put in the place of the shell's own functions."""
    own = {}
    for name, value in list(vars(shell).items()):
        inner = value.__func__ if type(value) is types.MethodType else value
        if name in ("CustomTB", "user_ns", "user_module") or name.startswith("_trait"):
            continue
        if is_cell_made(inner, shell.user_ns):
            own[name] = value
    if own:
        state["attributes"] = own
        add_row("functions of the shell", "kept", ", ".join(own))
    if getattr(shell, "active_eventloop", None) not in (None, "inline"):
        add_row("%gui", "lost", "the event loop ends with the process: run %gui again")


def apply(state: Mapping[str, Any]) -> list[str]:
    """Put back what `capture` took. Returns sentences about what could not be."""
    shell = rebuild.shell()
    problems: list[str] = []
    if shell is None or not state:
        return problems

    def attempt(what: str, call: Callable[..., Any], *args: Any) -> Any:
        if any(type(each) is Lost for each in args):
            return None  # the graph has told it
        try:
            return call(*args)
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {error}")
            return None

    for name in state.get("extensions", ()):
        attempt(f"the IPython extension {name}", shell.extension_manager.load_extension, name)
    _put_autoreload(shell, state, attempt)
    shell_config.put(shell, state, attempt)
    shell_magics.put(shell, state, attempt)
    for event, function in state.get("callbacks", ()):
        attempt(f"the callback for {event}", shell.events.register, event, function)
    for path, entries in (state.get("lists") or {}).items():
        for position, each, bound in entries:
            attempt(_LISTS[path], _insert, shell, path, position, each, bound)
    for name, function, priority, text, pattern in state.get("hooks", ()):
        attempt(f"the hook {name}", shell.set_hook, name, function, priority, text, pattern)
    if "exception_handler" in state and type(state["exception_handler"]) is not Lost:
        attempt("the exception handler", shell.set_custom_exc, *state["exception_handler"])
    for name, value in (state.get("attributes") or {}).items():
        attempt(f"the shell's {name}", setattr, shell, name, value)
    return problems


def _put_autoreload(shell: Any, state: Mapping[str, Any], attempt: Callable[..., Any]) -> None:
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    if "aimport" in state and reloader is not None:
        modules, skipped = state["aimport"]
        reloader.modules.update(modules)
        reloader.skip_modules.update(skipped)
    if "autoreload" in state:
        attempt("%autoreload", shell.run_line_magic, "autoreload", state["autoreload"])


def _insert(shell: Any, path: str, position: int, each: Any, bound: bool) -> None:
    if bound:
        each = types.MethodType(each, shell.Completer)
    _at(shell, path).insert(position, each)
