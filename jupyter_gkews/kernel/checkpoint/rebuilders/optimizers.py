"""Optimizers of torch, whole: with their hooks, and with what their own pickling leaves out.

torch writes the defaults, the state and the groups only; hooks, the counter that schedulers put
around `step`, and the parameter list of L-BFGS would be gone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .interface import Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Every optimizer that does not say itself how it is pickled."""
    optimizers: Any = sys.modules.get("torch.optim")
    return {} if optimizers is None else {optimizers.Optimizer: reduce_optimizer}


def reduce_optimizer(writer: GraphWriter, optimizer: Any) -> Any:
    """All its attributes."""
    base = sys.modules["torch.optim"].Optimizer
    cls = type(optimizer)
    for name in ("__getstate__", "__reduce__", "__reduce_ex__"):
        if getattr(cls, name, None) is not getattr(base, name, None):
            return NotImplemented
    return bare_optimizer, (cls,), dict(optimizer.__dict__), None, None, set_optimizer


# ---- called by the graph ----


def bare_optimizer(cls: Any) -> Any:
    """An optimizer without a state, of a class whose `step` calls hooks."""
    made = cls.__new__(cls)
    cls._patch_step_function(made)
    return made


def set_optimizer(target: Any, attributes: dict[str, Any]) -> Reduced | None:
    """Everything that it had. Not by __setstate__, which fills in what a pickle left out."""
    target.__dict__.update(attributes)
    return None
