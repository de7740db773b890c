"""What the server hands to a kernel's launch: settings, adopted processes, where packages lie.

Plain data and the run directory; starts nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .kernel import sandboxed, startup
from .kernel.preflight import WHOLE_SERVER
from .kernel.protocol import (
    CHECKPOINTED_FILES,
    ENV_RUN_DIR,
    ENV_USER_STARTUP,
    HELLO_FILE,
    LAUNCH_FILE,
    PROGRESS_FILE,
    RESTORED_FILE,
    STARTUP_ERROR_FILE,
    Launch,
    RestoreOrder,
    write_json,
)

#: In the environment of everything in a sandbox that holds a whole server: its folder for unix
#: sockets.
ENV_SOCKETS = WHOLE_SERVER
#: Where a sandbox keeps IPython's history: on its own tmpfs, so that a second life of an image
#: meets the file that it left.
HISTORY = "/tmp/gkews-history.sqlite"


@dataclass
class PausedProcess:
    """What a kernel needs to be paused from its birth (adoption after a server restart)."""

    kernel_info: dict[str, Any]  # content of its last kernel_info_reply


@dataclass
class StoppedProcess:
    """What a stopped kernel's processes held, in bytes."""

    ram: int
    vram: int


@dataclass
class LaunchSettings:
    """How kernels are launched. GkewsApp sets one, `gkews_launch`, on the MappingKernelManager."""

    store: Path
    runtime: Path  # holds one run directory (0700) a kernel
    prove: str = "scratch"  # as in Launch
    compress: str = "none"  # as in Launch
    restore_orders: dict[str, RestoreOrder] = field(default_factory=dict)
    """kernel id -> what its next launch shall load; consumed by that launch."""
    born_paused: dict[str, PausedProcess] = field(default_factory=dict)
    """kernel id -> its launch starts no process, the kernel is paused from the start."""
    reference_files: bool = True
    background: bool = True
    """Whether %checkpoint lets the user go on while it is written."""
    notebook_of: Callable[[str], str | None] = lambda kernel_id: None
    folders: list[str] = field(default_factory=list)
    """Where users work, besides their home: a sandbox sees edits made outside only there."""
    sockets: Path | None = None
    """The whole server may be frozen (freezable_server.py): this folder is for unix sockets."""
    history: str | None = None
    """Where kernels then keep IPython's history; None: where they always do."""


def launch_of(
    settings: LaunchSettings, launch: str, kernel: str, kernel_name: str, *, in_place: bool
) -> Launch:
    """What the launch of this nonce is told; takes the kernel's restore order, if it has one."""
    return Launch(
        launch=launch,
        kernel=kernel,
        kernel_name=kernel_name,
        store=str(settings.store),
        notebook=settings.notebook_of(kernel),
        restore=settings.restore_orders.pop(kernel, None),
        python_path=pure_python_path(),
        prove=settings.prove,
        compress=settings.compress,
        reference_files=settings.reference_files,
        background=settings.background,
        in_place=in_place,
    )


def write_launch(run_dir: Path, launch: Launch) -> None:
    """Make `run_dir` ready for `launch`: nothing of an earlier launch is left in it."""
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (HELLO_FILE, PROGRESS_FILE, RESTORED_FILE, STARTUP_ERROR_FILE):
        with contextlib.suppress(FileNotFoundError):
            (run_dir / name).unlink()
    for path in run_dir.glob(CHECKPOINTED_FILES):
        path.unlink(missing_ok=True)
    write_json(run_dir / LAUNCH_FILE, launch)


def bring_kernel_side(env: dict[str, str], run_dir: Path) -> None:
    """Let a kernel that is started with `env` load our half, and the user's own startup file."""
    env[ENV_RUN_DIR] = str(run_dir)
    if env.get("PYTHONSTARTUP"):
        env[ENV_USER_STARTUP] = env["PYTHONSTARTUP"]
    env["PYTHONSTARTUP"] = startup.__file__


def sandbox_sockets() -> Path | None:
    """The folder of the sandbox's sockets; None for a server that lives in none of ours."""
    found = os.environ.get(ENV_SOCKETS)
    return Path(found) if found and os.path.isdir(found) else None


def freezable(command: list[str], sockets: str, history: str | None = ":memory:") -> list[str]:
    """The command of an ipykernel through our start file, so that gVisor can freeze it; others
    as they are. `history`: of IPython, on the sandbox's own file system; of a kernel that is alone
    in its sandbox in its memory, which lives as long, and costs no cell a file's forty calls."""
    if command[1:3] != ["-m", "ipykernel_launcher"]:
        return command
    changed = [command[0], sandboxed.__file__, sockets, *command[3:]]
    return changed if history is None else [*changed, f"--HistoryManager.hist_file={history}"]


def pure_python_path() -> list[str]:
    """Where the server's cloudpickle lies, for kernels whose environment has none."""
    spec = importlib.util.find_spec("cloudpickle")
    if spec is None or not spec.origin:
        return []
    return [os.path.dirname(os.path.dirname(spec.origin))]
