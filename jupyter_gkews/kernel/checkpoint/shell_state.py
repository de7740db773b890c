"""What cells have told IPython itself: extensions, aliases, magics, formatters, `%precision`.

Looks at the running shell, if there is one; what came with the shell or with an extension is not
copied. It never raises: what cannot be put back becomes a sentence.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Callable

from . import rebuild
from .library_state import AddRow
from .placeholders import Lost

#: Packages whose magics and formatters come with the shell, or again with what is imported.
_COMES_BACK = {"IPython", "ipykernel", "ipywidgets", "jupyter_gkews", "matplotlib_inline"}


class ShellStart:
    """What the shell had before the first cell."""

    def __init__(self, shell: Any) -> None:
        self.extensions: frozenset[str] = frozenset()
        self.aliases: frozenset[Any] = frozenset()
        self.magics: frozenset[Any] = frozenset()
        self.printers: frozenset[Any] = frozenset()
        if shell is None:
            return
        self.extensions = frozenset(shell.extension_manager.loaded)
        self.aliases = frozenset(shell.alias_manager.aliases)
        self.magics = frozenset(key for key, _ in _magics(shell))
        self.printers = frozenset((mime, cls) for mime, cls, _ in _printers(shell))


_start = ShellStart(None)


def note_start(shell: Any) -> None:
    """Remember what the shell has now as its own."""
    global _start
    _start = ShellStart(shell)


def _magics(shell: Any) -> list[tuple[tuple[str, str], Any]]:
    """((kind, name), magic) of all magics."""
    tables = shell.magics_manager.magics
    return [((kind, name), each) for kind in tables for name, each in tables[kind].items()]


def _printers(shell: Any) -> list[tuple[str, type, Any]]:
    """(mime type, class, function) of all formatters registered by class."""
    formatters = shell.display_formatter.formatters
    return [(m, c, f) for m in formatters for c, f in formatters[m].type_printers.items()]


def capture(add_row: AddRow) -> dict[str, Any]:
    """What differs from the shell's start; a row for each kind of it."""
    shell = rebuild.shell()
    state: dict[str, Any] = {}
    if shell is None:
        return state
    steps: tuple[tuple[str, Callable[[Any, dict[str, Any], AddRow], None]], ...] = (
        ("IPython extensions", _take_extensions),
        ("IPython display precision", _take_precision),
        ("IPython aliases", _take_aliases),
        ("magics", _take_magics),
        ("display formatters", _take_printers),
        ("IPython event callbacks", _tell_callbacks),
    )
    for what, step in steps:
        try:
            step(shell, state, add_row)
        except Exception as error:  # another IPython than we know
            add_row(what, "lost", f"they could not be read: {type(error).__name__}: {error}")
    return state


