"""What the user's own modules hold besides their code: counters, caches, registries, settings.

Taken from the modules' namespaces, the attributes of their classes and functions; put back after
the module was imported again, where it differs. Their functions and classes stay the module's own.
"""

from __future__ import annotations

import collections
import enum
import hashlib
import importlib
import importlib.util
import marshal
import os
import types
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import functions
from .placeholders import Lost

#: Types of class attributes that are data. What else stands in a class (descriptors, objects of
#: libraries that made it what it is) comes with the import.
_DATA = (
    *(type(None), bool, int, float, complex, str, bytes, bytearray, tuple, frozenset, set, list),
    *(dict, collections.deque, collections.OrderedDict, collections.defaultdict),
    *(collections.Counter, weakref.WeakSet, weakref.WeakValueDictionary),
    weakref.WeakKeyDictionary,
)
_DATA_PACKAGES = frozenset({"numpy", "pandas", "torch", "decimal", "datetime", "random"})
_UNCHANGING = (type(None), bool, int, float, complex, str, bytes, type, types.FunctionType)
#: A file of source longer than this is not compiled to see whether it was edited.
_BIGGEST_SOURCE = 1 << 20


@dataclass
class ModuleState:
    """One module: `values` by path ("CACHE", "Model.count"), `functions` by path of the function
    (what it holds: attributes, defaults, closure), `names` all that its namespace had."""

    name: str
    file: str
    digest: str
    names: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_graph(self) -> dict[str, Any]:
        """As a plain dictionary, so that no class of ours stands in the format."""
        return dict(vars(self))

    def told(self) -> list[str]:
        """What of it is data, for the user."""
        plain = [path for path, value in self.values.items() if not _is_code(value)]
        return plain + [f"{path}()" for path in self.functions]

    def labels(self) -> dict[str, Any]:
        """What it holds, by names to tell losses by."""
        found = {f"{self.name}.{path}": value for path, value in self.values.items()}
        found.update({f"{self.name}.{path}()": held for path, held in self.functions.items()})
        return found


def take(name: str, module: types.ModuleType) -> ModuleState:
    """The state of one of the user's modules."""
    namespace = vars(module)
    path = str(namespace.get("__file__"))
    state = ModuleState(name, path, digest_of(path))
    state.names = [key for key in list(namespace) if isinstance(key, str)]
    for key, value in list(namespace.items()):
        if (
            not isinstance(key, str)
            or _is_special(key)
            or issubclass(type(value), types.ModuleType)
        ):
            continue
        if _is_own_code(value, name):
            if issubclass(type(value), type):
                _take_class(state, key, value, set())
            else:
                _take_function(state, key, value)
            continue
        state.values[key] = value
    return state


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_code(value: Any) -> bool:
    return issubclass(type(value), (type, types.FunctionType, types.BuiltinFunctionType))


def _is_own_code(value: Any, name: str) -> bool:
    """A function or class that this module defines: it comes with the import."""
    if not issubclass(type(value), (type, types.FunctionType)):
        return False
    return getattr(value, "__module__", None) == name and functions.by_name(value)


def _take_class(state: ModuleState, path: str, cls: type, seen: set[type]) -> None:
    """Data among the attributes of a class, and what its methods hold."""
    if issubclass(cls, enum.Enum) or cls in seen:
        return
    seen.add(cls)
    for key, value in list(vars(cls).items()):
        if _is_special(key) or key.startswith("_abc_"):
            continue
        kind = type(value)
        inner = value.__func__ if kind in (staticmethod, classmethod) else value
        if type(inner) is types.FunctionType:
            if inner.__module__ == state.name:
                _take_function(state, f"{path}.{key}", inner)
            elif inner.__module__ == "__main__":  # put there by a cell
                state.values[f"{path}.{key}"] = value
        elif issubclass(kind, type):
            if _is_own_code(value, state.name) and value.__qualname__.startswith(cls.__qualname__):
                _take_class(state, f"{path}.{key}", value, seen)
            elif functions.by_name(value) or value.__module__ == "__main__":
                state.values[f"{path}.{key}"] = value
        elif _is_data(value, state.name):
            state.values[f"{path}.{key}"] = value


def _is_data(value: Any, name: str) -> bool:
    cls = type(value)
    if cls in _DATA:
        return True
    if hasattr(cls, "__get__") or hasattr(cls, "__set_name__"):
        return False
    module = str(cls.__module__)
    root = module.split(".")[0]
    return module == "__main__" or root in _DATA_PACKAGES or root == name.split(".")[0]


def _take_function(state: ModuleState, path: str, function: Any) -> None:
    """Attributes, changeable defaults and closure of a function; nothing where there is none."""
    if function.__module__ != state.name or type(function) is not types.FunctionType:
        return
    held: dict[str, Any] = {}
    attributes = {k: v for k, v in function.__dict__.items() if not _is_special(k)}
    if attributes:
        held["attributes"] = attributes
    if any(map(_may_change, function.__defaults__ or ())):
        held["defaults"] = function.__defaults__
    if any(map(_may_change, (function.__kwdefaults__ or {}).values())):
        held["kwdefaults"] = function.__kwdefaults__
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        content = functions.cell_content(cell)
        if content and not _is_code(content[0]) and name != "__class__":
            cells[name] = content[0]
    if cells:
        held["closure"] = cells
    if held:
        state.functions[path] = held


