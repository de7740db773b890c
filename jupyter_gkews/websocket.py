"""The browsers' side of a kernel that is held or paused: holds requests, answers what it can.

A mixin over whatever kernel websocket connection class is configured. Never resumes a kernel
itself: it tells the provisioner that a cell was run.
"""

from __future__ import annotations

from typing import Any


def pausable_connection_class(base: type[Any]) -> type[Any]:
    """`base` (the server's `kernel_websocket_connection_class`) made to know paused kernels."""
    raise NotImplementedError
