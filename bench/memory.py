"""Sample a process's anonymous memory from outside while something happens. Linux only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path


def rss_anon(pid: int) -> int:
    """RssAnon of a process in bytes: what it holds for itself, page cache not counted; 0: gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class PeakSampler(threading.Thread):
    """The peak RssAnon of one process from entering a `with` block to leaving it.

    `find` says which process; it is asked again until it knows (a resume makes a new one).
    """

    def __init__(self, find: Callable[[], int | None], every_s: float = 0.01) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.samples = 0
        self._find = find
        self._every_s = every_s
        self._end = threading.Event()

    def run(self) -> None:
        """Sample until the block is left."""
        pid: int | None = None
        while not self._end.wait(self._every_s):
            pid = pid or self._find()
            if pid is not None:
                self.peak = max(self.peak, rss_anon(pid))
                self.samples += 1

    def __enter__(self) -> PeakSampler:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self.join()
        if not self.samples:
            raise RuntimeError("the process was never seen: its peak is not known")
