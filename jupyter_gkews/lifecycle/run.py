"""One operation while it runs: its phases and their seconds, its progress, what may end it early.

Knows nothing of kernels; the procedures in `pausing` and `resuming` say what happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import GkewsError
from ..kernel.protocol import Progress
from .operations import Operation, Result, utcnow
from .progress import RateMeter

T = TypeVar("T")

#: Progress is told at most this often (seconds); a new phase or step always is.
TELL_EVERY_S = 0.5


def as_typed(error: BaseException, hint: str) -> GkewsError:
    """What ended a procedure, as an error for the user; `hint` is for one that nobody expected."""
    if isinstance(error, GkewsError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return GkewsError("cancelled", "The server is stopping.", "Checkpoints are kept.")
    return GkewsError("internal", f"{type(error).__name__}: {error}", hint)


class Run:
    """Drives one `Operation`. `tell` is called when it has news worth an event.

    `loads`: the checkpoint that it reads, which must not be deleted meanwhile.
    """

    def __init__(
        self, operation: Operation, tell: Callable[[Run], None], *, loads: str | None = None
    ) -> None:
        self.operation = operation
        self.loads = loads
        self.in_background = False
        """Whether the kernel is free again while this goes on."""
        self.result = Result()
        self.task: asyncio.Task[None] | None = None
        self.finished = asyncio.Event()
        self._tell = tell
        self._stop_reason: GkewsError | None = None
        self._stopped = asyncio.Event()
        self._rate = RateMeter()
        self._phase_began = time.monotonic()
        self._told = 0.0

    def enter(self, phase: str) -> None:
        """Go on to the next phase."""
        self._close_phase()
        operation = self.operation
        operation.phase, operation.step = phase, None
        operation.bytes_done = operation.bytes_total = 0
        operation.eta_s = None
        self._rate.restart()
        self.tell(now=True)

    def progress(self, progress: Progress) -> None:
        """Take over what the kernel says of its step, and estimate what is left of it."""
        operation = self.operation
        if operation.finished is not None:
            return
        new_step = progress.step != operation.step
        if new_step:
            self._rate.restart()
        operation.step = progress.step
        operation.bytes_done = max(0, progress.bytes_done)
        operation.bytes_total = max(0, progress.bytes_total)
        operation.eta_s = self._rate.eta_s(
            time.monotonic(), operation.bytes_done, operation.bytes_total
        )
        self.tell(now=new_step)

    def tell(self, *, now: bool = False) -> None:
        """Say that there is news: at most every TELL_EVERY_S, unless `now`."""
        if now or time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            self._tell(self)

    def stop(self, reason: GkewsError) -> None:
        """Ask the procedure to end with `reason`; the first one counts."""
        if self._stop_reason is None:
            self._stop_reason = reason
        self._stopped.set()

    def go_on(self) -> None:
        """It could not be stopped: it can be asked again."""
        self._stop_reason = None
        self._stopped.clear()

    @property
    def stop_reason(self) -> GkewsError | None:
        """Why the procedure was asked to end; None if it was not."""
        return self._stop_reason

    def check(self) -> None:
        """Raise the reason if the procedure was asked to end."""
        if self._stop_reason is not None:
            raise self._stop_reason

    async def unless_stopped(
        self,
        work: Awaitable[T],
        *,
        timeout_s: float | None = None,
        on_stop: Callable[[], Awaitable[None]] | None = None,
        grace_s: float = 0.0,
    ) -> T:
        """Wait for `work`; give it up when `stop` is called, or with TimeoutError in time.

        `on_stop` is awaited first, and `work` then has `grace_s` seconds to end by itself: if it
        still succeeds, its value is returned and the caller decides.
        """
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait(
                (task, stopped), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if task.done():
                return task.result()
            if self._stop_reason is None:
                raise asyncio.TimeoutError
            if on_stop is not None:
                await on_stop()
            if grace_s and self._stop_reason.reason == "cancelled":
                await asyncio.wait((task,), timeout=grace_s)
                if task.done():
                    return task.result()
            raise self._stop_reason
        finally:
            for future in (task, stopped):
                if not future.done():
                    future.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    def finish(self, error: GkewsError | None) -> None:
        """Close the operation, with its result or with `error`."""
        self._close_phase()
        operation = self.operation
        operation.eta_s = None
        operation.error = error
        operation.result = None if error else self.result
        operation.finished = utcnow()
        self.finished.set()

    def _close_phase(self) -> None:
        now = time.monotonic()
        seconds = self.result.seconds
        phase = self.operation.phase
        seconds[phase] = round(seconds.get(phase, 0.0) + now - self._phase_began, 4)
        self._phase_began = now
