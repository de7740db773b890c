"""Small objects of the standard library that pickle refuses although little is needed to make them.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import gc
import os
import random
import struct
import sys
import weakref
from typing import TYPE_CHECKING, Any

from .. import rebuild
from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import loading, stand_in

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        struct.Struct: reduce_struct,
        random.SystemRandom: reduce_system_random,
        os.DirEntry: reduce_entry,
        weakref.finalize: reduce_finalizer,
    }


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    ctypes: Any = sys.modules.get("ctypes")
    if ctypes is None or not hasattr(ctypes, "CDLL"):
        return {}
    return {ctypes.CDLL: reduce_library, ctypes._CFuncPtr: reduce_function_pointer}


def reduce_struct(writer: GraphWriter, obj: Any) -> Reduced:
    """A struct.Struct: its format."""
    return struct.Struct, (obj.format,)


def reduce_system_random(writer: GraphWriter, obj: Any) -> Reduced:
    """random.SystemRandom has no state."""
    return random.SystemRandom, ()


def reduce_entry(writer: GraphWriter, entry: Any) -> Reduced:
    """An entry of os.scandir: found again in its folder."""
    writer.note_rebuilt("a directory entry is looked up again", entry)
    stands_in(writer, entry)
    return directory_entry, (entry.path, os.path.abspath(entry.path))


def reduce_finalizer(writer: GraphWriter, finalizer: Any) -> Reduced:
    """weakref.finalize: waits for the restored object, or is dead."""
    peeked = finalizer.peek()
    if peeked is None:
        return dead_finalizer, ()
    obj, func, args, keywords = peeked
    return live_finalizer, (obj, func, args, keywords or {}, finalizer.atexit)


def reduce_library(writer: GraphWriter, library: Any) -> Reduced:
    """A library loaded by ctypes: loaded again."""
    writer.uses_module("ctypes")
    kind = type(library)
    return loaded_library, (kind, library._name)


def reduce_function_pointer(writer: GraphWriter, pointer: Any) -> Any:
    """A function of a library, or a callback made of a Python function."""
    writer.uses_module("ctypes")
    ctypes: Any = sys.modules["ctypes"]
    cls = type(pointer)
    parts = gc.get_referents(pointer)
    held = [p for part in parts if type(part) is dict for p in part.values()]
    library = next((p for p in [*parts, *held] if isinstance(p, ctypes.CDLL)), None)
    name = getattr(pointer, "__name__", None)
    if library is not None and isinstance(name, (str, int)) and cls is library._FuncPtr:
        types = (pointer.restype, pointer.argtypes)
        return (
            library_function,
            (library, name, vars(library).get(name) is pointer),
            types,
            None,
            (None),
            set_types,
        )
    callback = next((p for p in parts if callable(p) and not isinstance(p, type)), None)
    if callback is None or not hasattr(cls, "_flags_"):
        raise CannotKeepError("a pointer to a C function", "where it points to is not known")
    arguments = getattr(cls, "_argtypes_", None) or ()
    return callback_function, (cls._restype_, tuple(arguments), cls._flags_, callback)


# ---- called by the graph ----


def directory_entry(path: Any, absolute: Any) -> Any:
    """The os.DirEntry of a path."""
    load = loading()
    if load.dry:
        return stand_in()
    folder = os.path.dirname(path) or type(path)()
    try:
        where = folder if os.path.abspath(path) == absolute else os.path.dirname(absolute)
        with os.scandir(where or ".") as entries:
            for entry in entries:
                if entry.name == os.path.basename(path):
                    return entry
    except OSError as error:
        return load.fail("a directory entry", f"{os.fsdecode(path)}: {error.strerror}")
    return load.fail("a directory entry", f"{os.fsdecode(path)} is not there any more")


class _Nothing:
    """What a dead finalizer has waited for."""


def dead_finalizer() -> Any:
    """A weakref.finalize that has run."""
    nothing = _Nothing()
    made = weakref.finalize(nothing, _Nothing)
    made.detach()
    return made


def live_finalizer(obj: Any, func: Any, args: Any, keywords: dict[str, Any], at_exit: bool) -> Any:
    """A weakref.finalize for a restored object; in a test load it is dead."""
    if loading().dry or isinstance(obj, Lost):
        return dead_finalizer()
    made = weakref.finalize(obj, func, *args, **keywords)
    made.atexit = at_exit
    return made


def loaded_library(cls: Any, name: Any) -> Any:
    """A ctypes library."""
    try:
        return cls(name)
    except OSError as error:
        return loading().fail("a library loaded by ctypes", f"{name} could not be loaded: {error}")


def library_function(library: Any, name: Any, attribute: bool) -> Any:
    """A function of a ctypes library; `attribute`: the one that the library has as attribute."""
    if isinstance(library, Lost):
        return library
    return rebuild.attribute(library, name) if attribute else library[name]


def set_types(function: Any, types: tuple[Any, Any]) -> None:
    """What a function takes and returns."""
    if not isinstance(function, Lost):
        function.restype, function.argtypes = types


def callback_function(result: Any, arguments: tuple[Any, ...], flags: int, func: Any) -> Any:
    """A C function that calls a Python function."""
    ctypes: Any = rebuild.module("ctypes")
    if isinstance(func, Lost):
        return func
    options = {"use_errno": bool(flags & 0x8), "use_last_error": bool(flags & 0x10)}
    make = ctypes.PYFUNCTYPE if flags & 0x4 else ctypes.CFUNCTYPE
    if make is ctypes.PYFUNCTYPE:
        options = {}
    return make(result, *arguments, **options)(func)
