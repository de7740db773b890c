"""Locks, conditions and barriers: held, set and counted as they are, and nobody waits for them.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import _thread
import collections
import threading
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from ..reduction import is_plain
from .interface import Handler, Reduced
from .queues import simple_queue
from .waiting import other_threads

if TYPE_CHECKING:
    from ..graph import GraphWriter

__all__ = ["fresh", "lock", "rlock", "set_state", "simple_queue"]


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {_thread.LockType: reduce_lock, type(threading.RLock()): reduce_rlock}


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    return {threading.Condition: reduce_condition, threading.Barrier: reduce_barrier}


def reduce_lock(writer: GraphWriter, obj: Any) -> Reduced:
    """A plain lock, held or free as it is. Python does not know who holds it."""
    held = obj.locked()
    others = other_threads() if held else []
    if others:
        writer.note_rebuilt(
            f"a lock is held; if a thread that is gone held it ({', '.join(others[:3])}), release "
            "it yourself",
            obj,
        )
    return lock, (held,)


def reduce_rlock(writer: GraphWriter, obj: Any) -> Reduced:
    """A reentrant lock: still held if this thread holds it, free if another did."""
    owned = obj._is_owned()
    if not owned and " count=0 " not in repr(obj):
        writer.note_rebuilt("a lock held by another thread is free again: that thread is gone", obj)
    count = 0
    if owned:
        count = int(repr(obj).split("count=")[1].split()[0])
    return rlock, (count,)


def reduce_condition(writer: GraphWriter, condition: Any) -> Any:
    """A Condition on its lock. Threads that waited are gone: a notify must not go to them."""
    if not is_plain(type(condition)):
        return NotImplemented
    state = {**vars(condition), "_waiters": collections.deque()}
    return fresh, (type(condition),), state, None, None, set_state


def reduce_barrier(writer: GraphWriter, barrier: Any) -> Any:
    """A Barrier at which nobody waits."""
    if not is_plain(type(barrier)):
        return NotImplemented
    state = dict(vars(barrier))
    if barrier.n_waiting:
        writer.note_rebuilt("the threads that waited at a barrier are gone", barrier)
        state.update(_count=0, _state=0)
    return fresh, (type(barrier),), state, None, None, set_state


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


def fresh(cls: Any) -> Any:
    """An object of `cls`, made without its __init__."""
    return cls.__new__(cls)


def set_state(target: Any, state: dict[str, Any]) -> None:
    """Set an instance dictionary."""
    if not isinstance(target, Lost):
        target.__dict__.update(state)
