"""Lets ipykernel's output streams know in which process they are without asking the system.

Each write to sys.stdout asks for the process id to find out whether it was forked: four times a
print under IPython. In gVisor a system call takes some 40 us, and a cell that prints much did
little else. Python tells of a fork by itself. Leaves alone what it does not know.
"""

from __future__ import annotations

import os
from typing import Any

#: The names that the method we replace uses, as ipykernel 6.29 to 7 have it.
NAMES = {"getpid", "_master_pid"}

_process = os.getpid()


def install() -> list[str]:
    """Replace the method where it is the one we know; the names of the classes where it is."""
    from ipykernel.iostream import IOPubThread, OutStream

    found: list[str] = []
    for cls in (IOPubThread, OutStream):
        method: Any = getattr(cls, "_is_master_process", None)
        code = getattr(method, "__code__", None)
        if (
            code is not None
            and set(code.co_names) <= {*NAMES, "os"}
            and set(code.co_names) >= NAMES
        ):
            setattr(cls, "_is_master_process", _is_master_process)  # noqa: B010
            found.append(cls.__name__)
    if found:
        os.register_at_fork(after_in_child=_forked)
    return found


def _is_master_process(self: Any) -> bool:
    return bool(self._master_pid == _process)


def _forked() -> None:
    global _process
    _process = os.getpid()