def _may_change(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return any(map(_may_change, value))
    return not issubclass(type(value), (*_UNCHANGING, types.BuiltinFunctionType, enum.Enum))


# ---- the file behind it ----


def digest_of(path: str) -> str:
    """A hash of a module's file; "" if it cannot be read (inside an archive, gone)."""
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


def was_edited(module: types.ModuleType, path: str) -> bool:
    """Whether the file holds other code than the module that was imported from it: by its
    functions, and by the bytecode that the import has left beside it."""
    try:
        if not path.endswith(".py") or os.stat(path).st_size > _BIGGEST_SOURCE:
            return False
        with open(path, "rb") as file:
            tree = compile(file.read(), path, "exec", dont_inherit=True)
    except SyntaxError:
        return True
    except (OSError, ValueError):
        return False
    written = set(_codes(tree))
    if any(
        _essence(function.__code__) not in written
        for function in _functions_of(module)
        if function.__code__.co_filename == path
    ):
        return True
    imported = _imported_code(module, path)
    return imported is not None and set(_codes(imported)) != written


def _imported_code(module: types.ModuleType, path: str) -> types.CodeType | None:
    """What was compiled when the file was imported last, if that was another file than now."""
    try:
        with open(str(vars(module).get("__cached__")), "rb") as file:
            data = file.read()
        seen = os.stat(path)
        if data[:4] != importlib.util.MAGIC_NUMBER or data[4:8] != b"\0\0\0\0":
            return None
        if data[8:16] == b"".join(
            (int(each) & 0xFFFFFFFF).to_bytes(4, "little") for each in (seen.st_mtime, seen.st_size)
        ):
            return None
        code = marshal.loads(data[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return code if type(code) is types.CodeType else None


def _functions_of(module: types.ModuleType) -> Iterator[types.FunctionType]:
    name = module.__name__
    for value in list(vars(module).values()):
        members = vars(value).values() if _is_own_code(value, name) and type(value) is type else ()
        for each in (value, *members):
            each = each.__func__ if type(each) in (staticmethod, classmethod) else each
            if type(each) is types.FunctionType and each.__module__ == name:
                yield each


def _codes(code: types.CodeType) -> Iterator[tuple[Any, ...]]:
    yield _essence(code)
    for each in code.co_consts:
        if type(each) is types.CodeType:
            yield from _codes(each)


def _essence(code: types.CodeType) -> tuple[Any, ...]:
    """What a function does, but not where it stands in its file."""
    constants = tuple(
        each.co_name if type(each) is types.CodeType else repr(each) for each in code.co_consts
    )
    return code.co_name, code.co_code, code.co_names, constants


# ---- putting it back ----


def put(saved: Mapping[str, Any]) -> list[str]:
    """Give a module, imported anew, what `take` took. Returns sentences about what could not be."""
    name = str(saved["name"])
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, MemoryError)):
            raise
        return [f"the module {name} and what it held: {type(error).__name__}: {error}"]
    problems = []
    here = str(vars(module).get("__file__"))
    digest = digest_of(here)
    changed = bool(saved["digest"] and digest and digest != saved["digest"])
    if changed:
        problems.append(
            f"the module {name}: {here} has been changed since the checkpoint; its functions and "
            "classes are those of the file now, its variables those of the checkpoint"
        )
    failed = []
    for path, value in saved["values"].items():
        if type(value) is not Lost and not _put_value(module, path, value):
            failed.append(path)
    for path, held in saved["functions"].items():
        if type(held) is not Lost and not _put_function(module, path, held):
            failed.append(f"{path}()")
    if not changed:
        _remove_deleted(module, set(saved["names"]))
    if failed and not changed:
        problems.append(f"the module {name}: {', '.join(failed)} could not be set")
    return problems


def _owner(module: types.ModuleType, path: str) -> tuple[Any, str]:
    """The module or class that holds `path`, and the last name of it."""
    *steps, last = path.split(".")
    owner: Any = module
    for step in steps:
        owner = vars(owner)[step]
    return owner, last


def _put_value(module: types.ModuleType, path: str, value: Any) -> bool:
    try:
        owner, name = _owner(module, path)
        fresh = vars(owner).get(name, _put_value)
        if fresh is value or (type(value) in _UNCHANGING and _same(fresh, value)):
            return True
        if isinstance(owner, type):
            type.__setattr__(owner, name, value)
        else:
            setattr(owner, name, value)
    except Exception:
        return False
    return True


def _same(fresh: Any, value: Any) -> bool:
    return type(fresh) is type(value) and bool(fresh == value)


def _put_function(module: types.ModuleType, path: str, held: Mapping[str, Any]) -> bool:
    try:
        owner, name = _owner(module, path)
        function = vars(owner)[name]
        function = getattr(function, "__func__", function)
        for key, value in (held.get("attributes") or {}).items():
            if type(value) is not Lost:
                function.__dict__[key] = value
        if "defaults" in held and len(held["defaults"]) == len(function.__defaults__ or ()):
            function.__defaults__ = tuple(held["defaults"])
        if "kwdefaults" in held:
            function.__kwdefaults__ = dict(held["kwdefaults"])
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for key, value in (held.get("closure") or {}).items():
            if key in cells and type(value) is not Lost:
                cells[key].cell_contents = value
    except Exception:
        return False
    return True


def _remove_deleted(module: types.ModuleType, names: set[str]) -> None:
    """What the import gives and the module had no more. Only with an unchanged file: a changed
    one may well have new names."""
    for name, value in list(vars(module).items()):
        if name in names or _is_special(name) or issubclass(type(value), types.ModuleType):
            continue
        delattr(module, name)
