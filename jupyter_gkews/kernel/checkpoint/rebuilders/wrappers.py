"""What wraps a function, an iterator or an object, and has no description of its own: properties of
own classes, weak references of own classes, cmp_to_key, pairwise, numpy.frompyfunc.

It never calls what is wrapped. The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import functools
import gc
import itertools
import re
import sys
import weakref
from typing import TYPE_CHECKING, Any

from .. import rebuild
from ..attributes import held
from ..placeholders import Lost
from .interface import CannotKeepError, Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter

_KEY = type(functools.cmp_to_key(max))
_CALLING = type(iter(int, 1))
_SCANNER: Any = type(re.compile("").scanner(""))  # type: ignore[attr-defined]
_VECTORIZED = " (vectorized)"


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    found: dict[type, Handler] = {_KEY: reduce_key, _CALLING: reduce_calling_iterator}
    if hasattr(itertools, "pairwise"):  # 3.10
        found[itertools.pairwise] = reduce_pairs
    ufunc = getattr(sys.modules.get("numpy"), "ufunc", None)
    if isinstance(ufunc, type):
        found[ufunc] = reduce_ufunc
    several = getattr(sys.modules.get("scipy.special._multiufuncs"), "MultiUFunc", None)
    if isinstance(several, type):
        found[several] = reduce_several_ufuncs
    return found


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    return {property: reduce_property, weakref.ref: reduce_reference}


def _says_itself(cls: type) -> bool:
    return any(getattr(cls, n) is not getattr(object, n) for n in ("__reduce__", "__reduce_ex__"))


def reduce_property(writer: GraphWriter, made: Any) -> Any:
    """A property of an own class: its functions, and its attributes."""
    cls = type(made)
    if cls is property or _says_itself(cls):
        return NotImplemented
    functions = (made.fget, made.fset, made.fdel, made.__doc__)
    return bare_property, (cls,), (functions, _state(made)), None, None, set_property


def reduce_reference(writer: GraphWriter, ref: Any) -> Any:
    """A weakref.WeakMethod, or a weak reference of an own class."""
    cls = type(ref)
    if _says_itself(cls):
        return NotImplemented
    if issubclass(cls, weakref.WeakMethod):
        target = weakref.WeakMethod.__call__(ref)
        return weak_method, ((cls, target) if target is not None else (cls,))
    target = weakref.ref.__call__(ref)
    held = () if target is None else (target,)
    return own_reference, (cls, *held), _state(ref), None, None, rebuild.set_state


def _state(obj: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Its attributes, in the form of object's own reduce."""
    attributes, slots = held(obj)
    return (dict(attributes), slots) if attributes or slots else None


def reduce_key(writer: GraphWriter, key: Any) -> Reduced:
    """functools.cmp_to_key, or what it made of an object."""
    held = [each for each in gc.get_referents(key) if each is not _KEY]
    if not held:  # 3.9
        raise CannotKeepError(
            "what functools.cmp_to_key made",
            "this Python does not tell its function: make it again",
        )
    comparing, *compared = held
    return comparing_key, (comparing, *compared)


def _pairs_hold(pairs: Any) -> list[Any]:
    """The iterator of an itertools.pairwise and what it gave last; [] once it has ended."""
    held = [each for each in gc.get_referents(pairs) if each is not type(pairs)]
    return held[: len(held) - _BESIDES]


#: 3.13 tells the collector of the tuple as well that it uses again.
_BESIDES = 0
if hasattr(itertools, "pairwise"):
    _BESIDES = len(_pairs_hold(itertools.pairwise(()))) - 1


def reduce_pairs(writer: GraphWriter, pairs: Any) -> Reduced:
    """itertools.pairwise: what comes next of its iterator, after what it gave last."""
    return rest_of_pairs, tuple(_pairs_hold(pairs))


def reduce_calling_iterator(writer: GraphWriter, iterator: Any) -> Any:
    """iter(function, end), unless it is what re.finditer returns."""
    called = next(iter(gc.get_referents(iterator)), None)
    if isinstance(getattr(called, "__self__", None), _SCANNER):
        raise CannotKeepError(
            "a re.finditer",
            "its place in the text cannot be read: begin it again, or keep a list of its matches",
        )
    return NotImplemented


def reduce_ufunc(writer: GraphWriter, ufunc: Any) -> Any:
    """numpy.frompyfunc; any other ufunc is found where it is."""
    if not ufunc.__name__.endswith(_VECTORIZED):
        return NotImplemented
    function = next((each for each in gc.get_referents(ufunc) if callable(each)), None)
    if function is None:
        return NotImplemented
    return vectorized, (function, ufunc.nin, ufunc.nout, ufunc.identity)


def reduce_several_ufuncs(writer: GraphWriter, several: Any) -> Any:
    """A function of scipy.special that is several ufuncs: found where it is."""
    special = sys.modules.get("scipy.special")
    name = several.__name__
    if special is None or getattr(special, str(name), None) is not several:
        return NotImplemented
    writer.uses_module("scipy.special")
    return rebuild.attribute, (special, name)


# ---- called by the graph ----


def bare_property(cls: Any) -> Any:
    """A property without functions."""
    return cls.__new__(cls)


def set_property(target: Any, state: tuple[tuple[Any, ...], Any]) -> None:
    """Its functions and attributes; the `__init__` of its class does not run again."""
    property.__init__(target, *state[0])
    if state[1]:
        rebuild.set_state(target, state[1])


def own_reference(cls: Any, *target: Any) -> Any:
    """A weak reference to a restored object, or a dead one."""
    return weakref.ref.__new__(cls, target[0] if target else rebuild.Gone())


def weak_method(cls: Any, *method: Any) -> Any:
    """A weak reference to a method of a restored object, or a dead one."""
    if method and isinstance(method[0], Lost):
        return method[0]
    return cls(*method) if method else cls(rebuild.Gone().method)


def comparing_key(comparing: Any, *compared: Any) -> Any:
    """functools.cmp_to_key, or what it makes of an object."""
    made = functools.cmp_to_key(comparing)
    return made(*compared) if compared else made


def rest_of_pairs(*held: Any) -> Any:
    """An itertools.pairwise that goes on."""
    if not held:
        return itertools.pairwise(())
    iterator, *last = held
    return itertools.pairwise(itertools.chain(last, iterator) if last else iterator)


def vectorized(function: Any, nin: int, nout: int, identity: Any) -> Any:
    """A ufunc that calls a Python function."""
    if isinstance(function, Lost):
        return function
    numpy: Any = rebuild.module("numpy")
    if identity is None:
        return numpy.frompyfunc(function, nin, nout)
    return numpy.frompyfunc(function, nin, nout, identity=identity)
