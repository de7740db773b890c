"""The workspace that this server lives in, as `status` tells it and as it is told on the event bus.

Looks for a cluster only when it is asked the first time, and only in a pod; imports nothing for it
before. Changes nothing in the cluster: workspace.py does.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..engines.base import Outlook, WorkspaceEngine
from ..errors import GkewsError
from ..journal.pauses import WorkspacePauses
from .book import OperationBook
from .context import Context
from .operations import Operation, utcnow
from .roster import Roster
from .run import Run
from .state import age_s

if TYPE_CHECKING:
    from .workspace_kernels import StartsHeld

#: Seconds after which a cluster that did not answer is looked for again, when somebody asks.
AGAIN_S = 10.0
#: What a workspace is while its memory goes, or is gone.
PAUSES = ("pausing", "paused")


class SeenWorkspace:
    """One a server. `keep` runs a coroutine as a task of the lifecycle."""

    def __init__(
        self, ctx: Context, book: OperationBook, roster: Roster, start: StartsHeld,
        keep: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:  # fmt: skip
        self._ctx, self._book, self._roster = ctx, book, roster
        self._start, self._keep = start, keep
        self._since = utcnow()
        self.engine: WorkspaceEngine | None = None
        """None before the first look, and where there is none."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0
        self._trouble: GkewsError | None = None
        self._outlook: Outlook | None = None
        self._rights: list[dict[str, Any]] = []
        self._run: Run | None = None
        self._judged: asyncio.Future[None] | None = None
        self._last: Operation | None = None
        self._told: object = None
        self._state_before: str | None = None
        self._stopping = False
        self.own_provenance: Callable[[], str | None] = lambda: None
        """What this process itself knows of how it came to what it holds; before the cluster's."""

    @property
    def pauses(self) -> WorkspacePauses:
        """Those in the journal."""
        return WorkspacePauses(self._ctx.store.root)

    @property
    def _server(self) -> dict[str, str]:
        """This one, as the journal has it."""
        return {"root": str(self._ctx.kernels.root), "base_url": self._ctx.base_url}

    # -- what is known ---------------------------------------------------------------------

    def begin(self) -> None:
        """Look for the workspace, if that was not done, or did not succeed a while ago."""
        if self._looking is not None:
            stale = self._trouble is not None and time.monotonic() - self._looked_at > AGAIN_S
            if not (self._looking.done() and stale):
                return
        elif self._make_engine() is None:
            return
        self._looking = self._keep(self._look())

    def _make_engine(self) -> WorkspaceEngine | None:
        """Outside of a pod that is known at once, and nothing is imported for it."""
        if self._trouble is None and self.engine is None:
            try:
                self.engine = self._ctx.workspace_engine()
            except GkewsError as error:
                self._trouble = error
            else:
                self._trouble = _nowhere() if self.engine is None else None
            if self.engine is not None:
                self.engine.subscribe(self._state_changed, asyncio.get_running_loop())
        return self.engine

    async def _looked(self) -> WorkspaceEngine:
        """The engine, once the workspace was looked at. Raises GkewsError where there is none."""
        self.begin()
        if self._looking is not None:
            await asyncio.shield(self._looking)
        if self.engine is None or self._trouble is not None:
            raise _again(self._trouble)
        return self.engine

    async def _look(self) -> None:
        assert self.engine is not None
        try:
            await self.engine.state()
            await self._judge_again()
            await asyncio.to_thread(_import_pausing)
            self._trouble = None
            self._notice(self.engine.seen() or {})
        except GkewsError as error:
            self._trouble = error
        except Exception as error:
            self._ctx.log.exception("The workspace could not be looked at")
            self._trouble = GkewsError(
                "internal", f"{type(error).__name__}: {error}", "The server's log says more."
            )
        self._looked_at = time.monotonic()
        self.tell()

    async def _judge_again(self) -> None:
        assert self.engine is not None
        self._rights = await self.engine.rights()
        self._outlook = await self.engine.outlook()

    def _state_changed(self, state: dict[str, Any]) -> None:
        """From the engine, at every change of what it follows."""
        if not self._looked_at:
            return
        before = self._state_before
        self._notice(state)
        run = self._run
        if run is not None and self._is_judged(run):
            self._follow(run.operation, state)
        if state["state"] == "running" and before not in (None, "running"):
            self._keep(self._refresh())  # another pod, perhaps: it is judged anew
        self.tell()

    def _notice(self, state: dict[str, Any]) -> None:
        """A pause that begins, and was not asked for by us, is entered in the journal: after a
        start without the memory that is all that is known of its kernels."""
        before, self._state_before = self._state_before, str(state.get("state"))
        ours = self._run is not None and self._run.operation.phase != "checkpointing"
        if self._state_before in PAUSES and before not in PAUSES and not ours:
            self._keep(self._enter_elsewhere(bool(state.get("stateless"))))

    async def _enter_elsewhere(self, stateless: bool) -> None:
        from . import elsewhere

        if (outlook := self._outlook) is None:
            return
        try:
            await elsewhere.enter(
                self._ctx, self._roster, self.pauses, outlook, self._server, stateless=stateless
            )
        except GkewsError as error:
            self._ctx.log.warning("The journal does not have the pause: %s", error)

    @staticmethod
    def _follow(operation: Operation, state: dict[str, Any]) -> None:
        """What the cluster does is said in its words."""
        if operation.phase in ("snapshotting", "releasing"):
            operation.message = state["message"]  # type: ignore[attr-defined]
            if state["state"] == "pausing" and state["phase"] == "releasing":
                operation.phase = "releasing"

    async def _refresh(self) -> None:
        try:
            await self._judge_again()
            if self._run is None:
                await self._close_called_off()
        except GkewsError as error:
            self._ctx.log.info("The workspace could not be judged: %s", error)
            return
        self.tell()

    async def _close_called_off(self) -> None:
        """A pause that went out of sight, or that others had asked for, is over: its pod runs."""
        pod_uid = self._outlook.pod_uid if self._outlook is not None else ""

        def close() -> None:
            pauses = self.pauses
            for entry in pauses.open_entries():
                if pauses.is_mine(entry) and pod_uid and entry.pod["uid"] == pod_uid:
                    message = "It was called off: the workspace runs on in the same pod."
                    pauses.close(entry.id, "cancelled", reason="cancelled", message=message)

        await asyncio.to_thread(close)

    async def describe_anew(self) -> dict[str, Any]:
        """As `describe`, looked at and judged now. Raises GkewsError where that fails."""
        try:
            await self._looked()
            await self._judge_again()
        except GkewsError as error:
            if error.reason != "no_workspace":
                raise
        return self.describe()

    def describe(self) -> dict[str, Any]:
        """`status.workspace`, as it is known now. Asks nobody, but begins to look."""
        self.begin()
        state = self._state()
        run = self._run if self._run is not None and self._is_judged(self._run) else None
        outlook = self._outlook
        if run is not None:
            operation: Any = run.operation
            state = {**state, "state": "pausing", "since": operation.started, "hint": ""}
            state |= {"phase": operation.phase, "reason": None, "stateless": operation.stateless}
            state["message"] = operation.message or state["message"]
        why_not = self._why_not(state)
        stateless = state["stateless"]
        if state["state"] == "running":
            stateless = outlook.stateless if outlook is not None else None
        since = state["since"] or self._since
        return {
            "state": state["state"],
            "phase": state["phase"],
            "since": since,
            "age_s": age_s(since),
            "provenance": self.own_provenance() or state["provenance"],
            "reason": state["reason"],
            "message": state["message"],
            "hint": state["hint"],
            "engine": self.engine.id if self.engine is not None else None,
            "namespace": outlook.namespace if outlook else None,
            "name": outlook.name if outlook else None,
            "pod": state["pod"],
            "node": state["node"],
            "operation": run.operation.to_json() if run else None,
            "last_operation": self._last.to_json() if self._last else None,
            "pausable": why_not is None,
            "why_not": why_not.to_json() if why_not else None,
            "stateless": stateless,
            "checks": outlook.checks if outlook else [],
            "allowed": self._rights,
            "snapshot": state["snapshot"],
        }

    def _state(self) -> dict[str, Any]:
        """The engine's, with what hinders to see it; `none` where there is no workspace."""
        empty = dict.fromkeys(
            ("phase", "since", "provenance", "stateless", "snapshot", "pod", "node")
        )
        trouble = self._trouble
        # before the first look has ended only a part of it may be known
        seen = self.engine.seen() if self.engine is not None and self._looked_at else None
        if seen is None or (trouble is not None and trouble.reason == "no_workspace"):
            if trouble is None:
                words = "Whether this server lives in a workspace is being looked up."
                return {**empty, "state": "unknown", "message": words, "hint": "", "reason": None}
            state = "none" if trouble.reason == "no_workspace" else "unknown"
            said = {"message": trouble.message, "hint": trouble.hint, "reason": trouble.reason}
            return {**empty, "state": state, **said}
        if seen["trouble"] is not None:
            error = seen["trouble"]
            words = f"{seen['message']} That was the last that was seen: {error['message']}"
            seen = {**seen, "reason": seen["reason"] or error["reason"], "message": words}
            seen["hint"] = seen["hint"] or error["hint"]
        return seen

    def _why_not(self, state: dict[str, Any]) -> GkewsError | None:
        if state["state"] in ("none", "unknown"):
            reason = state["reason"] or "cluster_unreachable"
            return GkewsError(reason, state["message"], state["hint"])
        if state["state"] != "running":
            reason = "already_paused" if state["state"] == "paused" else "operation_running"
            return GkewsError(reason, state["message"], state["hint"])
        return self._outlook.refused if self._outlook is not None else None

    def tell(self) -> None:
        """On the event bus, if it is news: a minute more is none."""
        described = self.describe()
        run = self._run if self._run is not None and self._is_judged(self._run) else None
        operation = run.operation if run is not None else self._last
        phase = (operation.id, operation.phase, operation.finished) if operation else None
        news = (
            described["state"],
            described["phase"],
            described["provenance"],
            described["reason"],
            re.sub(r"\d+", "", described["message"]),
            phase,
        )
        if news != self._told:
            self._told = news
            self._ctx.announcer.workspace(described, operation)

    def _is_judged(self, run: Run) -> bool:
        judged = self._judged
        return judged is not None and judged.done() and run is self._run

    async def woke_up(self) -> None:
        """This process was restored in another pod: everything is looked at anew."""
        if self.engine is None:
            return
        self.engine.woke_up()
        self._outlook = self._trouble = None
        self._looking = self._keep(self._look())
        await asyncio.shield(self._looking)

    def close(self) -> None:
        """End what is followed."""
        if self.engine is not None:
            self.engine.close()


def _import_pausing() -> None:
    """Where there is something to pause, what that takes is there before the click."""
    from . import workspace_operation, workspace_pausing  # noqa: F401


def _nowhere() -> GkewsError:
    return GkewsError(
        "no_workspace",
        "This server does not live in a workspace of a cluster: there is nobody to pause it.",
        "Kernels can be paused one by one.",
    )


def _again(error: GkewsError | None) -> GkewsError:
    """To be raised once more: an exception of its own, with a traceback of its own."""
    found = error or _nowhere()
    return GkewsError(found.reason, found.message, found.hint)
