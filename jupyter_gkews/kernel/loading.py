"""A launch that resumes: loads its checkpoint before the first message, and says how that went.

A namespace that was filled by half is never used: the process ends then.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import GkewsError
from . import resume_hooks
from .history import put_history_back
from .protocol import RESTORED_FILE, Restored, RestoreOrder, write_json

if TYPE_CHECKING:
    from .session import KernelSession

#: Seconds that a kernel whose restore failed waits for the server to end it.
FAILED_WAIT_S = 60.0


def load(session: KernelSession, order: RestoreOrder) -> None:
    """Load `order` into the namespace, and say in restored.json how it went."""
    restored = Restored(session.launch.launch, "error", order.checkpoint)
    try:
        _fill(session, order, restored)
        restored.status = "ok"
    except GkewsError as error:
        restored.error = error.to_json()
    except BaseException as error:  # whatever it was, this namespace must not be used
        restored.error = GkewsError(
            "restore_failed",
            f"{type(error).__name__}: {error}",
            "The checkpoint is untouched.",
        ).to_json()
    session.resumed = restored
    try:
        write_json(session.run_dir / RESTORED_FILE, restored, durable=True)
    finally:
        if restored.status != "ok":
            # The server ends this process. No cell may ever see a namespace filled by half.
            time.sleep(FAILED_WAIT_S)
            os._exit(1)


def _fill(session: KernelSession, order: RestoreOrder, restored: Restored) -> None:
    from .checkpoint.restore import restore  # here: what fails is told, whatever it is
    from .checkpoint.store import CheckpointStore

    shell = session.shell
    report = restore(
        shell.user_ns,
        CheckpointStore(Path(session.launch.store)),
        order.checkpoint,
        verify=order.verify,
        accept_missing=order.accept_missing,
        on_missing_gpu=order.on_missing_gpu,
        gpu_wait_s=order.gpu_wait_s,
        progress=partial(session.tell_progress, order.operation),
    )
    put_history_back(shell, report.extras)
    resume_hooks.put_hooks_back(report.extras.get("on_resume"))
    restored.kept, restored.rebuilt = report.kept, report.rebuilt
    restored.rebuilt_details = list(report.rebuilt_details)
    restored.lost = list(report.lost)
    restored.lost += [
        {"name": "(settings)", "reason": problem, "cell": None} for problem in report.process
    ]
    restored.seconds = dict(report.seconds)
