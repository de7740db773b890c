"""The kernels of a workspace that is paused: each writes its checkpoint and is held, so that what
is frozen with the pod is what the checkpoint has.

Pauses no kernel and asks no cluster. A kernel that cannot is told of; the others are not hindered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from ..errors import GkewsError
from . import pausing
from .context import Context
from .operations import Operation
from .requests import PauseRequest
from .roster import Roster
from .run import Run
from .state import HELD
from .subject import Subject, while_alive
from .workspace_operation import KernelRow

#: Checkpoints written at the same time.
AT_ONCE = 2


class Held:
    """What the kernels of one pause share. None is held before all have come to rest: a cell that
    runs for hours must not block the other notebooks meanwhile."""

    def __init__(self, kernels: Iterable[str], until: asyncio.Event) -> None:
        self.until = until
        """They are let go."""
        self.turn = asyncio.Semaphore(AT_ONCE)
        self.at_rest = asyncio.Event()
        self._working = set(kernels)

    def rests(self, kernel: str) -> None:
        """It is idle, or will not take part."""
        self._working.discard(kernel)
        if not self._working:
            self.at_rest.set()


class StartsHeld(Protocol):
    """The lifecycle's own way to begin it (`Lifecycle.checkpoint_and_hold`)."""

    def __call__(
        self, kernel_id: str, request: PauseRequest, held: Held, written: Callable[[str], None]
    ) -> Run:
        """The run that has begun; `written` is told the checkpoint. Raises GkewsError."""


async def checkpoint_and_hold(
    ctx: Context, on: Subject, run: Run, request: PauseRequest, held: Held,
    written: Callable[[str], None],
) -> None:  # fmt: skip
    """Write a checkpoint of an idle kernel, tell its id, and let no cell run until `held.until`."""
    try:
        await pausing.wait_for_idle(ctx, on, run, request)
        held.rests(on.entry.id)
        await while_alive(run, held.at_rest.wait())
        again = request if request.when == "now" else replace(request, when="idle")
        await pausing.wait_for_idle(ctx, on, run, again, then_hold=True)
        async with held.turn:
            run.check()
            summary = await pausing.write_checkpoint(ctx, on, run, request, hold=True)
        on.entry.checkpoint = summary["id"]
        ctx.announcer.checkpoints(on.entry.id, summary["id"])
        written(summary["id"])
        run.operation.step = HELD
        run.tell(now=True)
        await while_alive(run, held.until.wait())
    finally:
        held.rests(on.entry.id)
        if on.process.phase == "held":
            await pausing.let_go(ctx, on, run)


def rows_of(ctx: Context, roster: Roster) -> list[KernelRow]:
    """Every kernel of this server."""
    rows = []
    for kernel_id in ctx.kernels.ids():
        facts, entry = ctx.kernels.facts(kernel_id), roster.entry(kernel_id)
        row = KernelRow(kernel_id, facts.name, facts.path, facts.notebook)
        if entry.state == "paused" and entry.run is None:
            row.state, row.checkpoint = "paused", entry.checkpoint
        rows.append(row)
    return rows


async def save_all(
    rows: list[KernelRow], roster: Roster, start: StartsHeld, request: PauseRequest, held: Held,
    runs: list[Run], changed: Callable[[], None],
) -> None:  # fmt: skip
    """Have every running kernel write its checkpoint; the rows say what came of it. `runs`: is
    filled with what was begun, which goes on until `held.until`."""

    async def save(row: KernelRow) -> None:
        try:
            await _save(row, roster, start, request, held, runs, changed)
        except GkewsError as error:
            row.refuse(error)
        finally:
            held.rests(row.kernel)
        changed()

    await asyncio.gather(*(save(row) for row in rows if row.state != "paused"))


async def _save(
    row: KernelRow, roster: Roster, start: StartsHeld, request: PauseRequest, held: Held,
    runs: list[Run], changed: Callable[[], None],
) -> None:  # fmt: skip
    before = roster.entry(row.kernel).run
    if before is not None and not before.in_background:
        try:
            await asyncio.wait_for(before.finished.wait(), request.timeout_s)
        except asyncio.TimeoutError:
            raise GkewsError(
                "operation_running",
                f"A {before.operation.kind} of this kernel is still running.",
                "Wait until it has ended, or cancel it first.",
            ) from None
        entry = roster.entry(row.kernel)
        if entry.state == "paused":
            row.state, row.checkpoint = "paused", entry.checkpoint
            return
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def written(checkpoint: str) -> None:
        if not done.done():
            done.set_result(checkpoint)

    run = start(row.kernel, request, held, written)
    runs.append(run)
    row.state, row.operation = "checkpointing", run.operation
    changed()
    over = asyncio.ensure_future(run.finished.wait())
    try:
        await asyncio.wait((done, over), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise _why(run.operation)
        row.state, row.checkpoint = "written", done.result()
    finally:
        over.cancel()


def _why(operation: Operation) -> GkewsError:
    return operation.error or GkewsError(
        "checkpoint_failed", "It ended without a checkpoint.", "The kernel goes on."
    )
