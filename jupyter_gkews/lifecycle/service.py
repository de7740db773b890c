"""The state machine of the kernels of one server: the one place that handlers and hooks ask.

Says what is allowed, and begins it; at most one operation a kernel runs (`driving`). How a pause or
a resume goes is in `pausing` and `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ..engines.registry import Engines
from ..errors import GkewsError
from . import in_cell, pausing, resuming, snapshotting
from .adoption import adopt
from .context import Context
from .driving import Driver
from .operations import Operation
from .recovery import Recoveries
from .requests import PauseRequest, ResumeRequest
from .restoring import Restores
from .roster import Roster
from .run import Run
from .shelf import CheckpointShelf
from .snapshots import SnapshotShelf
from .state import KernelEntry
from .subject import Subject
from .survival import Survival
from .upkeep import StoreUpkeep
from .waking import Waking
from .workspace import Workspace

if TYPE_CHECKING:
    from .workspace_kernels import Held

#: Seconds that whoever asks for kernels waits at most for the paused ones to be taken over.
ADOPTION_TIMEOUT_S = 30.0


class Lifecycle:
    """All kernels of this server, and what is being done with them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.roster = Roster(
            ctx, pause=self.pause, resume=self.resume, follow=self.follow,
            pause_workspace=lambda request: self.workspace.pause(request),
        )  # fmt: skip
        self._driver = Driver(ctx, self.roster, self._ended)
        self.book = self._driver.book
        self.shelf = CheckpointShelf(ctx.store, ctx.records, ctx.kernels, self._loading)
        self.snapshots = SnapshotShelf(ctx.engines, ctx.records, self._busy, self._frozen)
        self.restores = Restores(ctx, self.roster, self.shelf, self._driver)
        self.upkeep = StoreUpkeep(ctx, self.shelf, self.snapshots, self.roster)
        self.survival = Survival(ctx, self.roster, self._driver.keep)
        self.waking: Waking | None = None  # where a server can be restored whole
        self.recoveries: Recoveries | None = None
        self.taken_over: asyncio.Event | None = None  # None: no server before us is looked for
        self.workspace = Workspace(
            ctx, self.book, self.roster, self.checkpoint_and_hold, self._driver.keep
        )

    @property
    def engines(self) -> Engines:
        """The engines of this server."""
        return self._ctx.engines

    # -- operations ------------------------------------------------------------------------

    def pause(self, kernel_id: str, request: PauseRequest) -> Operation:
        """Pause a running kernel. Raises `already_paused`, `kernel_busy`, `not_pausable` ..."""
        return self._start_checkpointing("pause", kernel_id, request, pausing.pause)

    def checkpoint(self, kernel_id: str, request: PauseRequest) -> Operation:
        """Write a checkpoint of a running kernel; raises as `pause` does."""
        return self._start_checkpointing("checkpoint", kernel_id, request, pausing.checkpoint)

    def _start_checkpointing(
        self,
        kind: str,
        kernel_id: str,
        request: PauseRequest,
        procedure: Callable[..., Coroutine[Any, Any, None]],
    ) -> Operation:
        on = self.roster.subject(kernel_id)
        if kind == "checkpoint" and on.entry.background is not None:
            return on.entry.background.operation
        if kind != "checkpoint":
            self._aside(on.entry)  # the kernel itself waits for it
        if (run := self._driver.running(on, kind)) is not None:
            return run.operation
        in_a_cell = kind == "pause" and in_cell.possible(self._ctx, on, request)
        self._check_can_be_saved(on, kind, request, in_a_cell=in_a_cell)
        if request.snapshot and snapshotting.engine_of(self._ctx, on) is None:
            raise GkewsError(
                "snapshot_unavailable",
                "A process snapshot was demanded, but no engine can take one of this kernel.",
                "Nothing was done. Leave 'snapshot' out to pause with a checkpoint.",
            )
        return self._driver.start(
            on, kind, lambda subject, run: procedure(self._ctx, subject, run, request)
        )

    def checkpoint_and_hold(
        self, kernel_id: str, request: PauseRequest, held: Held, written: Callable[[str], None]
    ) -> Run:
        """Write a checkpoint of a running kernel, which is then held until `held` lets it go;
        `written(checkpoint)` tells of it in between. Raises as `checkpoint` does."""
        from .workspace_kernels import checkpoint_and_hold

        on = self.roster.subject(kernel_id)
        self._aside(on.entry)
        self._driver.running(on, "hold")
        self._check_can_be_saved(on, "hold", request)

        async def procedure(subject: Subject, run: Run) -> None:
            await checkpoint_and_hold(self._ctx, subject, run, request, held, written)

        operation = self._driver.start(on, "checkpoint", procedure)
        return self.book.get(operation.id)

    def follow(self, kernel_id: str, operation: str) -> None:
        """A cell has begun a checkpoint, by the operation of this id: show it as ours."""
        if self._driver.stopping:
            return
        on = self.roster.subject(kernel_id)
        run = Run(Operation("checkpoint", kernel_id, "checkpointing", operation), self._driver.news)
        run.in_background = True
        if on.entry.run is None:
            on.entry.run, on.entry.last_error = run, None
        else:  # a pause that waits for the very cell
            on.entry.background = run
        self.book.add(run)
        run.tell(now=True)
        run.task = self._driver.keep(
            self._driver.drive(on, run, partial(pausing.follow, self._ctx))
        )

    @staticmethod
    def _aside(entry: KernelEntry) -> None:
        """Let another operation begin beside a checkpoint that is being written."""
        if entry.run is not None and entry.run.in_background:
            entry.run, entry.background = None, entry.run

    @staticmethod
    def _check_can_be_saved(
        on: Subject, kind: str, request: PauseRequest, *, in_a_cell: bool = False
    ) -> None:
        """Raises GkewsError if no checkpoint can be written now, or not as it is asked for.
        `in_a_cell`: its cell need not end."""
        if on.entry.state == "paused":
            raise GkewsError(
                "already_paused",
                "The kernel is paused already.",
                "Its checkpoint is kept. "
                + ("Resume it, or run a cell." if kind == "pause" else "Resume it first."),
            )
        if (why := on.process.why_not_pausable()) is not None:
            raise why
        if request.when == "now" and not in_a_cell and not on.talk.is_idle():
            raise pausing.busy("A cell is running.")

    def resume(self, kernel_id: str, request: ResumeRequest | None = None) -> Operation:
        """Resume a paused kernel. Raises `not_paused`, `operation_running`."""
        on = self.roster.subject(kernel_id)
        if (run := self._driver.running(on, "resume")) is not None:
            return run.operation
        if on.entry.state != "paused":
            raise GkewsError(
                "not_paused",
                "The kernel is not paused: it is running.",
                "Nothing was changed: go on working in it.",
            )
        return self._driver.start(
            on,
            "resume",
            partial(resuming.resume, self._ctx, request or ResumeRequest()),
            loads=on.entry.checkpoint,
        )

    def _ended(self, entry: KernelEntry, run: Run, error: GkewsError | None) -> None:
        """What follows from the end of an operation, besides the kernel's state."""
        if self.recoveries is not None and error is None and entry.state == "running":
            self.recoveries.resumed(entry.id)
        if run.operation.kind != "resume" and error is None:
            self._ctx.announcer.checkpoints(entry.id, run.result.checkpoint)
            if not self._driver.stopping:
                self._driver.keep(self.upkeep.after_checkpoint(entry.id))
        elif run.operation.kind != "resume":  # its save may have died half way
            self.sweep_soon()

    def sweep_soon(self) -> None:
        """Remove what dead saves left in the store, in a thread; living ones are left alone."""
        if not self._driver.stopping:
            self._driver.keep(self.upkeep.sweep())

    # -- what is asked ---------------------------------------------------------------------

    def kernels(self) -> list[dict[str, Any]]:
        """`status`'s kernels; asks no kernel anything."""
        return [self.roster.describe(kernel_id) for kernel_id in self._ctx.kernels.ids()]

    async def set_auto_resume(self, kernel_id: str, value: bool) -> None:
        """Whether running a cell resumes the kernel; remembered over a server restart."""
        on = self.roster.subject(kernel_id)
        on.process.auto_resume = value
        await asyncio.to_thread(self._ctx.records.update, kernel_id, auto_resume=value)
        self.roster.tell(on.entry)

    def active(self) -> bool:
        """Whether an operation runs: the server must not stop itself now."""
        return bool(self.book.running())

    def all_paused(self) -> bool:
        """Whether there is no kernel but paused ones: they are durable and need no server."""
        return not self.active() and all(e.state == "paused" for e in self.roster.all())

    def is_settled(self, kernel_id: str) -> bool:
        """Whether the culler may look at the kernel: it is neither paused nor being changed."""
        entry = self.roster.find(kernel_id)
        return entry is None or (entry.run is None and entry.state == "running")

    # -- start and stop of the server ------------------------------------------------------

    async def adopt(self) -> None:
        """Take the paused kernels of dead servers over."""
        for record in await adopt(self._ctx):
            self.roster.take_over(record)

    async def wait_taken_over(self) -> bool:
        """Wait, at most ADOPTION_TIMEOUT_S, until `adopt` and `recover` have ended after the start:
        nobody shall hear before that a paused kernel is not there. False: they have not."""
        if self.taken_over is None:
            return True
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.taken_over.wait(), ADOPTION_TIMEOUT_S)
        return self.taken_over.is_set()

    def own_provenance(self) -> str | None:
        """How this server came to what it holds: restored with its kernels, or started anew after
        a pause and then recovered, or not; None if it has just been started."""
        if self.waking is not None and self.waking.last is not None:
            return "restored"
        found = self.recoveries.last if self.recoveries is not None else None
        return found.provenance if found is not None else None

    async def recover(self) -> None:
        """After a cold start: take the kernels over of a pause that this server's predecessor did
        not live to see the end of; their load, if it is wanted, goes on after the return."""
        if self.recoveries is None:
            return
        for record in await self.recoveries.take_over():
            self.roster.take_over(record)
        if not self._driver.stopping:
            self._driver.keep(self.recoveries.go_on())

    async def resume_and_wait(self, kernel_id: str) -> GkewsError | None:
        """Resume a paused kernel, by the operation that does so already or by a new one; its error.

        Raises as `resume` does."""
        operation = self.resume(kernel_id)
        await self.book.get(operation.id).finished.wait()
        return operation.error

    async def stop(self, timeout_s: float) -> None:
        """End what runs: cancelled where it can be, else waited for, at most `timeout_s`."""
        self._driver.stopping = True
        self.workspace.stop()
        await self._driver.stop(timeout_s)
        if self.waking is not None:
            await self.waking.close()
        await self.roster.close()

    def close(self) -> None:
        """Let the next server have the records of the kernels that are paused."""
        self.workspace.close()
        self._ctx.records.close()
        if self.recoveries is not None:
            self.recoveries.close()

    # -- within ----------------------------------------------------------------------------

    def _loading(self) -> set[str]:
        return {run.loads for run in self.book.running() if run.loads is not None}

    def _busy(self) -> set[str]:
        return {run.operation.kernel for run in self.book.running()}

    def _frozen(self) -> set[str]:
        return {entry.snapshot for entry in self.roster.all() if entry.snapshot is not None}
