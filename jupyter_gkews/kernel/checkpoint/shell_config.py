"""`%config` of IPython's parts, and its switches: `%xmode`, `%pdb`, `%autoawait`, `%precision`.

Only traits that can be configured, and only what differs from the shell's start.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

AddRow = Callable[[str, str, "str | None"], None]
#: Traits that belong to the process or have rules of their own.
_NOT_KEPT = frozenset(
    (
        *(
            "banner1",
            "banner2",
            "float_precision",
            "pprint",
            "ast_transformers",
            "exit_msg",
            "quiet",
        ),
        *("hist_file", "connection_options", "logfile", "logstart", "logappend", "enable_tip"),
        *("history_length", "parent_appname", "loop_runner"),
    )
)
_PLAIN = (type(None), bool, int, float, str, bytes)


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(each) for key, each in value.items())
    return type(value) in _PLAIN


def traits_of(shell: Any) -> dict[str, dict[str, Any]]:
    """Plain values of all traits that can be configured, by class name."""
    found: dict[str, dict[str, Any]] = {}
    for each in list(getattr(shell, "configurables", ())):
        if each is None:
            continue
        values = found.setdefault(type(each).__name__, {})
        for name in each.trait_names(config=True):
            if name in _NOT_KEPT:
                continue
            try:
                value = getattr(each, name)
            except Exception:  # a default that cannot be made here
                continue
            if _is_plain(value):
                values[name] = type(value)(value) if type(value) in (list, dict, set) else value
    return found


def switches_of(shell: Any) -> dict[str, Any]:
    """What is switched by magics without a trait."""
    found = {}
    for name, path in (("xmode", "InteractiveTB.mode"), ("pdb", "call_pdb")):
        value: Any = shell
        for step in path.split("."):
            value = getattr(value, step, None)
        if value is not None:
            found[name] = value
    runner = getattr(shell, "loop_runner", None)
    found["autoawait"] = [
        bool(shell.autoawait),
        getattr(runner, "__module__", ""),
        getattr(runner, "__qualname__", ""),
    ]
    return found


class Configured:
    """How the shell was configured before the first cell."""

    def __init__(self, shell: Any = None) -> None:
        self.traits: dict[str, dict[str, Any]] = {} if shell is None else traits_of(shell)
        self.switches: dict[str, Any] = {} if shell is None else switches_of(shell)


def take(shell: Any, before: Configured, state: dict[str, Any], add_row: AddRow) -> None:
    """What differs from the start."""
    changed: dict[str, dict[str, Any]] = {}
    for name, values in traits_of(shell).items():
        known = before.traits.get(name)
        if known is None:
            known = _defaults(shell, name)
        found = {k: v for k, v in values.items() if k not in known or known[k] != v}
        if found:
            changed[name] = found
    if changed:
        state["config"] = changed
        said = [f"{name}.{key}" for name, values in changed.items() for key in values]
        add_row("%config", "kept", ", ".join(said))
    switched = {
        name: value
        for name, value in switches_of(shell).items()
        if before.switches.get(name) != value
    }
    if switched:
        state["switches"] = switched
        add_row("IPython's switches", "kept", ", ".join(f"%{name}" for name in switched))
    plain = shell.display_formatter.formatters["text/plain"]
    if plain.float_precision:
        state["precision"] = plain.float_precision
        add_row("%precision", "kept", str(plain.float_precision))
    if not plain.pprint:
        state["pprint"] = False
        add_row("%pprint", "kept", "off")


def _defaults(shell: Any, name: str) -> dict[str, Any]:
    """What a part that came later had at first."""
    for each in shell.configurables:
        if type(each).__name__ == name:
            known = {}
            for trait in each.trait_names(config=True):
                try:
                    known[trait] = each.trait_defaults(trait)
                except Exception:
                    continue
            if name == "InlineBackend":  # made of figure_format where that is given
                known["figure_formats"] = {"png"}
            return known
    return {}


def put(shell: Any, state: Mapping[str, Any], attempt: Callable[..., Any]) -> None:
    """Set all that again; `attempt(what, call, *args)` tells what cannot be."""
    if "InlineBackend" in state.get("config", {}):
        attempt("InlineBackend", _bring_inline_backend, shell)
    for name, values in state.get("config", {}).items():
        for part in list(shell.configurables):
            if type(part).__name__ == name:
                for key, value in values.items():
                    attempt(f"%config {name}.{key}", setattr, part, key, value)
    switched = state.get("switches", {})
    if "xmode" in switched:
        attempt("%xmode", lambda mode: shell.InteractiveTB.set_mode(mode=mode), switched["xmode"])
    if "pdb" in switched:
        attempt("%pdb", setattr, shell, "call_pdb", switched["pdb"])
    if "autoawait" in switched:
        attempt("%autoawait", _put_autoawait, shell, *switched["autoawait"])
    plain = shell.display_formatter.formatters["text/plain"]
    for key, trait in (("precision", "float_precision"), ("pprint", "pprint")):
        if key in state:
            attempt(f"%{key}", setattr, plain, trait, state[key])


def _put_autoawait(shell: Any, on: bool, module: str, name: str) -> None:
    shell.autoawait = on
    if module and name and "<" not in name:
        shell.loop_runner = getattr(importlib.import_module(module), name)


def _bring_inline_backend(shell: Any) -> None:
    config = importlib.import_module("matplotlib_inline.config")
    backend = config.InlineBackend.instance(parent=shell)
    backend.shell = shell
    if backend not in shell.configurables:
        shell.configurables.append(backend)
