"""How the whole workspace is paused: judged, its kernels' checkpoints written, entered in the
journal, asked for, followed to its end.

Asks the cluster for nothing before the journal has it. Whatever fails before the pod stops leaves
the kernels as they were, and closes the journal's entry with the reason. In a process that is
frozen in the middle of this and restored, it ends in the next life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..engines.base import Asked, Outlook, UnsureError, WorkspaceEngine
from ..errors import GkewsError
from ..journal.pauses import PauseEntry, WorkspacePauses
from .context import Context
from .requests import WorkspacePauseRequest
from .roster import Roster
from .run import Run
from .workspace_kernels import Held, StartsHeld, rows_of, save_all
from .workspace_operation import WorkspaceOperation, missing

#: Seconds that kernels may take to be let go before the operation ends without waiting longer.
LET_GO_S = 30.0


@dataclass(frozen=True)
class WorkspacePausing:
    """What a pause of the workspace works with."""

    ctx: Context
    engine: WorkspaceEngine
    pauses: WorkspacePauses
    roster: Roster
    start: StartsHeld
    server: dict[str, str]
    """As the journal has it: {"root", "base_url"}."""
    let_go: asyncio.Event
    """Set at the end of the pause; or from outside as soon as this very process knows that it was
    restored: that the cluster says so, too, takes new connections, and seconds."""

    async def judge(self, request: WorkspacePauseRequest) -> Outlook:
        """What it would meet. Raises GkewsError if it is not to be begun at all."""
        # who asks has been told the risks before, by `describe_anew`: nobody waits for them now
        outlook = await self.engine.outlook(measured=False)
        state = self.engine.seen() or {}
        if outlook.refused is not None:
            raise outlook.refused
        if state.get("state") in ("pausing", "paused", "resuming"):
            raise GkewsError(
                "already_paused" if state["state"] == "paused" else "operation_running",
                f"The workspace does not just run: {state['message']}",
                "Nothing was asked for. " + str(state.get("hint") or "Look at it again."),
            )
        if outlook.loses is not None and not request.stateless:
            raise outlook.loses
        return outlook

    async def pause(self, run: Run, request: WorkspacePauseRequest, outlook: Outlook) -> None:
        """From the checkpoints to the end. Raises GkewsError: the workspace runs on."""
        operation = run.operation
        assert isinstance(operation, WorkspaceOperation)
        operation.rows = rows_of(self.ctx, self.roster)
        working = [row.kernel for row in operation.rows if row.state != "paused"]
        held, begun = Held(working, self.let_go), []  # type: tuple[Held, list[Run]]
        try:
            await self._save_kernels(run, operation, request, held, begun)
            run.check()
            without = missing(operation.rows)
            if without is not None and not request.without_checkpoint:
                raise without
            entry = await self._enter(operation, outlook, stateless=outlook.loses is not None)
            state = await self._ask_and_follow(run, request, outlook, entry)
        finally:
            held.until.set()
            await _ended(begun)
        if state["state"] != "paused":  # we are in the next life: it was this very process
            run.result.provenance = "restored"
            await self._close(entry, "restored", message=str(state["message"]))
        if without is not None:
            run.result.note = without.message

    async def _save_kernels(
        self, run: Run, operation: WorkspaceOperation, request: WorkspacePauseRequest, held: Held,
        begun: list[Run],
    ) -> None:  # fmt: skip
        operation.message = "The kernels write their checkpoints."

        async def cancel() -> None:
            for each in begun:
                if each.operation.finished is None:
                    each.stop(run.stop_reason or _stopping())

        work = save_all(
            operation.rows, self.roster, self.start, request.kernels, held, begun,
            lambda: run.tell(now=True),
        )  # fmt: skip
        await run.unless_stopped(work, on_stop=cancel)

    async def _enter(
        self, operation: WorkspaceOperation, outlook: Outlook, *, stateless: bool
    ) -> PauseEntry:
        return await asyncio.to_thread(
            self.pauses.open,
            workspace={"namespace": outlook.namespace, "name": outlook.name},
            pod={"name": outlook.pod, "uid": outlook.pod_uid},
            kernels=[row.journalled() for row in operation.rows],
            server=self.server,
            stateless=stateless,
        )

    async def _ask_and_follow(
        self, run: Run, request: WorkspacePauseRequest, outlook: Outlook, entry: PauseEntry
    ) -> dict[str, Any]:
        """Until the pause is over, one way or the other; the entry of a failed one is closed."""
        operation = run.operation
        assert isinstance(operation, WorkspaceOperation)
        stateless = outlook.loses is not None
        operation.message = "The cluster is asked for the pause."
        run.enter("releasing" if stateless else "snapshotting")
        was_asked = False
        try:
            run.check()
            asked = await self.engine.ask(stateless=request.stateless, pod_uid=outlook.pod_uid)
            was_asked = True
            self._note(self.pauses.asked, entry.id, how=asked.how, stateless=asked.stateless)
            if asked.stateless and not stateless:
                operation.stateless = True
                run.enter("releasing")
            return await self._follow(run, asked)
        except UnsureError as error:
            self._note(self.pauses.unsure, entry.id, error)
            raise
        except GkewsError as error:
            outcome = "cancelled" if error.reason == "cancelled" else "failed"
            if not was_asked and error.reason != "snapshot_failed":
                outcome = "not_asked"
            await self._close(entry, outcome, reason=error.reason, message=error.message)
            raise
        except asyncio.CancelledError:  # the server stops, in the middle of it
            self._note(self.pauses.unsure, entry.id, _stopping())
            raise

    async def _follow(self, run: Run, asked: Asked) -> dict[str, Any]:
        """Called off when the operation is cancelled, as long as the cluster lets us."""
        work = asyncio.ensure_future(self.engine.follow(asked))
        try:
            while True:
                try:
                    return await run.unless_stopped(asyncio.shield(work))
                except GkewsError as stopped:
                    if work.done() or stopped is not run.stop_reason:
                        raise
                try:
                    await self.engine.abort()
                except GkewsError as error:
                    run.result.note = f"It could not be called off: {error.message}"
                    run.go_on()
                else:
                    return await work  # it says that it was called off, and what is so now
        finally:
            if not work.done():
                work.cancel()

    async def _close(self, entry: PauseEntry, outcome: str, **about: Any) -> None:
        """An entry that stays open would offer to bring back what never went."""
        try:
            await asyncio.to_thread(self.pauses.close, entry.id, outcome, **about)
        except GkewsError as error:
            self.ctx.log.warning("The journal does not know how the pause ended: %s", error)

    def _note(self, write: Callable[..., None], *about: Any, **more: Any) -> None:
        """At once, before anything else can happen to this process: it may be frozen now."""
        try:
            write(*about, **more)
        except GkewsError as error:
            self.ctx.log.warning("The journal lacks a line of the pause: %s", error)


async def _ended(runs: list[Run]) -> None:
    """Every kernel was let go, or takes too long."""
    waiting = [asyncio.ensure_future(each.finished.wait()) for each in runs]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=LET_GO_S)
        for each in late:
            each.cancel()


def _stopping() -> GkewsError:
    return GkewsError("cancelled", "The server is stopping.", "Checkpoints are kept.")
