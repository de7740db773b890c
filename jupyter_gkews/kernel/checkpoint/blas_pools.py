"""Makes a fork safe beside threads that compute with OpenBLAS.

OpenBLAS ends its worker threads before a fork, without regard to whoever waits for them: a thread
of the user's that is in the middle of a product of matrices would then wait for ever. This module
changes only the number of workers, and puts it back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .process_maps import regions

#: Seconds that the threads of the user's may take to end the products that they are at.
WAIT_S = 0.25
_POLL_S = 0.002
_PTHREADS = 1  # openblas_get_parallel
#: Modules whose frames are on top of a thread only while it waits.
_RESTING = (
    "/threading.py",
    "/queue.py",
    "/selectors.py",
    "/concurrent/futures/thread.py",
    "/ipykernel/heartbeat.py",
)
#: read, poll, select, recvfrom, nanosleep, epoll_wait, clock_nanosleep, pselect, ppoll, epoll_pwait
_WAITING = {
    "x86_64": frozenset((0, 7, 23, 45, 35, 232, 230, 270, 271, 281)),
    "aarch64": frozenset((63, 73, 72, 207, 101, 22, 115)),
}.get(os.uname().machine if hasattr(os, "uname") else "", frozenset())


class StillComputingError(Exception):
    """A thread did not end its computation in time. The message is a clause."""


@contextlib.contextmanager
def no_pool_in_use() -> Iterator[None]:
    """Within this block, what threads compute with OpenBLAS needs no worker. Raises
    StillComputingError."""
    if not _others():  # nobody but this thread, which is here
        yield
        return
    pools = [pool for path in _libraries() if (pool := _pool(path)) is not None]
    numbers = [get() for get, _ in pools]
    try:
        for (_, put), number in zip(pools, numbers):
            if number > 1:
                put(1)  # for all products that begin from now on
        if any(number > 1 for number in numbers):
            _wait_for_others()
        yield
    finally:
        for (_, put), number in zip(pools, numbers):
            if number > 1:
                put(number)


def _others() -> dict[int, str]:
    """The other threads that run Python, by the number that the system has for them."""
    here = threading.get_ident()
    return {
        thread.native_id: thread.name
        for thread in threading.enumerate()
        if thread.ident != here and thread.native_id is not None
    }


def _wait_for_others() -> None:
    """Until each of them was seen in no product, or in another call than the one it was in."""
    pending = _others()
    first = _places()
    deadline = time.monotonic() + WAIT_S
    while True:
        places = _places()
        for number in list(pending):
            frame, place = places.get(number, (None, None))
            moved = place != first.get(number, (None, None))[1]
            if frame is None or moved or _rests(number, frame):
                del pending[number]
        del frame
        if not pending:
            return
        if time.monotonic() > deadline:
            names = ", ".join(sorted(pending.values()))
            raise StillComputingError(f"other threads may be computing ({names})")
        time.sleep(_POLL_S)


def _places() -> dict[int, tuple[Any, Any]]:
    """Where each of the threads is: its frame, and what tells one place in it from another."""
    numbers = {thread.ident: thread.native_id for thread in threading.enumerate()}
    return {
        numbers[ident] or 0: (frame, (id(frame), frame.f_lasti))
        for ident, frame in sys._current_frames().items()
        if ident in numbers
    }


def _rests(number: int, frame: Any) -> bool:
    """Whether a thread waits for something that is not a computation: in a module that does just
    that, or in a call of the system that no lock uses."""
    if frame.f_code.co_filename.replace("\\", "/").endswith(_RESTING):
        return True
    task = Path(f"/proc/self/task/{number}")
    try:
        state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        call = (task / "syscall").read_text().split()[0]
    except (OSError, IndexError):
        return False
    return state == "S" and call.isdigit() and int(call) in _WAITING


def _libraries() -> list[str]:
    paths = dict.fromkeys(each.path for each in regions().all if each.of_file)
    return [path for path in paths if "openblas" in os.path.basename(path).lower()]


def _pool(path: str) -> tuple[Any, Any] | None:
    """(get, put) the number of threads of a library that is loaded; None if it has no workers that
    a fork ends."""
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix in ("scipy_", ""):
        for suffix in ("64_", "_64", ""):
            parallel = getattr(library, f"{prefix}openblas_get_parallel{suffix}", None)
            get = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            put = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                if parallel is not None and parallel() != _PTHREADS:
                    return None
                put.restype = None
                return get, put
    return None
