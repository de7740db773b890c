"""How functions, code, cells, classes and modules go into a graph.

Functions keep the namespace they live in (`f.__globals__ is user_ns`), closures keep sharing
their cells, classes from cells travel by value; what an importable module holds travels by name.
Builds on cloudpickle for classes. It never imports or calls what it describes.
"""

from __future__ import annotations

import enum
import functools
import linecache
import sys
import types
import typing
import weakref
from typing import TYPE_CHECKING, Any

from cloudpickle import cloudpickle

from . import bytecode, enums, patches, rebuild
from .rebuilders.compiled import reduce_compiled_function

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]

_HEAPTYPE = 1 << 9
#: What decides how a ctypes structure is laid out.
_LAYOUT = ("_pack_", "_align_", "_layout_", "_anonymous_", "_fields_")
_ABSENT = object()
#: Special names that a class has because somebody wrote them there.
_CHOSEN = frozenset(("__slots__", "__orig_bases__", "__hash__", "__call__", "__init__"))
#: What a module's namespace holds that Python puts there.
_NO_STATE = frozenset({"__builtins__", "__loader__", "__spec__"})


def by_name(obj: Any) -> bool:
    """Whether a function or class is found again by its module and qualified name."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    if module is not None and is_made_module(module):
        return False
    return bool(cloudpickle._should_pickle_by_reference(obj))


def is_made_module(module: Any) -> bool:
    """Whether a module was made by a cell (types.ModuleType): nothing to import it from."""
    if not issubclass(type(module), types.ModuleType):
        return False
    namespace = object.__getattribute__(module, "__dict__")
    name = namespace.get("__name__")
    if name == "__main__" or namespace.get("__spec__") or namespace.get("__loader__"):
        return False
    if "__file__" in namespace or "__path__" in namespace or not isinstance(name, str):
        return False
    root = sys.modules.get(name.split(".")[0])
    return root is module or getattr(root, "__spec__", None) is None


def reduce_function(writer: GraphWriter, func: types.FunctionType) -> Any:
    """By name where a module holds it; otherwise code, cells and the namespace it lives in."""
    if by_name(func):
        writer.uses_module(func.__module__)
        return _named(func)
    if "_torchdynamo_orig_callable" in func.__dict__:
        compiled = reduce_compiled_function(writer, func)
        if compiled is not NotImplemented:
            return compiled
    replaced = patches.original(func, writer.user_ns)
    if replaced is not None:
        return rebuild.attribute, replaced
    closure = func.__closure__
    cells: list[tuple[Any, tuple[Any, ...]]] = []
    if closure is not None:
        # The cells go out empty with the function and are filled once it is known: a cell may
        # hold the function itself.
        for cell in closure:
            writer.bare_cells.add(id(cell))
            cells.append((cell, cell_content(cell)))
    state: dict[str, Any] = {
        "cells": cells,
        "attributes": func.__dict__ or None,
        "__qualname__": func.__qualname__,
        "__module__": func.__module__,
        "__doc__": func.__doc__,
        "__defaults__": func.__defaults__,
        "__kwdefaults__": func.__kwdefaults__,
    }
    state.update(_annotations(func))
    overloads = _overloads(func)
    if overloads:
        state["overloads"] = overloads
    type_params = getattr(func, "__type_params__", ())
    if type_params:
        state["__type_params__"] = type_params
    writer.uses_source(func.__code__.co_filename)
    return (
        rebuild.function,
        (func.__code__, _globals(writer, func), func.__name__, closure),
        state,
        None,
        None,
        rebuild.set_function,
    )


def _named(obj: Any) -> Any:
    """By name: as pickle does it, or from its module, where that is called as if it lay in a
    package that is not there (one that was loaded from its path)."""
    name = obj.__module__
    if name.partition(".")[0] in sys.modules:
        return NotImplemented
    return rebuild.attribute, (sys.modules[name], obj.__qualname__)


def _overloads(func: types.FunctionType) -> list[Any]:
    """What typing.overload noted for the name of a function, which typing.get_overloads tells."""
    known: Any = getattr(typing, "_overload_registry", {})  # 3.11
    if func.__module__ not in known:
        return []
    noted = list(known[func.__module__].get(func.__qualname__, {}).values())
    return [each for each in noted if each is not func] if func not in noted else []


def _annotations(func: types.FunctionType) -> dict[str, Any]:
    # Python 3.14 evaluates annotations lazily: keep them lazy, evaluating may raise NameError.
    if hasattr(func, "__annotate__"):
        return {"__annotate__": func.__annotate__}
    return {"__annotations__": func.__annotations__}


def _globals(writer: GraphWriter, func: types.FunctionType) -> Any:
    namespace = func.__globals__
    if namespace is writer.user_ns:
        return namespace  # known to the writer: comes back as the live namespace
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is not None and getattr(module, "__dict__", None) is namespace:
        assert isinstance(name, str)
        if name == "__main__":
            return namespace
        if is_made_module(module):
            return writer.made_namespace(name)
        return writer.module_namespace(name, namespace)
    return namespace


def cell_content(cell: Any) -> tuple[Any, ...]:
    """(content,) of a closure cell, () if it is empty."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def reduce_cell(writer: GraphWriter, cell: Any) -> Reduced:
    """A closure cell: filled by its function, or by itself when met alone."""
    if id(cell) in writer.bare_cells:
        return rebuild.cell, ()
    return rebuild.cell, (), cell_content(cell) or None, None, None, rebuild.fill_cell


