"""How a checkpoint comes back: a paused kernel resumed, a checkpoint restored into a kernel.

Deletes no checkpoint and starts no second attempt by itself. A load that fails leaves the kernel
paused with the checkpoint that it had.
"""

from __future__ import annotations

import asyncio

from ..errors import GkewsError
from ..kernel.protocol import Progress, RestoreOrder
from . import on_resume, pausing, snapshotting
from .context import Context
from .requests import PauseRequest, ResumeRequest
from .run import Run, as_typed
from .subject import Subject

#: What the kernel says while it waits for a device (kernel.checkpoint.devices).
WAITING_FOR_GPU = "waiting_for_gpu"


async def load(
    ctx: Context, on: Subject, run: Run, checkpoint: str, how: ResumeRequest | None = None
) -> None:
    """Start the process of a paused kernel, load `checkpoint`, and see that it answers.

    Raises `weights_missing`, before anything is started, where files that it refers to are not as
    they were; with `how.accept_missing` what needs them is lost.
    """
    how = how or ResumeRequest()
    entry, process = on.entry, on.process
    entry.enter("resuming")
    if run.operation.phase != "restoring":
        run.enter("restoring")
    # what cannot be trusted is refused before anything is started
    manifest = await asyncio.to_thread(ctx.store.manifest, checkpoint)
    since = manifest.created
    if checkpoint == entry.checkpoint:
        since = await asyncio.to_thread(on_resume.since, ctx, entry, since)
    if not how.accept_missing:
        await check_files(ctx, run, checkpoint)
    run.check()
    order = RestoreOrder(
        checkpoint=checkpoint,
        operation=run.operation.id,
        on_missing_gpu=how.on_missing_gpu or ctx.settings.on_missing_gpu,
        gpu_wait_s=ctx.settings.gpu_wait_s if how.gpu_wait_s is None else how.gpu_wait_s,
        verify=ctx.settings.verify,
        accept_missing=how.accept_missing,
    )

    def progress(said: Progress) -> None:
        phase = "waiting_for_capacity" if said.step == WAITING_FOR_GPU else "restoring"
        if run.operation.finished is None and run.operation.phase != phase:
            run.enter(phase)
        run.progress(said)

    try:
        await process.start_for_resume(order)
        restored = await run.unless_stopped(on.talk.restored(order, process.launch, progress))
        if restored.status != "ok":
            raise GkewsError.from_json(
                restored.error or {"reason": "restore_failed", "message": "The load failed."}
            )
        run.enter("verifying")
        try:
            for channel in ("control", "shell"):  # the main thread, too, has to go on living
                await run.unless_stopped(
                    on.talk.ping(channel=channel), timeout_s=ctx.settings.answer_timeout_s
                )
        except asyncio.TimeoutError:
            raise GkewsError(
                "kernel_unreachable",
                "The checkpoint was loaded, but the kernel does not answer.",
                "The kernel stays paused and the checkpoint is kept; resume again.",
            ) from None
        await on_resume.after_resume(ctx, on, run, "recovered", since)
        await process.resumed()
    except BaseException as error:
        if process.phase == "resuming":
            await process.resume_failed(as_typed(error, "The checkpoint is kept as it is."))
        raise
    result = run.result
    result.provenance = "recovered"
    result.checkpoint = checkpoint
    result.kept, result.rebuilt = restored.kept, restored.rebuilt
    result.rebuilt_details, result.lost = restored.rebuilt_details, restored.lost
    entry.checkpoint = checkpoint
    entry.provenance = "recovered"
    entry.paused_before = True
    if entry.in_cell and run.operation.kind == "resume":
        result.note = (
            f"This is the state of {await snapshotting.created_at(ctx, checkpoint)}: what ran "
            "later, and the cell that was running at the pause, are not in it."
        )
    elif entry.earlier and run.operation.kind == "resume":
        result.note = (
            f"This is the state of {await snapshotting.created_at(ctx, checkpoint)}, some time "
            "before the pause, which was asked for elsewhere: what ran later is not in it."
        )
    entry.in_cell = entry.earlier = False
    await drop_snapshot(ctx, on)
    entry.enter("running")
    # only now, that the kernel runs again, is the record of the pause not needed any more
    await asyncio.to_thread(ctx.records.remove, entry.id)


