"""Pools of workers and the futures of their work. A pool comes back empty: its workers are gone.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import concurrent.futures
import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in
from .threads import set_thread

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {concurrent.futures.Future: reduce_future}


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    found: dict[type, Handler] = {concurrent.futures.ThreadPoolExecutor: reduce_threads}
    for module, name, handler in (
        ("concurrent.futures.process", "ProcessPoolExecutor", reduce_processes),
        ("multiprocessing.pool", "ThreadPool", reduce_thread_pool),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None:
            found[cls] = handler
    return found


def reduce_threads(writer: GraphWriter, pool: Any) -> Reduced:
    """A ThreadPoolExecutor comes back empty and usable, or shut down."""
    if not pool._shutdown:
        writer.note_rebuilt("a pool of threads is empty again; work in it is lost", pool)
    options = {"max_workers": pool._max_workers, "thread_name_prefix": pool._thread_name_prefix}
    options["initializer"], options["initargs"] = _initializer(pool)
    cls = concurrent.futures.ThreadPoolExecutor
    return _executor(pool, cls, options, pool._shutdown)


def _initializer(pool: Any) -> tuple[Any, Any]:
    if hasattr(pool, "_initializer"):
        return pool._initializer, pool._initargs
    make = pool._create_worker_context  # from Python 3.14 on they are in its closure
    cells = dict(zip(make.__code__.co_freevars, make.__closure__ or ()))
    if {"initializer", "initargs"} <= cells.keys():
        return cells["initializer"].cell_contents, cells["initargs"].cell_contents
    raise CannotKeepError("a pool of threads", "how its threads begin is not known")


def reduce_processes(writer: GraphWriter, pool: Any) -> Reduced:
    """A ProcessPoolExecutor comes back empty and usable; processes start with the first work."""
    ended = bool(pool._shutdown_thread or pool._broken)
    if not ended:
        writer.note_rebuilt("a pool of processes is empty again; work in it is lost", pool)
    options = {
        "max_workers": pool._max_workers,
        "initializer": pool._initializer,
        "initargs": pool._initargs,
        "mp_context": pool._mp_context.get_start_method(),
    }
    if getattr(pool, "_max_tasks_per_child", None) is not None:
        options["max_tasks_per_child"] = pool._max_tasks_per_child
    stands_in(writer, pool)
    cls = sys.modules["concurrent.futures.process"].ProcessPoolExecutor
    return _executor(pool, cls, options, ended)


def _executor(pool: Any, base: Any, options: dict[str, Any], ended: bool) -> Reduced:
    known = vars(base(1)) if base is concurrent.futures.ThreadPoolExecutor else vars(pool)
    own = {name: value for name, value in vars(pool).items() if name not in known}
    return executor, (type(pool), base, options, ended), own or None, None, None, set_thread


def reduce_thread_pool(writer: GraphWriter, pool: Any) -> Reduced:
    """A multiprocessing.pool.ThreadPool: new threads."""
    if str(pool._state) != "RUN":
        raise CannotKeepError("a pool of threads", "it was closed")
    writer.note_rebuilt("a pool of threads is empty again; work in it is lost", pool)
    stands_in(writer, pool)
    return thread_pool, (type(pool), pool._processes, pool._initializer, pool._initargs)


def reduce_future(writer: GraphWriter, future: Any) -> Any:
    """A finished future keeps its result; work that still runs is lost with its thread."""
    if future.done():
        return NotImplemented
    raise CannotKeepError("the future of unfinished work", "the work ends with its thread")


# ---- called by the graph ----


def executor(cls: Any, base: Any, options: dict[str, Any], ended: bool) -> Any:
    """An empty pool of class `cls`, which `base` initialises."""
    method = options.pop("mp_context", None)
    if method is not None:
        if loading().dry:
            return stand_in()
        import multiprocessing

        options["mp_context"] = multiprocessing.get_context(method)
    made = cls.__new__(cls)
    base.__init__(made, **options)
    if ended:
        base.shutdown(made)
    return made


def thread_pool(cls: Any, processes: int, initializer: Any, arguments: Any) -> Any:
    """A multiprocessing.pool.ThreadPool."""
    if loading().dry:
        return stand_in()
    return cls(processes, initializer, arguments)
