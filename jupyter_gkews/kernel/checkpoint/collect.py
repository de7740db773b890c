"""One pass over a namespace: writes its graph and finds out the fate of every name.

Used to save and, with nowhere to write to, to tell what would survive. It changes nothing in
the namespace.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from . import chunks
from .graph import TOO_DEEP, GraphWriter, NameFailedError, NameRecord
from .paths import holders
from .placeholders import Loss
from .watch import watched

#: Names that Python itself puts into a namespace.
PYTHONS_OWN = frozenset(
    {
        "__name__",
        "__doc__",
        "__package__",
        "__loader__",
        "__spec__",
        "__builtin__",
        "__builtins__",
        "__file__",
    }
)
#: Objects looked through for lost parts, in all.
_LOOK_THROUGH = 3_000_000

CellOf = Callable[[str], "int | None"]


class GraphFile:
    """Where a graph goes: hashed on the way; kept only if there is a file behind it."""

    def __init__(self, file: Any = None) -> None:
        self._file = file
        self._hash = chunks.hasher()
        self._position = 0

    def write(self, data: Any) -> int:
        """Called by the pickler."""
        nbytes = memoryview(data).nbytes
        self._position += nbytes
        if self._file is not None:
            self._hash.update(data)
            self._file.write(data)
        return nbytes

    def tell(self) -> int:
        """Bytes so far."""
        return self._position

    def name(self) -> str:
        """The hash of the whole, in the form of a chunk name."""
        return f"{chunks.ALGORITHM}-{self._hash.hexdigest()}"


@dataclass
class Collected:
    """The outcome of a pass: the writer (memory, modules), the names in order, rows of fates."""

    writer: GraphWriter
    file: GraphFile
    entries: list[dict[str, Any]]
    values: list[Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    rebuilt: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """How many variables come back as they are."""
        return sum(row["fate"] == "kept" for row in self.rows)


def variables(user_ns: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    """The names to save, in the order of their creation."""
    return {
        name: value
        for name, value in list(user_ns.items())
        if name not in hidden and name not in PYTHONS_OWN
    }


def collect(
    user_ns: dict[str, Any],
    *,
    hidden: frozenset[str],
    extras: Mapping[str, Any] | None,
    objects: Mapping[str, Any] | None,
    cell_of: CellOf | None,
    open_graph: Callable[[], GraphFile],
    check: Callable[[], None],
    refused: Mapping[str, Loss] | None = None,
    flush: bool = True,
) -> Collected:
    """Write variables, extras and the process's objects as one graph.

    `open_graph` is called for each attempt: a name that breaks the pickler itself makes the pass
    start again without it. `refused` are variables to write as placeholders from the start.
    """
    todo: list[tuple[str, str, Any]] = []
    todo += [("variable", name, value) for name, value in variables(user_ns, hidden).items()]
    todo += [("extra", name, value) for name, value in (extras or {}).items()]
    todo += [("process", name, value) for name, value in (objects or {}).items()]
    when = time.strftime("%H:%M")

    def complete(loss: Loss, name: str, part: bool) -> Loss:
        cell = cell_of(name) if cell_of is not None else None
        return replace(loss, where=name, part=part, cell=cell, when=when)

    broken = dict(refused or {})
    pieces: set[str] = set()
    while True:
        file = open_graph()
        writer = GraphWriter(
            file, user_ns, complete=complete, check=check, pieces=frozenset(pieces)
        )
        writer.flush_files = flush
        try:
            records = _attempt(writer, todo, broken, check)
        except NameFailedError as failure:
            if failure.reason == TOO_DEEP and failure.name not in pieces:
                pieces.add(failure.name)
            else:
                broken[failure.name] = Loss("an object", failure.reason)
            continue
        entries = [
            {"name": name, "kind": kind, "pieces": name in pieces and name not in broken}
            for kind, name, _ in todo
        ]
        got = Collected(writer, file, entries, [value for _, _, value in todo])
        _fates(got, records, cell_of)
        return got


def _attempt(
    writer: GraphWriter,
    todo: list[tuple[str, str, Any]],
    broken: dict[str, Loss],
    check: Callable[[], None],
) -> list[NameRecord]:
    records = []
    with watched(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of what objects do to be saved
        for _, name, value in todo:
            check()
            loss = broken.get(name)
            if loss is None:
                records.append(writer.write(name, value))
            else:
                what = loss.what if loss.what != "an object" else _what(value)
                records.append(writer.lose(name, value, replace(loss, what=what)))
    return records


def _what(value: Any) -> str:
    name = type(value).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _fates(got: Collected, records: list[NameRecord], cell_of: CellOf | None) -> None:
    """Rows for `survives`, and what is lost or rebuilt, by name."""
    losses = [loss for record in records for loss in record.losses]
    held: dict[str, list[tuple[str, Loss]]] = {}
    names = [
        (record, entry, value)
        for record, entry, value in zip(records, got.entries, got.values)
        if entry["kind"] == "variable"
    ]
    if losses:
        held = holders(losses, {entry["name"]: value for _, entry, value in names}, _LOOK_THROUGH)
    for record, entry, value in names:
        name = entry["name"]
        cell = cell_of(name) if cell_of is not None else None
        parts = held.get(name, [])
        seen = {id(loss) for _, loss in parts}
        parts += [(name, loss) for _, loss in record.losses if id(loss) not in seen and loss.part]
        row: dict[str, Any] = {
            "name": name,
            "type": type(value).__name__,
            "bytes": record.graph_bytes + record.buffer_bytes,
            "device": ", ".join(sorted(record.devices)) or "cpu",
            "fate": "kept",
            "reason": None,
            "cell": cell,
        }
        whole = [loss for path, loss in parts if path == name and not loss.part] or [
            loss for obj, loss in record.losses if obj is value
        ]
        if whole:
            row.update(fate="lost", reason=whole[0].short())
            got.lost.append({"name": name, "reason": row["reason"], "cell": cell})
        elif parts or record.rebuilt:
            notes = list(record.rebuilt)
            notes += [f"all but {path}, {loss.short()}" for path, loss in parts[:3]]
            if len(parts) > 3:
                notes.append(f"and {len(parts) - 3} more parts")
            row.update(fate="rebuilt", reason="; ".join(notes))
            got.rebuilt.append({"name": name, "reason": row["reason"], "cell": cell})
            got.lost += [
                {"name": path, "reason": loss.short(), "cell": cell} for path, loss in parts
            ]
        got.rows.append(row)
