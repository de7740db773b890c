"""The state machine of the kernels of one server: the one place that handlers and hooks ask.

Starts at most one operation a kernel, keeps the states, and tells the event bus. How a pause or
a resume goes is in `pausing` and `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ..engines.registry import Engines
from ..errors import GkewsError
from . import in_cell, pausing, resuming, snapshotting
from .adoption import adopt
from .book import OperationBook
from .context import Context
from .operations import PHASES, Operation
from .recovery import Recoveries
from .requests import PauseRequest, ResumeRequest
from .roster import Roster
from .run import Run, as_typed
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

#: Where a procedure ended as nobody expected.
AS_IT_WAS = "The kernel and its last checkpoint are as they were; the server's log says more."

Procedure = Callable[[Subject, Run], Coroutine[Any, Any, None]]


class Lifecycle:
    """All kernels of this server, and what is being done with them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._new_kernels: dict[str, Run] = {}  # by checkpoint: restores into a new kernel
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self.roster = Roster(
            ctx, pause=self.pause, resume=self.resume, follow=self.follow,
            pause_workspace=lambda request: self.workspace.pause(request),
        )  # fmt: skip
        self.book = OperationBook()
        self.shelf = CheckpointShelf(ctx.store, ctx.records, ctx.kernels, self._loading)
        self.snapshots = SnapshotShelf(ctx.engines, ctx.records, self._busy, self._frozen)
        self.upkeep = StoreUpkeep(ctx, self.shelf, self.snapshots, self.roster)
        self.survival = Survival(ctx, self.roster, self._keep)
        self.waking: Waking | None = None  # where a server can be restored whole
        self.recoveries: Recoveries | None = None
        self.workspace = Workspace(
            ctx, self.book, self.roster, self.checkpoint_and_hold, self._keep
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
        if (run := self._running(on, kind)) is not None:
            return run.operation
        in_a_cell = kind == "pause" and in_cell.possible(self._ctx, on, request)
        self._check_can_be_saved(on, kind, request, in_a_cell=in_a_cell)
        if request.snapshot and snapshotting.engine_of(self._ctx, on) is None:
            raise GkewsError(
                "snapshot_unavailable",
                "A process snapshot was demanded, but no engine can take one of this kernel.",
                "Nothing was done. Leave 'snapshot' out to pause with a checkpoint.",
            )
        return self._start(
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
        self._running(on, "hold")
        self._check_can_be_saved(on, "hold", request)

        async def procedure(subject: Subject, run: Run) -> None:
            await checkpoint_and_hold(self._ctx, subject, run, request, held, written)

        operation = self._start(on, "checkpoint", procedure)
        return self.book.get(operation.id)

    def follow(self, kernel_id: str, operation: str) -> None:
        """A cell has begun a checkpoint, by the operation of this id: show it as ours."""
        if self._stopping:
            return
        on = self.roster.subject(kernel_id)
        run = Run(Operation("checkpoint", kernel_id, "checkpointing", operation), self._news)
        run.in_background = True
        if on.entry.run is None:
            on.entry.run, on.entry.last_error = run, None
        else:  # a pause that waits for the very cell
            on.entry.background = run
        self.book.add(run)
        run.tell(now=True)
        run.task = self._keep(self._drive(on, run, partial(pausing.follow, self._ctx)))

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
        if (run := self._running(on, "resume")) is not None:
            return run.operation
        if on.entry.state != "paused":
            raise GkewsError(
                "not_paused",
                "The kernel is not paused: it is running.",
                "Nothing was changed: go on working in it.",
            )
        return self._start(
            on,
            "resume",
            partial(resuming.resume, self._ctx, request or ResumeRequest()),
            loads=on.entry.checkpoint,
        )

    async def restore(
        self, checkpoint: str, kernel_id: str | None, *, accept_missing: bool = False
    ) -> Operation:
        """Load a checkpoint into a kernel of this server, or into a new one."""
        summary = await asyncio.to_thread(self.shelf.get, checkpoint)
        if summary.get("error"):
            raise GkewsError.from_json(summary["error"])
        if kernel_id is None:
            return self._restore_new(checkpoint, summary, accept_missing)
        on = self.roster.subject(kernel_id)
        if on.entry.state == "running" and not on.talk.is_idle():
            with contextlib.suppress(GkewsError):  # it is looked at again below
                await on.talk.wait_idle(pausing.END_OF_A_CELL_S)
        if (run := self._running(on, "restore", loads=checkpoint)) is not None:
            return run.operation
        if on.entry.state != "paused":
            if (why := on.process.why_not_pausable()) is not None:
                raise why
            if not on.talk.is_idle():
                raise pausing.busy("A cell is running.")
        elif on.entry.in_cell and on.entry.snapshot is not None:
            raise GkewsError(
                "kernel_busy",
                "The kernel was paused in the middle of a cell: its snapshot is all that holds it.",
                "Nothing was changed. Resume it first, or restore into a new kernel.",
            )
        return self._start(
            on,
            "restore",
            partial(self._restore_into, checkpoint, accept_missing),
            phase="restoring" if on.entry.state == "paused" else None,
            loads=checkpoint,
        )

    async def _restore_into(
        self, checkpoint: str, accept_missing: bool, on: Subject, run: Run
    ) -> None:
        await resuming.restore(self._ctx, on, run, checkpoint, accept_missing=accept_missing)

    def _restore_new(
        self, checkpoint: str, summary: dict[str, Any], accept_missing: bool
    ) -> Operation:
        running = self._new_kernels.get(checkpoint)
        if running is not None and running.operation.finished is None:
            return running.operation
        kernels = self._ctx.kernels
        name = (summary.get("kernel") or {}).get("name") or ""
        if not kernels.has_kernelspec(name):
            raise GkewsError(
                "kernel_not_found",
                f"The checkpoint is of the kernel {name!r}, which is not installed here.",
                "Install it, or restore the checkpoint into a running Python kernel.",
            )
        operation = Operation("restore", str(uuid.uuid4()), "restoring")
        run = Run(operation, self._news, loads=checkpoint)
        self._new_kernels[checkpoint] = run
        self.book.add(run)
        notebook = summary.get("notebook")
        path = kernels.api_path(notebook) if notebook else None
        run.task = self._keep(self._drive_new(run, checkpoint, name, path, accept_missing))
        return run.operation

    async def _drive_new(
        self, run: Run, checkpoint: str, name: str, path: str | None, accept_missing: bool
    ) -> None:
        kernel_id = run.operation.kernel
        try:
            await self._ctx.kernels.start_paused(kernel_id, name, path, None)
            self.roster.attach(kernel_id)
            on = self.roster.subject(kernel_id)
            on.entry.run = run
        except Exception as error:
            self._ctx.log.exception("A kernel for checkpoint %s could not be started", checkpoint)
            run.finish(as_typed(error, AS_IT_WAS))
            return
        procedure = partial(self._restore_into_new, checkpoint, path, accept_missing)
        await self._drive(on, run, procedure)
        if run.operation.error is not None and self.roster.find(kernel_id) is not None:
            await self._ctx.kernels.discard(kernel_id)

    async def _restore_into_new(
        self, checkpoint: str, path: str | None, accept_missing: bool, on: Subject, run: Run
    ) -> None:
        await resuming.restore_new(
            self._ctx, on, run, checkpoint, path, accept_missing=accept_missing
        )

    def _running(self, on: Subject, kind: str, *, loads: str | None = None) -> Run | None:
        """The run that does just this on the kernel; raises `operation_running` for another."""
        run = on.entry.run
        if run is None or (run.operation.kind == kind and loads in (None, run.loads)):
            return run
        raise GkewsError(
            "operation_running",
            f"A {run.operation.kind} of this kernel is running.",
            "Wait until it has ended, or cancel it first.",
        )

    def _start(
        self,
        on: Subject,
        kind: str,
        procedure: Procedure,
        *,
        phase: str | None = None,
        loads: str | None = None,
    ) -> Operation:
        if self._stopping:
            raise GkewsError("cancelled", "The server is stopping.", "Nothing was started.")
        phase = phase or ("restoring" if kind == "resume" else PHASES[kind][0])
        run = Run(Operation(kind, on.entry.id, phase), self._news, loads=loads)
        on.entry.run, on.entry.last_error = run, None
        if kind != "checkpoint":
            on.entry.enter("resuming" if phase == "restoring" else "pausing")
        self.book.add(run)
        run.tell(now=True)
        run.task = self._keep(self._drive(on, run, procedure))
        return run.operation

    async def _drive(self, on: Subject, run: Run, procedure: Procedure) -> None:
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
        self.roster.tell(entry, run.operation)
        if self.recoveries is not None and error is None and entry.state == "running":
            self.recoveries.resumed(entry.id)
        if run.operation.kind != "resume" and error is None:
            self._ctx.announcer.checkpoints(entry.id, run.result.checkpoint)
            if not self._stopping:
                self._keep(self.upkeep.after_checkpoint(entry.id))
        elif run.operation.kind != "resume":  # its save may have died half way
            self.sweep_soon()

    async def _answer_waiting_cells(self, on: Subject, run: Run, error: GkewsError) -> None:
        """Tell the cells that woke a kernel for which nothing was started at all."""
        if run.operation.kind in ("pause", "checkpoint") or on.process.phase != "paused":
            return
        try:
            await on.process.resume_failed(error)
        except Exception:  # the operation must end all the same
            self._ctx.log.exception("Cells of kernel %s were not answered", on.entry.id)

    def sweep_soon(self) -> None:
        """Remove what dead saves left in the store, in a thread; living ones are left alone."""
        if not self._stopping:
            self._keep(self.upkeep.sweep())

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
        if not self._stopping:
            self._keep(self.recoveries.go_on())

    async def resume_and_wait(self, kernel_id: str) -> GkewsError | None:
        """Resume a paused kernel, by the operation that does so already or by a new one; its error.

        Raises as `resume` does."""
        operation = self.resume(kernel_id)
        await self.book.get(operation.id).finished.wait()
        return operation.error

    async def stop(self, timeout_s: float) -> None:
        """End what runs: cancelled where it can be, else waited for, at most `timeout_s`."""
        self._stopping = True
        self.workspace.stop()
        for run in self.book.running():
            if run.operation.cancellable and run.operation.kernel:
                self.book.cancel(run.operation.id)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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

    def _news(self, run: Run) -> None:
        entry = self.roster.find(run.operation.kernel)
        if entry is not None:
            action = "progress" if run.operation.step is not None else "state"
            self._ctx.announcer.kernel(entry, run.operation, action=action)

    def _loading(self) -> set[str]:
        return {run.loads for run in self.book.running() if run.loads is not None}

    def _busy(self) -> set[str]:
        return {run.operation.kernel for run in self.book.running()}

    def _frozen(self) -> set[str]:
        return {entry.snapshot for entry in self.roster.all() if entry.snapshot is not None}

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
