"""Readers and writers of csv, on files that come back at their position.

A reader holds no line that is not read whole between two cells. The constructors are named in
graph.pkl: add, never change.
"""

from __future__ import annotations

import csv
import gc
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter

_Dialect = type(csv.reader([]).dialect)
_NAMES = (
    *("delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace"),
    *("lineterminator", "quoting", "strict"),
)


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        type(csv.reader([])): reduce_reader,
        type(csv.writer(_Target(list))): reduce_writer,
        _Dialect: reduce_dialect,
    }


class _Lines:
    """Lines to count up to the line number, then those of the file."""

    def __init__(self, skip: int, rest: Iterator[str]) -> None:
        self.rest = rest
        self._all = itertools.chain(itertools.repeat("", skip), rest)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        return next(self._all)


class _Target:
    """What a writer wants: something with a `write`."""

    def __init__(self, write: Any) -> None:
        self.write = write


def _parts(obj: Any) -> list[Any]:
    # no attribute leads there; the garbage collector has to know
    return [p for p in gc.get_referents(obj) if not isinstance(p, (type, _Dialect))]


def reduce_reader(writer: GraphWriter, reader: Any) -> Reduced:
    """A csv.reader over what it reads from."""
    lines = next((part for part in _parts(reader) if hasattr(type(part), "__next__")), None)
    if lines is None:
        raise CannotKeepError("a csv reader", "what it reads from is not known")
    if isinstance(lines, _Lines):
        lines = lines.rest
    return table_reader, (lines, _options(reader.dialect), reader.line_num)


def reduce_writer(writer: GraphWriter, table: Any) -> Reduced:
    """A csv.writer to what it writes to."""
    write = next((part for part in _parts(table) if callable(part)), None)
    if write is None:
        raise CannotKeepError("a csv writer", "what it writes to is not known")
    return table_writer, (write, _options(table.dialect))


def reduce_dialect(writer: GraphWriter, dialect: Any) -> Reduced:
    """The dialect of a reader or writer."""
    return table_dialect, (_options(dialect),)


def _options(dialect: Any) -> dict[str, Any]:
    return {name: getattr(dialect, name) for name in _NAMES}


# ---- called by the graph ----


def table_reader(lines: Any, options: dict[str, Any], line_num: int) -> Any:
    """A csv.reader that has read `line_num` lines."""
    if isinstance(lines, Lost):
        return lines
    made = csv.reader(_Lines(line_num, lines) if line_num else lines, **options)
    for _ in range(line_num):
        next(made)
    return made


def table_writer(write: Any, options: dict[str, Any]) -> Any:
    """A csv.writer that calls `write`."""
    if isinstance(write, Lost):
        return write
    return csv.writer(_Target(write), **options)


def table_dialect(options: dict[str, Any]) -> Any:
    """A dialect as readers and writers have it."""
    return csv.reader([], **options).dialect
