"""Objects that modules hold and that others compare by identity: sentinels, generators of random
numbers that a library shares, constants compared with `is`, namespaces of modules.

Found again in the modules of the process that loads, never copied. It only looks at what stands in
`sys.modules`; it imports nothing and runs no code of anybody.
"""

from __future__ import annotations

import dis
import itertools
import operator
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import rebuild
from .attributes import default_state, slots_of
from .user_modules import module_dict

Reduced = tuple[Any, ...]

#: What the process or a library shares, and whose state is kept by rules of its own
#: (random_state.py, process_state.py, interpreter_state.py, figure_state.py) or is a cache.
_SHARED = (
    *(("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("torch", "default_generator")),
    *(("os", "environ"), ("sys", "path"), ("sys", "meta_path"), ("sys", "path_hooks")),
    *(("sys", "modules"), ("sys", "path_importer_cache"), ("linecache", "cache")),
    *(("gc", "callbacks"), ("matplotlib", "rcParams"), ("matplotlib", "colormaps")),
)
#: Modules whose objects belong to the process, or that hold what cells have made.
_NOT_LOOKED_INTO = frozenset(
    (
        *("__main__", "__mp_main__", "builtins", "sys", "gc", "IPython", "ipykernel", "traitlets"),
        *("jupyter_gkews", "cloudpickle", "debugpy", "pydevd", "comm", "linecache"),
    )
)
#: Types of what most modules hold; their objects are nobody's sentinels.
_COMMON = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset),
        *(type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
        *(types.MethodType, property, staticmethod, classmethod),
    )
)
#: Types of objects that the collector never knows of.
_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
#: A process has more objects than that.
_FEW = 1000
#: A constant longer than this is a text, no sentinel.
_LONG = 64
_IS = dis.opmap["IS_OP"]
#: Constants of a module that its own code compares with `is`: looked for once.
_compared: dict[tuple[str, int, int], tuple[str, ...]] = {}


class NamespaceMetError(BaseException):
    """The pickler has gone into the namespace of `module`, whose name is `name`."""

    def __init__(self, name: str, namespace: dict[str, Any]) -> None:
        super().__init__(name)
        self.name = name
        self.namespace = namespace


def _modules() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in list(sys.modules.items()):
        namespace = module_dict(module)
        if namespace is None or not isinstance(name, str):
            continue
        if namespace.get("__name__") != name or namespace.get("__spec__") is None:
            continue
        if name.split(".")[0] not in _NOT_LOOKED_INTO:
            yield name, namespace


def shared() -> dict[int, tuple[Any, Reduced]]:
    """What the process or a library shares, by id: generators of random numbers, settings."""
    found = {}
    for name, attribute in _SHARED:
        module = sys.modules.get(name)
        single = vars(module).get(attribute) if type(module) is types.ModuleType else None
        if single is not None:
            found[id(single)] = (single, (rebuild.attribute, (module, attribute)))
    return found


def sentinels() -> dict[int, tuple[Any, Reduced]]:
    """Objects of modules that have no state but which they are, by id."""
    found: dict[int, tuple[Any, Reduced]] = {}
    bare: dict[type, bool] = {cls: False for cls in _COMMON}
    for name, namespace in _modules():
        for key, value in list(namespace.items()):
            cls = type(value)
            try:
                fits = bare[cls]
            except KeyError:
                fits = bare[cls] = _may_be_bare(cls)
            if not fits or id(value) in found or not isinstance(key, str):
                continue
            if key[:2] == "__" == key[-2:] or not _is_bare(value, cls):
                continue
            if cls is object or cls.__module__.split(".")[0] == name.split(".")[0]:
                found[id(value)] = (value, (rebuild.of_module, (sys.modules[name], key, cls)))
    return found


def _may_be_bare(cls: Any) -> bool:
    if cls is object:
        return True
    if issubclass(cls, type) or cls.__module__ in ("__main__", "builtins"):
        return False
    heap = all(base.__flags__ & 1 << 9 for base in cls.__mro__ if base is not object)
    return heap and not slots_of(cls) and default_state(cls)


def _is_bare(value: Any, cls: type) -> bool:
    if not cls.__dictoffset__:
        return True
    try:
        return not object.__getattribute__(value, "__dict__")
    except Exception:
        return False


# ---- constants that are compared by identity ----


