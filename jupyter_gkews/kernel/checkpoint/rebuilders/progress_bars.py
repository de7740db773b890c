"""Progress bars of tqdm: they come back with their count and go on where they write."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .. import rebuild
from .interface import Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    tqdm: Any = sys.modules.get("tqdm.utils")
    wrappers = [getattr(tqdm, name, None) for name in ("ObjectWrapper", "DisableOnWriteError")]
    return {wrapper: reduce_tqdm_wrapper for wrapper in wrappers if wrapper is not None}


def reduce_tqdm_wrapper(writer: GraphWriter, wrapper: Any) -> Reduced:
    """tqdm's wrapper around a stream: it answers every question with what it wraps, also those of
    pickle, so only its own attributes are looked at."""
    own = dict(object.__getattribute__(wrapper, "__dict__"))
    return rebuild.bare, (type(wrapper),), own, None, None, rebuild.update_attributes
