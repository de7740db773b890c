"""What cells have changed in modules of others: `pd.DataFrame.shout = f`, `json.dumps = wrapper`,
`mod.LIMIT = 5`, names added to builtins. Taken by looking; patching.py puts it back.

Found are functions, classes and instances of cells wherever they stand in a module, in a class of
it or in a dictionary of it, and whatever the sources of cells name as assigned, deleted or changed
in place. Not found: a plain value that code of a library has set for a cell.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .cell_made import Named, is_cell_made, named_in, resolve
from .user_modules import module_dict

#: Modules in which cells' objects stand for other reasons, or that have rules of their own.
_NOT_LOOKED_INTO = frozenset(
    (
        *("IPython", "ipykernel", "ipywidgets", "traitlets", "jupyter_gkews", "comm", "linecache"),
        *("__main__", "__mp_main__", "debugpy", "pydevd", "_pydev_bundle", "cloudpickle", "gc"),
    )
)
#: Names that have rules of their own or that mean nothing in another process.
_NOT_KEPT = frozenset(
    (
        *(
            "sys.modules",
            "sys.path",
            "sys.argv",
            "sys.meta_path",
            "sys.path_hooks",
        ),
        *(
            "sys.last_value",
            "sys.last_type",
            "sys.last_traceback",
            "sys.last_exc",
            "sys.displayhook",
        ),
        *("sys.path_importer_cache", "sys.exc_info", "os.environ", "warnings.filters"),
        *(
            "builtins._",
            "builtins.get_ipython",
            "builtins.display",
            "builtins.exit",
            "builtins.quit",
        ),
        *(
            "builtins.copyright",
            "builtins.credits",
            "builtins.__builtins__",
            "builtins.__IPYTHON__",
        ),
        *("gc.callbacks", "gc.garbage", "matplotlib.rcParams", "random._inst"),
    )
)
_CONTAINERS = (list, dict, set, deque)
_PLAIN = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, tuple, frozenset, types.ModuleType),
        *(
            types.BuiltinFunctionType,
            type(str.join),
            type(int.real),
            type(int.__add__),
            type(dict.get),
        ),
        *(types.MappingProxyType, types.GetSetDescriptorType, types.MemberDescriptorType),
    )
)
#: Containers of a library that are looked into have at most so many items.
_MOST_ITEMS = 1000

#: Attributes that an object has at most if it is looked at for what it wraps.
_FEW = 8
_WRAPPERS = frozenset(
    (
        *(staticmethod, classmethod, property, functools.partial, functools.partialmethod),
        *(types.MethodType, functools._lru_cache_wrapper, functools.cached_property),
    )
)

_builtins_at_start: dict[str, Any] = dict(vars(builtins))


def note_start() -> None:
    """Remember what the builtins are now."""
    global _builtins_at_start
    _builtins_at_start = dict(vars(builtins))


@dataclass
class Patches:
    """`values`: (module, path within it, value) to set; `items`: (module, path of a dictionary,
    key, value); `contents`: (module, path, the list, dictionary or set as it is now); `deleted`:
    (module, path)."""

    values: list[tuple[str, str, Any]] = field(default_factory=list)
    items: list[tuple[str, str, Any, Any]] = field(default_factory=list)
    contents: list[tuple[str, str, Any]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    in_lists: list[str] = field(default_factory=list)

    def to_graph(self) -> dict[str, Any]:
        """As a plain dictionary; {} where there is nothing."""
        if not (self.values or self.items or self.contents or self.deleted):
            return {}
        return {
            "values": self.values,
            "items": self.items,
            "contents": self.contents,
            "deleted": self.deleted,
        }

    def labels(self) -> dict[str, Any]:
        """What it holds, by names to tell losses by."""
        found = {f"{module}.{path}": value for module, path, value in self.values}
        found.update({f"{m}.{path}[{key!r}]": value for m, path, key, value in self.items})
        found.update({f"{module}.{path}": value for module, path, value in self.contents})
        return found

    def told(self) -> list[str]:
        """All of it, for the user."""
        return sorted(
            {*self.labels(), *(f"{module}.{path} (deleted)" for module, path in self.deleted)}
        )

    def modules(self) -> list[str]:
        """The modules that must be there to put it back."""
        rows = (*self.values, *self.items, *self.contents, *self.deleted)
        return list(dict.fromkeys(row[0] for row in rows))


def take(
    user_ns: dict[str, Any], sources: Sequence[str], own: Mapping[str, types.ModuleType]
) -> Patches:
    """What cells have changed in modules that are neither theirs nor in `own`."""
    found = Patches()
    places: dict[str, Any] = {}
    look = _Look(found, places, user_ns)
    for name, module in list(sys.modules.items()):
        namespace = module_dict(module)
        if namespace is None or not isinstance(name, str):
            continue
        if name in own or name.split(".")[0] in _NOT_LOOKED_INTO:
            continue
        if namespace.get("__name__") == name and namespace.get("__spec__") is not None:
            look.module(name, namespace)
    for name, value in list(vars(builtins).items()):
        place = f"builtins.{name}"
        known = name in _builtins_at_start or place in _NOT_KEPT or place in places
        if not known and not name.startswith("__"):
            places[place] = value
            found.values.append(("builtins", name, value))
    _look_by_name(found, places, named_in(sources), user_ns, own)
    return found


#: How a value is looked at, by its type: not at all; for the namespace it lives in; for the module
#: it says it is of; closely, as it may wrap what a cell has made; for its items.
_SKIP, _FUNCTION, _CLASS, _WRAPPER, _HOLDER = range(5)  # _SKIP is false


class _Ways(dict[type, int]):
    """How values of a type are looked at; each type is judged once."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(_PLAIN, _SKIP))

    def __missing__(self, cls: type) -> int:
        if cls is types.FunctionType:
            way = _FUNCTION
        elif issubclass(cls, type):
            way = _CLASS
        elif cls in _CONTAINERS or issubclass(cls, dict):
            way = _HOLDER
        elif cls in _WRAPPERS or type.__getattribute__(cls, "__module__") == "__main__":
            way = _WRAPPER
        else:
            way = _WRAPPER if cls.__dictoffset__ else _SKIP
        self[cls] = way
        return way


