"""What server and kernel say to each other: file names, message types, and their shapes.

Two ways, both private to one kernel:

* the *run directory* (0700, named by ENV_RUN_DIR in the kernel's environment):
  `launch.json` is written by the server before each launch; `hello.json`, `progress.json`,
  `restored.json` and `checkpointed-<operation>.json` are written by the kernel (temp + rename,
  0600), and `startup_error.txt` instead of a hello when the kernel side could not be loaded.
* messages of type MSG_REQUEST on the shell channel (runs on the main thread, first in first
  out) or the control channel (answered at once), replied with MSG_REPLY; and events from the
  kernel on iopub with the topic EVENT_TOPIC.

Standard library only, Python >= 3.9: both halves import this file.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import plain_json as json

PROTOCOL = 1

ENV_RUN_DIR = "JUPYTER_GKEWS_RUN_DIR"
ENV_USER_STARTUP = "JUPYTER_GKEWS_USER_PYTHONSTARTUP"
ENV_HASH_SEED = "JUPYTER_GKEWS_HASH_SEED"  # PYTHONHASHSEED, where it is the server's

LAUNCH_FILE = "launch.json"
HELLO_FILE = "hello.json"
PROGRESS_FILE = "progress.json"
RESTORED_FILE = "restored.json"
CHECKPOINTED_FILES = "checkpointed-*.json"
STARTUP_ERROR_FILE = "startup_error.txt"

MSG_REQUEST = "gkews_request"
MSG_REPLY = "gkews_reply"
MSG_EVENT = "gkews_event"
EVENT_TOPIC = b"gkews"

# Requests. Shell: content = {"action": ACTION_CHECKPOINT, **CheckpointOrder} or
# {"action": ACTION_SURVIVES}. Control: {"action": ACTION_CANCEL | ACTION_RELEASE, "operation": id}
# or {"action": ACTION_PING}.
# Replies: {"status": "ok", ...} or {"status": "error", "reason", "message", "hint"}.
#   checkpoint -> {"checkpoint": summary, "vram": bytes that the process knows to hold on GPUs}
#                 (CheckpointStore.summary, see kernel/checkpoint; and "blocked_s": how long the
#                 kernel was blocked, "note": why, and what else is to be told, or None)
#                 or, of an order with `background`, {"captured": {"blocked_s", "fork_s", "at"}}:
#                 the kernel is free again, and checkpointed_file(operation) will hold
#                 {"operation", "status": "ok", "checkpoint"} or {"status": "error", "reason" ...}
#   survives   -> {"survives": {"variables", "process", "bytes"}}   (DESIGN's shape, less "kernel")
#   map_stored -> {"mapped": {"nbytes", "left", "why", "changed"},
#                  "files": [paths that are mapped now]}
#   ping       -> {"busy": bool, "holding": operation id or None}
#   preflight  -> {"objections": [{"what", "reason", "hint"}], "holds", "needs"}   (holdings.py)
#   resumed    -> {"hooks": [{"name", "error": str | None, "seconds"}]}: shell, content has
#                 "provenance", "away_s", "paused", "resumed" (ISO 8601): resume_hooks.Resumed
ACTION_CHECKPOINT = "checkpoint"
ACTION_SURVIVES = "survives"
ACTION_CANCEL = "cancel"
ACTION_PREFLIGHT = "preflight"  # control: what a snapshot cannot hold, and what it would
ACTION_MAP_STORED = "map_stored"  # control: map big memory of the held checkpoint from the store
ACTION_RELEASE = "release"
ACTION_PING = "ping"
ACTION_RESUMED = "resumed"  # shell: run what the user registered with on_resume

# Events on iopub: {"event": EVENT_PAUSE_REQUESTED, "when": "idle", "name": str|None, "prove":
# str|None, "compress": str|None} from %pause, with "workspace": True where all is to be paused,
# {"event": EVENT_CHECKPOINTED, "checkpoint": summary} from %checkpoint, and before it, while it is
# written in the background, {"event": EVENT_CHECKPOINTING, "operation", "checkpoint": its id}.
EVENT_PAUSE_REQUESTED = "pause_requested"
EVENT_CHECKPOINTED = "checkpointed"
EVENT_CHECKPOINTING = "checkpointing"


@dataclass
class RestoreOrder:
    """What a launch shall load before the first shell message. One launch, one order."""

    checkpoint: str
    operation: str
    on_missing_gpu: str = "cpu"  # "cpu" | "wait" | "fail"
    gpu_wait_s: float = 600.0  # how long "wait" waits
    accept_missing: bool = False  # also without files of weights that are gone or were changed
    verify: str = "fast"  # "fast": xxh3 of each chunk; "full": its BLAKE3 name as well


@dataclass
class Launch:
    """launch.json: written by the server before each launch of the kernel's process."""

    launch: str  # a nonce: hello.json and restored.json repeat it
    kernel: str  # the kernel id
    store: str  # absolute path of the checkpoint store
    notebook: str | None = None  # absolute path, where the session knows one
    restore: RestoreOrder | None = None
    kernel_name: str = ""  # of the kernelspec
    python_path: list[str] = field(default_factory=list)
    """Folders of pure-Python packages (cloudpickle) used only if the kernel's own lack them."""
    prove: str = "scratch"  # how `%checkpoint` proves where it is not told: as CheckpointOrder
    compress: str = "none"  # the same
    reference_files: bool = True
    """Whether checkpoints refer to weights in safetensors files instead of copying them."""
    in_place: bool = False
    """Whether an engine may freeze this process, so that its big memory is better mapped from the
    store than held in an image: checkpoints lay it out for that."""
    background: bool = True
    """Whether %checkpoint lets the user go on while it is written, where that is safe."""
    protocol: int = PROTOCOL


