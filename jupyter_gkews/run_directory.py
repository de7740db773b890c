"""Waits for what a kernel leaves in its run directory: progress, and how a checkpoint in the
background or a load has ended.

Sends the kernel nothing, and ends no process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from .errors import GkewsError
from .kernel.protocol import (
    PROGRESS_FILE,
    RESTORED_FILE,
    Progress,
    Restored,
    RestoreOrder,
    checkpointed_file,
    read_json,
)
from .kernel_process import how_it_ended
from .provisioning import PausableProvisioner

#: Seconds after which a started kernel that has not said hello is given up on in a resume.
HELLO_TIMEOUT_S = 120.0
#: Between two looks at whether a checkpoint in the background has ended: at first, and later.
CHECKPOINTED_LOOK_S = (0.02, 0.1)

ProgressCallback = Callable[[Progress], object]


def tell_progress(
    provisioner: PausableProvisioner, operation: Any, on_progress: ProgressCallback
) -> None:
    """What the kernel says last of this operation, if it says anything."""
    data = read_json(provisioner.run_dir / PROGRESS_FILE)
    if data and data.get("operation") == operation:
        on_progress(Progress(**{k: data[k] for k in Progress.__dataclass_fields__ if k in data}))


async def checkpointed(
    provisioner: PausableProvisioner, operation: str, on_progress: ProgressCallback | None
) -> dict[str, Any]:
    """Wait until a checkpoint in the background has ended; its summary.

    Raises its error; kernel_died, also where the kernel was restarted.
    """
    launch, path = provisioner.launch, provisioner.run_dir / checkpointed_file(operation)
    pause, longest = CHECKPOINTED_LOOK_S
    while True:
        # Looked at before the file: a process that writes it and then dies has answered.
        alive = provisioner.launch == launch and provisioner.process_alive()
        outcome = read_json(path)
        if outcome is not None:
            break
        if not alive:
            raise GkewsError(
                "kernel_died",
                "The kernel ended before its checkpoint was written"
                f"{how_it_ended(provisioner.exit_status)}.",
                "Earlier checkpoints are kept.",
            )
        if on_progress:
            tell_progress(provisioner, operation, on_progress)
        await asyncio.sleep(pause)
        pause = min(pause * 1.05, longest)
    with contextlib.suppress(OSError):
        path.unlink()
    if outcome.get("status") == "error":
        raise GkewsError.from_json(outcome)
    return dict(outcome["checkpoint"])


async def restored(
    provisioner: PausableProvisioner,
    order: RestoreOrder,
    launch: str,
    on_progress: ProgressCallback | None,
) -> Restored:
    """Wait until the launch `launch` has loaded `order`.

    Raises the error of the load; kernel_died; restore_failed if the kernel side never loads.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        # Looked at before the file: a process that writes it and then dies has answered.
        alive = provisioner.launch == launch and provisioner.process_alive()
        data = read_json(provisioner.run_dir / RESTORED_FILE)
        if data and data.get("launch") == launch:
            break
        if not alive:
            how = how_it_ended(provisioner.exit_status)
            raise GkewsError(
                "kernel_died",
                f"The kernel died while it loaded the checkpoint{how}.",
                "The checkpoint is untouched; resume again, or restore it elsewhere.",
            )
        if on_progress:
            tell_progress(provisioner, order.operation, on_progress)
        if provisioner.hello is None and loop.time() - started > HELLO_TIMEOUT_S:
            why = provisioner.why_not_pausable()
            raise GkewsError(
                "restore_failed",
                "The kernel started, but its part of jupyter_gkews did not load.",
                f"{why.message if why else ''} The checkpoint is untouched.".strip(),
            )
        await asyncio.sleep(0.02)
    found = Restored(**{k: data[k] for k in Restored.__dataclass_fields__ if k in data})
    if found.status != "ok":
        raise GkewsError.from_json(found.error or {})
    return found