def constants(own: Iterable[str]) -> list[tuple[str, Reduced]]:
    """Strings of modules that stand for themselves alone (argparse.SUPPRESS), each with what
    finds it again. Those of the modules `own`, which a cell may compare with; of all others those
    that the module's own functions compare with `is`."""
    own = frozenset(own)
    found: dict[int, tuple[str, Reduced]] = {}
    for name, namespace in _modules():
        names = [
            key
            for key, value in list(namespace.items())
            if type(value) is str and 1 < len(value) <= _LONG and key.isupper()
        ]
        if not names:
            continue
        key = (name, id(namespace), len(namespace))
        if name not in own and key not in _compared:
            _compared[key] = tuple(_compared_in(name, namespace, frozenset(names)))
        for each in names if name in own else _compared[key]:
            value = namespace.get(each)
            if type(value) is str and id(value) not in found:
                equal = value[:1] + value[1:]  # the very object is to be a back reference
                found[id(value)] = (value, (rebuild.constant, (name, each, equal)))
    return list(found.values())


def _compared_in(name: str, namespace: dict[str, Any], names: frozenset[str]) -> set[str]:
    """Which of `names` are named by functions of the module that compare anything with `is`."""
    found: set[str] = set()
    for code in _codes(name, namespace):
        used = names.intersection(code.co_names)
        if used and _IS in code.co_code[::2]:
            found |= used
    return found


def _codes(name: str, namespace: dict[str, Any]) -> Iterator[types.CodeType]:
    stack: list[Any] = list(namespace.values())
    seen: set[int] = set()
    while stack:
        each = stack.pop()
        cls = type(each)
        if cls in (staticmethod, classmethod):
            stack.append(each.__func__)
        elif cls is property:
            stack += [each.fget, each.fset, each.fdel]
        elif cls is types.FunctionType and each.__module__ == name:
            stack.append(each.__code__)
        elif cls is types.CodeType:
            yield each
            stack += [const for const in each.co_consts if type(const) is types.CodeType]
        elif issubclass(cls, type) and id(each) not in seen:
            seen.add(id(each))
            if type.__getattribute__(each, "__module__") == name:
                stack += list(type.__getattribute__(each, "__dict__").values())


# ---- dictionaries of instances ----

_DICTIONARY = frozenset(("__dict__", "vars"))


def dictionaries_named(sources: Iterable[str], own: Mapping[str, types.ModuleType]) -> bool:
    """Whether cells or the user's own modules name the dictionary of an instance: somebody may
    then hold one."""
    if any("__dict__" in source or "vars(" in source for source in sources):
        return True
    return any(
        not _DICTIONARY.isdisjoint(code.co_names)
        for name, module in own.items()
        for code in _codes(name, vars(module))
    )


def names_dictionary(cls: type) -> bool:
    """The same of the methods of a class (a dictionary whose attributes are its items)."""
    return any(
        not _DICTIONARY.isdisjoint(each.__code__.co_names)
        for base in cls.__mro__
        for each in vars(base).values()
        if type(each) is types.FunctionType
    )


# ---- namespaces of modules ----


def namespaces() -> dict[int, str]:
    """The dictionaries of modules, by id, with the module's name."""
    found = {}
    for module in list(sys.modules.values()):
        namespace = module_dict(module)
        if namespace is not None:
            found[id(namespace)] = str(namespace.get("__name__"))
    return found


def reduce_spec(writer: Any, spec: Any) -> Any:
    """The spec of a module that is there. Who comes here may be on his way through the module's
    namespace, which is not walked: it is found again as a whole."""
    name = spec.name
    module = sys.modules.get(name)
    namespace = module_dict(module)
    if namespace is None:
        return NotImplemented
    if namespace.get("__spec__") is not spec or namespace.get("__name__") != name:
        return NotImplemented
    if id(namespace) not in writer.announced:
        raise NamespaceMetError(name, namespace)
    return rebuild.attribute, (module, "__spec__")


def is_everything(value: Any) -> bool:
    """Whether a list is what gc.get_objects() gives: all objects of the process."""
    if type(value) is not list or len(value) <= _FEW:
        return False
    # The collector lists no plain values (what it lists may be untracked since). Most lists of
    # that size have nothing else.
    if not _PLAIN.isdisjoint(map(type, itertools.islice(value, _FEW))):
        return False
    return any(map(operator.is_, value, itertools.repeat(sys.modules)))
