"""Which modules a checkpoint needs, in the order in which this process imported them.

Looks at types and at `sys.modules` only: it imports nothing and runs no code of the user's.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any


def likely_modules(names: Mapping[str, Any]) -> list[str]:
    """Modules that a test load will need, guessed from the values' types: in import order."""
    wanted: dict[str, None] = {}
    for value in names.values():
        # By the real type: isinstance would run the user's code (a property `__class__`).
        wanted.setdefault(_module_name(value) or str(type(value).__module__))
    return in_import_order(wanted, {})


def in_import_order(wanted: Mapping[str, Any], user_ns: Mapping[str, Any]) -> list[str]:
    """The modules of `wanted`, and the submodules of those bound in `user_ns`, as they were
    imported. `import a.b.c` binds only `a`, but a cell may go on to use `a.b.c`."""
    bound = {name for name in map(_module_name, list(user_ns.values())) if name}
    prefixes = tuple(f"{name}." for name in bound)
    found = []
    modules: list[tuple[Any, Any]] = list(sys.modules.items())
    for name, module in modules:
        if name in ("__main__", "builtins", "sys") or not isinstance(name, str):
            continue
        if module is None:
            continue
        below = name.startswith(prefixes) and not any(p.startswith("_") for p in name.split("."))
        if name in wanted or name in bound or (below and getattr(module, "__spec__", None)):
            found.append(name)
    return found


def _module_name(value: Any) -> str | None:
    """The name under which a module is imported; None for anything else."""
    if not issubclass(type(value), types.ModuleType):
        return None
    name = str(value.__name__)
    return name if sys.modules.get(name) is value else None
