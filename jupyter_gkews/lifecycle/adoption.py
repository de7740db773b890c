"""After a server's start: takes the paused kernels of dead servers over, still paused.

Starts no process. A record whose notebook lies elsewhere, is gone or has a kernel already, or
whose kernelspec is missing, is left alone: its checkpoint is offered in the list.
"""

from __future__ import annotations

import asyncio
import os

from .context import Context
from .records import PausedRecord

#: Seconds between the tries of what failed.
AGAIN_S = (0.1, 0.4)


class _TakenError(Exception):
    """Another process has the record locked."""


def why_not(ctx: Context, record: PausedRecord) -> str | None:
    """Why this server cannot take the record over; None if it can."""
    if record.kernel in ctx.kernels:
        return "a kernel of this id is listed already"
    if not record.notebook:
        return "it had no notebook"
    if not os.path.isfile(record.notebook):
        return f"the notebook is gone: {record.notebook}"
    if ctx.kernels.api_path(record.notebook) is None:
        return "its notebook is not below this server's root"
    if not ctx.kernels.has_kernelspec(record.kernel_name):
        return f"the kernelspec {record.kernel_name!r} is not installed"
    return None


async def adopt(ctx: Context, records: list[PausedRecord] | None = None) -> list[PausedRecord]:
    """Register the paused kernels that can be taken over, of those in the store or of `records`;
    their records, now owned.

    What failed is tried again: a port may have been taken between its choice and its use, and a
    server that only looks has a record locked for a moment.
    """
    adopted = []
    left = await asyncio.to_thread(list, ctx.records) if records is None else records
    for pause_s in (*AGAIN_S, None):
        failed = []
        for record in left:
            try:
                if await _adopt_one(ctx, record):
                    adopted.append(record)
            except Exception as error:
                ctx.records.give_up(record.kernel)
                failed.append(record)
                taken = isinstance(error, _TakenError)
                if pause_s is None and taken:
                    ctx.log.info("Paused kernel %s is another server's", record.kernel)
                elif pause_s is None:
                    ctx.log.exception("Paused kernel %s could not be taken over", record.kernel)
                elif not taken:
                    ctx.log.warning("Paused kernel %s is tried again: %s", record.kernel, error)
        left = failed
        if not left or pause_s is None:
            break
        await asyncio.sleep(pause_s)
    return adopted


async def _adopt_one(ctx: Context, record: PausedRecord) -> bool:
    if (reason := why_not(ctx, record)) is not None:
        ctx.log.info("Paused kernel %s is not taken over: %s", record.kernel, reason)
        return False
    if not await asyncio.to_thread(ctx.records.claim, record.kernel):
        raise _TakenError
    path = ctx.kernels.api_path(record.notebook or "")
    # read again: the other server may have resumed or dropped it before the lock was free
    now = ctx.records.get(record.kernel)
    if path is None or now != record or await ctx.kernels.has_session(path):
        ctx.records.give_up(record.kernel)
        return False
    if not await _find_snapshot(ctx, record):
        await asyncio.to_thread(ctx.records.remove, record.kernel)
        ctx.log.warning(
            "Kernel %s was lost: its server ended while it took the first snapshot", record.kernel
        )
        return False
    await ctx.kernels.start_paused(record.kernel, record.kernel_name, path, record.kernel_info)
    try:
        await ctx.kernels.give_session(record.kernel, path)
    except BaseException:
        await ctx.kernels.discard(record.kernel)
        raise
    ctx.log.info("Paused kernel %s of %s is taken over", record.kernel, path)
    return True


async def _find_snapshot(ctx: Context, record: PausedRecord) -> bool:
    """Enter the image that a server finished, but did not live to enter. False: there is neither
    an image nor a checkpoint to go on from."""
    engine = ctx.engines.get(record.engine or "") if record.snapshot is None else None
    if engine is not None:
        for snapshot in await asyncio.to_thread(engine.snapshots):
            if snapshot.kernel == record.kernel and snapshot.created >= record.since:
                record.snapshot = snapshot.id
                await asyncio.to_thread(ctx.records.update, record.kernel, snapshot=record.snapshot)
                break
        else:
            record.in_cell = False  # it ended with its server; what there is, is the checkpoint
    return record.snapshot is not None or record.checkpoint is not None
