"""Magics, aliases and display formatters that cells have registered with IPython.

Looks at the running shell; what came with the shell or comes with an extension is not copied.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from . import rebuild

if TYPE_CHECKING:
    from .graph import GraphWriter

AddRow = Callable[[str, str, "str | None"], None]
Attempt = Callable[..., Any]
#: Packages whose magics and formatters come with the shell, or again with what is imported.
COMES_BACK = frozenset({"IPython", "ipykernel", "ipywidgets", "jupyter_gkews", "matplotlib_inline"})
#: What every Magics object gets from its class and its shell.
_NOT_STATE = frozenset(
    (
        *(
            "shell",
            "magics",
            "options_table",
            "_trait_values",
            "_trait_notifiers",
            "_trait_validators",
        ),
        *("_cross_validation_lock", "_static_immutable_initial_values", "_config_is_default"),
    )
)


def magics_of(shell: Any) -> list[tuple[tuple[str, str], Any]]:
    """((kind, name), magic) of all magics."""
    tables = shell.magics_manager.magics
    return [((kind, name), each) for kind in tables for name, each in tables[kind].items()]


def _formatters(shell: Any) -> dict[str, Any]:
    """All formatters by mime type, and the two that have none."""
    display = shell.display_formatter
    found = dict(display.formatters)
    for name in ("mimebundle_formatter", "ipython_display_formatter"):
        each = getattr(display, name, None)
        if each is not None:
            found[name] = each
    return found


def printers_of(shell: Any) -> list[tuple[str, Any, Any]]:
    """(mime type, class or (module, name) or ("id", object), function) of all registrations."""
    found: list[tuple[str, Any, Any]] = []
    for mime, formatter in _formatters(shell).items():
        found += [(mime, cls, f) for cls, f in formatter.type_printers.items()]
        found += [(mime, names, f) for names, f in formatter.deferred_printers.items()]
    return found


def disabled_of(shell: Any) -> list[str]:
    """Formatters that are switched off (of those that a new shell has switched on)."""
    return [mime for mime, each in _formatters(shell).items() if not each.enabled]


class Registered:
    """What was registered before the first cell."""

    def __init__(self, shell: Any = None) -> None:
        self.aliases: frozenset[Any] = frozenset()
        self.magics: dict[tuple[str, str], Any] = {}
        self.printers: dict[tuple[str, Any], Any] = {}
        self.disabled: frozenset[str] = frozenset()
        if shell is not None:
            self.aliases = frozenset(shell.alias_manager.aliases)
            self.magics = dict(magics_of(shell))
            self.printers = {(mime, cls): function for mime, cls, function in printers_of(shell)}
            self.disabled = frozenset(disabled_of(shell))


def take_aliases(shell: Any, before: Registered, state: dict[str, Any], add_row: AddRow) -> None:
    """Aliases defined, and those of the shell that were removed."""
    now = set(shell.alias_manager.aliases)
    found, gone = sorted(now - before.aliases), {name for name, _ in before.aliases - now}
    gone -= {name for name, _ in now}
    if found:
        state["aliases"] = found
        add_row("IPython aliases", "kept", ", ".join(name for name, _ in found))
    if gone:
        state["no_aliases"] = sorted(gone)
        add_row("IPython aliases removed", "kept", ", ".join(sorted(gone)))


def take_magics(shell: Any, before: Registered, state: dict[str, Any], add_row: AddRow) -> None:
    """Functions registered as magics, second names of magics, and objects with magics."""
    functions: list[tuple[str, str, Any]] = []
    again: list[tuple[Any, ...]] = []
    objects: list[Any] = []
    for (kind, name), magic in magics_of(shell):
        if before.magics.get((kind, name)) == magic or type(magic).__name__ == "Alias":
            continue
        if type(magic).__name__ == "MagicAlias":
            again.append((name, magic.magic_name, magic.magic_kind, magic.magic_params))
        elif comes_back(magic, state):
            continue
        elif type(magic) is types.MethodType and _is_magics(type(magic.__self__)):
            if not any(each is magic.__self__ for each in objects):
                objects.append(magic.__self__)
        else:
            functions.append((kind, name, magic))
    if functions or again:
        names = [f"%{'%' if kind == 'cell' else ''}{name}" for kind, name, _ in functions]
        names += [f"%{name}" for name, *_ in again]
        state["magics"], state["magic_aliases"] = functions, again
        add_row("magics", "kept", ", ".join(names))
    if objects:
        state["magic_objects"] = objects
        add_row("magics of a class", "kept", ", ".join(type(each).__name__ for each in objects))


def take_printers(shell: Any, before: Registered, state: dict[str, Any], add_row: AddRow) -> None:
    """Functions registered for types, and formatters switched off."""
    kept = []
    for mime, cls, function in printers_of(shell):
        if before.printers.get((mime, cls)) == function:
            continue
        if getattr(cls, "__module__", None) == "matplotlib.figure":
            continue  # its backend registers them when it shows the next figure
        if not comes_back(function, state):
            kept.append((mime, cls, function))
    if kept:
        state["printers"] = kept
        said = [f"{getattr(cls, '__name__', cls)} ({mime})" for mime, cls, _ in kept]
        add_row("display formatters", "kept", ", ".join(map(str, said)))
    gone = [key for key in before.printers if key not in {p[:2] for p in printers_of(shell)}]
    gone = [(mime, cls) for mime, cls in gone if type(cls) is tuple or _is_importable(cls)]
    if gone:
        state["no_printers"] = gone
        add_row("display formatters removed", "kept", str(len(gone)))
    disabled = set(disabled_of(shell))
    if disabled != before.disabled:
        state["formatters_off"] = sorted(disabled)
        add_row("display formatters switched off", "kept", ", ".join(sorted(disabled)) or "none")


def _is_importable(cls: Any) -> bool:
    return isinstance(cls, type) and cls.__module__ != "__main__"


def comes_back(function: Any, state: Mapping[str, Any]) -> bool:
    """Whether an extension or a library that is imported registers it again."""
    owner = type(getattr(function, "__self__", None))
    name = getattr(function, "__module__", "") if owner is type(None) else owner.__module__
    root = str(name).split(".")[0]
    return root in COMES_BACK | {each.split(".")[0] for each in state.get("extensions", ())}


def put(shell: Any, state: Mapping[str, Any], attempt: Attempt) -> None:
    """Register all that again; `attempt(what, call, *args)` tells what cannot be."""
    for name, command in state.get("aliases", ()):
        attempt(f"the alias {name}", shell.alias_manager.define_alias, name, command)
    for name in state.get("no_aliases", ()):
        attempt(f"the alias {name}", shell.alias_manager.undefine_alias, name)
    for each in state.get("magic_objects", ()):
        attempt("an object with magics", shell.register_magics, each)
    for kind, name, function in state.get("magics", ()):
        attempt(f"the magic %{name}", shell.register_magic_function, function, kind, name)
    for args in state.get("magic_aliases", ()):
        attempt(f"the magic %{args[0]}", shell.magics_manager.register_alias, *args)
    formatters = _formatters(shell)
    for mime, cls in state.get("no_printers", ()):
        if mime in formatters:
            attempt(f"the {mime} formatter", formatters[mime].pop, cls, None)
    for mime, cls, function in state.get("printers", ()):
        formatter = formatters.get(mime)
        if formatter is None:
            continue
        if type(cls) is tuple:
            call: Any = formatter.for_type_by_name
            attempt(f"the {mime} formatter", call, *cls, function)
        else:
            attempt(f"the {mime} formatter", formatter.for_type, cls, function)
    off = state.get("formatters_off")
    if off is not None:
        for mime, formatter in formatters.items():
            formatter.enabled = mime not in off


# ---- objects with magics, in the graph ----


def _is_magics(cls: type) -> bool:
    return any(b.__name__ == "Magics" and b.__module__ == "IPython.core.magic" for b in cls.__mro__)


def register(writer: GraphWriter) -> None:
    """Teach `writer` how objects with magics are made again."""
    shell = rebuild.shell()
    if shell is not None:
        magic: Any = sys.modules.get("IPython.core.magic")
        if magic is not None:
            writer.base_handlers.insert(0, (magic.Magics, reduce_magics))  # before all HasTraits


def reduce_magics(writer: GraphWriter, obj: Any) -> tuple[Any, ...]:
    """An object with magics: of its class and the new shell, then with what it held. Its own
    `__init__` does not run again."""
    attributes = {k: v for k, v in vars(obj).items() if k not in _NOT_STATE}
    values = vars(obj).get("_trait_values", {})
    traits = {k: v for k, v in values.items() if k not in ("parent", "config", "log")}
    state = {"attributes": attributes, "traits": traits}
    return rebuild.magics, (type(obj),), state, None, None, rebuild.set_magics
