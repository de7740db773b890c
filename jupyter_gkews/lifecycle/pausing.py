"""How a kernel is paused, and how a checkpoint is written of one that goes on.

Stops no process before its checkpoint and the record of it are durable; whatever fails before
that leaves the kernel running, with everything that was held let go.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from datetime import datetime, timezone
from typing import Any

from ..errors import GkewsError
from ..kernel.protocol import CheckpointOrder
from . import in_cell, snapshotting
from .context import Context
from .interfaces import Stopped
from .operations import utcnow
from .records import PausedRecord
from .requests import PauseRequest
from .run import Run
from .subject import Subject, while_alive

#: How long the control channel may take to let a held kernel go (seconds).
RELEASE_TIMEOUT_S = 5.0

#: Seconds in which the end of a cell, which a browser has heard of, reaches the server's own ear.
END_OF_A_CELL_S = 0.5


def new_checkpoint_id() -> str:
    """An id that sorts by time and is nobody else's."""
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def busy(message: str) -> GkewsError:
    """`kernel_busy` with what can be done."""
    return GkewsError(
        "kernel_busy",
        message,
        "The kernel runs on untouched. Wait for the cell, or ask for when: idle or interrupt.",
    )


async def wait_for_idle(
    ctx: Context, on: Subject, run: Run, request: PauseRequest, *, then_hold: bool = False
) -> None:
    """Return once no cell runs or waits; `then_hold` keeps the next one from beginning."""
    if request.when == "interrupt" and not on.talk.is_idle():
        await ctx.kernels.interrupt(on.entry.id)
    timeout_s = END_OF_A_CELL_S if request.when == "now" else request.timeout_s
    await while_alive(run, on.talk.wait_idle(timeout_s, then_hold=then_hold))
    run.check()


async def write_checkpoint(
    ctx: Context, on: Subject, run: Run, request: PauseRequest, *, hold: bool
) -> dict[str, Any]:
    """Let the kernel write a checkpoint; its summary. With `hold` no cell runs afterwards."""
    run.enter("checkpointing")
    order = CheckpointOrder(
        operation=run.operation.id,
        checkpoint=new_checkpoint_id(),
        name=request.name,
        notebook=ctx.kernels.facts(on.entry.id).notebook,
        hold=hold,
        prove=request.prove or ctx.settings.prove,
        compress=request.compress or ctx.settings.compress,
        background=not hold and ctx.settings.checkpoint_in_background,
    )

    def captured(_: dict[str, Any]) -> None:
        run.in_background = True
        run.tell(now=True)

    work = on.talk.checkpoint(order, run.progress, captured)
    return await _written(on, run, work)


