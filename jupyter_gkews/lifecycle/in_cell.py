"""A pause in the middle of a running cell (`when: now`): the process snapshot alone.

A variable that a cell is changing cannot be written as the cell will leave it, so no checkpoint is
taken here; the user is told of which state the last one is. Never begins without a preflight.
"""

from __future__ import annotations

import asyncio

from ..errors import GkewsError
from . import snapshotting
from .context import Context
from .operations import utcnow
from .records import PausedRecord
from .requests import PauseRequest
from .run import Run
from .subject import Subject


def possible(ctx: Context, on: Subject, request: PauseRequest) -> bool:
    """Whether this request may freeze a kernel whose cell runs."""
    wanted = request.when == "now" and request.snapshot is not False
    return wanted and snapshotting.engine_of(ctx, on) is not None


async def pause(ctx: Context, on: Subject, run: Run) -> None:
    """Freeze the kernel as it is; the cell goes on after the resume.

    Raises snapshot_failed: the kernel runs on, unless the message says that it ended.
    """
    entry, process = on.entry, on.process
    engine = snapshotting.engine_of(ctx, on)
    assert engine is not None
    process.hold()  # what is sent meanwhile waits, as for any pause
    try:
        run.enter("snapshotting")
        inside = await snapshotting.must_be_possible(ctx, on, run, engine)
        older = await _older(ctx, on)
        record = PausedRecord(
            kernel=entry.id,
            kernel_name=ctx.kernels.facts(entry.id).name,
            checkpoint=entry.checkpoint,
            since=utcnow(),
            notebook=ctx.kernels.facts(entry.id).notebook,
            engine=process.engine,
            in_cell=True,
            auto_resume=process.auto_resume,
            kernel_info=process.kernel_info,
        )
        held = await process.held_memory()
        run.check()
        # before the image: a server that dies meanwhile leaves a record by which the next one
        # finds the image, if it is whole
        await asyncio.to_thread(ctx.records.write, record)
        try:
            snapshot = await engine.snapshot(
                entry.id, entry.checkpoint or "", run.operation.id, inside
            )
        except BaseException as error:
            await _failed(ctx, on, error)
            raise
    finally:
        process.release()  # nothing, if it is paused now
    try:
        await asyncio.to_thread(ctx.records.update, entry.id, snapshot=snapshot.id)
    except GkewsError as error:  # the next server finds the image all the same (adoption)
        ctx.log.warning("The snapshot of kernel %s is not in its record: %s", entry.id, error)
    entry.snapshot = run.result.snapshot = snapshot.id
    entry.in_cell = True
    entry.paused_before = True
    entry.notebook = record.notebook
    run.result.released = {"ram": held.ram, "vram": held.vram}
    run.result.note = f"A cell was running; it goes on when the kernel is resumed. {older}"
    entry.enter("paused", record.since)


async def _older(ctx: Context, on: Subject) -> str:
    """Of which state there is a checkpoint, as a sentence."""
    if on.entry.checkpoint is None:
        return "There is no portable checkpoint of this kernel: the snapshot is all there is."
    created = await snapshotting.created_at(ctx, on.entry.checkpoint)
    return (
        "There is no portable checkpoint of this state: the last one "
        f"({on.entry.checkpoint}) is from {created}."
    )


async def _failed(ctx: Context, on: Subject, error: BaseException) -> None:
    """No image. Raises what came of it where the process has ended; else the kernel runs on."""
    entry, process = on.entry, on.process
    if process.phase != "paused":
        await asyncio.to_thread(ctx.records.remove, entry.id)
        return
    said = error.message if isinstance(error, GkewsError) else f"{error}."
    entry.paused_before = True
    if entry.checkpoint is None:
        await asyncio.to_thread(ctx.records.remove, entry.id)
        process.end_pause()  # the server starts it again, empty
        raise GkewsError(
            "snapshot_failed",
            f"No snapshot was taken, and the process ended with the try: {said}",
            "There is no checkpoint of it: run the cells of the notebook again.",
        ) from error
    created = await snapshotting.created_at(ctx, entry.checkpoint)
    raise GkewsError(
        "snapshot_failed",
        f"No snapshot was taken, and the process ended with the try: {said}",
        f"Resume the kernel from its last checkpoint, which is from {created}.",
    ) from error