def reduce_code(writer: GraphWriter, code: types.CodeType) -> Reduced:
    """Bytecode, and where its source is: another Python compiles that again."""
    writer.uses_source(code.co_filename)
    try:
        return rebuild.code, (bytecode.MAGIC, bytecode.describe(code), bytecode.dump(code))
    except ValueError:  # constants that no compiler makes
        make, args = cloudpickle._code_reduce(code)
        return make, tuple(code.co_filename if arg == "<dynamic-code>" else arg for arg in args)


def sources(filenames: set[str]) -> dict[str, str]:
    """The text of those cells (not files on disk) that are in the line cache."""
    found = {}
    for filename in sorted(filenames):
        entry = linecache.cache.get(filename)
        if entry is not None and len(entry) == 4 and entry[1] is None:
            found[filename] = "".join(entry[2])
    return found


def reduce_class(writer: GraphWriter, cls: type) -> Any:
    """By name where a module holds it; by value for classes made in cells."""
    if type(cls).__module__ == "_ctypes" and hasattr(cls, "_length_") and not by_name(cls):
        return rebuild.array_type, (cls._type_, cls._length_)  # type: ignore[attr-defined]
    rv = cloudpickle._class_reduce(cls)
    if rv is NotImplemented and not by_name(cls) and cls.__module__ != "__main__":
        rv = cloudpickle._dynamic_class_reduce(cls)  # of a module that a cell has made
    if rv is NotImplemented:
        public = _public_module(cls)
        if public is not None:
            return rebuild.attribute, (public, cls.__qualname__)
        writer.uses_module(cls.__module__)
        return _named(cls)
    if len(rv) == 2:
        return rv
    if cls.__module__ == "_ctypes":  # metaclasses without a name to find them by
        ctypes: Any = sys.modules["ctypes"]
        for base in (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData):
            if cls is type(base):
                return type, (base,)
    replaced = patches.original(cls, writer.user_ns)
    if replaced is not None:
        return rebuild.attribute, replaced
    generic = _of_a_generic_model(cls)
    if generic is not None:
        return rebuild.subscribed, generic
    if cls is weakref.ref:  # up to 3.10 its name is that of its module
        return rebuild.attribute, (weakref, "ref")
    if not cls.__flags__ & _HEAPTYPE:
        raise TypeError(f"the built-in type {cls.__qualname__!r} cannot be found by name")
    args, (attributes, slots) = rv[1], rv[2]
    attributes = _whole(cls, attributes)
    attributes.setdefault("__qualname__", cls.__qualname__)
    if issubclass(cls, enum.Enum):
        return enums.reduce_enum(cls, attributes, slots, args[2])
    metaclass, name, _, keywords = args[:4]
    keywords = dict(keywords)
    if metaclass.__module__ == "_ctypes":  # a structure is laid out while it is made
        for key in _LAYOUT:
            if key in cls.__dict__:
                keywords[key] = attributes.pop(key)
        for key, value in list(attributes.items()):
            if type(value).__name__ == "CField":
                del attributes[key]
    if "__orig_bases__" in cls.__dict__:  # Generic looks for it while the class is made
        keywords["__orig_bases__"] = attributes.pop("__orig_bases__")
    if "__slots__" in cls.__dict__:
        keywords["__slots__"] = attributes.pop("__slots__")
        for key, value in list(attributes.items()):  # made anew from __slots__
            if isinstance(value, types.MemberDescriptorType) and value.__objclass__ is cls:
                del attributes[key]
    if "__class__" in cls.__dict__:  # set later, it would mean the class of this class
        keywords["__class__"] = attributes.pop("__class__")
    args = (metaclass, name, cls.__bases__, keywords)
    return rebuild.make_class, args, (attributes, slots), None, None, rebuild.set_class


