"""Operations of kernels: begun, at most one a kernel, and driven to their end, whatever it is.

Knows neither what a procedure does nor when one is wanted; what else follows from an end is its
owner's affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import GkewsError
from .book import OperationBook
from .context import Context
from .operations import PHASES, Operation
from .roster import Roster
from .run import Run, as_typed
from .state import KernelEntry
from .subject import Subject

#: Where a procedure ended as nobody expected.
AS_IT_WAS = "The kernel and its last checkpoint are as they were; the server's log says more."

Procedure = Callable[[Subject, Run], Coroutine[Any, Any, None]]
Ended = Callable[[KernelEntry, Run, "GkewsError | None"], None]


class Driver:
    """Of one server. `ended` is called when an operation has ended and its kernel's state is
    settled and told."""

    def __init__(self, ctx: Context, roster: Roster, ended: Ended) -> None:
        self._ctx, self._roster, self._ended = ctx, roster, ended
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stopping = False
        self.book = OperationBook()

    def running(self, on: Subject, kind: str, *, loads: str | None = None) -> Run | None:
        """The run that does just this on the kernel; raises `operation_running` for another."""
        run = on.entry.run
        if run is None or (run.operation.kind == kind and loads in (None, run.loads)):
            return run
        raise GkewsError(
            "operation_running",
            f"A {run.operation.kind} of this kernel is running.",
            "Wait until it has ended, or cancel it first.",
        )

    def start(
        self,
        on: Subject,
        kind: str,
        procedure: Procedure,
        *,
        phase: str | None = None,
        loads: str | None = None,
    ) -> Operation:
        """Begin a procedure. Raises `cancelled` if the server stops."""
        if self.stopping:
            raise GkewsError("cancelled", "The server is stopping.", "Nothing was started.")
        phase = phase or ("restoring" if kind == "resume" else PHASES[kind][0])
        run = Run(Operation(kind, on.entry.id, phase), self.news, loads=loads)
        on.entry.run, on.entry.last_error = run, None
        if kind != "checkpoint":
            on.entry.enter("resuming" if phase == "restoring" else "pausing")
        self.book.add(run)
        run.tell(now=True)
        run.task = self.keep(self.drive(on, run, procedure))
        return run.operation

    async def drive(self, on: Subject, run: Run, procedure: Procedure) -> None:
        """Run a procedure to its end, whatever it is, and settle the kernel's state."""
        entry, error = on.entry, None
        try:
            await procedure(on, run)
        except (Exception, asyncio.CancelledError) as raised:
            error = as_typed(raised, AS_IT_WAS)
            if error.reason == "internal":
                self._ctx.log.exception("A %s of kernel %s failed", run.operation.kind, entry.id)
            await self._answer_waiting_cells(on, run, error)
        run.finish(error)
        entry.last_operation = run.operation
        if entry.background is run:
            entry.background = None
        else:
            entry.run, entry.background = entry.background, None
        entry.last_error = None if error is None or error.reason == "cancelled" else error
        if entry.run is None or entry.run.in_background:
            entry.enter("paused" if on.process.phase == "paused" else "running")
        self._roster.tell(entry, run.operation)
        self._ended(entry, run, error)

    async def _answer_waiting_cells(self, on: Subject, run: Run, error: GkewsError) -> None:
        """Tell the cells that woke a kernel for which nothing was started at all."""
        if run.operation.kind in ("pause", "checkpoint") or on.process.phase != "paused":
            return
        try:
            await on.process.resume_failed(error)
        except Exception:  # the operation must end all the same
            self._ctx.log.exception("Cells of kernel %s were not answered", on.entry.id)

    def news(self, run: Run) -> None:
        """Tell how far it is, on the event bus."""
        entry = self._roster.find(run.operation.kernel)
        if entry is not None:
            action = "progress" if run.operation.step is not None else "state"
            self._ctx.announcer.kernel(entry, run.operation, action=action)

    def keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run it as a task that `stop` ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self, timeout_s: float) -> None:
        """End what runs: cancelled where it can be, else waited for, at most `timeout_s`."""
        for run in self.book.running():
            if run.operation.cancellable and run.operation.kernel:
                self.book.cancel(run.operation.id)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
