"""Threads that do one save's work with bytes: as many as pay, waited for with a look at a cancel.

Knows nothing of the work itself, which ends when there is no more of it or when it is told to.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from . import chunks


class Workers:
    """Threads that all run `work`, for `pieces` pieces of it; `most` of them, if not more."""

    def __init__(
        self, name: str, work: Callable[[], None], pieces: int, most: int | None = None
    ) -> None:
        count = min(chunks.threads() if most is None else most, pieces)
        self._threads = [
            threading.Thread(target=work, name=f"gkews-{name}", daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether all have ended; each is waited for `timeout_s` seconds at most."""
        for thread in self._threads:
            thread.join(timeout_s)
            if thread.is_alive():
                return False
        return True

    def end(self, within_s: float | None = None) -> None:
        """Wait for those that were told to end, `within_s` seconds in all; None: to the end."""
        deadline = None if within_s is None else time.monotonic() + within_s
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
