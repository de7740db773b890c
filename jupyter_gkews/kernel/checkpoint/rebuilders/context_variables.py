"""Context variables with their value in the context of the cells, and contexts.

The constructors are named in graph.pkl: add, never change.
"""

from __future__ import annotations

import contextvars
import sys
from typing import TYPE_CHECKING, Any

from .. import rebuild
from .interface import CannotKeepError, Handler, Reduced
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: Values for the context of the cells, which a restore may not run in.
_pending: list[tuple[Any, Any]] = []


def handlers() -> dict[type, Handler]:
    """What this family makes again."""
    return {
        contextvars.ContextVar: reduce_variable,
        contextvars.Context: reduce_context,
        contextvars.Token: reduce_token,
    }


def reduce_variable(writer: GraphWriter, variable: Any) -> Reduced:
    """A ContextVar: name, default, and the value that it has here."""
    value: tuple[Any, ...] = ()
    context = contextvars.copy_context()
    if variable in context:
        value = (context[variable],)
    found = _found_in_module(variable)
    if found is not None:
        name, attribute = found
        writer.uses_module(name)
        made: Reduced = (rebuild.attribute, (sys.modules[name], attribute))
    else:
        default: tuple[Any, ...] = ()
        try:
            default = (contextvars.Context().run(variable.get),)
        except LookupError:
            default = ()
        made = (context_variable, (variable.name, default))
    return (*made, value, None, None, set_variable) if value else made


def _found_in_module(variable: Any) -> tuple[str, str] | None:
    main = sys.modules.get("__main__")
    for name, module in list(sys.modules.items()):
        if module is main or not hasattr(module, "__dict__"):  # main has other names as well
            continue
        for attribute, value in list(vars(module).items()):
            if value is variable:
                return name, attribute
    return None


def reduce_context(writer: GraphWriter, context: Any) -> Reduced:
    """A Context: the values of its variables."""
    return variables_context, (), list(context.items()), None, None, fill_context


def reduce_token(writer: GraphWriter, token: Any) -> Reduced:
    """A token belongs to one change in one context, and cannot be made."""
    raise CannotKeepError("a token of a context variable", "its context ends with the process")


def apply_in_context() -> None:
    """Set once more what was restored outside the context of the cells; called within it."""
    while _pending:
        variable, value = _pending.pop()
        variable.set(value)


# ---- called by the graph ----


def context_variable(name: str, default: tuple[Any, ...]) -> Any:
    """A ContextVar."""
    return contextvars.ContextVar(name, default=default[0]) if default else _without(name)


def _without(name: str) -> Any:
    made: contextvars.ContextVar[Any] = contextvars.ContextVar(name)
    return made


def set_variable(variable: Any, value: tuple[Any]) -> None:
    """The value of a variable in this context, and in that of the cells."""
    if loading().dry:
        return
    variable.set(value[0])
    _pending.append((variable, value[0]))


def variables_context() -> Any:
    """An empty Context."""
    return contextvars.Context()


def fill_context(context: Any, items: list[tuple[Any, Any]]) -> None:
    """Set variables in a Context."""
    for variable, value in items:
        if isinstance(variable, contextvars.ContextVar):
            context.run(variable.set, value)
