"""Loggers with their handlers: the logger of that name of the new process, set as it was."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .interface import Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {logging.Logger: reduce_logger, logging.RootLogger: reduce_logger}


def reduce_logger(writer: GraphWriter, logger: logging.Logger) -> Reduced:
    """The logger of that name, with its level, filters and handlers; a handler's file is opened
    again at its end."""
    name = () if isinstance(logger, logging.RootLogger) else (logger.name,)
    names = ("level", "propagate", "disabled", "filters", "handlers")
    state = {each: getattr(logger, each) for each in names}
    return logging.getLogger, name, state, None, None, set_logger


# ---- called by the graph ----


def set_logger(target: Any, state: dict[str, Any]) -> None:
    """Level, filters and handlers of a logger."""
    target.__dict__.update(state)
    target.manager._clear_cache()  # what the levels of others allow depends on it
