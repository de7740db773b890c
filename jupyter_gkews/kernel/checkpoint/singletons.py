"""Objects of the process itself: found again in the process that loads, never copied.

The running IPython shell and its parts, and the standard streams. In a test load, where there is
no shell, a stand-in takes its place.
"""

from __future__ import annotations

import sys
from typing import Any

from . import rebuild, torch_process

Reduced = tuple[Any, ...]


class StandIn:
    """Takes the place of the shell and its parts where there is none: accepts any use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> StandIn:
        """Itself again."""
        return self


def process_objects() -> dict[int, tuple[Any, Reduced]]:
    """Objects of the process itself, found again instead of copied, by id."""
    found: dict[int, tuple[Any, Reduced]] = {}
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        stream = getattr(sys, name, None)
        if stream is not None:
            found.setdefault(id(stream), (stream, (rebuild.std_stream, (name,))))
    for (module, name), table in torch_process.tables().items():
        if table:  # else every dictionary of its kind would be looked at
            found[id(table)] = (table, (rebuild.attribute, (sys.modules[module], name)))
    shell = rebuild.shell()
    if shell is not None:
        found[id(shell)] = (shell, (rebuild.shell, ()))
        for name in _SHELL_PARTS:
            part = getattr(shell, name, None)
            if part is not None:
                found[id(part)] = (part, (rebuild.attribute, (shell, name)))
    return found


_SHELL_PARTS = (
    "events",
    "history_manager",
    "display_formatter",
    "displayhook",
    "display_pub",
    "kernel",
    "magics_manager",
    "alias_manager",
    "extension_manager",
    "compile",
    "config",
    "input_transformer_manager",
)
