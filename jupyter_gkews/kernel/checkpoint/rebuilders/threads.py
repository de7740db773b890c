"""Threads that have not begun or have ended, values of thread-local data, ended child processes.

What runs ends with the process and is lost, by name. The constructors are named in graph.pkl:
add, never change.
"""

from __future__ import annotations

import gc
import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced
from .waiting import other_threads

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: What every thread has by itself, and what of it belongs to whoever made the thread.
_OWN = frozenset(vars(threading.Thread()))
_GIVEN = ("_target", "_args", "_kwargs")


def base_handlers() -> dict[type, Handler]:
    """What this family makes again, with derived classes."""
    return {
        threading.Thread: reduce_thread,
        threading.local: reduce_local,
        subprocess.Popen: reduce_process,
    }


def handlers() -> dict[type, Handler]:
    """Nothing but what base_handlers names."""
    return {threading.local: reduce_local}


def reduce_thread(writer: GraphWriter, thread: Any) -> Reduced:
    """A thread before its start or after its end."""
    if thread is threading.main_thread():
        return main_thread, ()
    begun = thread._started.is_set()
    if thread.is_alive() or isinstance(thread, threading._DummyThread):
        raise CannotKeepError(
            "a thread", f"{thread.name!r} was running, and a thread ends with its process"
        )
    if begun:
        writer.note_rebuilt("a thread that has ended", thread)
    given = {name: vars(thread)[name] for name in _GIVEN if name in vars(thread)}
    own = {name: value for name, value in vars(thread).items() if name not in _OWN}
    args = (type(thread), thread.name, thread.daemon, begun)
    return new_thread, args, {**given, **own}, None, None, set_thread


def reduce_local(writer: GraphWriter, obj: Any) -> Reduced:
    """threading.local: the values of this thread."""
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    if type(obj) is not threading.local:
        for part in gc.get_referents(obj):  # what other threads are initialised with
            if type(part) is tuple and not args:
                args = part
            elif type(part) is dict and part and all(type(key) is str for key in part):
                keywords = part if part is not obj.__dict__ else keywords
    if other_threads():
        writer.note_rebuilt("values of other threads are gone with them", obj)
    return thread_local, (type(obj), args, keywords), dict(obj.__dict__), None, None, set_local


def reduce_process(writer: GraphWriter, process: Any) -> Reduced:
    """A child process that has ended: its exit status. One that runs is lost."""
    code = process.returncode
    if code is None and hasattr(os, "waitid"):
        try:  # looked at without taking it away from who waits for it
            found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            found = None
        if found is not None:
            killed = found.si_code != os.CLD_EXITED
            code = -found.si_status if killed else found.si_status
    if code is None:
        raise CannotKeepError(
            "a child process",
            f"it ({_command(process)}, process {process.pid}) does not outlive the kernel",
        )
    state = {name: value for name, value in vars(process).items() if name != "_waitpid_lock"}
    state.update(returncode=code, _child_created=False)
    writer.note_rebuilt("a child process that has ended", process)
    return ended_process, (type(process),), state, None, None, set_thread


def _command(process: Any) -> str:
    args = process.args
    words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
    text = " ".join(os.fsdecode(word) for word in words)
    return text if len(text) <= 80 else text[:77] + "..."


# ---- called by the graph ----


def main_thread() -> Any:
    """The main thread of this process."""
    return threading.main_thread()


def new_thread(cls: Any, name: str, daemon: bool, ended: bool) -> Any:
    """A thread that has not begun, or one that has ended without doing anything."""
    made = cls.__new__(cls)
    threading.Thread.__init__(made, name=name, daemon=daemon)
    if ended:
        made.run = _nothing
        threading.Thread.start(made)
        threading.Thread.join(made)
        del made.run
    return made


def _nothing() -> None:
    """What a thread does that has done its work before."""


def set_thread(target: Any, state: dict[str, Any]) -> None:
    """What a thread was given, and its attributes."""
    if not isinstance(target, Lost):
        target.__dict__.update(state)


def thread_local(cls: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An empty threading.local."""
    return cls.__new__(cls, *args, **keywords)


def set_local(target: Any, values: dict[str, Any]) -> None:
    """The values of this thread."""
    if not isinstance(target, Lost):
        target.__dict__.update(values)


def ended_process(cls: Any) -> Any:
    """A Popen of a process that has ended."""
    made = cls.__new__(cls)
    made._waitpid_lock = threading.Lock()
    return made
