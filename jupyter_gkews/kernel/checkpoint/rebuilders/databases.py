"""sqlite3: connections to files are opened again, databases in memory come back with their rows.

It commits and rolls back nothing. The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import urllib.parse
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in
from .temporary_files import directory_of

if TYPE_CHECKING:
    from ..graph import GraphWriter

WHAT = "a database connection"
#: Settings of a connection that are not in the database.
_PRAGMAS = (
    *("foreign_keys", "busy_timeout", "synchronous", "cache_size", "recursive_triggers"),
    *(
        "query_only",
        "temp_store",
        "read_uncommitted",
        "defer_foreign_keys",
        "reverse_unordered_selects",
    ),
    *(
        "automatic_index",
        "cell_size_check",
        "checkpoint_fullfsync",
        "fullfsync",
        "ignore_check_constraints",
    ),
    *("trusted_schema", "wal_autocheckpoint", "mmap_size", "secure_delete"),
)


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {sqlite3.Row: reduce_row}


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    return {sqlite3.Connection: reduce_connection, sqlite3.Cursor: reduce_cursor}


def reduce_connection(writer: GraphWriter, connection: Any) -> Reduced:
    """A connection: each of its databases, and how it was set."""
    writer.uses_module("sqlite3")
    try:
        databases = _ask(connection, "PRAGMA database_list")
    except sqlite3.ProgrammingError as error:
        if "closed" in str(error):
            return closed_connection, (type(connection),)
        raise CannotKeepError(WHAT, "it belongs to another thread") from None
    except sqlite3.Error as error:
        raise CannotKeepError(WHAT, f"it does not answer: {error}") from None
    stands_in(writer, connection)
    found = []
    if writer.flush_files:
        found = [
            (name, *_database(writer, connection, name, path))
            for _, name, path in databases
            if name != "temp"
        ]
    _tell(writer, connection, databases)
    own = dict(vars(connection)) if hasattr(connection, "__dict__") else {}
    state = {name: getattr(connection, name) for name in ("row_factory", "text_factory")}
    options = {"isolation_level": connection.isolation_level, **_hidden_options(connection)}
    autocommit = getattr(connection, "autocommit", -1)
    if autocommit in (True, False) and type(autocommit) is bool:
        options["autocommit"] = autocommit
    args = (type(connection), found, options, _pragmas(connection))
    return new_connection, args, (state, own), None, None, set_connection


def _ask(connection: Any, query: str) -> list[Any]:
    cursor = sqlite3.Connection.cursor(connection)
    cursor.row_factory = None
    factory = connection.text_factory
    try:
        connection.text_factory = str
        return list(cursor.execute(query))
    finally:
        connection.text_factory = factory
        cursor.close()


def _database(writer: GraphWriter, connection: Any, name: str, path: str) -> tuple[Any, ...]:
    """("file", path, folder, read only) or ("serialized" | "script", content)."""
    if path:
        if not os.path.exists(path):
            raise CannotKeepError(WHAT, f"{path} has been deleted or moved")
        writer.reopened.add(os.path.realpath(path))
        return "file", path, directory_of(path), _read_only(path)
    if hasattr(connection, "serialize"):
        return "serialized", connection.serialize(name=name)
    return "script", _dumped(connection, name)


def _dumped(connection: Any, name: str) -> str:
    """A database in memory as SQL, for Pythons before 3.11."""
    if not connection.in_transaction:
        copy = sqlite3.connect(":memory:")
        try:
            connection.backup(copy, name=name)
            return "\n".join(copy.iterdump())
        finally:
            copy.close()
    if name != "main":  # a backup would wait for the end of the transaction, for ever
        raise CannotKeepError(WHAT, f"the database {name} in memory has uncommitted work")
    factories = connection.row_factory, connection.text_factory
    try:
        connection.row_factory, connection.text_factory = None, str
        return "\n".join(connection.iterdump())
    finally:
        connection.row_factory, connection.text_factory = factories


def _read_only(path: str) -> bool:
    """Whether this process has the file open for nothing but reading. SQLite does not tell it of
    a connection; where another one may write, both come back able to."""
    found = []
    try:
        for number in os.listdir("/proc/self/fd"):
            try:
                if not os.path.samefile(f"/proc/self/fd/{number}", path):
                    continue
                with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
                    flags = next(line for line in file if line.startswith("flags:"))
            except OSError:
                continue
            found.append(int(flags.split()[1], 8) & os.O_ACCMODE)
    except OSError:
        return False
    return bool(found) and all(flags == os.O_RDONLY for flags in found)


def _tell(writer: GraphWriter, connection: Any, databases: list[Any]) -> None:
    paths = [path for _, name, path in databases if path and name != "temp"]
    what = f"the database {', '.join(paths)} is opened again" if paths else ""
    memory = [name for _, name, path in databases if not path and name != "temp"]
    if memory:
        what += ("; " if what else "") + "a database in memory comes back with its rows"
    writer.note_rebuilt(what, connection)
    if connection.in_transaction:
        if paths:
            writer.note_rebuilt(
                "it has uncommitted work: SQLite rolls that back when the process ends, commit it "
                "before",
                connection,
            )
        if memory:
            writer.note_rebuilt(
                "uncommitted work in memory comes back, and can no longer be rolled back",
                connection,
            )
    for kind, names in _registered(connection).items():
        if names:
            writer.note_rebuilt(f"{kind} must be registered again: {', '.join(names)}", connection)
    try:
        tables = [name for (name,) in _ask(connection, "SELECT name FROM sqlite_temp_master")]
    except sqlite3.Error:
        tables = []
    if tables:
        writer.note_rebuilt(f"temporary tables are gone: {', '.join(tables)}", connection)


def _registered(connection: Any) -> dict[str, list[str]]:
    """Functions and collations that Python registered: sqlite tells their names alone."""
    plain = sqlite3.connect(":memory:")
    found = {}
    try:
        for kind, query in (
            ("functions", "SELECT DISTINCT name FROM pragma_function_list"),
            ("collations", "SELECT name FROM pragma_collation_list"),
        ):
            try:
                known = set(_ask(plain, query))
                found[kind] = sorted(row[0] for row in _ask(connection, query) if row not in known)
            except sqlite3.Error:
                continue
    finally:
        plain.close()
    return found


def _pragmas(connection: Any) -> dict[str, Any]:
    """Settings that differ from those of a new connection."""
    plain = sqlite3.connect(":memory:")
    found = {}
    try:
        for name in _PRAGMAS:
            try:
                mine, theirs = (_ask(each, f"PRAGMA {name}") for each in (connection, plain))
            except sqlite3.Error:
                continue
            if mine and mine != theirs and type(mine[0][0]) is int:
                found[name] = mine[0][0]
    finally:
        plain.close()
    return found


def _hidden_options(connection: Any) -> dict[str, Any]:
    """What connect() was given and does not tell: asked for by what the connection does."""
    refused: list[bool] = []

    def ask() -> None:
        try:
            sqlite3.Connection.cursor(connection).close()
            refused.append(False)
        except sqlite3.ProgrammingError:
            refused.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    detected = 0
    marks: dict[str, Any] = {}
    converters: dict[str, Any] = sqlite3.converters
    for flag, name, query in (
        (sqlite3.PARSE_COLNAMES, "GKEWSPROBE", "SELECT 'x' AS 'x [gkewsprobe]'"),
        (sqlite3.PARSE_DECLTYPES, "TEXT", "SELECT name FROM sqlite_master LIMIT 1"),
    ):
        before = converters.get(name)
        converters[name] = lambda raw: marks
        try:
            if any(row[0] is marks for row in _ask(connection, query)):
                detected |= flag
        except sqlite3.Error:
            pass
        finally:
            if before is None:
                del converters[name]
            else:
                converters[name] = before
    return {"check_same_thread": refused != [False], "detect_types": detected}


def reduce_cursor(writer: GraphWriter, cursor: Any) -> Reduced:
    """A cursor of its connection; rows that were not fetched yet are not kept."""
    stands_in(writer, cursor)
    if cursor.description is not None:
        writer.note_rebuilt("the query of a cursor must be run again", cursor)
    state = {"arraysize": cursor.arraysize, "row_factory": cursor.row_factory}
    return new_cursor, (type(cursor), cursor.connection), state, None, None, set_attributes


def reduce_row(writer: GraphWriter, row: Any) -> Reduced:
    """A sqlite3.Row: names and values."""
    writer.uses_module("sqlite3")
    return new_row, (tuple(row.keys()), tuple(row))


# ---- called by the graph ----


def new_connection(
    cls: Any, databases: list[Any], options: dict[str, Any], pragmas: dict[str, Any]
) -> Any:
    """A connection to the databases of another; a file is never created."""
    load = loading()
    if load.dry:
        return stand_in()
    made: Any = None
    for name, kind, content, *more in databases:
        try:
            if made is None:
                target = _address(content, more) if kind == "file" else ":memory:"
                # a URI where it was a path: the file must be there
                made = sqlite3.connect(target, factory=cls, uri=True, **options)
            elif kind == "file":
                _run(made, "ATTACH ? AS " + _quoted(name), (_address(content, more),))
            else:
                _run(made, "ATTACH ':memory:' AS " + _quoted(name), ())
            if kind == "serialized":
                made.deserialize(content, name=name)
            elif kind == "script":
                made.executescript(content)
        except (sqlite3.Error, OSError) as error:
            where = content if kind == "file" else "a database in memory"
            if made is None:
                return load.fail(WHAT, f"{where} could not be opened again: {error}")
            load.note(f"{where} could not be opened again: {error}")
    for name, value in pragmas.items():
        _run(made, f"PRAGMA {name} = {int(value)}", ())
    return made


def _address(path: str, more: list[Any]) -> str:
    mode = "ro" if more[1] else "rw"
    if not os.path.isfile(path):
        raise OSError("the file is not there")
    return f"file:{urllib.parse.quote(path)}?mode={mode}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _run(connection: Any, query: str, arguments: tuple[Any, ...]) -> None:
    sqlite3.Connection.cursor(connection).execute(query, arguments).close()


def set_connection(target: Any, how: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Factories and attributes of a connection."""
    if isinstance(target, sqlite3.Connection):
        state, own = how
        set_attributes(target, state)
        target.__dict__.update(own) if own else None


def set_attributes(target: Any, state: dict[str, Any]) -> None:
    """Set the attributes of a connection or cursor."""
    if isinstance(target, (sqlite3.Connection, sqlite3.Cursor)):
        for name, value in state.items():
            setattr(target, name, value)


def closed_connection(cls: Any) -> Any:
    """A connection that has been closed."""
    made = sqlite3.connect(":memory:", factory=cls)
    made.close()
    return made


def new_cursor(cls: Any, connection: Any) -> Any:
    """A cursor that has run nothing."""
    if isinstance(connection, Lost) or loading().dry:
        return connection if isinstance(connection, Lost) else stand_in()
    return connection.cursor() if cls is sqlite3.Cursor else cls(connection)


_cursors: dict[tuple[str, ...], Any] = {}


def new_row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A sqlite3.Row; it takes its names from a cursor that has run a query with them."""
    cursor = _cursors.get(names)
    if cursor is None:
        parts = ", ".join("NULL AS " + _quoted(name) for name in names)
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        cursor = _cursors[names] = connection.execute("SELECT " + parts)
    return sqlite3.Row(cursor, values)
