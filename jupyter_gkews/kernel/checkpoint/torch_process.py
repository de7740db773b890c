"""What torch holds for the whole process besides settings: hooks of all modules and optimizers, and
the number of the next hook, without which a new hook would take the place of one that came back.

Only if torch is imported; it never imports it.
"""

from __future__ import annotations

import sys
from typing import Any

#: Modules of torch with dictionaries of hooks for all objects of a kind.
_WHERE = ("torch.nn.modules.module", "torch.optim.optimizer")


def tables() -> dict[tuple[str, str], Any]:
    """The dictionaries of hooks, by module and name."""
    found = {}
    for module in _WHERE:
        loaded = sys.modules.get(module)
        for name, value in list(vars(loaded).items()) if loaded is not None else ():
            if name.startswith("_global_") and "_hooks" in name and isinstance(value, dict):
                found[module, name] = value
    return found


def _handles() -> Any:
    return getattr(sys.modules.get("torch.utils.hooks"), "RemovableHandle", None)


def capture() -> dict[str, Any] | None:
    """What differs from a new process; None without torch."""
    handles = _handles()
    if handles is None:
        return None
    hooks = {key: list(table.items()) for key, table in tables().items() if table}
    return {"next": int(handles.next_id), "hooks": hooks}


def apply(saved: Any) -> None:
    """Put it back."""
    handles = _handles()
    if handles is None or not isinstance(saved, dict):
        return
    handles.next_id = max(handles.next_id, saved["next"])
    there = tables()
    for key, items in saved["hooks"].items():
        if key in there:
            there[key].update(items)
