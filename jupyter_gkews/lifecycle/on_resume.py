"""Tells a kernel that it was resumed, so that the functions run that the user registered with
on_resume; and says which of them failed. What they raise never fails a resume; one that ends the
kernel does.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from ..errors import GkewsError
from .context import Context
from .interfaces import KernelTalk
from .operations import utcnow
from .run import Run
from .state import KernelEntry, age_s
from .subject import Subject


@dataclass
class Told:
    """What came of it. `failed`: name -> what it raised. `unsure`: why it is not known."""

    failed: dict[str, str] = field(default_factory=dict)
    unsure: str = ""

    def sentence(self) -> str:
        """What the user should know; empty if there is nothing."""
        if self.unsure:
            return self.unsure
        if not self.failed:
            return ""
        said = "; ".join(f"{name}: {error}" for name, error in self.failed.items())
        return f"A function registered with on_resume failed ({said}). The next cell shows where."


async def tell(
    talk: KernelTalk, provenance: str, paused: str, timeout_s: float, resumed: str | None = None
) -> Told:
    """Let the functions of one kernel run, before any cell that comes later. `paused`, `resumed`:
    ISO 8601. Waits at most `timeout_s`: a function that takes longer goes on, and cells wait.

    Raises `kernel_died` if they ended the kernel."""
    content: dict[str, Any] = {
        "provenance": provenance,
        "away_s": age_s(paused),
        "paused": paused,
        "resumed": resumed or utcnow(),
    }
    try:
        hooks = await talk.resumed(content, timeout_s)
    except GkewsError as error:
        if error.reason == "kernel_died":
            raise
        if error.reason != "kernel_unreachable":
            return Told(unsure=f"Its on_resume functions may not have run: {error.message}")
        return Told(unsure="Its on_resume functions still run, or wait for a cell to end.")
    failed = {str(each["name"]): str(each["error"]) for each in hooks if each.get("error")}
    return Told(failed)


async def after_resume(ctx: Context, on: Subject, run: Run, provenance: str, paused: str) -> None:
    """As a step of a resume: before the cells that wait, and with a note in its result."""
    told = await run.unless_stopped(
        tell(on.talk, provenance, paused, ctx.settings.answer_timeout_s)
    )
    if sentence := told.sentence():
        ctx.log.warning("Kernel %s: %s", on.entry.id, sentence)
        run.result.note = " ".join(filter(None, [run.result.note, sentence]))


def later(ctx: Context, on: Subject, provenance: str, paused: str) -> None:
    """For a kernel that goes on in the middle of a cell: they run when it has ended. Until then the
    kernel's entry holds what waits for it; it ends with the talk to the kernel."""

    async def wait() -> None:
        with contextlib.suppress(GkewsError):  # its death is told by others
            told = await tell(on.talk, provenance, paused, ctx.settings.answer_timeout_s)
            if told.failed:
                ctx.log.warning("Kernel %s: %s", on.entry.id, told.sentence())

    task = asyncio.ensure_future(wait())
    on.entry.after_cell.add(task)
    task.add_done_callback(on.entry.after_cell.discard)


def since(ctx: Context, entry: KernelEntry, otherwise: str | None = None) -> str:
    """When the kernel was paused, by its record; `otherwise` where there is none."""
    record = ctx.records.get(entry.id)
    return record.since if record is not None else otherwise or utcnow()


__all__ = ["Told", "after_resume", "since", "tell"]
