"""The kernel that a procedure of the lifecycle works on, and how one waits for what it does.

Starts and stops nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from ..errors import GkewsError
from .interfaces import KernelTalk, PausableProcess
from .run import Run
from .state import KernelEntry, died

T = TypeVar("T")

#: How long a kernel may take to notice that its checkpoint was cancelled (seconds).
CANCEL_GRACE_S = 30.0


@dataclass(frozen=True)
class Subject:
    """The kernel that a procedure works on."""

    entry: KernelEntry
    process: PausableProcess
    talk: KernelTalk


async def while_alive(
    run: Run, work: Awaitable[T], on_stop: Callable[[], Awaitable[None]] | None = None
) -> T:
    """Wait for what a kernel does; its death is told in the words of the operation."""
    try:
        # only who was told to stop needs time to do so
        grace_s = CANCEL_GRACE_S if on_stop else 0.0
        return await run.unless_stopped(work, on_stop=on_stop, grace_s=grace_s)
    except GkewsError as error:
        if error.reason == "kernel_died" and error is not run.stop_reason:
            raise died(run.operation.kind) from error
        raise
