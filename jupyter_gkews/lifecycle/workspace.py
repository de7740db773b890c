"""The one operation of the workspace that this server lives in: at most one pause, or its end.

How a pause goes is in workspace_pausing.py, what is told of the workspace in seen_workspace.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..engines.base import WorkspaceEngine
from ..errors import GkewsError
from .operations import Operation
from .requests import WorkspacePauseRequest
from .run import Run, as_typed
from .seen_workspace import SeenWorkspace

if TYPE_CHECKING:
    from .waking import WakeUp


class Workspace(SeenWorkspace):
    """One a server."""

    _let_go: asyncio.Event | None = None
    """Of the last pause that we have begun: its kernels are not held any more."""

    # -- operations ------------------------------------------------------------------------

    async def pause(self, request: WorkspacePauseRequest) -> Operation:
        """Pause the workspace; the running pause, if there is one. Returns when it is judged.

        Raises GkewsError: `no_workspace`, `forbidden`, `snapshot_unavailable` if its memory would
        be lost and that is not accepted, `already_paused`, `operation_running`,
        `cluster_unreachable`; nothing was begun then.
        """
        if self._stopping:
            raise GkewsError("cancelled", "The server is stopping.", "Nothing was started.")
        if self._run is None:
            self._begin_pause(request)
        run, judged = self._run, self._judged
        assert run is not None
        if run.operation.kind != "pause":
            raise GkewsError(
                "operation_running",
                "A pause of the workspace is being called off.",
                "Wait until that has ended.",
            )
        assert judged is not None
        await asyncio.shield(judged)
        return run.operation

    def _begin_pause(self, request: WorkspacePauseRequest) -> None:
        from .workspace_operation import WorkspaceOperation

        operation = WorkspaceOperation("pause", "", "checkpointing")
        self._run = Run(operation, lambda _: self.tell())
        self._judged = asyncio.get_running_loop().create_future()
        let_go = self._let_go = asyncio.Event()
        self._run.task = self._keep(self._drive(self._run, self._judged, request, let_go))

    async def _drive(
        self, run: Run, judged: asyncio.Future[None], request: WorkspacePauseRequest,
        let_go: asyncio.Event,
    ) -> None:  # fmt: skip
        from .workspace_pausing import WorkspacePausing

        error: GkewsError | None = None
        try:
            engine = await self._looked()
            work = WorkspacePausing(
                self._ctx, engine, self.pauses, self._roster, self._start, self._server, let_go
            )
            outlook = self._outlook = await work.judge(request)
            operation: Any = run.operation
            operation.namespace, operation.name = outlook.namespace, outlook.name
            operation.stateless = outlook.loses is not None
            self._book.add(run)
            judged.set_result(None)
            run.tell(now=True)
            await work.pause(run, request, outlook)
        except (Exception, asyncio.CancelledError) as raised:
            error = self._typed(raised)
        self._end(run, judged, error)

    def _typed(self, raised: BaseException) -> GkewsError:
        if not isinstance(raised, (GkewsError, asyncio.CancelledError)):
            self._ctx.log.error("A pause of the workspace failed", exc_info=raised)
        return as_typed(raised, "The server's log says more.")

    def _end(self, run: Run, judged: asyncio.Future[None], error: GkewsError | None) -> None:
        run.finish(error)
        self._run = None
        if judged.done():
            self._last = run.operation
        elif error is not None:
            judged.set_exception(error)
            judged.exception()  # whoever asked may be gone
        self.tell()

    async def resume(self) -> Operation:
        """Call off the pause that is under way: all that there is to resume from inside.

        Raises GkewsError: `not_paused`, `not_cancellable`, `no_workspace`, `cluster_unreachable`.
        """
        while True:
            if self._judged is not None and not self._judged.done():
                await asyncio.wait((self._judged,))
            run = self._run
            if run is not None and run.operation.kind == "resume":
                return run.operation
            if run is not None and self._is_judged(run):
                return self._book.cancel(run.operation.id).operation
            engine = await self._looked()
            state = await engine.state()
            if state["state"] != "pausing":
                raise GkewsError(
                    "not_paused",
                    f"No pause of the workspace is under way: {state['message']}",
                    "A paused workspace is resumed from outside: by its page, the dashboard or "
                    "`jupyter gkews workspace resume`.",
                )
            if self._run is None:  # else one was begun while we looked
                return self._begin_abort(engine)

    def _begin_abort(self, engine: WorkspaceEngine) -> Operation:
        """A pause that others have asked for."""
        from .workspace_operation import WorkspaceOperation

        operation = WorkspaceOperation("resume", "", "verifying")
        operation.message = "The pause is being called off."
        if self._outlook is not None:
            operation.namespace, operation.name = self._outlook.namespace, self._outlook.name
        run = self._run = Run(operation, lambda _: self.tell())
        judged = self._judged = asyncio.get_running_loop().create_future()
        judged.set_result(None)
        self._book.add(run)

        async def work() -> None:
            error = None
            try:
                run.result.note = await engine.abort()
                await self._close_called_off()
            except (Exception, asyncio.CancelledError) as raised:
                error = self._typed(raised)
            self._end(run, judged, error)

        run.task = self._keep(work())
        return operation

    # -- lives of the server ---------------------------------------------------------------

    async def woke_up(self) -> None:
        """This process was restored in another pod: cells may run, and everything is looked at."""
        if self._let_go is not None:
            self._let_go.set()
        await super().woke_up()

    async def restored(self, wake_up: WakeUp) -> None:
        """Enter in the journal what became of the pause that this very process had begun, and tell
        that it is back."""

        def close() -> None:
            pauses = self.pauses
            for entry in pauses.open_entries():
                if pauses.is_mine(entry):
                    what = f"the pause of {entry.opened} is known to the memory of this process"
                    wake_up.evidence.append({"sign": "pause", "what": what})
                    pauses.close(
                        entry.id, "restored", message=wake_up.sentence(), evidence=wake_up.to_json()
                    )

        try:
            await asyncio.to_thread(close)
        finally:
            self.tell()

    def stop(self) -> None:
        """The server stops: checkpoints that are being written are given up, but a pause that the
        cluster has taken is left to it, and to the journal."""
        self._stopping = True
        run = self._run
        if run is not None and run.operation.phase == "checkpointing":
            run.stop(GkewsError("cancelled", "The server is stopping.", "Checkpoints are kept."))
        elif run is not None and run.task is not None:
            run.task.cancel()
