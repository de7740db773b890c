"""Which cell made a name, read from the input history when somebody asks.

Costs nothing while cells run: the history is parsed on demand, each cell once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


class CellIndex:
    """Knows for each name the number of the last cell that bound it at its top level."""

    def __init__(self) -> None:
        self._bound: list[frozenset[str]] = []  # by cell number
        self._read: list[str] = []

    def cell_of(self, name: str, history: Sequence[str]) -> int | None:
        """The number of the last cell in `history` (IPython's `In`) that bound `name`, or None."""
        for number in range(len(history) - 1, 0, -1):
            if name in self._names(number, history):
                return number
        return None

    def _names(self, number: int, history: Sequence[str]) -> frozenset[str]:
        while len(self._bound) <= number:
            index = len(self._bound)
            self._read.append(history[index])
            self._bound.append(_bound_names(history[index]))
        if self._read[number] != history[number]:  # the history was replaced: a restore
            self._read[number] = history[number]
            self._bound[number] = _bound_names(history[number])
        return self._bound[number]


def _bound_names(source: str) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(_walk(tree))


def _walk(node: ast.AST) -> Iterator[str]:
    """Names that `node` binds in the module's scope; does not look into functions and classes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for inner in ast.walk(node):  # its targets are its own, all but a walrus's
            if isinstance(inner, ast.NamedExpr):
                yield inner.target.id
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)
