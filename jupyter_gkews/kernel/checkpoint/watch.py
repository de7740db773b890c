"""Bounds the time that one object's own code may take while it is saved or loaded.

A timer on the main thread looks at the Python frame just below ours: if it is still the same one
after the limit, Hung is raised inside it. Elsewhere than on the main thread nothing is bounded.
"""

from __future__ import annotations

import os
import signal
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds that one object's reduce, constructor or __setstate__ may take.
LIMIT_S = 20.0
_TICK_S = 0.5
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
#: Our own frames that may take long for a good reason: importing, reading.
_PATIENT = ("find_class", "region", "storage", "module")
#: Our own frames that are entered anew for each object.
_PER_OBJECT = ("reducer_override", "call_leaf")


#: Whether a real interrupt came since the latest watched block began.
_interrupted = False


class Hung(BaseException):
    """Raised inside user code that took too long. Not an Exception: it must not be swallowed."""


@contextmanager
def watched(limit_s: float | None = None) -> Iterator[None]:
    """Within this block, user code called from C (a pickler) is bounded to `limit_s` seconds, and
    real interrupts are noted (see interrupted)."""
    global _interrupted
    _interrupted = False
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return
    limit = LIMIT_S if limit_s is None else limit_s
    seen: list[Any] = [None, 0.0]

    def tick(_signum: int, frame: types.FrameType | None) -> None:
        below = _frame_below(frame)
        if below is None or below.f_code.co_name in _PATIENT:
            seen[:] = [None, 0.0]
        elif below is seen[0]:
            seen[1] += _TICK_S
            if seen[1] >= limit:
                seen[:] = [None, 0.0]
                raise Hung(f"its own code did not finish within {limit:g} s")
        else:
            seen[:] = [below, 0.0]

    def note(signum: int, frame: types.FrameType | None) -> None:
        global _interrupted
        _interrupted = True
        if callable(on_interrupt):
            on_interrupt(signum, frame)

    # Where an interrupt is ignored or ends the process, that is left as it is.
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        signal.signal(signal.SIGINT, note)
    handler = signal.signal(signal.SIGALRM, tick)
    timer = signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
        if callable(on_interrupt):
            signal.signal(signal.SIGINT, on_interrupt)


def interrupted() -> bool:
    """Whether a real interrupt (SIGINT) came in the present watched block: a KeyboardInterrupt
    without one was raised by an object's own code."""
    return _interrupted


def _frame_below(frame: types.FrameType | None) -> types.FrameType | None:
    """The outermost frame, below the pickler, that is running user code."""
    below = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            name = frame.f_code.co_name
            if name in _PER_OBJECT or name in _PATIENT:
                return frame
            if name == "load_next":
                return below
        below = frame
        frame = frame.f_back
    return None
