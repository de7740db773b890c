"""A pause of the workspace that others have asked for (the dashboard, a page as its user, kubectl),
as this server sees it: entered in the journal with the last checkpoint of each kernel, at once.

Asks the cluster for nothing, writes no checkpoint, holds and stops no kernel.
"""

from __future__ import annotations

import asyncio

from ..engines.base import Outlook
from ..errors import GkewsError
from ..journal.pauses import ELSEWHERE, PauseEntry, WorkspacePauses
from .context import Context
from .roster import Roster
from .workspace_kernels import rows_of
from .workspace_operation import KernelRow

_START_AGAIN = "After a start without its memory, run the cells of its notebook again."


async def enter(
    ctx: Context, roster: Roster, pauses: WorkspacePauses, outlook: Outlook,
    server: dict[str, str], *, stateless: bool,
) -> PauseEntry | None:  # fmt: skip
    """Durable on return; None where no kernel runs: those that are paused have records of their
    own, and an entry that names none would only take the place of an earlier one.

    Raises GkewsError: `disk_full`, `store_not_writable`.
    """
    rows = [_with_last_checkpoint(row, roster) for row in rows_of(ctx, roster)]
    if all(row.state == "paused" for row in rows):
        return None

    def write() -> PauseEntry:
        taken = {row.kernel: _taken(row, ctx) for row in rows if row.state != "paused"}
        entry = pauses.open(
            workspace={"namespace": outlook.namespace, "name": outlook.name},
            pod={"name": outlook.pod, "uid": outlook.pod_uid},
            kernels=[row.journalled(taken.get(row.kernel)) for row in rows],
            server=server,
            stateless=stateless,
        )
        pauses.asked(entry.id, how=ELSEWHERE, stateless=stateless)
        return entry

    return await asyncio.to_thread(write)


def _with_last_checkpoint(row: KernelRow, roster: Roster) -> KernelRow:
    """That of the process which runs now; none of one that was restarted since."""
    if row.state == "paused":
        return row
    entry = roster.entry(row.kernel)
    if entry.checkpoint is None:
        message = "It had no checkpoint when the workspace was paused from elsewhere."
        row.refuse(GkewsError("checkpoint_not_found", message, _START_AGAIN))
    elif entry.checkpoint == entry.left_behind:
        message = (
            "It was restarted after its last checkpoint, which is in the list, and the workspace "
            "was paused from elsewhere."
        )
        row.refuse(GkewsError("checkpoint_not_found", message, _START_AGAIN))
    else:
        row.checkpoint = entry.checkpoint
    return row


def _taken(row: KernelRow, ctx: Context) -> str | None:
    """When its checkpoint was written. One that cannot be read is none."""
    if row.checkpoint is None:
        return None
    try:
        return str(ctx.store.manifest(row.checkpoint).created)
    except GkewsError as error:
        row.checkpoint = None
        row.refuse(error)
        return None
