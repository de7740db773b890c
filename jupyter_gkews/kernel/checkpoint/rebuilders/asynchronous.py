"""Objects of asyncio: locks, events and queues without who waited; results of finished tasks.

A task that is not finished ends with its event loop. The constructors are named in graph.pkl:
add, never change.
"""

from __future__ import annotations

import asyncio
import collections
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from ..reduction import is_plain
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in
from .synchronisation import fresh

if TYPE_CHECKING:
    from ..graph import GraphWriter

_WAITING = ("_waiters", "_getters", "_putters")


def handlers() -> dict[type, Handler]:
    """Nothing but what base_handlers names."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """What this family makes again, with derived classes."""
    names = ("Lock", "Event", "Condition", "Semaphore", "Queue", "Barrier")
    classes = [getattr(asyncio, name) for name in names if hasattr(asyncio, name)]
    return {**dict.fromkeys(classes, reduce_primitive), asyncio.Future: reduce_future}


def reduce_primitive(writer: GraphWriter, obj: Any) -> Any:
    """A lock, event, condition, semaphore, queue or barrier: its state, bound to no loop."""
    if not is_plain(type(obj)):
        return NotImplemented
    state = dict(vars(obj))
    for name in _WAITING:
        if isinstance(state.get(name), collections.deque):
            state[name] = collections.deque()
    bound = state.pop("_loop", None) is not None
    if isinstance(obj, asyncio.Lock) and obj.locked():
        writer.note_rebuilt("a lock is held; the task that held it may be gone", obj)
    return fresh, (type(obj),), (state, bound), None, None, set_primitive


def reduce_future(writer: GraphWriter, future: Any) -> Reduced:
    """A finished future or task: its result."""
    if not future.done():
        name = future.get_name() if hasattr(future, "get_name") else "it"
        raise CannotKeepError(
            "an asyncio future or task", f"{name} was not finished; it ends with its event loop"
        )
    stands_in(writer, future)
    if isinstance(future, asyncio.Task):
        writer.note_rebuilt("a finished task: a future with its result", future)
    if future.cancelled():
        return finished_future, ("cancelled",)
    if future._exception is not None:
        return finished_future, ("failed",), future._exception, None, None, set_exception
    return finished_future, ("done",), (future._result,), None, None, set_result


# ---- called by the graph ----

_loops: list[Any] = []


def _loop() -> Any:
    """The event loop of this thread; one of our own where there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it would make a loop that nobody wants
            return asyncio.get_event_loop()
    except (RuntimeError, DeprecationWarning):
        if not _loops:
            _loops.append(asyncio.new_event_loop())
        return _loops[0]


def set_primitive(target: Any, how: tuple[dict[str, Any], bool]) -> None:
    """The state of a primitive; up to Python 3.9 it knows its loop from the beginning."""
    state, bound = how
    if isinstance(target, Lost):
        return
    target.__dict__.update(state)
    if bound and sys.version_info < (3, 10):
        target._loop = _loop()
    elif bound:
        target._loop = None


def finished_future(how: str) -> Any:
    """A future that is finished, or will be by the setter."""
    if loading().dry:
        return stand_in()
    made = _loop().create_future()
    if how == "cancelled":
        made.cancel()
    return made


def set_result(target: Any, result: tuple[Any]) -> None:
    """The result of a future."""
    target.set_result(*result)


def set_exception(target: Any, error: Any) -> None:
    """The exception of a future, which had its chance to be looked at before."""
    target.set_exception(error if isinstance(error, BaseException) else RuntimeError(str(error)))
    target._log_traceback = False