async def check_files(ctx: Context, run: Run, checkpoint: str) -> None:
    """Raise `weights_missing` unless the files that the checkpoint refers to are as they were."""
    missing = await asyncio.to_thread(
        ctx.store.missing_files, checkpoint, lambda: run.stop_reason is not None
    )
    run.check()
    if missing is not None:
        raise missing


async def drop_snapshot(ctx: Context, on: Subject) -> None:
    """The kernel lives on from a checkpoint: its image is of a life that has ended."""
    entry = on.entry
    engine = ctx.engines.get(on.process.engine or "")
    if entry.snapshot is not None and engine is not None:
        await asyncio.to_thread(engine.delete, entry.snapshot)
    entry.snapshot = None


async def resume(ctx: Context, how: ResumeRequest, on: Subject, run: Run) -> None:
    """Resume a paused kernel: its very process if a snapshot of it is there, or from the
    checkpoint that its pause wrote."""
    entry = on.entry
    if entry.snapshot is not None and how.snapshot is not False:
        await thaw(ctx, on, run, entry.snapshot)
        return
    if how.snapshot:
        raise GkewsError(
            "snapshot_unavailable",
            "There is no process snapshot of this kernel.",
            "The kernel stays paused. Resume it from its checkpoint.",
        )
    checkpoint = on.entry.checkpoint
    if checkpoint is None:
        raise GkewsError(
            "checkpoint_not_found",
            "No checkpoint is recorded for this paused kernel.",
            "Restart the kernel, or restore another checkpoint into it.",
        )
    await load(ctx, on, run, checkpoint, how)


async def thaw(ctx: Context, on: Subject, run: Run, snapshot_id: str) -> None:
    """Bring the same process back; the image is deleted when it runs."""
    entry = on.entry
    engine = snapshotting.engine_of(ctx, on)
    snapshot = await asyncio.to_thread(engine.find, snapshot_id) if engine is not None else None
    if engine is None or snapshot is None:
        raise GkewsError(
            "snapshot_failed",
            "The snapshot of this kernel is gone or cannot be restored on this machine.",
            "The checkpoint is kept: resume from it.",
        )
    entry.enter("resuming")
    await snapshotting.bring_back(ctx, on, run, engine, snapshot)
    run.result.provenance = entry.provenance = "restored"
    run.result.checkpoint = entry.checkpoint
    entry.snapshot, entry.paused_before, entry.in_cell = None, True, False
    entry.enter("running")
    await asyncio.to_thread(ctx.records.remove, entry.id)
    # host files are not rolled back: a second life of this image would meet another world
    await asyncio.to_thread(engine.delete, snapshot_id)


async def restore(
    ctx: Context, on: Subject, run: Run, checkpoint: str, *, accept_missing: bool = False
) -> None:
    """Load `checkpoint` into a kernel; what a running one holds is saved first."""
    await asyncio.to_thread(ctx.store.manifest, checkpoint)
    if not accept_missing:
        await check_files(ctx, run, checkpoint)
    if on.process.phase != "paused":
        await pausing.pause(ctx, on, run, PauseRequest(when="now"))
    before = on.entry.checkpoint
    run.result.saved_before = before
    try:
        await load(ctx, on, run, checkpoint, ResumeRequest(accept_missing=accept_missing))
    except GkewsError as error:
        hint = f"{error.hint} What the kernel held before is kept: resume it to have it back."
        raise GkewsError(error.reason, error.message, hint.strip()) from error


async def restore_new(
    ctx: Context,
    on: Subject,
    run: Run,
    checkpoint: str,
    path: str | None,
    *,
    accept_missing: bool = False,
) -> None:
    """Load `checkpoint` into a kernel that was just registered without a process."""
    await load(ctx, on, run, checkpoint, ResumeRequest(accept_missing=accept_missing))
    if path is not None:
        left = await ctx.kernels.give_session(on.entry.id, path)
        if left is not None:
            ctx.log.info("Kernel %s of %s runs on without a notebook", left, path)
