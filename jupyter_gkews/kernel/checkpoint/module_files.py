"""Which files the imported modules come from, and whether they are still the same files.

Looks at names, sizes and times only; it never reads or imports a module.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterable
from typing import Any, Callable

_own: Any = vars(types.ModuleType)
_namespace: Callable[[Any], dict[str, Any]] = _own["__dict__"].__get__


def signatures(paths: Iterable[str] | None = None) -> dict[str, tuple[int, int, int] | None]:
    """What tells a file from another one, by path: of `paths`, else of all imported modules."""
    if paths is None:
        # From the dictionary itself: a lazy module imports all that it has when it is asked.
        modules = [m for m in list(sys.modules.values()) if issubclass(type(m), types.ModuleType)]
        named = [_namespace(module).get("__file__") for module in modules]
        paths = [path for path in named if isinstance(path, str)]
    found: dict[str, tuple[int, int, int] | None] = {}
    for path in paths:
        try:
            seen = os.stat(path)
        except OSError:
            found[path] = None
        else:
            found[path] = seen.st_ino, seen.st_size, seen.st_mtime_ns
    return found
