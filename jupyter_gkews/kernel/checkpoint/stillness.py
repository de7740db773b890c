"""Whether anything else in this process runs: what may be replaced must not be written meanwhile.

Threads of libraries (BLAS, OpenMP) write without Python's lock: they must sleep. Threads of Python
are kept out by not giving that lock away. Changes nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Collection
from typing import Any

from .collector import collector_held
from .rebuilders.waiting import other_threads

#: Seconds between two looks at threads that run.
_LOOK_S = 0.005


def python_is_alone() -> bool:
    """Whether no thread of the user's runs Python: those of the kernel touch none of his data."""
    known = {thread.ident for thread in threading.enumerate()}
    return not other_threads() and known.issuperset(sys._current_frames())


def threads_of_python() -> set[int]:
    """The numbers that the system has for them."""
    return {each.native_id for each in threading.enumerate() if each.native_id is not None}


def wait_until_still(timeout_s: float, without: Collection[int] = ()) -> bool:
    """Whether all other threads sleep, within so many seconds; but for those in `without`."""
    deadline = time.monotonic() + timeout_s
    while running(without):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def running(without: Collection[int] = ()) -> set[int]:
    """The threads that run or wait for a disk, less this one, those in `without` and those of zmq,
    which have buffers of their own. A system that tells nothing is not believed: 0 is among them
    then."""
    here, found = threading.get_native_id(), set()
    try:
        names = os.listdir("/proc/self/task")
    except OSError:
        return {0}
    for name in names:
        if int(name) == here or int(name) in without:
            continue
        try:
            with open(f"/proc/self/task/{name}/stat", "rb", buffering=0) as file:
                comm, _, rest = file.read(512).partition(b"(")[2].rpartition(b")")
                state = rest.split()[0]
        except (OSError, IndexError):  # it has ended
            continue
        if state not in (b"S", b"Z", b"X") and not comm.startswith(b"ZMQbg/"):
            found.add(int(name))
    return found


def until_true(*calls: functools.partial[Any]) -> Any:
    """Make these calls of C functions one after the other, until one answers with something true;
    that answer, None if none does. No other thread of Python runs from the first to the last, if
    they keep its lock (ctypes.PyDLL): between them is no bytecode, at which it could be taken."""
    with collector_held():  # finalizers are bytecode
        return next(filter(None, map(_CALL, calls)), None)


_CALL = functools.partial.__call__
