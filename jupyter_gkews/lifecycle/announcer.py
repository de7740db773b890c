"""Tells the server's event bus what happens to kernels and checkpoints.

An event that cannot be sent is logged and dropped: it must never end an operation.
"""

from __future__ import annotations

import logging
from typing import Any

from .interfaces import Emit, Kernels
from .operations import Operation
from .state import KernelEntry

_OPERATION_FIELDS = (
    "id",
    "kind",
    "phase",
    "step",
    "bytes_done",
    "bytes_total",
    "eta_s",
    "started",
    "finished",
    "cancellable",
    "error",
)


class Announcer:
    """Builds events of the schema lifecycle/v1 and emits them."""

    def __init__(self, emit: Emit, kernels: Kernels, log: logging.Logger) -> None:
        self._emit, self._kernels, self._log = emit, kernels, log

    def kernel(self, entry: KernelEntry, operation: Operation | None, *, action: str) -> None:
        """Tell the state of a kernel, with the operation that runs or has just ended."""
        gone = entry.id not in self._kernels
        self._send(
            {
                "action": action,
                "kernel": entry.id,
                "path": None if gone else self._kernels.facts(entry.id).path,
                "state": "gone" if gone and operation is None else entry.state,
                "since": entry.since,
                "provenance": entry.provenance,
                "reason": entry.last_error.reason if entry.last_error else None,
                "message": entry.sentence(),
                "checkpoint": entry.checkpoint,
                "operation": operation_event(operation) if operation else None,
            }
        )

    def workspace(self, described: dict[str, Any], operation: Operation | None) -> None:
        """Tell the state of the workspace, as `status` describes it."""
        keys = ("state", "since", "provenance", "reason", "message")
        self._send(
            {
                "action": "workspace",
                "kernel": None,
                **{key: described[key] for key in keys},
                "operation": operation_event(operation) if operation else None,
            }
        )

    def checkpoints(self, kernel: str | None, checkpoint: str | None) -> None:
        """Tell that the list of checkpoints has changed."""
        self._send({"action": "checkpoints", "kernel": kernel, "checkpoint": checkpoint})

    def _send(self, event: dict[str, Any]) -> None:
        try:
            self._emit(event)
        except Exception:
            self._log.exception("An event about a kernel could not be sent")


def operation_event(operation: Operation) -> dict[str, Any]:
    """An operation as the event schema has it: counts instead of the lists of names."""
    full = operation.to_json()
    event = {key: full[key] for key in _OPERATION_FIELDS}
    result = operation.result
    event["kept"] = result.kept if result else None
    event["rebuilt"] = result.rebuilt if result else None
    event["lost"] = len(result.lost) if result else None
    return event
