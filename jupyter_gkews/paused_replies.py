"""What a paused kernel's clients are answered in its place: only what is true without a process.

Pure functions from a request to messages (channel, type, content); sends nothing. `None` means
that the request must wait for the kernel.
"""

from __future__ import annotations

from typing import Any

from .errors import GkewsError

#: (channel, message type, content)
Message = tuple[str, str, dict[str, Any]]

BUSY: Message = ("iopub", "status", {"execution_state": "busy"})
IDLE: Message = ("iopub", "status", {"execution_state": "idle"})


def is_run_by_user(content: dict[str, Any]) -> bool:
    """Whether an execute_request is a cell; extensions ask with silent or store_history=False."""
    silent = bool(content.get("silent", False))
    return not silent and bool(content.get("store_history", True))


def answer_while_paused(
    channel: str, msg_type: str, content: dict[str, Any], kernel_info: dict[str, Any] | None
) -> list[Message] | None:
    """The answer to a request other than a cell, or None if it has to wait for the kernel."""
    reply: dict[str, Any]
    if msg_type == "kernel_info_request":
        if not kernel_info:
            return None
        reply = {**kernel_info, "status": "ok"}
    elif msg_type == "comm_info_request":
        reply = {"status": "ok", "comms": {}}  # comms end with the process
    elif msg_type in ("comm_open", "comm_msg", "comm_close"):
        return [BUSY, IDLE]  # their other end is gone, and there is no reply to these
    elif msg_type == "is_complete_request":
        reply = {"status": "unknown"}
    elif msg_type == "interrupt_request":
        reply = {"status": "ok"}  # nothing runs
    elif msg_type == "debug_request":
        reply = {
            "type": "response",
            "request_seq": content.get("seq", 0),
            "seq": content.get("seq", 0),
            "command": content.get("command", ""),
            "success": False,
            "message": "The kernel is paused.",
            "body": {},
        }
    elif msg_type == "shutdown_request":
        error = GkewsError(
            "not_pausable", "The kernel is paused.", "Shut it down from the server instead."
        )
        reply = {"restart": bool(content.get("restart")), **as_error(error)}
    elif msg_type == "execute_request":
        return None
    elif msg_type.endswith("_request"):
        reply = {"status": "aborted"}
    else:
        return []  # not a request: nobody waits for an answer
    return [BUSY, (channel, _reply_type(msg_type), reply), IDLE]


def aborted(channel: str, msg_type: str) -> list[Message]:
    """What ipykernel answers to requests that are queued behind an error."""
    if not msg_type.endswith("_request"):
        return [BUSY, IDLE]
    return [BUSY, (channel, _reply_type(msg_type), {"status": "aborted"}), IDLE]


def failed_cell(error: GkewsError) -> list[Message]:
    """A cell that could not run because the kernel is paused: shown where its output would be."""
    return _ended_cell(as_error(error))


def interrupted_cell() -> list[Message]:
    """A cell that was interrupted while it waited for the kernel."""
    error = GkewsError(
        "cancelled",
        "Interrupted while the cell waited for the kernel to resume.",
        "It did not run.",
    )
    return _ended_cell(as_error(error, "KeyboardInterrupt"))


def _ended_cell(content: dict[str, Any]) -> list[Message]:
    reply = {**content, "execution_count": None}
    return [BUSY, ("iopub", "error", content), ("shell", "execute_reply", reply), IDLE]


def as_error(error: GkewsError, name: str = "KernelPaused") -> dict[str, Any]:
    """`error` in the shape that Jupyter has for exceptions."""
    lines = [f"\x1b[0;31m{name}\x1b[0m: {error.message}"]
    if error.hint:
        lines.append(error.hint)
    return {"status": "error", "ename": name, "evalue": str(error), "traceback": lines}


def _reply_type(msg_type: str) -> str:
    return f"{msg_type.rsplit('_', 1)[0]}_reply"
