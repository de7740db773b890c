"""The checkpoints that one kernel takes: one at a time, and the user goes on working meanwhile.

Where that is not safe, or went wrong, the kernel waits for it, and the summary says for how long
and why. Knows the shell only through the session that owns it.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ..errors import GkewsError
from .protocol import EVENT_CHECKPOINTED, EVENT_CHECKPOINTING, checkpointed_file, write_json

if TYPE_CHECKING:
    from .checkpoint.background import SaveAgainError
    from .checkpoint.early_hashes import EarlyHashes
    from .checkpoint.placeholders import Loss
    from .checkpoint.writing import Placed
    from .session import KernelSession

#: Seconds between two looks at what a wait is for.
_LOOK_S = 0.05
_AS_IT_WAS = "The kernel and its variables are as they were."


@dataclass
class Wanted:
    """A checkpoint that somebody asked for. `operation`: by which progress and cancel find it."""

    operation: str
    checkpoint: str
    name: str | None = None
    notebook: str | None = None
    prove: str | None = None  # as in `save`; None as the server is configured
    compress: str | None = None  # the same
    by_cell: bool = False  # asked for by %checkpoint: the server hears of it by events

    began: str = field(default_factory=lambda: _now())
    on_end: Callable[[dict[str, Any]], None] | None = None
    """Called with the outcome of one that was captured, on a thread of its own."""


@dataclass
class Captured:
    """The state is captured, the bytes are being written."""

    blocked_s: float  # how long the kernel was blocked
    fork_s: float  # of which the fork itself took
    at: str


class Saves:
    """What `KernelSession` saves, and the one save that goes on in the background."""

    def __init__(self, session: KernelSession) -> None:
        self._session = session
        self.last: dict[str, Any] | None = None
        """Summary of the last checkpoint of this launch."""
        self.running: Wanted | None = None
        """The checkpoint that is being written while the user goes on."""
        self._thread: threading.Thread | None = None
        self._again: _OnMainThread | None = None

    # -- on the main thread -----------------------------------------------------------------

    def take(
        self,
        wanted: Wanted,
        note: str | None = None,
        refused: Mapping[str, Loss] | None = None,
        placed: list[Placed] | None = None,
    ) -> dict[str, Any]:
        """Save while the kernel waits, after the one that is being written; returns its summary.

        `note`: why it waits, for the user. `placed` as in `save`. Raises GkewsError.
        """
        from .checkpoint.save import save

        self.wait(wanted.operation)
        started = time.monotonic()
        summary = save(
            store=self._store(),
            **self._subject(wanted),
            progress=partial(self._session.tell_progress, wanted.operation),
            cancelled=self._session.is_cancelled(wanted.operation),
            **self._settings(wanted),
            refused=refused,
            placed=placed if self._session.launch.in_place else None,
        )
        return self._done(summary, time.monotonic() - started, note)

    def begin(self, wanted: Wanted) -> Captured | dict[str, Any]:
        """Save while the user goes on; the summary where the kernel had to wait for it after all.

        Raises operation_running if one is being written; GkewsError.
        """
        if self.running is not None:
            raise GkewsError(
                "operation_running",
                f"A checkpoint of this kernel, captured at {_clock(self.running.began)}, is still "
                "being written.",
                "Wait until it is written, or cancel it; `%checkpoint --wait` waits for it first.",
            )
        if not self._session.launch.background:
            why = "GkewsApp.checkpoint_in_background is off"
            return self.take(wanted, f"The kernel waited for it because {why}.")
        started = time.monotonic()
        from .checkpoint.early_hashes import EarlyHashes

        with EarlyHashes() as early:
            if self._session.launch.reference_files:
                early.begin(Path(self._session.launch.store))
            return self._begin(wanted, early, started)

    def _begin(
        self, wanted: Wanted, early: EarlyHashes, started: float
    ) -> Captured | dict[str, Any]:
        # Only now: the first time, these imports take as long as many hashes do.
        from .checkpoint.background import BackgroundSave, NotInBackgroundError
        from .checkpoint.preparing import Subject

        saving = BackgroundSave(
            Subject(**self._subject(wanted)),
            self._store(),
            progress=partial(self._session.tell_progress, wanted.operation),
            cancelled=self._session.is_cancelled(wanted.operation),
            **self._settings(wanted),
            early=early,
        )
        try:
            saving.capture()
        except NotInBackgroundError as why_not:
            early.end()
            return self.take(wanted, f"The kernel waited for it because {why_not}.")
        try:
            return self._go_on(saving, wanted, started)
        except BaseException:
            self.running = None
            saving.give_up()
            raise

    def _go_on(self, saving: Any, wanted: Wanted, started: float) -> Captured:
        """The rest is for a thread of its own."""
        captured = Captured(time.monotonic() - started, saving.fork_s, wanted.began)
        self.running = wanted
        parent = self._session.kernel.get_parent("shell")
        if wanted.by_cell:
            self._tell(
                parent,
                {
                    "event": EVENT_CHECKPOINTING,
                    "operation": wanted.operation,
                    "checkpoint": wanted.checkpoint,
                },
            )
        self._thread = threading.Thread(
            target=self._finish,
            args=(saving, wanted, captured, parent),
            name="gkews-checkpoint",
            daemon=True,
        )
        self._thread.start()
        return captured

    def wait(self, operation: str) -> None:
        """Until no checkpoint is being written. Raises `cancelled` if `operation` is."""
        cancelled = self._session.is_cancelled(operation)
        while (thread := self._thread) is not None and thread.is_alive():
            if cancelled():
                raise GkewsError("cancelled", "The checkpoint was cancelled.", _AS_IT_WAS)
            if self._again is not None:
                self._again.run()  # it waits for this very thread
            thread.join(_LOOK_S)

    # -- on its own thread ------------------------------------------------------------------

    def _finish(self, saving: Any, wanted: Wanted, captured: Captured, parent: Any) -> None:
        try:
            outcome = {"status": "ok", "checkpoint": self._finished(saving, wanted, captured)}
        except GkewsError as error:
            outcome = {"status": "error", **error.to_json()}
        except BaseException as error:  # the user waits for a word of it
            message = "".join(traceback.format_exception_only(type(error), error)).strip()
            internal = GkewsError("internal", message, _AS_IT_WAS)
            outcome = {"status": "error", **internal.to_json()}
        outcome["operation"] = wanted.operation
        self._session.forget_cancelled(wanted.operation)
        self.running = None
        try:
            write_json(self._session.run_dir / checkpointed_file(wanted.operation), outcome)
        except OSError as error:  # a full disk: the event says it
            outcome.setdefault("note", str(error))
        if wanted.by_cell and outcome["status"] == "ok":
            self._tell(parent, {"event": EVENT_CHECKPOINTED, "checkpoint": outcome["checkpoint"]})
        try:
            if wanted.on_end is not None:
                wanted.on_end(outcome)
        finally:
            saving.give_up()  # only now: its image takes a while to be gone

    def _finished(self, saving: Any, wanted: Wanted, captured: Captured) -> dict[str, Any]:
        from .checkpoint.background import SaveAgainError

        try:
            return self._done(saving.finish(wait=False), captured.blocked_s, None)
        except SaveAgainError as failure:
            told = failure
        again = self._again = _OnMainThread(lambda: self._take_again(wanted, captured, told))
        self._session.kernel.io_loop.add_callback(again.run)
        cancelled = self._session.is_cancelled(wanted.operation)
        try:
            while not again.done.wait(_LOOK_S):
                if cancelled() and again.give_up():
                    raise GkewsError("cancelled", "The checkpoint was cancelled.", _AS_IT_WAS)
        finally:
            self._again = None
        return again.result()

    def _take_again(
        self, wanted: Wanted, captured: Captured, failure: SaveAgainError
    ) -> dict[str, Any]:
        """The checkpoint, of this moment instead of the captured one. On the main thread."""
        from .checkpoint.save import save

        started, now = time.monotonic(), _now()
        summary = save(
            store=self._store(),
            **self._subject(wanted),
            progress=partial(self._session.tell_progress, wanted.operation),
            cancelled=self._session.is_cancelled(wanted.operation),
            **self._settings(wanted),
            refused=failure.refused,
            doubted=failure.doubted,
        )
        note = (
            f"It holds the state of {_clock(now)} instead of {_clock(captured.at)}: it was taken "
            f"again, and the kernel waited for it, because {failure}."
        )
        return self._done(summary, captured.blocked_s + time.monotonic() - started, note)

    # -- parts ------------------------------------------------------------------------------

    def _done(self, summary: dict[str, Any], blocked_s: float, note: str | None) -> dict[str, Any]:
        summary = {**summary, "blocked_s": round(blocked_s, 4), "note": note}
        self.last = summary
        return summary

    def _store(self) -> Any:
        from .checkpoint.store import CheckpointStore

        return CheckpointStore(Path(self._session.launch.store))

    def _settings(self, wanted: Wanted) -> dict[str, Any]:
        """What the server has set for all saves."""
        launch = self._session.launch
        return {
            "prove": wanted.prove or launch.prove,
            "compress": wanted.compress or launch.compress,
            "reference_files": launch.reference_files,
            "in_place": launch.in_place,
        }

    def _subject(self, wanted: Wanted) -> dict[str, Any]:
        return self._session.subject(wanted.checkpoint, wanted.name, wanted.notebook)

    def _tell(self, parent: Any, event: dict[str, Any]) -> None:
        self._session.send_event(event, parent)


class _OnMainThread:
    """Work that the main thread does once, as soon as it is free."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._taken = False
        self._result: dict[str, Any] | BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Do it, unless it was done or given up. On the main thread."""
        if not self._take():
            return
        try:
            self._result = self._work()
        except KeyboardInterrupt:
            self._result = GkewsError("cancelled", "The checkpoint was interrupted.", _AS_IT_WAS)
        except BaseException as error:
            self._result = error
        self.done.set()

    def give_up(self) -> bool:
        """It shall not be done any more; False if it is being done already."""
        return self._take()

    def _take(self) -> bool:
        with self._lock:
            taken, self._taken = self._taken, True
        return not taken

    def result(self) -> dict[str, Any]:
        """What the work returned; raises what it raised."""
        if isinstance(self._result, BaseException):
            raise self._result
        assert self._result is not None
        return self._result


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _clock(moment: str) -> str:
    """The user's clock at an ISO 8601 time: 18:02:31."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).astimezone().strftime("%H:%M:%S")
