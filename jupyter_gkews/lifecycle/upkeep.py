"""The store's upkeep for a running server: old checkpoints go, what dead saves left goes, and one
checkpoint is told in detail. Decides nothing about kernels; what they need is the shelf's to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from .context import Context
from .interfaces import ManifestFacts
from .roster import Roster
from .shelf import CheckpointShelf
from .snapshots import SnapshotShelf


class StoreUpkeep:
    """What is removed from the store, and what is told of it. Disk work runs in threads."""

    def __init__(
        self, ctx: Context, shelf: CheckpointShelf, snapshots: SnapshotShelf, roster: Roster
    ) -> None:
        self._ctx, self._shelf, self._snapshots, self._roster = ctx, shelf, snapshots, roster

    async def after_checkpoint(self, kernel_id: str) -> None:
        """Delete the checkpoints of a kernel that are too many now, and sweep. Raises nothing."""
        try:
            keep = self._ctx.settings.keep_checkpoints
            gone = await asyncio.to_thread(self._shelf.prune, kernel_id, keep)
        except Exception as error:
            self._ctx.log.warning("Old checkpoints of %s were not deleted: %s", kernel_id, error)
            return
        for checkpoint in gone:
            self._ctx.announcer.checkpoints(kernel_id, checkpoint)
        await self.sweep()  # also what an earlier deletion had to leave while a save ran

    async def sweep(self) -> None:
        """Remove what dead saves left, and what is too old by the settings. Raises nothing."""
        try:
            images = await asyncio.to_thread(self._snapshots.collect, dry_run=False)
            left = await asyncio.to_thread(self._snapshots.tidy, dry_run=False)
            freed = images["bytes"] + sum(each.bytes for each in left)
            freed += await asyncio.to_thread(self._ctx.store.sweep)
            after_s = self._ctx.settings.delete_after_s
            if after_s is not None:
                report = await self.collect(older_than_s=after_s, keep=None, dry_run=False)
                freed += report["bytes_freed"]
        except Exception as error:
            self._ctx.log.warning("What is not needed was not removed from the store: %s", error)
            return
        if freed:
            self._ctx.log.info("Removed %d bytes from the store", freed)

    async def collect(
        self, *, older_than_s: float | None, keep: int | None, dry_run: bool
    ) -> dict[str, Any]:
        """Remove what the store does not need, and old checkpoints as asked; what went."""
        report = await asyncio.to_thread(
            collect_all,
            self._snapshots,
            partial(self._shelf.collect, older_than_s=older_than_s, keep=keep, dry_run=dry_run),
            dry_run=dry_run,
        )
        if not dry_run:
            for gone in report["checkpoints"]:
                self._forget(gone["id"])
        return report

    async def delete(self, checkpoint: str) -> int:
        """Delete a checkpoint; the bytes freed. Raises `checkpoint_in_use`."""
        await asyncio.to_thread(self._snapshots.tidy, dry_run=False)  # it may lock the store
        freed = await asyncio.to_thread(self._shelf.delete, checkpoint)
        self._forget(checkpoint)
        return freed

    async def delete_snapshot(self, snapshot: str) -> dict[str, Any]:
        """Delete a process snapshot (SnapshotShelf.delete); a paused kernel that had it is told
        to rest on its checkpoint."""
        gone = await asyncio.to_thread(self._snapshots.delete, snapshot)
        for entry in self._roster.all():
            if entry.snapshot == snapshot:
                entry.snapshot = None
                self._roster.tell(entry)
        self._ctx.announcer.checkpoints(None, None)
        return gone

    def _forget(self, checkpoint: str) -> None:
        for entry in self._roster.all():
            if entry.checkpoint == checkpoint:
                entry.checkpoint = None
        self._ctx.announcer.checkpoints(None, checkpoint)

    async def in_detail(self, checkpoint: str, kernel_id: str | None) -> dict[str, Any]:
        """One checkpoint, and what the environment of a kernel would break: of `kernel_id`, else
        of the kernelspec that made it. Raises as `shelf.get`, kernel_not_found."""
        summary = await asyncio.to_thread(self._shelf.get, checkpoint)
        manifest = await asyncio.to_thread(self._ctx.store.manifest, checkpoint)
        if kernel_id is not None:
            self._roster.subject(kernel_id)
            name = self._ctx.kernels.facts(kernel_id).name
        else:
            name = str((summary.get("kernel") or {}).get("name") or "")
        here = await self._ctx.kernels.environment(name, kernel_id)
        return {**summary, **compared(manifest, here)}


def collect_all(
    snapshots: SnapshotShelf, collect: Callable[[], dict[str, Any]], *, dry_run: bool
) -> dict[str, Any]:
    """Collect snapshots that nobody needs, then checkpoints and memory (`collect`, whose report
    this is, with "snapshots" added): what only an image needed goes with it. Before, what ended
    processes have left, which may lock the store."""
    images = snapshots.collect(dry_run=dry_run)
    left = snapshots.tidy(dry_run=dry_run)
    report = collect()
    held = images.pop("held")
    left_bytes = sum(each.bytes for each in left)
    report["leftovers"]["count"] += len(left)
    report["leftovers"]["bytes"] += left_bytes
    report["bytes_freed"] += images["bytes"] + left_bytes
    report["store"]["bytes"] += held["bytes"] + left_bytes
    report["store"]["snapshots"] = held["count"]
    return {**report, "snapshots": images}


def compared(manifest: ManifestFacts, here: dict[str, Any] | None) -> dict[str, Any]:
    """{"differences", "compared_with"} of a checkpoint and an environment; null where it is not
    known what the kernel has."""
    from ..kernel.checkpoint.environment import differences  # not needed for a server's start

    if here is None:
        return {"differences": None, "compared_with": None}
    rows = differences(manifest.environment, here, manifest.modules, manifest.algorithms())
    shown = {key: here.get(key) for key in ("python", "executable", "platform")}
    return {"differences": rows, "compared_with": shown}