@dataclass
class Hello:
    """hello.json: the kernel side is loaded and answers MSG_REQUEST."""

    launch: str
    pid: int
    python: str
    executable: str
    prefix: str
    ipykernel: str
    ipython: str
    hash: str  # "blake3" | "blake2b"
    time: str
    session: str = ""
    """The `session` in the header of this process's messages: tells them from its predecessor's."""
    protocol: int = PROTOCOL


@dataclass
class Progress:
    """progress.json: where a checkpoint or a restore is. Written at most five times a second."""

    operation: str
    step: str
    """checkpoint: "graph" | "writing" | "verifying" | "committing"; restore: "importing" |
    "waiting_for_gpu" (bytes free, of bytes needed) | "reading" | "rebuilding"."""
    bytes_done: int = 0
    bytes_total: int = 0


@dataclass
class Restored:
    """restored.json: how the load of a RestoreOrder ended. Written once, durable."""

    launch: str
    status: str  # "ok" | "error"
    checkpoint: str
    kept: int = 0
    rebuilt: int = 0
    rebuilt_details: list[dict[str, Any]] = field(default_factory=list)  # {name, reason, cell}
    lost: list[dict[str, Any]] = field(default_factory=list)  # {name, reason, cell}
    seconds: dict[str, float] = field(default_factory=dict)  # step -> s
    error: dict[str, str] | None = None  # GkewsError.to_json


@dataclass
class CheckpointOrder:
    """Content of a shell request with ACTION_CHECKPOINT."""

    operation: str
    checkpoint: str  # the id that the new checkpoint shall have
    name: str | None = None
    notebook: str | None = None
    hold: bool = False
    """True for a pause: after the reply the main thread waits (control goes on answering) for
    ACTION_RELEASE, so that no cell runs between the checkpoint and the end of the process."""
    prove: str = "scratch"  # "scratch" | "read-back" | "off": checkpoint.proof.WAYS
    compress: str = "none"  # "none" | "zstd": checkpoint.compression.WAYS
    background: bool = False
    """True: reply as soon as the state is captured, where that is safe, and write it meanwhile."""


def checkpointed_file(operation: str) -> str:
    """The name of the file that says how a checkpoint in the background has ended."""
    return f"checkpointed-{operation}.json"


def write_json(path: Path, data: Any, *, durable: bool = False) -> None:
    """Write a dataclass or a JSON value to `path`, 0600, by temp and rename."""
    value = data if isinstance(data, (dict, list)) else asdict(data)
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes 0600
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(value, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Read one of the files above; None if it is not there (yet)."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