def _take_extensions(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    names = sorted(set(shell.extension_manager.loaded) - _start.extensions)
    if not names:
        return
    state["extensions"] = names
    add_row("IPython extensions", "rebuilt", f"loaded again: {', '.join(names)}")
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    if reloader is not None and reloader.enabled:
        mode = "1"
        if reloader.check_all:
            mode = "3" if getattr(reloader, "autoload_obj", False) else "2"
        state["autoreload"] = mode
        add_row("%autoreload", "kept", mode)


def _take_precision(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    plain = shell.display_formatter.formatters["text/plain"]
    if plain.float_precision:
        state["precision"] = plain.float_precision
        add_row("%precision", "kept", str(plain.float_precision))
    if not plain.pprint:
        state["pprint"] = False
        add_row("%pprint", "kept", "off")


def _take_aliases(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    found = sorted(set(shell.alias_manager.aliases) - _start.aliases)
    if found:
        state["aliases"] = found
        add_row("IPython aliases", "kept", ", ".join(name for name, _ in found))


def _take_magics(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    functions: list[tuple[str, str, Any]] = []
    again: list[tuple[Any, ...]] = []
    lost = []
    for (kind, name), magic in _magics(shell):
        if type(magic).__name__ == "Alias":  # of the shell, see _take_aliases
            continue
        if type(magic).__name__ == "MagicAlias":
            if (kind, name) not in _start.magics:
                again.append((name, magic.magic_name, magic.magic_kind, magic.magic_params))
            continue
        if _of_a_cell(magic):
            functions.append((kind, name, magic))
        elif (kind, name) not in _start.magics and not _comes_back(magic, state):
            lost.append(f"%{'%' if kind == 'cell' else ''}{name}")
    if functions or again:
        names = [f"%{'%' if kind == 'cell' else ''}{name}" for kind, name, _ in functions]
        names += [f"%{name}" for name, *_ in again]
        state["magics"], state["magic_aliases"] = functions, again
        add_row("magics", "kept", ", ".join(names))
    if lost:
        text = f"methods of an object; run the cell that registers them: {', '.join(lost)}"
        add_row("magics of a class", "lost", text)


def _take_printers(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    kept, lost = [], []
    for mime, cls, function in _printers(shell):
        if _of_a_cell(function):
            kept.append((mime, cls, function))
        elif cls.__module__ == "matplotlib.figure":
            continue  # its backend registers them when it shows the next figure
        elif (mime, cls) not in _start.printers and not _comes_back(function, state):
            lost.append(f"{cls.__name__} ({mime})")
    if kept:
        state["printers"] = kept
        names = ", ".join(f"{cls.__name__} ({mime})" for mime, cls, _ in kept)
        add_row("display formatters", "kept", names)
    if lost:
        text = f"register them again: {', '.join(sorted(lost))}"
        add_row("display formatters of libraries", "lost", text)


def _tell_callbacks(shell: Any, state: dict[str, Any], add_row: AddRow) -> None:
    callbacks = shell.events.callbacks
    own = [event for event, each in callbacks.items() if any(map(_of_a_cell, each))]
    if own:
        text = f"functions registered for {', '.join(sorted(own))}: register them again"
        add_row("IPython event callbacks", "lost", text)


def _of_a_cell(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and function.__module__ == "__main__"


def _comes_back(function: Any, state: Mapping[str, Any]) -> bool:
    """Whether an extension or a library that is imported registers it again."""
    owner = type(getattr(function, "__self__", None))
    name = function.__module__ if owner is type(None) else owner.__module__
    root = str(name).split(".")[0]
    return root in _COMES_BACK | {each.split(".")[0] for each in state.get("extensions", ())}


def apply(state: Mapping[str, Any]) -> list[str]:
    """Put back what `capture` took. Returns sentences about what could not be."""
    shell = rebuild.shell()
    problems: list[str] = []
    if shell is None or not state:
        return problems

    def attempt(what: str, call: Callable[..., Any], *args: Any) -> Any:
        if any(type(each) is Lost for each in args):
            problems.append(f"{what}: a part of it could not be kept; run its cell again")
            return None
        try:
            return call(*args)
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {error}")
            return None

    for name in state.get("extensions", ()):
        attempt(f"the IPython extension {name}", shell.extension_manager.load_extension, name)
    if "autoreload" in state:
        attempt("%autoreload", shell.run_line_magic, "autoreload", state["autoreload"])
    plain = shell.display_formatter.formatters["text/plain"]
    for key, trait in (("precision", "float_precision"), ("pprint", "pprint")):
        if key in state:
            attempt(f"%{key}", setattr, plain, trait, state[key])
    for name, command in state.get("aliases", ()):
        attempt(f"the alias {name}", shell.alias_manager.define_alias, name, command)
    for kind, name, function in state.get("magics", ()):
        attempt(f"the magic %{name}", shell.register_magic_function, function, kind, name)
    for args in state.get("magic_aliases", ()):
        attempt(f"the magic %{args[0]}", shell.magics_manager.register_alias, *args)
    for mime, cls, function in state.get("printers", ()):
        formatter = shell.display_formatter.formatters.get(mime)
        if formatter is not None:
            attempt(f"the {mime} formatter", formatter.for_type, cls, function)
    return problems
