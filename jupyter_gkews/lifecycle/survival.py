"""What a pause of a kernel would keep, as `survives` tells it: asked of the kernel where it is
idle, else the last table, and that of the checkpoint where it is paused. Changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import GkewsError
from . import pausing, snapshotting
from .context import Context
from .interfaces import ManifestFacts
from .operations import utcnow
from .roster import Roster

#: Keeps a task until it has ended, and ends it with the server.
Keep = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


class Survival:
    """The tables of the kernels of one server; who asks for the same one shares a request."""

    def __init__(self, ctx: Context, roster: Roster, keep: Keep) -> None:
        self._ctx, self._roster, self._keep = ctx, roster, keep
        self._surviving: dict[str, asyncio.Task[dict[str, Any]]] = {}

    async def of(self, kernel_id: str) -> dict[str, Any]:
        """`survives`: the table of fates, with what a snapshot would add. Raises `kernel_busy`,
        `not_pausable` ...; `kernel_not_found` also for one that is shut down meanwhile."""
        on = self._roster.subject(kernel_id)
        launch = on.process.launch
        try:
            table = await self._table(kernel_id)
        except GkewsError as error:
            self._roster.entry(kernel_id)
            if (ended := _ended(on.process.end_asked(launch))) is not None:
                raise ended from error
            raise
        on = self._roster.subject(kernel_id)
        nbytes = table["bytes"]
        stored = (nbytes.get("to_write") or 0) + (nbytes.get("already_stored") or 0)
        return {**table, "snapshot": await snapshotting.outlook(self._ctx, on, stored)}

    async def _table(self, kernel_id: str) -> dict[str, Any]:
        """What a pause would keep; the last table where the kernel cannot be asked now."""
        on = self._roster.subject(kernel_id)
        entry = on.entry
        if on.process.phase == "paused" and entry.checkpoint is not None:
            manifest = await asyncio.to_thread(self._ctx.store.manifest, entry.checkpoint)
            table = await asyncio.to_thread(_table_of, manifest)
            return {"kernel": kernel_id, **table, "stale": True}
        if on.process.phase == "paused" and entry.in_cell:
            return {"kernel": kernel_id, **_NOTHING, "as_of": entry.since, "stale": True}
        free = entry.run is None or entry.run.in_background
        if entry.state == "running" and free and on.talk.is_idle():
            if (why := on.process.why_not_pausable()) is not None:
                raise why
            task = self._surviving.get(kernel_id)
            if task is None:
                task = self._keep(on.talk.survives(self._ctx.settings.answer_timeout_s))
                self._surviving[kernel_id] = task
                task.add_done_callback(lambda _: self._surviving.pop(kernel_id, None))
            try:
                table = await asyncio.shield(task)
            except GkewsError as error:
                if error.reason != "kernel_busy" or entry.survives is None:
                    raise
            else:
                entry.survives = {**table, "as_of": utcnow()}
                return {"kernel": kernel_id, **entry.survives, "stale": False}
        if entry.survives is None:
            raise pausing.busy("The kernel cannot be asked now, and was not asked before.")
        return {"kernel": kernel_id, **entry.survives, "stale": True}


#: What a kernel without a checkpoint keeps besides its snapshot.
_NOTHING: dict[str, Any] = {
    "variables": [],
    "process": [],
    "bytes": {"kept": 0, "to_write": 0, "already_stored": 0, "referenced": 0},
    "files": [],
}


def _ended(how: str | None) -> GkewsError | None:
    """Why a kernel does not answer whose process the user has ended; listed it still may be."""
    if how == "shutdown":
        return GkewsError(
            "kernel_not_found",
            "The kernel was shut down meanwhile.",
            "Its checkpoints are kept and can be restored.",
        )
    if how == "restart":
        return GkewsError(
            "kernel_starting", "The kernel is being restarted.", "Ask again when it is ready."
        )
    return None


def _table_of(manifest: ManifestFacts) -> dict[str, Any]:
    """What survives, as the checkpoint of a paused kernel has it."""
    total = manifest.bytes.get("total", 0)
    referenced = manifest.bytes.get("referenced", 0)
    files = manifest.files()
    variables = [dict(row) for row in manifest.variables]
    for row in variables:
        for file in files:
            if file["problem"] and row["name"] in file["names"] and row["fate"] != "lost":
                reason = f"weights that are in {file['path']}: {file['problem']}"
                row.update(fate="lost", reason=reason)
    return {
        "variables": variables,
        "process": manifest.process,
        "bytes": {
            "kept": total,
            "to_write": 0,
            "already_stored": total - referenced,
            "referenced": referenced,
        },
        "files": files,
        "as_of": manifest.created,
    }
