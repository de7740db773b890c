"""Which modules are the user's own (files outside of Python and its packages) or made by cells.

It only looks at sys.modules; it imports and changes nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

#: Packages with more loaded modules than this are libraries, wherever their files lie.
_MOST_MODULES = 150
#: Not imported by cells; what travels along with this package may lie anywhere.
_NOT_USERS = frozenset(("__main__", "__mp_main__", "jupyter_gkews", "cloudpickle"))
#: What was imported before the first cell; see note_start.
_at_start: frozenset[str] = frozenset(sys.modules)


def note_start() -> None:
    """Remember the modules that the process has now as not imported by cells."""
    global _at_start
    _at_start = frozenset(sys.modules)


def module_dict(module: Any) -> dict[str, Any] | None:
    """A module's dictionary, without waking a lazy one; None for what is no module."""
    if not issubclass(type(module), types.ModuleType):
        return None
    found: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return found


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    """Folders of Python and its packages, each with a separator at its end."""
    found = set()
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        path = sysconfig.get_paths().get(name)
        if path:
            found.add(os.path.join(os.path.realpath(path), ""))
            found.add(os.path.join(path, ""))
    for prefix in {sys.prefix, sys.base_prefix}:
        found.add(os.path.join(os.path.realpath(prefix), "lib", ""))
    return tuple(found)


@lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    """Whether a file of code belongs to Python or to an installed package."""
    if not os.path.isabs(path):
        return True  # frozen, or a name that is no file
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return path.startswith(_libraries()) or os.path.realpath(path).startswith(_libraries())


def is_users_code(name: str, path: str) -> bool:
    """Whether a frame is the user's: of the module `name`, its code being from the file `path`.
    That of cells has no file."""
    return not is_library_file(path) or (name == "__main__" and not os.path.isabs(path))


def own_modules() -> dict[str, types.ModuleType]:
    """The user's own modules that cells have imported, in the order of their import."""
    found: dict[str, types.ModuleType] = {}
    for name, module in list(sys.modules.items()):
        namespace = module_dict(module)
        if namespace is None or name in _at_start or not isinstance(name, str):
            continue
        if name.split(".")[0] in _NOT_USERS:
            continue
        path = namespace.get("__file__")
        if not isinstance(path, str) or namespace.get("__name__") != name:
            continue
        if not is_library_file(path):
            found[name] = module
    sizes = Counter(name.split(".")[0] for name in found)
    return {name: m for name, m in found.items() if sizes[name.split(".")[0]] <= _MOST_MODULES}


def made_modules(user_ns: dict[str, Any], sources: Sequence[str]) -> dict[str, types.ModuleType]:
    """Modules in sys.modules that cells have made (types.ModuleType): no file, nothing to import.

    Libraries make such modules as well (Cython does): a cell's is one that a variable holds or
    that a cell names.
    """
    found: dict[str, types.ModuleType] = {}
    held = {id(value) for value in list(user_ns.values())}
    modules: list[tuple[Any, Any]] = list(sys.modules.items())
    for name, module in modules:
        namespace = module_dict(module)
        if namespace is None or name in _at_start or name == "__main__":
            continue
        if not isinstance(name, str):  # a cell may put anything there
            continue
        if namespace.get("__name__") != name or "__file__" in namespace:
            continue
        if namespace.get("__spec__") is not None or namespace.get("__loader__") is not None:
            continue
        if _of_a_library(name, module):
            continue
        last = name.rpartition(".")[2]
        if id(module) in held or any(last in source for source in sources):
            found[name] = module
    return found


def made_entries(sources: Sequence[str]) -> dict[str, Any]:
    """What cells have put into sys.modules that is no module: plain namespaces, objects of their
    own classes; as far as a cell names it."""
    entries: dict[str, Any] = dict(sys.modules)
    return {
        name: value
        for name, value in entries.items()
        if isinstance(name, str)
        and name not in _at_start
        and not issubclass(type(value), types.ModuleType)
        and (type(value) is types.SimpleNamespace or type(value).__module__ == "__main__")
        and any(name in source for source in sources)
    }


def _of_a_library(name: str, module: Any) -> bool:
    """Whether it hangs below a package that was imported (six.moves, torch.ops)."""
    root = sys.modules.get(name.split(".")[0])
    namespace = module_dict(root) or {}
    return root is not module and namespace.get("__spec__") is not None
