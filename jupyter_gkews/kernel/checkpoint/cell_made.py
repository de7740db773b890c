"""Tells what cells have made and what they name: functions, classes, instances, assignments.

Reads the sources of cells and the types of objects; it runs nothing of either.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import rebuild

#: File names under which IPython puts the source of a cell into the line cache.
_CELL_FILE = re.compile(r"^<(cell|ipython-input)\b|[/\\]ipykernel_\d+[/\\]\d+\.py$")
#: Methods by which a list, dictionary or set is changed in place.
_MUTATORS = frozenset(
    (
        *(
            "append",
            "extend",
            "insert",
            "remove",
            "pop",
            "popitem",
            "clear",
            "update",
            "setdefault",
        ),
        *("add", "discard", "appendleft", "extendleft", "sort", "reverse", "move_to_end"),
    )
)


def is_cell_made(value: Any, user_ns: dict[str, Any]) -> bool:
    """Whether a function, a class, or an instance of a class was made by cells of this notebook.

    By real types and what C code stores: no property or `__getattr__` of the value runs.
    """
    cls = type(value)
    if cls is types.FunctionType:
        return bool(value.__globals__ is user_ns)
    if issubclass(cls, type):
        return bool(type.__getattribute__(value, "__module__") == "__main__")
    if cls in (staticmethod, classmethod):
        return is_cell_made(value.__func__, user_ns)
    if cls is property:
        return any(is_cell_made(each, user_ns) for each in (value.fget, value.fset, value.fdel))
    if cls in (functools.partial, functools.partialmethod):
        return is_cell_made(value.func, user_ns)
    if cls is types.MethodType:
        return is_cell_made(value.__func__, user_ns) or is_cell_made(value.__self__, user_ns)
    if _module_of(cls) == "__main__":
        return True
    if cls is functools._lru_cache_wrapper or cls is functools.cached_property:
        inner = vars(value).get("__wrapped__") or vars(value).get("func")
        return is_cell_made(inner, user_ns)
    return False


def _module_of(cls: type) -> Any:
    return type.__getattribute__(cls, "__module__")


@dataclass
class Named:
    """What the sources of cells name of other modules. Paths like "pandas.DataFrame.shout" begin
    with a name of the namespace or of an import.

    `attributes` were assigned (`deleted`: deleted), `containers` changed in place. `aliases`:
    names bound by imports, and the module or attribute that they stand for.
    """

    attributes: dict[str, None] = field(default_factory=dict)
    deleted: dict[str, None] = field(default_factory=dict)
    containers: dict[str, None] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    calls: dict[str, None] = field(default_factory=dict)


def cell_sources() -> list[str]:
    """The cells that this kernel knows: those of the history, and those of the line cache."""
    found: dict[str, None] = {}
    history = getattr(rebuild.shell(), "history_manager", None)
    for source in list(getattr(history, "input_hist_parsed", ())):
        if isinstance(source, str):
            found[source] = None
    for filename, entry in list(linecache.cache.items()):
        if len(entry) == 4 and entry[1] is None and _CELL_FILE.search(filename):
            found["".join(entry[2])] = None
    return list(found)


def named_in(sources: Sequence[str]) -> Named:
    """What these cells assign, delete or change in place outside their own names."""
    named = Named()
    for source in sources:
        part = _named_in(source)
        for mine, its in (
            (named.attributes, part.attributes),
            (named.deleted, part.deleted),
            (named.containers, part.containers),
            (named.calls, part.calls),
        ):
            mine.update(its)
        named.aliases.update(part.aliases)
    return named


@functools.lru_cache(maxsize=2048)
def _named_in(source: str) -> Named:
    """One cell, parsed once."""
    named = Named()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return named
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            path = _path(node)
            if path:
                deleted = isinstance(node.ctx, ast.Del)
                (named.deleted if deleted else named.attributes)[path] = None
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            path = _path(node.value)
            if path:
                named.containers[path] = None
        elif isinstance(node, ast.AugAssign):  # `lib.names += [...]` may change in place
            path = _path(node.target)
            if path:
                named.containers[path] = None
        elif isinstance(node, ast.Call):
            _take_call(node, named)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                named.aliases[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                named.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return named


def _take_call(node: ast.Call, named: Named) -> None:
    if isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
        if len(node.args) < 2:
            return
        owner, attribute = _path(node.args[0]), node.args[1]
        if owner and isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
            where = named.attributes if node.func.id == "setattr" else named.deleted
            where[f"{owner}.{attribute.value}"] = None
        return
    path = _path(node.func)
    if not path:
        return
    named.calls[path] = None
    owner, _, method = path.rpartition(".")
    if owner and method in _MUTATORS:
        named.containers[owner] = None


def _path(node: ast.AST) -> str:
    """ "a.b.c" for a chain of attributes that begins with a name; "" for anything else."""
    steps = []
    while isinstance(node, ast.Attribute):
        steps.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    steps.append(node.id)
    return ".".join(reversed(steps))


def resolve(path: str, named: Named, user_ns: dict[str, Any]) -> Any:
    """What a path of `named` stands for now; None where that cannot be told without running code:
    it goes through modules and classes only."""
    root, *steps = path.split(".")
    if root in user_ns:
        found = user_ns[root]
    elif root in named.aliases:
        found, steps = _imported(named.aliases[root], steps)
    else:
        found = vars(sys.modules["builtins"]).get(root)
    for step in steps:
        found = _member(found, step)
        if found is None:
            return None
    return found


def _imported(name: str, steps: list[str]) -> tuple[Any, list[str]]:
    """The module of a dotted name, and the steps that lead from it."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:size]))
        if module is not None:
            return module, parts[size:] + steps
    return None, steps


def _member(owner: Any, name: str) -> Any:
    cls = type(owner)
    if issubclass(cls, types.ModuleType):
        return object.__getattribute__(owner, "__dict__").get(name)
    if issubclass(cls, type):
        for base in type.__getattribute__(owner, "__mro__"):
            if name in type.__getattribute__(base, "__dict__"):
                return type.__getattribute__(base, "__dict__")[name]
    return None
