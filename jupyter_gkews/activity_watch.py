"""The server's own watch of what a kernel says: begun anew after a resume, and whether it hears.

What it misses is never told to it again: of a first cell that ran before it heard, the server
would say `idle`, and its culler would end a kernel in the middle of a long one.
"""

from __future__ import annotations

import asyncio
from typing import Any


class ActivityWatch:
    """That of one kernel. `hears`: something of the process that runs now has arrived."""

    def __init__(self) -> None:
        self.hears = asyncio.Event()

    def begin_anew(self, kernel_manager: Any, kernel_id: str) -> None:
        """Watch the process that has just been resumed."""
        self.hears.clear()
        kernels = getattr(kernel_manager, "parent", None)
        if kernels is not None and getattr(kernel_manager, "_activity_stream", None) is not None:
            kernels.stop_watching_activity(kernel_id)
            kernels.start_watching_activity(kernel_id)
        stream = getattr(kernel_manager, "_activity_stream", None)
        record = getattr(stream, "_recv_callback", None)
        if stream is None or record is None:
            self.hears.set()  # nobody watches, or in a way that we do not know
            return

        def hear(frames: list[bytes]) -> None:
            self.hears.set()
            stream.on_recv(record)
            record(frames)

        stream.on_recv(hear)


__all__ = ["ActivityWatch"]
