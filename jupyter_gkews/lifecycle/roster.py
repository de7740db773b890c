"""The kernels of this server and what happens to them without being asked for here: starts,
deaths, restarts, ends, magics. Starts no operation itself: it calls what `Lifecycle` gave it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ..errors import GkewsError
from ..kernel.protocol import EVENT_CHECKPOINTED, EVENT_CHECKPOINTING, EVENT_PAUSE_REQUESTED
from .context import Context
from .operations import Operation
from .records import PausedRecord
from .requests import (
    PauseRequest,
    WorkspacePauseRequest,
    checked_compress,
    checked_name,
    checked_prove,
)
from .state import KernelEntry, died
from .subject import Subject


class Roster:
    """One KernelEntry a kernel, kept true by the callbacks of its process."""

    def __init__(
        self,
        ctx: Context,
        *,
        pause: Callable[[str, PauseRequest], object],
        resume: Callable[[str], object],
        follow: Callable[[str, str], object],
        pause_workspace: Callable[[WorkspacePauseRequest], Coroutine[Any, Any, object]],
    ) -> None:
        self._ctx = ctx
        self._pause_workspace = pause_workspace
        self._pause, self._resume, self._follow = pause, resume, follow
        self._entries: dict[str, KernelEntry] = {}
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- what is there ---------------------------------------------------------------------

    def entry(self, kernel_id: str) -> KernelEntry:
        """The entry of a kernel; raises `kernel_not_found`."""
        if kernel_id not in self._ctx.kernels:
            raise GkewsError(
                "kernel_not_found",
                f"There is no kernel {kernel_id!r} on this server.",
                "If it was paused, its checkpoint is in the list of checkpoints.",
            )
        if kernel_id not in self._entries:  # started past our hook
            self.attach(kernel_id)
        return self._entries[kernel_id]

    def subject(self, kernel_id: str) -> Subject:
        """A kernel that can be worked on; raises `kernel_not_found`, `not_pausable`."""
        entry = self.entry(kernel_id)
        process = self._ctx.kernels.process(kernel_id)
        if process is None or entry.talk is None:
            raise _foreign()
        return Subject(entry, process, entry.talk)

    def find(self, kernel_id: str) -> KernelEntry | None:
        """The entry of a kernel that is listed; None for any other."""
        return self._entries.get(kernel_id)

    def all(self) -> list[KernelEntry]:
        """The entries of all kernels that we listen to."""
        return list(self._entries.values())

    def describe(self, kernel_id: str) -> dict[str, Any]:
        """One of `status`'s kernels; asks the kernel nothing. Raises `kernel_not_found`."""
        entry = self.entry(kernel_id)
        process = self._ctx.kernels.process(kernel_id)
        if process is None:
            why: GkewsError | None = _foreign()
        elif entry.state in ("paused", "resuming"):
            why = None
        else:
            why = process.why_not_pausable()
        facts = self._ctx.kernels.facts(kernel_id)
        self._follow_rename(entry, facts.notebook)
        return entry.to_json(
            facts, why_not=why, auto_resume=process.auto_resume if process else False
        )

    def tell(self, entry: KernelEntry, operation: Operation | None = None) -> None:
        """Send the state of a kernel to the event bus."""
        running = entry.run.operation if entry.run else None
        self._ctx.announcer.kernel(entry, operation or running, action="state")

    # -- kernels come and go ---------------------------------------------------------------

    def attach(self, kernel_id: str) -> None:
        """A kernel was started or taken over: listen to it."""
        if kernel_id in self._entries:
            return
        entry = self._entries[kernel_id] = KernelEntry(kernel_id)
        process = self._ctx.kernels.process(kernel_id)
        if process is None:
            return
        entry.state = "paused" if process.phase == "paused" else "running"
        entry.engine = process.engine
        process.auto_resume = self._ctx.settings.auto_resume
        process.on_run_requested = partial(self._run_requested, entry)
        process.on_pause_ended = partial(self._pause_ended, entry)
        process.on_died = partial(self._died, entry)
        process.on_launched = partial(self._launched, entry)
        entry.talk = self._ctx.kernels.talk(kernel_id)
        entry.talk.subscribe(partial(self._said, entry))
        self.tell(entry)
        self._background(self._tell_when_ready(entry))

    def take_over(self, record: PausedRecord) -> None:
        """A paused kernel of a dead server is ours now."""
        self.attach(record.kernel)
        on = self.subject(record.kernel)
        on.process.auto_resume = record.auto_resume
        entry = on.entry
        entry.checkpoint, entry.since = record.checkpoint, record.since
        entry.notebook, entry.snapshot = record.notebook, record.snapshot
        entry.in_cell, entry.earlier = record.in_cell, record.earlier
        entry.paused_before = True
        self.tell(entry)

    def detach(self, kernel_id: str) -> None:
        """A kernel is listed no more."""
        entry = self._entries.pop(kernel_id, None)
        if entry is None:
            return
        for run in entry.runs():
            run.stop(
                GkewsError(
                    "kernel_died",
                    "The kernel was shut down or died meanwhile.",
                    "Checkpoints that were complete are kept.",
                )
            )
        if entry.talk is not None:
            entry.talk.close()
        self.tell(entry)

    async def close(self) -> None:
        """The server stops: what happens to kernels from now on is not the user's doing."""
        self._closing = True
        for entry in self._entries.values():
            if entry.id in self._ctx.kernels:
                self._follow_rename(entry, self._ctx.kernels.facts(entry.id).notebook)
            if entry.talk is not None:
                entry.talk.close()
                entry.talk = None
        waiting = (each for entry in self._entries.values() for each in entry.after_cell)
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*self._tasks)

    # -- callbacks of the process and the kernel -------------------------------------------

    def _run_requested(self, entry: KernelEntry) -> None:
        """A cell was run in a paused notebook."""
        try:
            self._resume(entry.id)
        except GkewsError as error:
            self._ctx.log.warning("Kernel %s is not resumed for a cell: %s", entry.id, error)

    def _pause_ended(self, entry: KernelEntry, kind: str) -> None:
        """The paused kernel was restarted or shut down: its record goes, its checkpoint stays."""
        if self._closing:
            return
        done = "restarted" if kind == "restart" else "shut down"
        if entry.run is not None:
            entry.run.stop(
                GkewsError(
                    "cancelled",
                    f"The kernel was {done} meanwhile.",
                    "Its checkpoint is kept and can be restored.",
                )
            )
        self._ctx.records.remove(entry.id)
        snapshot, entry.snapshot, entry.in_cell = entry.snapshot, None, False
        entry.earlier = False
        engine = self._ctx.engines.get(entry.engine or "")
        if snapshot is not None and engine is not None:  # of a life that has ended
            self._background(asyncio.to_thread(engine.delete, snapshot))
        if entry.run is None:
            entry.enter("running")
            entry.last_error = None
        self.tell(entry)

    def _died(self, entry: KernelEntry) -> None:
        entry.paused_before = True  # from here on an empty kernel is not what the user had
        entry.provenance = None  # until another process is there
        for run in entry.runs():
            run.stop(died(run.operation.kind))

    def _launched(self, entry: KernelEntry) -> None:
        """A process was started; unless by a resume, it is empty."""
        process = self._ctx.kernels.process(entry.id)
        if process is not None and process.phase in ("resuming", "paused"):
            entry.left_behind = None
            return
        entry.survives, entry.left_behind = None, entry.checkpoint
        if entry.paused_before:
            entry.provenance = "fresh"
        if entry.run is None:
            entry.enter("running")
            if entry.last_error is not None and entry.last_error.reason != "kernel_died":
                entry.last_error = None  # it was said of the process before
        self.tell(entry)
        self._background(self._tell_when_ready(entry))

    async def _tell_when_ready(self, entry: KernelEntry) -> None:
        """Tell once the kernel has said hello (or will not): only then it can be paused."""
        pause = 0.05
        while not self._closing and entry.id in self._ctx.kernels:
            process = self._ctx.kernels.process(entry.id)
            why = process.why_not_pausable() if process is not None else None
            if why is None or why.reason != "kernel_starting":
                self.tell(entry)
                return
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def _said(self, entry: KernelEntry, event: dict[str, Any]) -> None:
        """An event from the kernel: a magic was used."""
        if event.get("event") == EVENT_PAUSE_REQUESTED:
            timeout_s = self._ctx.settings.idle_timeout_s
            try:
                name = checked_name(event.get("name"))
                prove = checked_prove(event.get("prove"))
                compress = checked_compress(event.get("compress"))
                request = PauseRequest(
                    name=name, timeout_s=timeout_s, prove=prove, compress=compress
                )
                if event.get("workspace") is True:
                    self._background(self._pause_all(entry, request))
                else:
                    self._pause(entry.id, request)
            except GkewsError as error:
                self._refused(entry, error)
        elif event.get("event") == EVENT_CHECKPOINTING:
            self._follow(entry.id, str(event.get("operation")))
        elif event.get("event") == EVENT_CHECKPOINTED:
            summary = event.get("checkpoint") or {}
            entry.checkpoint = summary.get("id", entry.checkpoint)
            self._ctx.announcer.checkpoints(entry.id, entry.checkpoint)

    async def _pause_all(self, entry: KernelEntry, request: PauseRequest) -> None:
        try:
            await self._pause_workspace(WorkspacePauseRequest(request))
        except GkewsError as error:
            self._refused(entry, error)

    def _refused(self, entry: KernelEntry, error: GkewsError) -> None:
        self._ctx.log.warning("Kernel %s asked for a pause: %s", entry.id, error)
        entry.last_error = error  # shown with the kernel's state: the cell has ended
        self.tell(entry)

    def _follow_rename(self, entry: KernelEntry, notebook: str | None) -> None:
        """Note the notebook's new path in the record of a paused kernel."""
        if entry.state != "paused" or entry.run is not None or not notebook:
            return
        if entry.notebook is not None and entry.notebook != notebook:
            self._background(self._note_path(entry, notebook))
        entry.notebook = notebook

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note_path(self, entry: KernelEntry, notebook: str) -> None:
        try:
            await asyncio.to_thread(self._ctx.records.update, entry.id, notebook=notebook)
        except GkewsError as error:
            self._ctx.log.warning("The new path of %s was not kept: %s", entry.id, error)


def _foreign() -> GkewsError:
    return GkewsError(
        "not_pausable",
        "This kernel is not run by the provisioner of jupyter-gkews "
        "(its kernelspec names another one, or a gateway runs it).",
        "It goes on running.",
    )
