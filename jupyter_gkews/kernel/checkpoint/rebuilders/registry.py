"""Which kinds are made again, by whom: our families, and rebuilders that others have registered.

It imports a family, or a package of others, only once the kernel has imported the library whose
objects that one is for. A rebuilder of others that is broken is told and breaks nothing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, overload

from ..placeholders import Lost, loss_of
from ..reduction import one_line
from . import loggers
from .interface import (
    STOOD_IN,
    CannotKeepError,
    FunctionRebuilder,
    Handler,
    Kind,
    Rebuilder,
    stands_in,
)
from .loading import fill_again, make_again, rehearsed

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: Entry points of this group: the name is the module that must have been imported, the value a
#: Rebuilder (class or object), several of them, or a function that returns them.
GROUP = "jupyter_gkews.rebuilders"

#: Module of this package -> the module that the kernel must have imported for it ("" for none).
#: A family has `handlers()`, and `base_handlers()` for the objects of derived classes as well:
#: both {class: Handler}. An earlier family's derived classes go first.
FAMILIES: dict[str, str] = {
    "files": "",
    "temporary_files": "",
    "synchronisation": "",
    "queues": "",
    "threads": "",
    "pools": "",
    "asynchronous": "asyncio",
    "context_variables": "",
    "small_objects": "",
    "result_caches": "",
    "wrappers": "",
    "loggers": "",
    "memory_maps": "mmap",
    "compressed_files": "",
    "tables": "csv",
    "databases": "sqlite3",
    "hdf5_files": "h5py",
    "duckdb_databases": "duckdb",
    "sql_engines": "sqlalchemy.engine",
    "progress_bars": "tqdm",
    "optimizers": "torch.optim",
    "data_loaders": "torch.utils.data.dataloader",
    "compiled": "torch.jit",
    "distributed": "torch.distributed",
    "summaries": "torch.utils.tensorboard.writer",
    "figures": "matplotlib.figure",
    "widgets": "comm",
    "traits": "traitlets",
    "operators": "torch._ops",
}


def _families() -> list[ModuleType]:
    return [
        importlib.import_module(f".{name}", __package__)
        for name, trigger in FAMILIES.items()
        if not trigger or trigger in sys.modules
    ]


def _base_handlers(family: ModuleType) -> dict[type, Handler]:
    found: dict[type, Handler] = getattr(family, "base_handlers", dict)()
    return found


def register(writer: GraphWriter) -> None:
    """Teach `writer` our families and the rebuilders of others; theirs win."""
    STOOD_IN.clear()
    for family in _families():
        writer.handlers.update(family.handlers())
        writer.base_handlers += _base_handlers(family).items()
    for cls, entry in _of_others().items():
        writer.handlers[cls] = entry.reduce
        if entry.rebuilder.derived:
            writer.base_handlers.insert(0, (cls, entry.reduce))


def types_of_ours() -> tuple[type, ...]:
    """Classes whose objects our families make again: their attributes say nothing about whether
    such an object came back."""
    found: dict[type, None] = {}
    for family in _families():
        found.update(dict.fromkeys(family.handlers()))
        found.update(dict.fromkeys(_base_handlers(family)))
    return tuple(found)


def not_compared(obj: Any) -> bool:
    """Whether a stand-in takes the place of `obj` in a test load, or `obj` is one here."""
    return id(obj) in STOOD_IN or rehearsed(obj)


# ---- rebuilders of others ----


@dataclass
class _Entry:
    """One rebuilder: for which kind, and where it comes from ("" for a cell)."""

    kind: Kind
    rebuilder: Rebuilder
    source: str = ""

    def reduce(self, writer: GraphWriter, obj: Any) -> Any:
        """The Handler of this rebuilder."""
        rebuilder = self.rebuilder
        what = _words(rebuilder, obj)
        try:
            description = rebuilder.describe(obj)
            if description is NotImplemented:
                return NotImplemented
            contents = rebuilder.contents(obj)
            told = rebuilder.tell(obj)
        except CannotKeepError:
            raise
        except (Exception, SystemExit) as error:
            raise CannotKeepError(what, f"its rebuilder failed: {one_line(error)}") from error
        if told:
            writer.note_rebuilt(str(told), obj)
        stands_in(writer, obj)  # its rehearsal may be anything
        rv = (make_again, (rebuilder, description, what))
        if contents is None:
            return rv
        return (*rv, (rebuilder, contents, what), None, None, fill_again)


def _words(rebuilder: Rebuilder, obj: Any) -> str:
    if rebuilder.what:
        return rebuilder.what
    cls = type(obj)
    return f"{'an' if cls.__name__[:1].lower() in 'aeiou' else 'a'} {cls.__name__}"


_registered: dict[Kind, _Entry] = {}
_found: dict[Kind, _Entry] = {}
_looked_at: set[tuple[str, str]] = set()
_problems: dict[str, str] = {}


def _of_others() -> dict[type, _Entry]:
    """Rebuilders of others by class; what a cell registers wins over what a package brings."""
    found = {}
    for entry in [*_found.values(), *_registered.values()]:
        cls = _class_of(entry.kind)
        if cls is not None:
            found[cls] = entry
    return found


def _class_of(kind: Kind) -> type | None:
    """The class of a kind; None while its module has not been imported."""
    if isinstance(kind, type):
        return kind
    parts = kind.split(".")
    for split in range(len(parts) - 1, 0, -1):
        owner: Any = sys.modules.get(".".join(parts[:split]))
        if owner is None:
            continue
        for part in parts[split:]:
            owner = vars(owner).get(part) if hasattr(owner, "__dict__") else None
        if isinstance(owner, type):
            return owner
    return None


@overload
def register_rebuilder(kind: type[Rebuilder]) -> type[Rebuilder]: ...


@overload
def register_rebuilder(kind: Rebuilder) -> Rebuilder: ...


@overload
def register_rebuilder(
    kind: Kind,
    *,
    describe: Callable[[Any], Any],
    make: Callable[[Any], Any],
    rehearse: Callable[[Any], Any] | None = None,
    tell: str | Callable[[Any], str] = "",
    what: str = "",
) -> Rebuilder: ...


def register_rebuilder(kind: Any, **functions: Any) -> Any:
    """Register a Rebuilder: an object of it, its class (so also as a decorator), or a kind with
    functions. The latest one for a kind wins. It stays registered in the resumed kernel.

    Raises TypeError for what is no rebuilder.
    """
    if functions:
        given = {"rehearse": None, "tell": "", "what": "", **functions}
        rebuilder: Any = FunctionRebuilder(**given)
        _add(_registered, _Entry(_checked(kind), rebuilder))
        return rebuilder
    rebuilder = kind() if isinstance(kind, type) and issubclass(kind, Rebuilder) else kind
    if not isinstance(rebuilder, Rebuilder):
        raise TypeError(f"{kind!r} is no Rebuilder, and `describe` and `make` are not given")
    _add(_registered, _Entry(_checked(rebuilder.kind), rebuilder))
    return kind


def forget_rebuilder(kind: Kind) -> None:
    """Take back what register_rebuilder registered for `kind` (a class and its name are two)."""
    _registered.pop(kind, None)


#: Tells this process from the one that a checkpoint was made in.
_THIS_PROCESS = os.urandom(16).hex()


def _add(entries: dict[Kind, _Entry], entry: _Entry) -> None:
    entries.pop(entry.kind, None)  # the latest goes last: it wins over a name for the same class
    entries[entry.kind] = entry


def _checked(kind: Any) -> Kind:
    if isinstance(kind, type) or (isinstance(kind, str) and "." in kind):
        return kind
    raise TypeError(f"{kind!r} is neither a class nor the full name of one")


# ---- with the process: looked up before a save, registered again after a restore ----


def capture(
    add_row: Callable[[str, str, str | None], None], start: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """Look at packages' entry points; a row for each that is broken. Returns what cells have
    registered, and the loggers that they have set up, to be saved with the process. `start`: ids
    of handlers of loggers that were there before the first cell."""
    _look_for_entry_points()
    for name, problem in _problems.items():
        add_row(f"rebuilder {name}", "lost", problem)
    registered = [(entry.kind, entry.rebuilder) for entry in _registered.values()]
    found = loggers.capture(add_row, start)
    own = loggers.own_class()
    return {
        "registered": registered,
        "loggers": found,
        "logger_class": own,
        "process": _THIS_PROCESS,
    }


def put_back(saved: Any) -> list[str]:
    """Register again what `capture` returned. Returns sentences about what could not be."""
    if not isinstance(saved, dict):
        return []
    problems: list[str] = []
    if saved.get("process") != _THIS_PROCESS:  # else they are there: each record would come twice
        problems = loggers.put_back(saved.get("loggers"))
        problems += loggers.put_class_back(saved.get("logger_class"))
    for kind, rebuilder in saved.get("registered", ()):
        lost = next((each for each in (kind, rebuilder) if isinstance(each, Lost)), None)
        if lost is not None:
            problems.append(f"a rebuilder for {kind!r}: {loss_of(lost).reason}")
        elif kind not in _registered:  # an import may have registered a newer one
            _add(_registered, _Entry(kind, rebuilder))
    return problems


def _look_for_entry_points() -> None:
    for dist, point in _entry_points():
        if point.name not in sys.modules or (dist, point.value) in _looked_at:
            continue
        _looked_at.add((dist, point.value))
        name = f"{point.value} of {dist}"
        try:
            for rebuilder in _rebuilders_of(point.load()):
                _add(_found, _Entry(_checked(rebuilder.kind), rebuilder, name))
        except (Exception, SystemExit) as error:
            _problems[name] = f"it could not be loaded and is not used: {one_line(error)}"


def _rebuilders_of(loaded: Any) -> Iterable[Rebuilder]:
    """The rebuilders that an entry point names."""
    if isinstance(loaded, type) and issubclass(loaded, Rebuilder):
        return [loaded()]
    if isinstance(loaded, Rebuilder):
        return [loaded]
    if isinstance(loaded, (list, tuple)):
        return [each for part in loaded for each in _rebuilders_of(part)]
    if callable(loaded):
        return _rebuilders_of(list(loaded()))
    raise TypeError(f"{loaded!r} is neither a Rebuilder nor a function that returns them")


_seen: tuple[Any, list[tuple[str, Any]]] = (None, [])


def _entry_points() -> list[tuple[str, Any]]:
    """(distribution, entry point) of our group; looked up again only when something was installed
    or sys.path has changed."""
    global _seen
    state = [(path, _changed(path)) for path in sys.path]
    if _seen[0] != state:
        found = []
        for dist in importlib.metadata.distributions():
            text = dist.read_text("entry_points.txt")
            if text and GROUP in text:
                name = str(dist.metadata["Name"])
                found += [(name, point) for point in dist.entry_points if point.group == GROUP]
        _seen = (state, found)
    return _seen[1]


def _changed(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0
