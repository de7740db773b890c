"""What a process has before the first cell: noted once, so that later only the work of cells is
told and kept.

Imports nothing heavy: it runs at the start of every kernel.
"""

from __future__ import annotations

import sys
from typing import Any

from . import (
    interpreter_state,
    library_state,
    patches,
    running,
    shell_state,
    singletons,
    user_modules,
)


def _path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


sys_path: list[str] = _path()


def note_start(shell: Any = None) -> None:
    """Remember what the process (and `shell`, if there is one) has now as its own."""
    global sys_path
    sys_path = _path()
    interpreter_state.note_start()
    library_state.note_start()
    user_modules.note_start()
    patches.note_start()
    if shell is not None:
        singletons.note_start()
        running.note_start()
        shell_state.note_start(shell)