async def _written(on: Subject, run: Run, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Wait for a checkpoint that the kernel writes, and note what came of it."""

    async def cancel() -> None:
        reason = run.stop_reason
        if reason is not None and reason.reason == "cancelled":
            await on.talk.cancel(run.operation.id)

    summary = await while_alive(run, work, on_stop=cancel)
    result, counts = run.result, summary.get("counts") or {}
    result.checkpoint = summary["id"]
    result.kept = int(counts.get("kept", 0))
    result.rebuilt = int(counts.get("rebuilt", 0))
    result.rebuilt_details = list(summary.get("rebuilt") or [])
    result.lost = list(summary.get("lost") or [])
    result.proved = summary.get("proved")
    result.compressed = summary.get("compressed")
    result.bytes_written = int((summary.get("bytes") or {}).get("written", 0))
    result.bytes_referenced = int((summary.get("bytes") or {}).get("referenced", 0))
    if run.operation.kind == "checkpoint":
        result.blocked_s, result.note = summary.get("blocked_s"), summary.get("note")
    run.check()
    return summary


async def follow(ctx: Context, on: Subject, run: Run) -> None:
    """Wait for a checkpoint that a cell (%checkpoint) has begun."""
    run.in_background = True
    run.enter("checkpointing")
    summary = await _written(on, run, on.talk.checkpointed(run.operation.id, run.progress))
    _note_checkpoint(on, summary)


def _note_checkpoint(on: Subject, summary: dict[str, Any]) -> None:
    if on.entry.state != "paused":  # a pause beside it has a newer one
        on.entry.checkpoint = summary["id"]


async def checkpoint(ctx: Context, on: Subject, run: Run, request: PauseRequest) -> None:
    """Write a checkpoint of a kernel that goes on afterwards."""
    await wait_for_idle(ctx, on, run, request)
    summary = await write_checkpoint(ctx, on, run, request, hold=False)
    _note_checkpoint(on, summary)


async def pause(ctx: Context, on: Subject, run: Run, request: PauseRequest) -> None:
    """Write a checkpoint and stop the process; the kernel stays, paused."""
    entry, process = on.entry, on.process
    entry.enter("pausing")
    try:
        try:
            await wait_for_idle(ctx, on, run, request, then_hold=True)
        except GkewsError as error:
            if error.reason == "kernel_busy" and in_cell.possible(ctx, on, request):
                await in_cell.pause(ctx, on, run)
                return
            raise
        summary = await write_checkpoint(ctx, on, run, request, hold=True)
        run.enter("releasing")
        record = PausedRecord(
            kernel=entry.id,
            kernel_name=ctx.kernels.facts(entry.id).name,
            checkpoint=summary["id"],
            since=utcnow(),
            notebook=ctx.kernels.facts(entry.id).notebook,
            engine=process.engine,
            auto_resume=process.auto_resume,
            kernel_info=process.kernel_info,
        )
        await asyncio.to_thread(ctx.records.write, record)
        try:
            run.check()
            snapshot, stopped = await _freeze_or_stop(ctx, on, run, request, summary["id"])
        except BaseException:
            if process.phase != "paused":
                await asyncio.to_thread(ctx.records.remove, entry.id)
            raise
    except BaseException:
        if process.phase == "held":
            await let_go(ctx, on, run)
        raise
    if snapshot is not None:
        try:
            await asyncio.to_thread(ctx.records.update, entry.id, snapshot=snapshot)
        except GkewsError as error:
            # the record without it is good as well: another server resumes from the checkpoint
            ctx.log.warning("The snapshot of kernel %s is not in its record: %s", entry.id, error)
    entry.snapshot = run.result.snapshot = snapshot
    entry.in_cell = entry.earlier = False
    run.result.released = {"ram": stopped.ram, "vram": stopped.vram}
    entry.checkpoint = summary["id"]
    entry.paused_before = True
    entry.notebook = record.notebook
    entry.enter("paused", record.since)


async def _freeze_or_stop(
    ctx: Context, on: Subject, run: Run, request: PauseRequest, checkpoint: str
) -> tuple[str | None, Stopped]:
    """Freeze the process if an engine can, else stop it; the snapshot's id, what was released."""
    engine = snapshotting.engine_of(ctx, on) if request.snapshot is not False else None
    if engine is None:
        return None, await on.process.stop_for_pause()
    held = await on.process.held_memory()
    demanded = request.snapshot is True
    snapshot = await snapshotting.take(ctx, on, run, engine, checkpoint, demanded=demanded)
    if snapshot is not None:
        return snapshot.id, held
    run.enter("releasing")
    if on.process.phase == "paused":  # the try has ended it: nothing is left to be stopped
        return None, held
    return None, await on.process.stop_for_pause()


async def let_go(ctx: Context, on: Subject, run: Run) -> None:
    """Undo the holding of a kernel that stays running: first the kernel, then the websockets."""
    reason = run.stop_reason
    if reason is None or reason.reason == "cancelled":
        try:
            await asyncio.wait_for(on.talk.release(run.operation.id), RELEASE_TIMEOUT_S)
        except Exception as error:
            ctx.log.warning("Kernel %s did not answer to being let go: %r", on.entry.id, error)
    on.process.release()
