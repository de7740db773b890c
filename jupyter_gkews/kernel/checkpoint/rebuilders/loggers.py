"""Loggers with their handlers: those of the new process, set as they were.

A handler's file is opened again at its end, never truncated or created. The constructors are
named in graph.pkl: add, never change.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Callable

from ..placeholders import Lost, loss_of
from ..reduction import is_plain
from .interface import Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

_STATE = ("level", "propagate", "disabled", "filters", "handlers")


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """The same, with derived classes."""
    found: dict[type, Handler] = {
        logging.Logger: reduce_logger,
        logging.Handler: reduce_handler,
        logging.PlaceHolder: reduce_place_holder,
        logging.Manager: reduce_manager,
    }
    listener = getattr(sys.modules.get("logging.handlers"), "QueueListener", None)
    if listener is not None:
        found[listener] = reduce_listener
    return found


def reduce_logger(writer: GraphWriter, logger: logging.Logger) -> Any:
    """The logger of that name, with its level, filters and handlers."""
    if isinstance(logger, logging.RootLogger):
        name: tuple[str, ...] = ()
    elif logging.Logger.manager.loggerDict.get(logger.name) is logger:
        name = (logger.name,)
    else:
        return NotImplemented  # made by its class: nobody finds it by its name
    state = {each: getattr(logger, each) for each in _STATE}
    own = {k: v for k, v in vars(logger).items() if k not in vars(logging.Logger("x"))}
    state.update({k: v for k, v in own.items() if k not in ("manager", "root")})
    if type(logger) not in (logging.Logger, logging.RootLogger):
        return own_logger, (type(logger), *name), state, None, None, set_logger
    return logging.getLogger, name, state, None, None, set_logger


def reduce_place_holder(writer: GraphWriter, holder: Any) -> Reduced:
    """What stands for a logger that only has children."""
    return logging.PlaceHolder, (logging.getLogger(),)


def reduce_manager(writer: GraphWriter, manager: Any) -> Reduced:
    """The manager of all loggers."""
    return the_manager, ()


def reduce_handler(writer: GraphWriter, handler: Any) -> Any:
    """A handler: its attributes, with a lock of its own and its file open as before."""
    if not is_plain(type(handler)):
        return NotImplemented
    state = {name: value for name, value in vars(handler).items() if name != "lock"}
    return new_handler, (type(handler),), state, None, None, set_handler


def reduce_listener(writer: GraphWriter, listener: Any) -> Any:
    """A QueueListener; if it was listening, it listens again."""
    if not is_plain(type(listener)):
        return NotImplemented
    state = dict(vars(listener))
    listening = state.pop("_thread", None) is not None
    if listening:
        writer.note_rebuilt("a listener listens again, in a new thread", listener)
    return new_handler, (type(listener),), (state, listening), None, None, set_listener


# ---- the loggers that no variable names ----


def capture(add_row: Callable[[str, str, str | None], None], start: frozenset[int]) -> list[Any]:
    """[(logger, level, handlers)] of what cells have set up: levels of all loggers that have one,
    handlers of the root logger and of loggers of no library. `start` are the ids of handlers that
    were there before the first cell."""
    found: list[Any] = []
    named = [each for each in logging.Logger.manager.loggerDict.values()]
    for logger in [logging.getLogger(), *named]:
        if not isinstance(logger, logging.Logger):
            continue
        theirs = _of_a_library(logger)
        own = [
            handler
            for handler in logger.handlers
            if id(handler) not in start and (not theirs or isinstance(handler, logging.FileHandler))
        ]
        is_root = isinstance(logger, logging.RootLogger)
        level = logger.level if (logger.level and not is_root) or logger.disabled else None
        if own or level is not None or (not theirs and (logger.filters or not logger.propagate)):
            rest = None if theirs else (logger.propagate, list(logger.filters))
            found.append((logger.name if not is_root else None, level, logger.disabled, own, rest))
        if own:
            names = ", ".join(type(handler).__name__ for handler in own)
            add_row(f"handlers of logger {logger.name}", "rebuilt", names)
    return found


def own_class() -> type | None:
    """What logging.setLoggerClass was told by a cell; None where it is as Python has it, or where
    a library has told it, which tells it again."""
    found = logging.getLoggerClass()
    return found if found.__module__ == "__main__" else None


def put_class_back(cls: Any) -> list[str]:
    """Loggers that are made from now on are of this class."""
    if isinstance(cls, Lost):
        return [f"the class of new loggers: {loss_of(cls).short()}"]
    if isinstance(cls, type):
        logging.setLoggerClass(cls)
    return []


def _of_a_library(logger: logging.Logger) -> bool:
    """Whether a logger belongs to an imported library (by its name, as loggers are named)."""
    name = logger.name.split(".")[0]
    if isinstance(logger, logging.RootLogger) or name == "__main__":
        return False
    path = getattr(sys.modules.get(name), "__file__", None) or ""
    return name in sys.modules and ("site-packages" in path or path.startswith(sys.base_prefix))


def put_back(saved: Any) -> list[str]:
    """Set up loggers as `capture` took them; what a variable has brought already stays."""
    problems = []
    for name, level, disabled, own, rest in saved if isinstance(saved, list) else ():
        logger = logging.getLogger(name)
        if level is not None and level != logger.level:  # each change makes all loggers look anew
            logger.setLevel(level)
        logger.disabled = disabled
        for handler in own:
            if isinstance(handler, Lost):
                problems.append(f"a handler of logger {logger.name}: {loss_of(handler).short()}")
            elif handler not in logger.handlers:
                _take_place_of_twin(logger, handler)
                logger.addHandler(handler)
        if rest is not None:
            logger.propagate = rest[0]
            for each in rest[1]:
                if not isinstance(each, Lost) and each not in logger.filters:
                    logger.addFilter(each)
    return problems


def _take_place_of_twin(logger: logging.Logger, handler: Any) -> None:
    """A module that is imported again may have opened the same log: one of the two has to go, or
    each record would come twice."""
    path = getattr(handler, "baseFilename", None)
    for each in list(logger.handlers):
        if path is not None and getattr(each, "baseFilename", None) == path:
            logger.removeHandler(each)
            each.close()


# ---- called by the graph ----


def set_logger(target: Any, state: dict[str, Any]) -> None:
    """Level, filters and handlers of a logger; those that are lost are left out."""
    for name in ("filters", "handlers"):
        state[name] = [each for each in state[name] if not isinstance(each, Lost)]
    target.__dict__.update(state)
    target.manager._clear_cache()  # what the levels of others allow depends on it


def own_logger(cls: Any, *name: str) -> Any:
    """The logger of that name, of an own class."""
    if isinstance(cls, Lost):
        return logging.getLogger(*name)
    known: Any = logging
    before = logging.getLoggerClass()
    known._loggerClass = cls  # setLoggerClass, for this one
    try:
        made = logging.getLogger(*name)
    finally:
        known._loggerClass = before
    if type(made) is not cls:  # something here had asked for it before: it is the one that all hold
        made.__class__ = cls
    return made


def the_manager() -> Any:
    """The manager of all loggers of this process."""
    return logging.Logger.manager


def new_handler(cls: Any) -> Any:
    """A handler without its attributes."""
    return cls.__new__(cls)


def set_handler(target: Any, state: dict[str, Any]) -> None:
    """The attributes of a handler. One whose file is gone begins a new one with its next record."""
    if isinstance(target, Lost):
        return
    stream = state.get("stream")
    if isinstance(stream, Lost):
        path = state.get("baseFilename")
        if path is None:
            state["stream"] = sys.stderr
            loading().note("its stream is gone: it writes to stderr")
        else:
            state.update(stream=None, mode="a")
            loading().note(f"{path} is gone: the next record makes it anew")
    target.__dict__.update(state)
    target.createLock()
    known: Any = logging
    if target._name:
        known._handlers[target._name] = target
    known._addHandlerRef(target)


def set_listener(target: Any, how: tuple[dict[str, Any], bool]) -> None:
    """The attributes of a QueueListener, which listens if it did."""
    state, listening = how
    target.__dict__.update(state, _thread=None)
    if listening and not loading().dry and not isinstance(state.get("queue"), Lost):
        target.start()
