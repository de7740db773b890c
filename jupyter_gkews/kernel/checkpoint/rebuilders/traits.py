"""Objects with traits (traitlets): what observes and validates them comes back with them.

traitlets' own description leaves that out, and makes anew only what their classes decorate. The
constructor is named in graph.pkl: add, never change.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .. import rebuild, reduction
from ..placeholders import Lost
from ..singletons import is_kernels_own
from .interface import Handler

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """The words of traitlets, as `All`, by which its dictionaries are keyed."""
    words = getattr(sys.modules.get("traitlets.utils.sentinel"), "Sentinel", None)
    return {words: reduce_word} if isinstance(words, type) else {}


def base_handlers() -> dict[type, Handler]:
    """HasTraits; widgets and magics have handlers of their own, which go first."""
    traits = getattr(sys.modules.get("traitlets"), "HasTraits", None)
    return {traits: reduce_traits} if isinstance(traits, type) else {}


def reduce_word(writer: GraphWriter, word: Any) -> Any:
    """The very word of this process."""
    for module in ("traitlets", "traitlets.traitlets"):
        found = sys.modules.get(module)
        for name, value in vars(found).items() if found is not None else ():
            if value is word:
                return rebuild.attribute, (found, name)
    return NotImplemented


def reduce_traits(writer: GraphWriter, obj: Any) -> Any:
    """As it describes itself, and what was told to observe or validate this very object."""
    if is_kernels_own(type(obj)):
        return reduction.reduce_kernels_own(writer, obj)
    own = object.__getattribute__(obj, "__dict__")
    by_class = sys.modules["traitlets"].EventHandler
    observers = []
    for name, kinds in own.get("_trait_notifiers", {}).items():
        for kind, functions in kinds.items():
            mine = [each for each in functions if not isinstance(each, by_class)]
            if mine:
                observers.append((name, kind, mine))
    validators = {
        name: each
        for name, each in own.get("_trait_validators", {}).items()
        if not isinstance(each, by_class)
    }
    if not observers and not validators:
        return NotImplemented
    rv = writer.guarded(obj)
    if rv[0] is rebuild.lost or len(rv) < 3 or rv[2] is None or (len(rv) > 5 and rv[5]):
        return rv
    state = (rv[2], observers, validators)
    return (*rv[:2], state, *(*rv[3:5], None, None)[:2], set_traits)


# ---- called by the graph ----


def set_traits(target: Any, saved: tuple[Any, ...]) -> None:
    """What it had; nobody is notified."""

    state, observers, validators = saved
    rebuild.set_state(target, state)
    for name, kind, functions in observers:
        there = target._trait_notifiers.setdefault(name, {}).setdefault(kind, [])
        there += [each for each in functions if not isinstance(each, Lost) and each not in there]
    for name, each in validators.items():
        if not isinstance(each, Lost):
            target._trait_validators[name] = each