class _Look:
    """One look through the modules of the process. There may be a million values: their types
    decide."""

    def __init__(self, found: Patches, places: dict[str, Any], user_ns: dict[str, Any]) -> None:
        self._found = found
        self._places = places
        self._user_ns = user_ns
        self._ways = _Ways()
        self._seen: set[int] = set()  # classes: most stand in several modules

    def _candidates(self, namespace: Mapping[Any, Any]) -> list[tuple[Any, Any, int]]:
        """What of a namespace needs a closer look. This one line sees every value there is."""
        ways, ns, function, seen = self._ways, self._user_ns, _FUNCTION, self._seen
        return [
            (key, value, way)
            for key, value in namespace.items()
            if (way := ways[type(value)])
            and (way != function or value.__globals__ is ns)
            and id(value) not in seen
        ]

    def module(self, name: str, namespace: dict[str, Any]) -> None:
        """Look at what stands in a module, and in its classes."""
        for key, value, way in self._candidates(namespace.copy()):
            if not isinstance(key, str) or (key[:2] == "__" == key[-2:]):
                continue
            if way == _CLASS:
                module = type.__getattribute__(value, "__module__")
                if module == name:
                    self._seen.add(id(value))
                    self._class(name, key, value)
                elif module == "__main__":
                    self._take(name, key, value)
            elif way == _HOLDER:
                self._container(name, key, value)
            elif way == _FUNCTION or _is_of_cells(value, type(value), self._user_ns):
                self._take(name, key, value)

    def _class(self, name: str, path: str, cls: type) -> None:
        for key, value, way in self._candidates(type.__getattribute__(cls, "__dict__").copy()):
            if way == _HOLDER or key in ("__dict__", "__weakref__", "__class__"):
                continue
            if way == _FUNCTION or _is_of_cells(value, type(value), self._user_ns):
                self._take(name, f"{path}.{key}", value)

    def _container(self, name: str, key: str, value: Any) -> None:
        if len(value) > _MOST_ITEMS:
            return
        ways, ns, holder = self._ways, self._user_ns, _HOLDER  # as above: most items are plain
        if issubclass(type(value), dict):
            if type(value) is dict or type(value) is OrderedDict:
                for at, item in list(value.items()):
                    if (0 < ways[type(item)] < holder and is_cell_made(item, ns)) or (
                        0 < ways[type(at)] < holder and is_cell_made(at, ns)
                    ):
                        self._found.items.append((name, key, at, item))
            return
        for item in list(value):
            if 0 < ways[type(item)] < holder and is_cell_made(item, ns):
                self._found.in_lists.append(f"{name}.{key}")
                return

    def _take(self, name: str, path: str, value: Any) -> None:
        place = f"{name}.{path}"
        if place not in _NOT_KEPT:
            self._places[place] = value
            self._found.values.append((name, path, value))


