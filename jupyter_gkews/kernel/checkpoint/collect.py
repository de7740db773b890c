"""One pass over a namespace: writes its graph and finds out the fate of every name.

Used to save and, with nowhere to write to, to tell what would survive. It changes nothing in
the namespace.
"""

from __future__ import annotations

import re
import time
import types
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from . import chunks, identities, nans
from .collector import collector_held
from .foreign_memory import Owners
from .graph import GraphWriter
from .names import NameFailedError, NameRecord
from .paths import holders
from .placeholders import Loss
from .watch import interrupted, watched

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
#: Names that torch.compile puts beside those of the functions that it has compiled.
_DYNAMO = re.compile(r"__(builtins_dict__|compiled_fn|resume_at|import_\w+_dot)_\w*$")
#: Objects looked through for lost parts, in all.
_LOOK_THROUGH = 3_000_000

CellOf = Callable[[str], "int | None"]


@dataclass
class Mark:
    """A place in a graph to go back to."""

    position: int
    digest: Any


class GraphFile:
    """Where a graph goes: hashed on the way; kept only if there is a file behind it.

    `check()` is called with every write (the pickler writes every 64 KiB) and may raise to stop.

    `typed` makes a GkewsError of an error of that file: a full disk must end the save. Left as
    it is, it would look like an object that cannot be written, and the object would be lost.
    """

    def __init__(
        self,
        file: Any = None,
        typed: Callable[[OSError], Exception] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._file = file
        self._typed = typed
        self._check = check
        self._hash = chunks.hasher()
        self._position = 0
        self.nan_met = False  # whether what was written may hold a NaN (nans.py)

    def write(self, data: Any) -> int:
        """Called by the pickler."""
        if self._check is not None:
            self._check()
        nbytes = memoryview(data).nbytes
        self.nan_met = self.nan_met or nans.may_hold(data)
        self._position += nbytes
        if self._file is not None:
            self._hash.update(data)
            try:
                self._file.write(data)
            except OSError as error:
                raise (self._typed(error) if self._typed else error) from error
        return nbytes

    def mark(self) -> Mark:
        """The present end."""
        return Mark(self._position, self._hash.copy())

    def back_to(self, mark: Mark) -> None:
        """Forget what was written since `mark`."""
        self._position, self._hash = mark.position, mark.digest.copy()
        if self._file is not None:
            try:
                self._file.seek(mark.position)
                self._file.truncate()
            except OSError as error:
                raise (self._typed(error) if self._typed else error) from error

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
    #: all losses; those of objects of the process, and what of these is made anew, by entry
    losses: list[tuple[Any, Loss]] = field(default_factory=list)
    process_losses: dict[str, list[tuple[Any, Loss]]] = field(default_factory=dict)
    process_notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """How many variables come back as they are."""
        return sum(row["fate"] == "kept" for row in self.rows)


def variables(user_ns: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    """The names to save, in the order of their creation."""
    return {
        name: value
        for name, value in list(user_ns.items())
        if isinstance(name, str)
        and name not in hidden
        and (name not in PYTHONS_OWN or is_set_by_a_cell(name, value))
        and not _DYNAMO.match(name)
    }


def is_set_by_a_cell(name: str, value: Any) -> bool:
    """Whether one of Python's own names has a value that no kernel gives it."""
    if name == "__name__":
        return type(value) is str and value != "__main__"
    return name == "__file__" and type(value) is str


def collect(
    user_ns: dict[str, Any],
    *,
    hidden: frozenset[str],
    extras: Mapping[str, Any] | None,
    objects: Mapping[str, Any] | None,
    cell_of: CellOf | None,
    file: GraphFile,
    check: Callable[[], None],
    refused: Mapping[str, Loss] | None = None,
    flush: bool = True,
) -> Collected:
    """Write variables, extras and the process's objects as one graph into `file`.

    `refused` are variables to write as placeholders from the start.
    """
    todo: list[tuple[dict[str, Any], Any]] = [
        ({"name": name, "kind": "variable", "at": at}, value)
        for at, (name, value) in enumerate(variables(user_ns, hidden).items())
    ]
    todo.sort(key=lambda item: _rank(item[1]))
    todo += _extras(extras or {})
    todo += [({"name": name, "kind": "process"}, value) for name, value in (objects or {}).items()]
    cells = _cells(todo, cell_of)
    when = time.strftime("%H:%M")

    def complete(loss: Loss, name: str, part: bool) -> Loss:
        return replace(loss, where=name, part=part, cell=cells.get(name), when=when)

    def write(owners: Owners) -> tuple[GraphWriter, list[NameRecord]]:
        writer = GraphWriter(file, user_ns, complete=complete, check=check)
        writer.flush_files = flush
        writer.owners = owners
        return writer, _records(writer, todo, refused or {}, check)

    start = file.mark()
    writer, records = write(Owners())
    owners = writer.foreign_owners()
    writer.done()
    if owners:  # tensors share memory with them, which can be told only now
        file.back_to(start)
        writer, records = write(owners)
        writer.done()
    got = Collected(writer, file, [entry for entry, _ in todo], [value for _, value in todo])
    _fates(got, records, cells, check)
    return got


def _rank(value: Any) -> int:
    """What a cell's class may need to make its instances comes first in the graph: modules, then
    functions, then classes, then everything else."""
    kinds = (types.ModuleType, types.FunctionType, type)
    # by type: isinstance() would wake lazy proxies
    cls = type(value)
    return next((rank for rank, kind in enumerate(kinds) if issubclass(cls, kind)), len(kinds))


def _extras(extras: Mapping[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """Extras as entries; those that are dictionaries (Out) item by item, so that one item which
    cannot be kept does not take the others with it."""
    found: list[tuple[dict[str, Any], Any]] = []
    for name, value in extras.items():
        if type(value) is not dict or not all(type(key) in (int, str) for key in value):
            found.append(({"name": name, "kind": "extra"}, value))
            continue
        found.append(({"name": name, "kind": "extra"}, {}))
        for key, item in value.items():
            entry = {"name": f"{name}[{key!r}]", "kind": "item", "of": name, "key": key}
            found.append((entry, item))
    return found


def _cells(todo: list[tuple[dict[str, Any], Any]], cell_of: CellOf | None) -> dict[str, int | None]:
    """The cell that made each name; Out[3] is the work of cell 3."""
    cells: dict[str, int | None] = {}
    for entry, _ in todo:
        if entry["kind"] == "variable" and cell_of is not None:
            cells[entry["name"]] = cell_of(entry["name"])
        elif entry["kind"] == "item" and isinstance(entry["key"], int):
            cells[entry["name"]] = entry["key"]
    return cells


def _records(
    writer: GraphWriter,
    todo: list[tuple[dict[str, Any], Any]],
    refused: Mapping[str, Loss],
    check: Callable[[], None],
) -> list[NameRecord]:
    records = []
    with watched(), collector_held(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of what objects do to be saved
        for entry, value in todo:
            check()
            entry.pop("announced", None)  # of a first pass
            name = entry["name"]
            loss, announced = refused.get(name), 0
            if loss is None and identities.is_everything(value):
                loss = Loss("a list", "it holds every object of the process, which ends with it")
            if loss is None:
                try:
                    records.append(writer.write(name, value))
                except NameFailedError as failure:
                    loss = Loss("an object", failure.reason)
                    announced = failure.announced
            if loss is not None:
                what = loss.what if loss.what != "an object" else _what(value)
                records.append(writer.lose(name, value, replace(loss, what=what)))
                records[-1].announced = announced
            if records[-1].announced:
                entry["announced"] = records[-1].announced
            if interrupted():  # an object's own code has swallowed it
                raise KeyboardInterrupt
    return records


def _what(value: Any) -> str:
    name = type(value).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _fates(
    got: Collected,
    records: list[NameRecord],
    cells: dict[str, int | None],
    check: Callable[[], None],
) -> None:
    """Rows for `survives`, and what is lost or rebuilt, by name."""
    got.losses = losses = [loss for record in records for loss in record.losses]
    for record, entry in zip(records, got.entries):
        if entry["kind"] == "process" and record.losses:
            got.process_losses[entry["name"]] = record.losses
        if entry["kind"] == "process" and record.rebuilt:
            got.process_notes[entry["name"]] = record.rebuilt
    held: dict[str, list[tuple[str, Loss]]] = {}
    if losses:
        named = {e["name"]: value for e, value in zip(got.entries, got.values) if _is_users(e)}
        held = holders(losses, named, _LOOK_THROUGH, got.writer.user_ns, check)
    told: set[int] = set()
    for record, entry, value in zip(records, got.entries, got.values):
        if not _is_users(entry):
            continue
        name, cell = entry["name"], cells.get(entry["name"])
        parts = list(held.get(name, []))
        seen = {id(loss) for _, loss in parts}
        parts += [(name, loss) for _, loss in record.losses if id(loss) not in seen and loss.part]
        whole = [loss for obj, loss in record.losses if obj is value]
        whole += [loss for path, loss in parts if path == name and not loss.part]
        row: dict[str, Any] = {
            "name": name,
            "type": type(value).__name__,
            "bytes": record.graph_bytes + record.buffer_bytes,
            "device": ", ".join(sorted(record.devices)) or "cpu",
            "fate": "kept",
            "reason": None,
            "cell": cell,
        }
        lost: list[dict[str, Any]] = []
        if whole:
            row.update(fate="lost", reason=whole[0].short())
            lost.append({"name": name, "reason": row["reason"], "cell": cell})
        elif parts or record.rebuilt:
            notes = list(record.rebuilt)
            notes += [f"all but {path}, {loss.short()}" for path, loss in parts[:3]]
            if len(parts) > 3:
                notes.append(f"and {len(parts) - 3} more parts")
            row.update(fate="rebuilt", reason="; ".join(notes))
            lost += [{"name": path, "reason": loss.short(), "cell": cell} for path, loss in parts]
        if entry["kind"] == "variable":
            got.rows.append(row)
            if row["fate"] == "rebuilt":
                got.rebuilt.append({"name": name, "reason": row["reason"], "cell": cell})
            got.lost += _once(got.lost, lost)
            told |= {id(loss) for loss in whole} | {id(loss) for _, loss in parts}
        elif not told.issuperset(id(loss) for loss in [*whole, *(loss for _, loss in parts)]):
            got.lost += _once(
                got.lost, lost
            )  # in Out only: what no variable names is lost all the same


def _once(lost: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of `more` whose name is not in `lost` yet: one reason a name is enough."""
    known = {row["name"] for row in lost}
    return list({row["name"]: row for row in reversed(more) if row["name"] not in known}.values())[
        ::-1
    ]


def _is_users(entry: dict[str, Any]) -> bool:
    return entry["kind"] in ("variable", "item")
