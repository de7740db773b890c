"""Locks, held or free as they are.

Their constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import _thread
import queue
import threading
from typing import TYPE_CHECKING, Any

from .interface import Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {_thread.LockType: reduce_lock, type(threading.RLock()): reduce_rlock}


def reduce_lock(writer: GraphWriter, obj: Any) -> Reduced:
    """A plain lock, held or free as it is."""
    return lock, (obj.locked(),)


def reduce_rlock(writer: GraphWriter, obj: Any) -> Reduced:
    """A reentrant lock: still held if this thread holds it, free if another did."""
    owned = obj._is_owned()
    if not owned and " count=0 " not in repr(obj):
        writer.note_rebuilt("a lock held by another thread is free again: that thread is gone", obj)
    count = 0
    if owned:
        count = int(repr(obj).split("count=")[1].split()[0])
    return rlock, (count,)


# ---- called by the graph ----


def lock(held: bool) -> Any:
    """A threading.Lock, held if it was."""
    made = threading.Lock()
    if held:
        made.acquire()
    return made


def rlock(count: int) -> Any:
    """A threading.RLock, acquired `count` times by the thread that loads."""
    made = threading.RLock()
    for _ in range(count):
        made.acquire()
    return made


def simple_queue(items: list[Any]) -> Any:
    """A queue.SimpleQueue with these items."""
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for item in items:
        made.put(item)
    return made
