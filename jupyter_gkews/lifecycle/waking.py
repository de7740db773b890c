"""What a server does when it was restored with all its kernels: in what order, and what came of it.

Each step stands for itself: one that fails is told, and the others are done. Never touches a
checkpoint, and starts no process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import GkewsError
from ..journal.records import iso
from . import on_resume
from .context import Context
from .roster import Roster
from .state import KernelEntry

if TYPE_CHECKING:
    from ..engines.restore_signs import Restore


class Server(Protocol):
    """The web server around us (after_restore.RestoredServer)."""

    def count_as_active(self) -> None:
        """Clocks of activity begin anew."""

    def hang_up(self) -> int:
        """Close the websockets of pages, which are dead; how many."""

    async def answers_itself(self) -> str | None:
        """None if it does, else why not."""


class Files(Protocol):
    """What pages have open (volume_files.VolumeFiles)."""

    def woke_up(self, stopped: float) -> None:
        """From now on what is on the disk may be another file."""

    async def changed(self) -> list[str]:
        """The paths of those that were changed."""


@dataclass
class WakeUp:
    """One restore of this server. Times ISO 8601, durations in s."""

    paused: str
    woke: str
    away_s: float
    evidence: list[dict[str, str]]
    changed_files: list[str] = field(default_factory=list)
    hooks_failed: dict[str, dict[str, str]] = field(default_factory=dict)  # kernel -> name -> error
    trouble: dict[str, str] = field(default_factory=dict)  # step -> what went wrong
    seconds: dict[str, float] = field(default_factory=dict)
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """For records and for `status`."""
        return dict(vars(self))

    def sentence(self) -> str:
        """For the log and for the user."""
        said = [f"The server was restored after {self.away_s:.0f} s with its kernels as they were."]
        if self.changed_files:
            said.append(f"Changed on the volume meanwhile: {', '.join(self.changed_files)}.")
        said += [f"{each.rstrip('.')}." for each in self.trouble.values()]
        return " ".join(said)


#: Seconds that the end of a wake-up waits for the kernels' on_resume functions.
HOOKS_S = 2.0
#: Told at the end, to whoever keeps records and shows the state.
Ended = Callable[[WakeUp], Awaitable[object]]


class Waking:
    """Of one server. `restored` is what RestoreSigns calls."""

    def __init__(self, ctx: Context, roster: Roster, server: Server, files: Files) -> None:
        self._ctx, self._roster, self._server, self._files = ctx, roster, server, files
        self._tasks: set[asyncio.Task[None]] = set()
        self._reconnect: list[Callable[[], Awaitable[object]]] = []
        self._ended: list[Ended] = []
        self.last: WakeUp | None = None

    def also(
        self, *, reconnect: Callable[[], Awaitable[object]] | None = None,
        ended: Ended | None = None,
    ) -> None:  # fmt: skip
        """Add what has connections to the outside, or is to be told."""
        if reconnect is not None:
            self._reconnect.append(reconnect)
        if ended is not None:
            self._ended.append(ended)

    def restored(self, found: Restore) -> None:
        """It has just been noticed. What the very next request sees is right when this returns."""
        wake_up = WakeUp(iso(found.stopped), iso(found.woke), found.away_s, found.evidence)
        self.last = wake_up
        self._ctx.log.warning(
            "This server was restored from a snapshot, %.0f s after it was taken: %s",
            found.away_s,
            "; ".join(each["what"] for each in wake_up.evidence),
        )
        for name, at_once in (
            ("activity", self._server.count_as_active),
            ("websockets", self._server.hang_up),
            ("files", lambda: self._files.woke_up(found.stopped)),
        ):
            try:
                at_once()
            except Exception as error:
                self._went_wrong(wake_up, name, error)
        task = asyncio.ensure_future(self._go_on(wake_up))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Do no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- the steps -----------------------------------------------------------------------------

    async def _go_on(self, wake_up: WakeUp) -> None:
        kernels = asyncio.ensure_future(self._step(wake_up, "kernels", self._tell_kernels))
        self._tasks.add(kernels)
        kernels.add_done_callback(self._tasks.discard)
        await asyncio.gather(
            self._step(wake_up, "port", self._probe_port),
            self._step(wake_up, "files", self._look_at_files),
            *(
                self._step(wake_up, "connections", lambda _, again=again: again())  # type: ignore[misc]
                for again in self._reconnect
            ),
        )
        # what users' functions do may take longer, and records of the restore do not wait for it
        await asyncio.wait((kernels,), timeout=HOOKS_S)
        wake_up.finished = True
        self._ctx.log.info("%s", wake_up.sentence())
        for ended in self._ended:
            await self._step(wake_up, "state", lambda _, ended=ended: ended(wake_up))  # type: ignore[misc]

    async def _step(
        self, wake_up: WakeUp, name: str, step: Callable[[WakeUp], Awaitable[object]]
    ) -> None:
        began = time.monotonic()
        try:
            await step(wake_up)
        except Exception as error:
            self._went_wrong(wake_up, name, error)
        wake_up.seconds[name] = round(time.monotonic() - began, 3)

    def _went_wrong(self, wake_up: WakeUp, name: str, error: Exception) -> None:
        if isinstance(error, GkewsError):
            self._ctx.log.warning("After the restore, %s: %s", name, error)
            wake_up.trouble[name] = error.message
        else:
            self._ctx.log.exception("After the restore, %s went wrong", name, exc_info=error)
            wake_up.trouble[name] = f"{name} could not be put right ({type(error).__name__})."

    async def _tell_kernels(self, wake_up: WakeUp) -> None:
        """The on_resume functions of all kernels that were restored with us, side by side."""
        living = [entry for entry in self._roster.all() if entry.state == "running"]
        await asyncio.gather(*(self._tell_one(wake_up, entry) for entry in living))

    async def _tell_one(self, wake_up: WakeUp, entry: KernelEntry) -> None:
        if entry.talk is None:
            return
        entry.provenance = "restored"
        entry.paused_before = True
        self._roster.tell(entry)
        try:
            told = await on_resume.tell(
                entry.talk, "restored", wake_up.paused, self._ctx.settings.answer_timeout_s,
                wake_up.woke,
            )  # fmt: skip
        except GkewsError as error:
            self._ctx.log.warning("Kernel %s after the restore: %s", entry.id, error)
            return
        if told.failed:
            wake_up.hooks_failed[entry.id] = told.failed
            self._ctx.log.warning("Kernel %s: %s", entry.id, told.sentence())

    async def _probe_port(self, wake_up: WakeUp) -> None:
        why = await self._server.answers_itself()
        if why is not None:
            wake_up.trouble["port"] = why
            self._ctx.log.error("After the restore this server does not hear: %s", why)

    async def _look_at_files(self, wake_up: WakeUp) -> None:
        wake_up.changed_files = await self._files.changed()