def _of_a_generic_model(cls: type) -> tuple[Any, Any] | None:
    """(Box, Item) if a class is pydantic's `Box[Item]`, which pydantic makes once and notes."""
    if "pydantic" not in sys.modules:
        return None
    told = vars(cls).get("__pydantic_generic_metadata__")
    origin, args = (told.get("origin"), told.get("args")) if type(told) is dict else (None, ())
    if origin is None or not args:
        return None
    key = args[0] if len(args) == 1 else tuple(args)
    try:
        return (origin, key) if origin[key] is cls else None
    except Exception:
        return None


def _whole(cls: type, attributes: dict[str, Any]) -> dict[str, Any]:
    """What a class holds, in its order. cloudpickle leaves out what is the very object that its
    base class has (None, a number): where the base changes, this class must not."""
    whole = {}
    for name, value in list(vars(cls).items()):
        if name in attributes:
            whole[name] = attributes[name]
        elif (not name.startswith("__") or name in _CHOSEN) and any(
            vars(base).get(name, _ABSENT) is value for base in cls.__bases__
        ):
            whole[name] = value
    return {**whole, **{name: each for name, each in attributes.items() if name not in whole}}


def _public_module(cls: type) -> types.ModuleType | None:
    """The public module of the standard library that has a class which says that it is of a
    private one below (pathlib._local in Python 3.13): other Pythons know only the public one."""
    parts = cls.__module__.split(".")
    if len(parts) < 2 or not any(part.startswith("_") for part in parts[1:]):
        return None
    if parts[0] not in getattr(sys, "stdlib_module_names", ()):
        return None
    private = next(at for at, part in enumerate(parts) if at and part.startswith("_"))
    public = sys.modules.get(".".join(parts[:private]))
    found = vars(public).get(cls.__qualname__) if public is not None else None
    return public if found is cls else None


def reduce_module(writer: GraphWriter, module: types.ModuleType) -> Reduced:
    """By name; a module that only exists in memory by its contents."""
    name = module.__name__
    if name == "__main__":
        return rebuild.main_module, (writer.user_ns,)
    if sys.modules.get(name) is module and is_made_module(module):
        state = {k: v for k, v in vars(module).items() if k not in _NO_STATE}
        if type(module).__module__ == "__main__":
            return rebuild.made_module_as, (type(module), name, module.__doc__), state
        return rebuild.made_module, (name, module.__doc__), state
    if sys.modules.get(name) is module:
        writer.uses_module(name)
        return rebuild.module, (name,)
    state = {k: v for k, v in vars(module).items() if k not in _NO_STATE}
    return types.ModuleType, (name, module.__doc__), state


def reduce_partial_method(writer: GraphWriter, method: functools.partialmethod[Any]) -> Reduced:
    """functools.partialmethod has no reduce of its own."""
    return functools.partialmethod, (method.func, *method.args), dict(vars(method))


def by_name_in_module(obj: Any) -> bool:
    """Whether an object that is no function or class is found by its module and name."""
    module = sys.modules.get(obj.__module__)
    if module is None or obj.__module__ == "__main__":
        return False
    try:
        return rebuild.attribute(module, obj.__qualname__) is obj
    except AttributeError:
        return False
