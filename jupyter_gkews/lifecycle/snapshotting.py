"""How a process snapshot joins a pause and a resume: after the checkpoint, and before it.

Knows engines by their interface only. A snapshot that cannot be taken costs nothing: the pause
rests on the checkpoint, and says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from ..engines.base import Inside, Objection, Snapshot, SnapshotEngine
from ..errors import GkewsError
from . import on_resume
from .context import Context
from .run import Run
from .subject import Subject, while_alive


def engine_of(ctx: Context, on: Subject) -> SnapshotEngine | None:
    """The engine that can freeze this kernel's process, if its process is of that kind."""
    return ctx.engines.get(on.process.engine or "")


async def take(
    ctx: Context,
    on: Subject,
    run: Run,
    engine: SnapshotEngine,
    checkpoint: str,
    *,
    demanded: bool,
) -> Snapshot | None:
    """Freeze the kernel, whose checkpoint and record are durable. None if it still has to be
    stopped, or has ended without an image: `process.phase` tells which.

    Raises snapshot_failed if the snapshot is `demanded` and cannot be taken: the kernel runs on.
    """
    run.enter("snapshotting")
    kernel = on.entry.id
    if demanded:
        inside = await must_be_possible(ctx, on, run, engine)
    else:
        inside = await _prepare(ctx, on, run, engine)
        if inside.objections:
            run.result.note = refused(inside.objections)
            return None
    run.check()
    try:
        return await engine.snapshot(kernel, checkpoint, run.operation.id, inside)
    except Exception as error:  # a full disk, say: checkpoint and record are durable already
        ctx.log.warning("No snapshot of kernel %s: %s", kernel, error)
        said = error.message if isinstance(error, GkewsError) else f"{error}."
        run.result.note = f"No snapshot was taken: {said} The pause rests on the checkpoint."
        return None


async def must_be_possible(ctx: Context, on: Subject, run: Run, engine: SnapshotEngine) -> Inside:
    """The preflight; what the kernel says of itself. Raises snapshot_failed with what stands in
    the way: the kernel runs on."""
    inside = await _prepare(ctx, on, run, engine)
    if inside.objections:
        first = inside.objections[0]
        raise GkewsError(
            "snapshot_failed",
            f"No snapshot can be taken: {first.what}: {first.reason}.",
            f"The kernel runs on untouched. {first.hint}",
        )
    return inside


async def _prepare(ctx: Context, on: Subject, run: Run, engine: SnapshotEngine) -> Inside:
    """First let the kernel map from the store what stands there, so that the image need not hold
    it; then look for what stands in the way, on this machine and in the kernel."""
    mapped: list[str] = []
    found: list[Objection] = []
    try:
        mapped = await while_alive(run, on.talk.map_stored())
    except GkewsError as error:
        if error is run.stop_reason or error.reason == "kernel_died":
            raise
        ctx.log.warning("Kernel %s does not tell what it has mapped: %s", on.entry.id, error)
        reason = f"it does not tell which files it has mapped ({error.message})"
        found.append(Objection("the kernel", reason, "Once restarted, it will."))
    found += await asyncio.to_thread(engine.preflight, on.entry.id)
    inside = await while_alive(run, on.talk.preflight())
    return Inside([*found, *inside.objections], inside.holds, {**inside.needs, "mapped": mapped})


def refused(objections: list[Objection]) -> str:
    """Why no snapshot was tried, as a sentence."""
    first = objections[0]
    more = f" (and {len(objections) - 1} more)" if len(objections) > 1 else ""
    return (
        f"No snapshot was taken: {first.what}: {first.reason}{more}. {first.hint} "
        "The pause rests on the checkpoint."
    )


async def bring_back(
    ctx: Context, on: Subject, run: Run, engine: SnapshotEngine, snapshot: Snapshot
) -> None:
    """Restore the same process and let it go on.

    Raises GkewsError; the kernel is paused then, image and checkpoint are kept.
    """
    process = on.process
    try:
        await engine.restore(snapshot)
        run.enter("verifying")
        # many that come back at once on a busy machine take longer than one that only runs
        answer_s = ctx.settings.answer_timeout_s
        await run.unless_stopped(on.talk.ping(answer_s), timeout_s=answer_s)
        await on.talk.release(snapshot.held_by)
        since = await asyncio.to_thread(on_resume.since, ctx, on.entry, snapshot.created)
        if on.entry.in_cell:  # they run when the cell has ended
            on_resume.later(ctx, on, "restored", since)
        else:
            await on_resume.after_resume(ctx, on, run, "restored", since)
        await process.resumed()
    except BaseException as error:
        typed = _typed(error, await _or_else(ctx, on))
        if process.phase in ("resuming", "paused"):
            await process.resume_failed(typed)
        if isinstance(error, (GkewsError, asyncio.TimeoutError)):
            raise typed from error
        raise


async def _or_else(ctx: Context, on: Subject) -> str:
    """What there is besides the snapshot."""
    checkpoint = on.entry.checkpoint
    if checkpoint is None:
        return "The snapshot is kept, and is all there is of this kernel. Try again."
    what = "the checkpoint"
    if on.entry.in_cell:
        what = f"the last checkpoint, of {await created_at(ctx, checkpoint)}"
    return f"The snapshot and the checkpoint are kept. Try again, or resume from {what}."


async def created_at(ctx: Context, checkpoint: str) -> str:
    """When a checkpoint was written, for the user."""
    try:
        return str((await asyncio.to_thread(ctx.store.summary, checkpoint))["created"])
    except GkewsError:
        return "a time that cannot be read"


def _typed(error: BaseException, hint: str) -> GkewsError:
    if isinstance(error, GkewsError) and error.reason in ("cancelled", "kernel_died"):
        return error
    if isinstance(error, GkewsError) and error.reason == "snapshot_incompatible":
        return GkewsError(error.reason, error.message, f"{error.hint} {hint}".strip())
    message = error.message if isinstance(error, GkewsError) else "The kernel does not answer."
    return GkewsError("snapshot_failed", f"The process could not be restored. {message}", hint)


async def outlook(ctx: Context, on: Subject, stored: int) -> dict[str, Any] | None:
    """What a snapshot would have that the checkpoint alone has not, what it would cost, and what
    stands in the way: the `snapshot` of `survives`. None for a kernel that no engine can freeze.
    `stored`: bytes of memory that the checkpoint holds, or would, which an image then need not.

    A kernel that does not answer now leaves `holds` and `objections` null: they are not known.
    """
    engine = engine_of(ctx, on)
    if engine is None:
        return None
    kernel, entry = on.entry.id, on.entry
    told: dict[str, Any] = {"engine": engine.id, "keeps": engine.keeps()}
    empty = {"holds": None, "estimate": None, "objections": None, "taken": None}
    if on.process.phase == "paused":
        taken = None
        if entry.snapshot is not None:
            taken = await asyncio.to_thread(engine.find, entry.snapshot)
        found = {} if taken is None else {"holds": taken.holds, "taken": taken.id}
        return {**told, **empty, **found}
    try:
        estimate = asdict(await asyncio.to_thread(engine.estimate, kernel, stored))
        objections = await asyncio.to_thread(engine.preflight, kernel)
        inside = await asyncio.wait_for(on.talk.preflight(), ctx.settings.answer_timeout_s)
    except (GkewsError, asyncio.TimeoutError, OSError):
        return {**told, **empty}
    objections += inside.objections
    return {
        **told,
        "holds": inside.holds,
        "estimate": estimate,
        "objections": [asdict(each) for each in objections],
        "taken": None,
    }
