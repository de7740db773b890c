"""Pools of workers and the futures of their work. A pool comes back empty: its workers are gone."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        concurrent.futures.ThreadPoolExecutor: reduce_pool,
        concurrent.futures.Future: reduce_future,
    }


def reduce_pool(writer: GraphWriter, pool: Any) -> Reduced:
    """A thread pool comes back empty and usable."""
    if pool._shutdown:
        raise CannotKeepError("a pool of threads", "it was shut down")
    writer.note_rebuilt("a pool of threads is empty again; work in it is lost", pool)
    return type(pool), (pool._max_workers, pool._thread_name_prefix)


def reduce_future(writer: GraphWriter, future: Any) -> Any:
    """A finished future keeps its result; work that still runs is lost with its thread."""
    if future.done():
        return NotImplemented
    raise CannotKeepError("the future of unfinished work", "the work ends with its thread")
