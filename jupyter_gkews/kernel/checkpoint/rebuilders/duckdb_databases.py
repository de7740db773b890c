"""Connections of duckdb: a file is connected again, a database in memory comes back with its
content. What a user's connection is about to read is not disturbed: another one is asked.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Callable

from . import contents
from .files import Then
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, not_to_compare, stand_in
from .temporary_files import directory_of

if TYPE_CHECKING:
    from ..graph import GraphWriter

WHAT = "a connection to a DuckDB database"
_LIST = """select database_name, path, readonly from duckdb_databases()
where not internal and database_name not in ('system', 'temp')"""


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    duckdb: Any = sys.modules["duckdb"]
    found: dict[type, Handler] = {}
    for name, handler in (
        ("DuckDBPyConnection", reduce_connection),
        ("DuckDBPyRelation", reduce_relation),
    ):
        cls = getattr(duckdb, name, None)
        if isinstance(cls, type):
            found[cls] = handler
    return found


def reduce_connection(writer: GraphWriter, connection: Any) -> Reduced:
    """A connection; what is not committed ends with the process."""
    duckdb: Any = sys.modules["duckdb"]
    try:
        asked = connection.cursor()
    except duckdb.ConnectionException:
        stands_in(writer, connection)
        return closed, ()
    try:
        found = asked.execute(_LIST).fetchall()
        if len(found) != 1:
            names = ", ".join(str(name) for name, _, _ in found)
            raise CannotKeepError(WHAT, f"several databases are attached ({names}): attach again")
        _, path, readonly = found[0]
        stands_in(writer, connection)
        if path is None:
            if not writer.flush_files:
                files: Any = {}
            else:
                files = _exported(asked)
            writer.note_rebuilt(
                "a DuckDB database in memory comes back with its committed content; settings and "
                "registered objects must be set again",
                connection,
            )
            return in_memory, (files,)
        path = os.path.abspath(path)
        if not os.path.isfile(path):
            raise CannotKeepError(WHAT, f"{path} has been deleted or moved")
        if writer.flush_files and not readonly:
            asked.execute("checkpoint")
    except duckdb.Error as error:
        text = str(error).split("\n")[0]
        raise CannotKeepError(WHAT, f"its content cannot be read now: {text}") from None
    finally:
        asked.close()
    status = os.stat(path)
    then = (status.st_size, status.st_mtime_ns)
    writer.reopened.add(os.path.realpath(path))
    writer.note_rebuilt(
        f"the database {path} is connected again; settings, registered objects and what is not "
        "committed are not kept",
        connection,
    )
    return connected, (path, bool(readonly), then, directory_of(path))


def _exported(asked: Any) -> dict[str, bytes]:
    """The content of a database, as the files that `export database` writes."""
    with tempfile.TemporaryDirectory(prefix="jupyter-gkews-duckdb-") as folder:
        target = os.path.join(folder, "database")
        asked.execute(f"export database '{_quoted(target)}' (format parquet)")
        found, size = {}, 0
        for name in sorted(os.listdir(target)):
            with open(os.path.join(target, name), "rb") as file:
                found[name] = file.read(contents.LIMIT + 1 - size)
            size += len(found[name])
            if size > contents.LIMIT:
                words = contents.in_words(contents.LIMIT)
                raise CannotKeepError(WHAT, f"more than {words} in memory are not kept")
        # it names the folder, which will be another one
        found["load.sql"] = found["load.sql"].replace(target.encode(), _HERE)
        return found


_HERE = b"\0here\0"


def _quoted(path: str) -> str:
    return path.replace("'", "''")


def tell_default(row: Callable[..., None]) -> None:
    """A row for the tables of the connection that the module itself holds."""
    duckdb: Any = sys.modules["duckdb"]
    try:
        with duckdb.default_connection().cursor() as asked:
            found = asked.execute("select table_name from duckdb_tables()").fetchall()
    except Exception:  # closed, or in a state of its own: nothing can be told
        return
    if found:
        names = ", ".join(sorted(str(name) for (name,) in found)[:10])
        row(
            "DuckDB's default connection",
            "lost",
            f"its tables ({names}) end with the process: make them again, or on a connection that "
            "a variable holds",
        )


def reduce_relation(writer: GraphWriter, relation: Any) -> Reduced:
    """A relation is a query of a connection's, and of no use without it."""
    raise CannotKeepError(
        "a DuckDB relation", "it is a query that its connection has not run: make it again"
    )


# ---- called by the graph ----


def closed() -> Any:
    """A connection that is closed."""
    duckdb: Any = sys.modules["duckdb"]
    made = duckdb.connect(":memory:")
    made.close()
    return not_to_compare(made)


def connected(path: str, readonly: bool, then: Then, owner: Any) -> Any:
    """A connection to the file at `path`, which is never made."""
    duckdb: Any = sys.modules["duckdb"]
    load = loading()
    if load.dry:  # the kernel has it open, and DuckDB locks it
        return stand_in()
    try:
        there = os.stat(path)
        if then is not None and (there.st_size, there.st_mtime_ns) != tuple(then):
            load.note(f"{path} has changed since the pause")
        return duckdb.connect(path, read_only=readonly)
    except (OSError, duckdb.Error) as error:
        text = str(error).split("\n")[0]
        return load.fail(WHAT, f"{path} could not be connected again: {text}")


def in_memory(files: dict[str, bytes]) -> Any:
    """A database in memory with the content that `files` describe."""
    duckdb: Any = sys.modules["duckdb"]
    load = loading()
    try:
        made = duckdb.connect(":memory:")
        with tempfile.TemporaryDirectory(prefix="jupyter-gkews-duckdb-") as folder:
            for name, data in files.items():
                if name == "load.sql":
                    data = data.replace(_HERE, folder.encode())
                with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                    file.write(data)
            made.execute(f"import database '{_quoted(folder)}'")
    except (OSError, duckdb.Error) as error:
        text = str(error).split("\n")[0]
        return load.fail(WHAT, f"its content could not be read back: {text}")
    return not_to_compare(made)
