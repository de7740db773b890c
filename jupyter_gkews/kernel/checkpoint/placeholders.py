"""What stands where something could not be kept: a placeholder that says so when it is used.

It never pretends to be the object: any use raises LostVariableError; only looking at it
(repr, hash, identity, pickling it again) is quiet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn


class LostVariableError(RuntimeError):
    """A variable was used that a checkpoint could not keep. The message says which and why."""


@dataclass(frozen=True)
class Loss:
    """Why one object is not in a checkpoint, in words that follow "'name' was ...".

    `what` is the object in words ("a generator"), `reason` a clause ("it could not be kept: ...").
    `where` is the name that held it (`part`: it was only a part of what that name held), `cell`
    the execution count of the cell that made it, if known, and `when` the local time of the
    checkpoint, "18:02".
    """

    what: str
    reason: str
    where: str = ""
    cell: int | None = None
    when: str = ""
    part: bool = False

    def sentence(self) -> str:
        """The whole truth: what it was, why it is gone, when, and which cell made it."""
        subject = f"'{self.where}'" if self.where else "This object"
        if self.part:
            subject = f"A part of {subject}"
        when = f" (paused {self.when})" if self.when else ""
        cell = f" Cell [{self.cell}] made it." if self.cell is not None else ""
        return f"{subject} was {self.what}; {self.reason}{when}.{cell}"

    def arguments(self) -> tuple[str, str, str, int | None, str, bool]:
        """For rebuild.lost: how a placeholder stands in a graph."""
        return (self.what, self.reason, self.where, self.cell, self.when, self.part)

    def short(self) -> str:
        """The reason for a table, where name and cell have columns of their own."""
        return f"{self.what}: {self.reason}"


#: Special methods by which Python would use the object without looking up an attribute.
_USES = (
    *("call", "getitem", "setitem", "delitem", "len", "iter", "next", "contains", "reversed"),
    *("bool", "int", "float", "complex", "index", "round", "str", "format", "bytes"),
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("radd", "rsub", "rmul", "rmatmul", "rtruediv", "rfloordiv", "rmod", "rpow"),
    *("iadd", "isub", "imul", "lshift", "rshift", "and", "xor", "or", "neg", "pos", "abs"),
    *("invert", "lt", "le", "gt", "ge", "enter", "exit", "await", "aiter", "anext"),
    *("aenter", "aexit"),
)


class Lost:
    """A placeholder: `loss` says what stood here. Any use raises LostVariableError."""

    __slots__ = ("_loss",)
    _loss: Loss

    def __init__(self, loss: Loss) -> None:
        object.__setattr__(self, "_loss", loss)

    def __getattr__(self, name: str) -> NoReturn:
        # Displays and introspection probe these names and rely on AttributeError.
        if (name.startswith("__") and name.endswith("__")) or name.startswith(
            ("_repr_", "_ipython_")
        ):
            raise AttributeError(name)
        raise LostVariableError(self._loss.sentence())

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise LostVariableError(self._loss.sentence())

    def __repr__(self) -> str:
        return f"<lost: {self._loss.sentence()}>"


def _raiser(special: str) -> Any:
    def use(self: Lost, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise LostVariableError(self._loss.sentence())

    use.__name__ = use.__qualname__ = special
    return use


for _name in _USES:
    setattr(Lost, f"__{_name}__", _raiser(f"__{_name}__"))


def loss_of(obj: Lost) -> Loss:
    """The loss behind a placeholder (reading it is no use of the object)."""
    loss: Loss = object.__getattribute__(obj, "_loss")
    return loss
