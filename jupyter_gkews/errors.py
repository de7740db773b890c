"""The typed errors of jupyter-gkews: one closed list of reasons, each with its HTTP status.

Used by the kernel side too, so: standard library only, Python >= 3.9. An error says what
happened (`message`), and what is safe and what to do (`hint`).
"""

from __future__ import annotations

from typing import Any

#: reason -> HTTP status. The list is closed and documented in docs/errors.md.
REASONS: dict[str, int] = {
    # asked for something that is not there or cannot be asked now
    "bad_request": 400,
    "forbidden": 403,
    "no_such_route": 404,
    "kernel_not_found": 404,
    "checkpoint_not_found": 404,
    "operation_not_found": 404,
    "kernel_busy": 409,
    "kernel_starting": 409,
    "already_paused": 409,
    "not_paused": 409,
    "operation_running": 409,
    "not_pausable": 409,
    "not_cancellable": 409,
    "cancelled": 409,
    "checkpoint_in_use": 409,
    "paused_elsewhere": 409,
    "snapshot_unavailable": 409,
    "snapshot_not_found": 404,
    "snapshot_incompatible": 409,
    "snapshot_failed": 500,
    "no_workspace": 409,
    "resume_off": 409,
    "weights_missing": 409,
    # the checkpoint cannot be trusted or read
    "checkpoint_damaged": 422,
    "checkpoint_unsigned": 422,
    "checkpoint_foreign_key": 422,
    "checkpoint_too_new": 422,
    # something failed while working; the kernel or the last good checkpoint is as it was
    "kernel_died": 500,
    "kernel_unreachable": 500,
    "checkpoint_failed": 500,
    "verification_failed": 500,
    "restore_failed": 500,
    "store_not_writable": 500,
    "internal": 500,
    "disk_full": 507,
    "cluster_unreachable": 503,
}


class GkewsError(Exception):
    """An error that a user or a program can act on.

    `reason` is one of REASONS (KeyError otherwise: the list is closed), `message` one sentence
    about what happened, `hint` what is safe and what to do next.
    """

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        self.status: int = REASONS[reason]
        self.reason = reason
        self.message = message
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.reason, self.message, self.hint))

    def to_json(self) -> dict[str, str]:
        """The shape of every error in REST, in operations and in kernel replies."""
        return {"reason": self.reason, "message": self.message, "hint": self.hint}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GkewsError:
        """Read what `to_json` wrote; an unknown reason becomes `internal` with its text kept."""
        reason = str(data.get("reason", "internal"))
        message = str(data.get("message", "unknown error"))
        if reason not in REASONS:
            reason, message = "internal", f"{reason}: {message}"
        return cls(reason, message, str(data.get("hint", "")))
