"""Who else runs in the process: what they hold or wait for ends with them."""

from __future__ import annotations

import threading
from typing import Any

#: Packages whose threads belong to the kernel, not to the user's cells.
_KERNELS = frozenset(
    {"ipykernel", "IPython", "zmq", "tornado", "jupyter_gkews", "traitlets", "debugpy", "pydevd"}
)


def other_threads() -> list[str]:
    """Names of the user's threads that run now, without the one that asks."""
    here = (threading.current_thread(), threading.main_thread())
    return [each.name for each in threading.enumerate() if each not in here and not _kernels(each)]


def _kernels(thread: Any) -> bool:
    target = getattr(thread, "_target", None)
    modules = (type(thread).__module__, getattr(target, "__module__", None))
    return any(isinstance(name, str) and name.split(".")[0] in _KERNELS for name in modules)
