"""A checkpoint restored into a kernel of this server, or into a new one: whether it may, and begun.

How a load goes is in resuming.py. A new kernel that could not load is taken away again.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from functools import partial
from typing import Any

from ..errors import GkewsError
from . import pausing, resuming
from .context import Context
from .driving import AS_IT_WAS, Driver
from .operations import Operation
from .roster import Roster
from .run import Run, as_typed
from .shelf import CheckpointShelf
from .subject import Subject


class Restores:
    """Of one server."""

    def __init__(
        self, ctx: Context, roster: Roster, shelf: CheckpointShelf, driver: Driver
    ) -> None:
        self._ctx, self._roster, self._shelf, self._driver = ctx, roster, shelf, driver
        self._new_kernels: dict[str, Run] = {}  # by checkpoint: restores into a new kernel

    async def restore(
        self, checkpoint: str, kernel_id: str | None, *, accept_missing: bool = False
    ) -> Operation:
        """Load a checkpoint into a kernel of this server, or into a new one."""
        summary = await asyncio.to_thread(self._shelf.get, checkpoint)
        if summary.get("error"):
            raise GkewsError.from_json(summary["error"])
        if kernel_id is None:
            return self._start_new(checkpoint, summary, accept_missing)
        on = self._roster.subject(kernel_id)
        if on.entry.state == "running" and not on.talk.is_idle():
            with contextlib.suppress(GkewsError):  # it is looked at again below
                await on.talk.wait_idle(pausing.END_OF_A_CELL_S)
        if (run := self._driver.running(on, "restore", loads=checkpoint)) is not None:
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
        return self._driver.start(
            on,
            "restore",
            partial(self._into, checkpoint, accept_missing),
            phase="restoring" if on.entry.state == "paused" else None,
            loads=checkpoint,
        )

    async def _into(self, checkpoint: str, accept_missing: bool, on: Subject, run: Run) -> None:
        await resuming.restore(self._ctx, on, run, checkpoint, accept_missing=accept_missing)

    def _start_new(
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
        run = Run(operation, self._driver.news, loads=checkpoint)
        self._new_kernels[checkpoint] = run
        self._driver.book.add(run)
        notebook = summary.get("notebook")
        path = kernels.api_path(notebook) if notebook else None
        run.task = self._driver.keep(self._drive_new(run, checkpoint, name, path, accept_missing))
        return run.operation

    async def _drive_new(
        self, run: Run, checkpoint: str, name: str, path: str | None, accept_missing: bool
    ) -> None:
        kernel_id = run.operation.kernel
        try:
            await self._ctx.kernels.start_paused(kernel_id, name, path, None)
            self._roster.attach(kernel_id)
            on = self._roster.subject(kernel_id)
            on.entry.run = run
        except Exception as error:
            self._ctx.log.exception("A kernel for checkpoint %s could not be started", checkpoint)
            run.finish(as_typed(error, AS_IT_WAS))
            return
        procedure = partial(self._into_new, checkpoint, path, accept_missing)
        await self._driver.drive(on, run, procedure)
        if run.operation.error is not None and self._roster.find(kernel_id) is not None:
            await self._ctx.kernels.discard(kernel_id)

    async def _into_new(
        self, checkpoint: str, path: str | None, accept_missing: bool, on: Subject, run: Run
    ) -> None:
        await resuming.restore_new(
            self._ctx, on, run, checkpoint, path, accept_missing=accept_missing
        )
