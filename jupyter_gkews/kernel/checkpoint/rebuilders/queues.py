"""Queues of threads, with their items; nobody waits for them.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import collections
import itertools
import queue
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from ..reduction import is_plain
from .interface import CannotKeepError, Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: What a queue has for itself: made anew, as a thread that is gone may hold or wait for them.
_OWN = ("mutex", "not_empty", "not_full", "all_tasks_done")


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {queue.SimpleQueue: reduce_simple_queue}


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    return {queue.Queue: reduce_queue}


def reduce_queue(writer: GraphWriter, obj: Any) -> Any:
    """A Queue, LifoQueue or PriorityQueue: its items, and how many tasks are not done."""
    if not is_plain(type(obj)):
        return NotImplemented
    if not obj.mutex.acquire(timeout=5):
        raise CannotKeepError("a queue", "a thread holds it and does not let go")
    try:
        state = {name: value for name, value in vars(obj).items() if name not in _OWN}
        state["queue"] = type(obj.queue)(obj.queue)
    finally:
        obj.mutex.release()
    return thread_queue, (type(obj), obj.maxsize), writer.keep(state), None, None, set_queue


def reduce_simple_queue(writer: GraphWriter, obj: Any) -> Reduced:
    """A SimpleQueue. It shows its items only to who takes them: they are taken and put back by C
    code, between two steps of which no other code runs."""
    if not writer.flush_files:
        return simple_queue, ([],)
    nothing = object()
    taken = list(itertools.islice(iter(obj.get_nowait, nothing), obj.qsize()))
    collections.deque(map(obj.put, taken), maxlen=0)
    return simple_queue, ([],), taken, None, None, fill_simple_queue


# ---- called by the graph ----


def thread_queue(cls: Any, maxsize: int) -> Any:
    """An empty queue of class `cls`."""
    made = cls.__new__(cls)
    queue.Queue.__init__(made, maxsize)
    return made


def set_queue(target: Any, state: dict[str, Any]) -> None:
    """Items and counts of a queue."""
    if not isinstance(target, Lost):
        target.__dict__.update(state)


def simple_queue(items: list[Any]) -> Any:
    """A queue.SimpleQueue with these items."""
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for item in items:
        made.put(item)
    return made


def fill_simple_queue(target: Any, items: list[Any]) -> None:
    """Put items into a SimpleQueue (they may refer to it)."""
    for item in items:
        target.put(item)
