"""How the fake server is told to fail: a fault meets requests by method and path, so often.

Knows nothing of objects; server.py asks for the fault of each request before it does anything.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field

from .status import Refused


@dataclass
class Fault:
    """`kind`: black_hole (no answer until lifted), reset (connection reset, nothing done),
    reset_after (done, but the answer is lost), slow (`seconds`), refuse (`answer`), end_watch (an
    empty watch that ends at once)."""

    kind: str
    method: str = ".*"
    path: str = ".*"
    times: int | None = None
    """How many requests it meets; None: until it is lifted."""
    seconds: float = 0.0
    answer: Refused | None = None
    skip: int = 0
    """How many requests it lets pass first."""
    met: int = 0
    lifted: threading.Event = field(default_factory=threading.Event)

    def meets(self, method: str, path: str) -> bool:
        if self.lifted.is_set() or (self.times is not None and self.met >= self.times):
            return False
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


class Faults:
    """The faults that are in force; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Fault] = []

    def add(self, kind: str, **about: object) -> Fault:
        """In force at once; `lift` the one that is returned."""
        fault = Fault(kind, **about)  # type: ignore[arg-type]
        with self._lock:
            self._all.append(fault)
        return fault

    def refuse(self, code: int, reason: str, message: str, **about: object) -> Fault:
        """An answer of our choice, such as a 403 by an admission policy."""
        return self.add("refuse", answer=Refused(code, reason, message), **about)

    def of(self, method: str, path: str) -> Fault | None:
        """The first that meets this request, counted."""
        with self._lock:
            for fault in self._all:
                if fault.meets(method, path):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.met += 1
                    return fault
        return None

    def lift(self, fault: Fault) -> None:
        fault.lifted.set()

    def lift_all(self) -> None:
        with self._lock:
            for fault in self._all:
                fault.lifted.set()
            self._all.clear()