def _is_of_cells(value: Any, cls: type, user_ns: dict[str, Any]) -> bool:
    if cls in _WRAPPERS or issubclass(cls, type) or cls.__module__ == "__main__":
        return is_cell_made(value, user_ns)
    # An object of a library that wraps what a cell has made (pandas' CachedAccessor).
    try:
        held = object.__getattribute__(value, "__dict__")
    except Exception:
        return False
    if type(held) is not dict or len(held) > _FEW:
        return False
    function = types.FunctionType
    for each in held.values():
        kind = type(each)
        if (kind is function or kind is type) and is_cell_made(each, user_ns):
            return True
    return False


def _look_by_name(
    found: Patches,
    places: dict[str, Any],
    named: Named,
    user_ns: dict[str, Any],
    own: Mapping[str, types.ModuleType],
) -> None:
    known = set(places)
    for table, take_one in ((named.attributes, _take_value), (named.deleted, _take_deleted)):
        for path in table:
            owner, _, name = path.rpartition(".")
            where = _place_of(resolve(owner, named, user_ns), own)
            if where is None:
                continue
            module, inside = where
            inside = f"{inside}.{name}".lstrip(".")
            place = f"{module}.{inside}"
            if place not in _NOT_KEPT and place not in known:
                known.add(place)
                take_one(found, module, inside)
    for path in named.containers:
        owner, _, name = path.rpartition(".")
        where = _place_of(resolve(owner, named, user_ns), own) if owner else None
        if not owner and path in named.aliases and "." in named.aliases[path]:
            owner, _, name = named.aliases[path].rpartition(".")  # from m import TABLE
            where = _place_of(sys.modules.get(owner), own)
        if where is None:
            continue
        module, inside = where
        inside = f"{inside}.{name}".lstrip(".")
        place = f"{module}.{inside}"
        if place in _NOT_KEPT or place in known:
            continue
        value = read(module, inside)
        if type(value) in _CONTAINERS:
            known.add(place)
            found.contents.append((module, inside, value))
    # an item of a dictionary that is taken whole need not be taken alone
    whole = {(module, path) for module, path, _ in found.contents}
    found.items = [item for item in found.items if item[:2] not in whole]
    found.in_lists = [place for place in found.in_lists if place not in known]


def _place_of(owner: Any, own: Mapping[str, types.ModuleType]) -> tuple[str, str] | None:
    """(module, path of the class within it or "") of a module or class that is not the user's."""
    cls = type(owner)
    if issubclass(cls, types.ModuleType):
        name = (module_dict(owner) or {}).get("__name__")
        inside = ""
    elif issubclass(cls, type):
        name = type.__getattribute__(owner, "__module__")
        inside = owner.__qualname__
        if read(str(name), inside) is not owner:
            return None
    else:
        return None
    if not isinstance(name, str) or name in own or name.split(".")[0] in _NOT_LOOKED_INTO:
        return None
    module = sys.modules.get(name)
    if module is None or (module_dict(module) or {}).get("__spec__") is None:
        return None
    return name, inside


def read(module: str, path: str) -> Any:
    """What stands at `path` in a module, without running code of anybody; or NOTHING."""
    found: Any = sys.modules.get(module)
    for step in path.split("."):
        try:
            found = (
                type.__getattribute__(found, "__dict__")[step]
                if isinstance(found, type)
                else object.__getattribute__(found, "__dict__")[step]
            )
        except (AttributeError, KeyError, TypeError):
            return NOTHING
    return found


NOTHING = object()


def _take_value(found: Patches, module: str, path: str) -> None:
    value = read(module, path)
    if value is not NOTHING:
        found.values.append((module, path, value))


def _take_deleted(found: Patches, module: str, path: str) -> None:
    if read(module, path) is NOTHING:
        found.deleted.append((module, path))


# ---- originals ----


def original(obj: Any, user_ns: dict[str, Any]) -> tuple[types.ModuleType, str] | None:
    """(module, path) under which a new process finds a library's function or class that a cell
    has put something else in the place of, here; None for what is found there, or never was."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    path = getattr(obj, "__qualname__", None)
    if module is None or not isinstance(path, str) or module.__name__ == "__main__":
        return None
    now = read(module.__name__, path)
    now = getattr(now, "__func__", now) if type(now) in (staticmethod, classmethod) else now
    if now is obj or now is NOTHING or not is_cell_made(now, user_ns):
        return None
    return module, path
