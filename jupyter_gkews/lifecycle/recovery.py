"""After a cold start: the kernels of a pause of the whole server, whose memory did not come back,
are there again, paused, with the checkpoints that the pause wrote; or loaded at once.

Starts no process itself and loads nothing: kernels become paused kernels (adoption.py), and what
resumes them resumes these. One that cannot be brought back is told with its reason, and hinders no
other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import GkewsError
from ..journal.pauses import JournalledKernel, PauseEntry, WorkspacePauses, life
from . import adoption
from .context import Context
from .operations import utcnow
from .records import PausedRecord, PausedRecords, hold

#: What a server does with the kernels of such a pause.
WAYS = ("ask", "automatic", "never")
#: In the store: one locked file for each living server that may be frozen.
LIVES = "lives"


@dataclass
class Found:
    """One kernel of the pause. `state`: waiting (paused, to be resumed) | recovering | recovered |
    failed (its load; it is paused and can be resumed again) | lost (there is nothing to load)."""

    kernel: str
    path: str | None
    checkpoint: str | None
    state: str
    why: str = ""
    taken: str | None = None
    """When the checkpoint was written, if that was before the pause; ISO 8601."""


@dataclass
class Recovery:
    """What was found after a cold start, and what became of it. Times ISO 8601."""

    pause: str
    """The entry of the journal."""
    paused: str
    started: str
    way: str
    kernels: list[Found] = field(default_factory=list)

    @property
    def provenance(self) -> str:
        """`recovered` once a kernel was; until then everything is `fresh`."""
        return "recovered" if any(one.state == "recovered" for one in self.kernels) else "fresh"

    def to_json(self) -> dict[str, Any]:
        """For `status`."""
        return {
            "pause": self.pause,
            "paused": self.paused,
            "started": self.started,
            "way": self.way,
            "provenance": self.provenance,
            "message": self.sentence(),
            "kernels": [dict(vars(one)) for one in self.kernels],
        }

    def sentence(self) -> str:
        """What happened, and what can be done."""
        count = {
            state: sum(one.state == state for one in self.kernels)
            for state in ("waiting", "recovering", "recovered", "failed", "lost")
        }
        said = ["This server was started anew after a pause: the memory of then is gone."]
        for state, words in _WORDS.items():
            if count[state]:
                said.append(f"{_kernels(count[state])} {words}")
        earlier = [one.taken for one in self.kernels if one.taken and one.state != "lost"]
        if earlier:
            said.append(
                "The pause was asked for elsewhere: checkpoints are of before it, the oldest of "
                f"{min(earlier)[:16].replace('T', ' ')} UTC, and what came later is not in them."
            )
        return " ".join(said)


_WORDS = {
    "recovered": "recovered from a checkpoint.",
    "recovering": "being recovered.",
    "waiting": "waiting with a checkpoint, to be resumed.",
    "failed": "could not be recovered; resume again.",
    "lost": "not brought back; see each reason.",
}


_START_AGAIN = "Open the notebook and run its cells again."


def _kernels(count: int) -> str:
    return "1 kernel:" if count == 1 else f"{count} kernels:"


class Recoveries:
    """Of one server, at its start. `resume` begins to load a paused kernel and returns its error
    when it has ended, None if it succeeded. `tell` is called when something has changed."""

    def __init__(
        self, ctx: Context, way: str, *, pauses: WorkspacePauses, server: dict[str, str],
        resume: Callable[[str], Awaitable[GkewsError | None]], tell: Callable[[], object],
    ) -> None:  # fmt: skip
        self._ctx, self._way, self._pauses, self._server = ctx, way, pauses, server
        self._resume, self._tell = resume, tell
        self._lock: int | None = None
        self._taken_over = False
        self._entry: PauseEntry | None = None
        self.last: Recovery | None = None

    # -- before the sessions are seen ----------------------------------------------------------

    def note_life(self) -> None:
        """Show others that this process lives: what it has paused is no other server's to recover,
        until it has ended. For a server that may be paused whole. Not beside `find`: while it looks
        at the file of a process that has ended, that one would be taken for alive."""
        folder = self._ctx.store.root / LIVES
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for other in folder.iterdir():  # of processes that have ended
                if (free := hold(other)) is not None:
                    other.unlink(missing_ok=True)
                    os.close(free)
            self._lock = hold(folder / life())
        except OSError as error:
            self._ctx.log.warning("That this server lives could not be noted: %s", error)

    def find(self) -> list[PausedRecord]:
        """Look into the journal; the records of kernels that are to be taken over now. Blocks."""
        entry = self._newest()
        if entry is None:
            return []
        self._entry = entry
        found = Recovery(entry.id, entry.opened, utcnow(), self._way)
        records = []
        for kernel in entry.kernels:
            if kernel.state == "paused":  # by itself, before: its own record is taken over
                continue
            state, why_not = "waiting", ""
            try:
                records.append(self._record(entry, kernel))
            except GkewsError as error:
                state, why_not = "lost", error.message
            found.kernels.append(
                Found(kernel.kernel, kernel.path, kernel.checkpoint, state, why_not, kernel.taken)
            )
        self.last = found
        return records

    def _newest(self) -> PauseEntry | None:
        """The newest open pause of a server like this one that does not live any more; older ones
        are closed."""
        if not self._pauses.journal.path.exists():
            return None
        mine = [
            entry
            for entry in self._pauses.open_entries()
            if entry.server == self._server
            and not self._pauses.is_mine(entry)
            and not self._lives(entry)
        ]
        for entry in mine[1:]:
            self._pauses.close(entry.id, "superseded", message="A later pause is recovered.")
        return mine[0] if mine else None

    def _lives(self, entry: PauseEntry) -> bool:
        """Whether the process that began the pause still runs beside us."""
        path = self._ctx.store.root / LIVES / os.path.basename(entry.life)
        if not path.exists():
            return False
        try:
            held = hold(path)
        except OSError as error:  # a volume without locks: nobody could say that it lives
            self._ctx.log.warning("Whether another server lives cannot be told: %s", error)
            return False
        if held is None:
            return True
        path.unlink(missing_ok=True)
        os.close(held)
        return False

    def _record(self, entry: PauseEntry, kernel: JournalledKernel) -> PausedRecord:
        """As if the kernel had been paused by itself. Raises GkewsError if there is nothing to
        load."""
        if kernel.checkpoint is None:
            said = (kernel.why_not or {}).get("message")
            raise GkewsError(
                "checkpoint_not_found", said or "No checkpoint of it was written.", _START_AGAIN
            )
        manifest = self._ctx.store.manifest(kernel.checkpoint)
        return PausedRecord(
            kernel=kernel.kernel,
            kernel_name=kernel.kernel_name,
            checkpoint=kernel.checkpoint,
            since=entry.opened,
            notebook=kernel.notebook,
            earlier=kernel.taken is not None,
            kernel_info=_kernel_info(manifest.environment),
        )

    async def take_over(self) -> list[PausedRecord]:
        """Make the kernels of the pause paused kernels of this server; their records."""
        try:
            return await self._take_over()
        finally:
            self._taken_over = True

    async def _take_over(self) -> list[PausedRecord]:
        records = await asyncio.to_thread(self.find)
        if self.last is None:
            return []
        if self._way == "never":
            for record in records:
                self._set(record.kernel, "lost", "GkewsApp.recover is never; it is in the list")
            return []
        wanted = []
        for record in records:
            if record.kernel in self._ctx.kernels:  # its own record was there: it is taken over
                continue
            why = adoption.why_not(self._ctx, record)
            if why is None:
                why = await asyncio.to_thread(self._write, record)
            if why is None:
                wanted.append(record)
            else:
                self._set(record.kernel, "lost", f"{why}; its checkpoint is in the list")
        adopted = await adoption.adopt(self._ctx, wanted)
        for record in wanted:
            if record not in adopted:
                await asyncio.to_thread(_drop, self._ctx.records, record)
                why = "the notebook has a kernel already, or another server has it"
                self._set(record.kernel, "lost", f"{why}; its checkpoint is in the list")
        return adopted

    def _write(self, record: PausedRecord) -> str | None:
        """Make it a record of ours; None if it is now, else why not. One that is there already says
        more than the journal, and stays."""
        records = self._ctx.records
        if records.get(record.kernel) is not None or record.kernel in records.unreadable():
            return "it has a record of a paused kernel, which this server has not taken over"
        try:
            records.write(record)
        except GkewsError as error:
            return error.message.rstrip(".")
        return None

    # -- afterwards ----------------------------------------------------------------------------

    async def go_on(self) -> None:
        """Load them, if that is wanted, one after another; and close the pause in the journal."""
        found = self.last
        if found is None or self._entry is None:
            return
        self._ctx.log.warning("%s", found.sentence())
        self._tell()
        if self._way == "automatic":
            for kernel in [one.kernel for one in found.kernels if one.state == "waiting"]:
                self._set(kernel, "recovering")
                try:
                    error = await self._resume(kernel)
                except GkewsError as raised:
                    # the user was faster, or has shut it down
                    error = None if raised.reason == "not_paused" else raised
                if error is None:
                    self._set(kernel, "recovered")
                else:
                    self._set(kernel, "failed", error.message)
            self._ctx.log.info("%s", found.sentence())
        await asyncio.to_thread(self._close, found)

    def describe(self) -> dict[str, Any] | None:
        """For `status`; None after an ordinary start."""
        if self.last is None:
            return None
        for one in self.last.kernels:
            if not self._taken_over:  # a page that asks early: they are not there yet
                break
            if one.state in ("waiting", "failed") and one.kernel not in self._ctx.kernels:
                one.state, one.why = "lost", "it was shut down; its checkpoint is in the list"
        return self.last.to_json()

    def resumed(self, kernel: str) -> None:
        """A kernel that waited was resumed by the user."""
        if self.last is not None and any(
            one.kernel == kernel and one.state in ("waiting", "failed") for one in self.last.kernels
        ):
            self._set(kernel, "recovered")

    def close(self) -> None:
        """This process ends."""
        if self._lock is not None:
            (self._ctx.store.root / LIVES / life()).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _close(self, found: Recovery) -> None:
        outcome = "declined" if self._way == "never" else found.provenance
        evidence = {"way": found.way, "kernels": [dict(vars(one)) for one in found.kernels]}
        try:
            self._pauses.close(found.pause, outcome, message=found.sentence(), evidence=evidence)
        except GkewsError as error:  # found again at the next start: the kernels are there then
            self._ctx.log.warning("The pause stays open in the journal: %s", error)

    def _set(self, kernel: str, state: str, why: str = "") -> None:
        assert self.last is not None
        for one in self.last.kernels:
            if one.kernel == kernel:
                one.state, one.why = state, why
        self._tell()


def _drop(records: PausedRecords, record: PausedRecord) -> None:
    """Remove what `_write` wrote, if it still is that and no other server has it."""
    if records.claim(record.kernel):
        if records.get(record.kernel) == record:
            records.remove(record.kernel)
        else:
            records.give_up(record.kernel)


def _kernel_info(environment: dict[str, Any]) -> dict[str, Any]:
    """What a page that reconnects is told before the kernel runs: the journal does not have it, and
    it is the same for every IPython kernel but for the versions. As jupyter_client's messaging
    specification has it."""
    python = str(environment.get("python") or "3")
    return {
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": "ipython",
        "implementation_version": "",
        "language_info": {
            "name": "python",
            "version": python,
            "mimetype": "text/x-python",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "pygments_lexer": "ipython3",
            "nbconvert_exporter": "python",
            "file_extension": ".py",
        },
        "banner": f"Python {python}",
        "help_links": [],
    }


__all__ = ["LIVES", "WAYS", "Found", "Recoveries", "Recovery"]
