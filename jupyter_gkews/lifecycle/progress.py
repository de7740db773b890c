"""How long the running step still takes, from the rate measured in that step.

Never guesses: without two samples that are some time apart there is no estimate.
"""

from __future__ import annotations

from collections import deque

#: Older samples do not count: a disk that got slow shows within this many seconds.
WINDOW_S = 10.0
#: A rate over less time than this is noise.
LEAST_S = 0.3


class RateMeter:
    """Estimates the seconds left of one step from (time, bytes done) samples."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget the samples: another step has begun."""
        self._samples.clear()

    def eta_s(self, now: float, done: int, total: int) -> float | None:
        """Add a sample (`now` in seconds of a monotonic clock, bytes) and estimate the rest."""
        if self._samples and done < self._samples[-1][1]:
            self.restart()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        if total <= 0 or done > total:
            return None
        then, had = self._samples[0]
        if now - then < LEAST_S or done == had:
            return None
        return round((total - done) * (now - then) / (done - had), 1)
