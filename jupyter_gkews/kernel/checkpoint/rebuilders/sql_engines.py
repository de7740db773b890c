"""SQLAlchemy's engines, made again from their URL without its password; sessions begin anew.

It connects to nothing, and commits and rolls back nothing. A database in memory comes back by its
own connection (databases.py). The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, not_to_compare

if TYPE_CHECKING:
    from ..graph import GraphWriter

_SECRET = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    sqlalchemy: Any = sys.modules["sqlalchemy"]
    if not hasattr(sqlalchemy, "create_engine"):
        return {}
    return {
        sqlalchemy.engine.Engine: reduce_engine,
        sqlalchemy.engine.Connection: reduce_connection,
    }


def base_handlers() -> dict[type, Handler]:
    """Sessions, also those of a sessionmaker, which have a class of their own."""
    orm: Any = sys.modules.get("sqlalchemy.orm")
    return {orm.Session: reduce_session} if hasattr(orm, "Session") else {}


def reduce_engine(writer: GraphWriter, engine: Any) -> Reduced:
    """An engine: its URL and the settings of its pool."""
    url = engine.url
    secrets = sorted(name for name in url.query if _SECRET.search(name))
    if url.password is not None:
        secrets.insert(0, "password")
    query = {name: value for name, value in url.query.items() if name not in secrets}
    plain = {
        "drivername": url.drivername,
        "username": url.username,
        "host": url.host,
        "port": url.port,
        "database": url.database,
        "query": query,
    }
    pool = engine.pool
    options: dict[str, Any] = {
        "echo": engine.echo,
        "hide_parameters": engine.hide_parameters,
        "pool_pre_ping": pool._pre_ping,
        "pool_recycle": pool._recycle,
    }
    if type(pool).__name__ == "QueuePool":
        options["pool_size"] = pool._pool.maxsize
        options["max_overflow"] = pool._max_overflow
        options["pool_timeout"] = pool._timeout
    memory = _memory_of(engine) if url.get_backend_name() == "sqlite" else None
    told = "its connections are opened anew when they are needed"
    if memory is not None:
        told = "a database in memory comes back with its rows"
    told += "; listeners, connect_args and a creator are not kept"
    if secrets:
        told = (
            f"{told}; secrets of its URL are never written ({', '.join(secrets)}): where the "
            "database asks for them, create it again"
        )
    stands_in(writer, engine)
    writer.note_rebuilt(told, engine)
    return make_engine, (plain, options, dict(engine.get_execution_options()), memory)


def _memory_of(engine: Any) -> Any:
    """The connection that is an SQLite database in memory; None for one in a file."""
    if engine.url.database not in (None, "", ":memory:"):
        return None
    pool = engine.pool
    records = [*getattr(pool, "_all_conns", ()), vars(pool).get("connection")]
    found = [getattr(each, "dbapi_connection", None) for each in records]
    found = [each for each in found if each is not None]
    if len(found) > 1:
        raise CannotKeepError("an engine", "each thread has a database in memory of its own")
    return found[0] if found else None


def reduce_connection(writer: GraphWriter, connection: Any) -> Reduced:
    """A connection of an engine's pool."""
    raise CannotKeepError(
        "a database connection",
        "it and its transaction end with the process: engine.connect() opens another",
    )


def reduce_session(writer: GraphWriter, session: Any) -> Reduced:
    """A session: empty, on the same engine."""
    orm: Any = sys.modules["sqlalchemy.orm"]
    bind = session.bind
    engine = getattr(bind, "engine", bind)  # of a connection
    told = "a session begins anew on its engine: objects must be loaded again"
    if session.new or session.dirty or session.deleted:
        told += ", and what was not flushed is lost"
    elif session.in_transaction():
        told += ", and what was not committed is lost"
    writer.note_rebuilt(told, session)
    stands_in(writer, session)
    cls = next(
        each
        for each in type(session).__mro__
        if getattr(sys.modules.get(each.__module__), each.__name__, None) is each
    )
    if not issubclass(cls, orm.Session):
        cls = orm.Session
    options = {"autoflush": session.autoflush, "expire_on_commit": session.expire_on_commit}
    return make_session, (cls, engine, options, dict(session.info))


# ---- called by the graph ----


def make_engine(plain: dict[str, Any], options: dict[str, Any], chosen: Any, memory: Any) -> Any:
    """An engine for the URL that `plain` describes, which has connected to nothing."""
    sqlalchemy: Any = sys.modules["sqlalchemy"]
    load = loading()
    if isinstance(memory, Lost):
        return memory
    try:
        if memory is not None:
            options = {
                **{key: options[key] for key in ("echo", "hide_parameters")},
                "creator": lambda: memory,
                "poolclass": sqlalchemy.pool.StaticPool,
            }
        made = sqlalchemy.create_engine(sqlalchemy.engine.URL.create(**plain), **options)
    except Exception as error:
        text = str(error).split("\n")[0]
        return load.fail("an engine of SQLAlchemy", f"it could not be made again: {text}")
    if chosen:
        made.update_execution_options(**chosen)
    return not_to_compare(made)


def make_session(cls: Any, engine: Any, options: dict[str, Any], info: dict[Any, Any]) -> Any:
    """A session without objects."""
    if isinstance(engine, Lost):
        return engine
    made = cls(bind=engine, **options)
    made.info.update(info)
    return not_to_compare(made)
