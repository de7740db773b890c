"""What a rebuilder is: for others who write one (docs/rebuilders.md), and for our own families.

It decides nothing about when or whether an object is looked at; that is the registry's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ClassVar, Union

from ..placeholders import Loss
from ..singletons import StandIn

if TYPE_CHECKING:
    from ..graph import GraphWriter

#: What pickle calls the reduced value of an object.
Reduced = tuple[Any, ...]
#: Of our own families: gets the writer and the object; returns what the object's reduce would,
#: NotImplemented for "as if there were no rebuilder", or raises CannotKeepError.
Handler = Callable[["GraphWriter", Any], Any]
#: A class, or its full name "package.module.Class"; for a name nothing is imported.
Kind = Union[type, str]


class CannotKeepError(Exception):
    """This object cannot be made again. `what` is the object in words ("an open file"), `reason`
    a clause that says why ("/data/x has been deleted or moved")."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(reason)
        self.loss = Loss(what, reason)


#: ids of what the latest pass wrote as something that a test load replaces by a stand-in.
STOOD_IN: set[int] = set()


def stands_in(writer: GraphWriter, obj: Any) -> None:
    """Say that a test load makes a stand-in for `obj`, so that the two are not compared."""
    STOOD_IN.add(id(writer.keep(obj)))


class Rebuilder:
    """How the objects of one kind are made again in another process.

    Instances travel in the checkpoint, by name where they belong to an importable module, and
    with their code where a cell made them; so they hold nothing that belongs to this process.
    Each method has 20 s for an object; whatever it raises loses that object and nothing else.
    """

    #: Whose objects: a class, or its full name.
    kind: ClassVar[Kind] = ""
    #: Whether also objects of classes derived from it.
    derived: ClassVar[bool] = False
    #: The object in words, as in "'x' was a serial port; ...". Empty: the name of the class.
    what: ClassVar[str] = ""

    def describe(self, obj: Any) -> Any:
        """What `make` needs to make `obj` again: anything that a checkpoint can hold.

        Must change nothing and write nothing. Return NotImplemented to leave this object to what
        would happen without a rebuilder. Raise CannotKeepError to say that it is lost, and why.
        """
        raise NotImplementedError

    def make(self, description: Any) -> Any:
        """The object again, in the new process. Raise CannotKeepError to say why it cannot be."""
        raise NotImplementedError

    def rehearse(self, description: Any) -> Any:
        """Called instead of `make` in the test load before a pause, which must touch nothing
        outside its process: no file, no device, no network. Where making the object is harmless,
        `rehearse = make` proves more. A stand-in that accepts any use is the default."""
        return StandIn()

    def contents(self, obj: Any) -> Any:
        """What `obj` holds that may refer back to it; given to `fill` when both are there."""
        return None

    def fill(self, made: Any, contents: Any) -> None:
        """Put `contents` into the object that `make` returned. Not called when it is None."""

    def tell(self, obj: Any) -> str:
        """The clause that the user reads beside the variable ("the port COM3 is opened again").
        Empty: nothing about it is worth telling, and the variable counts as kept."""
        return ""


class FunctionRebuilder(Rebuilder):
    """A rebuilder made of functions: register_rebuilder(kind, describe=..., make=...)."""

    def __init__(
        self,
        describe: Callable[[Any], Any],
        make: Callable[[Any], Any],
        rehearse: Callable[[Any], Any] | None,
        tell: str | Callable[[Any], str],
        what: str,
    ) -> None:
        self._describe = describe
        self._make = make
        self._rehearse = rehearse
        self._tell = tell
        self.what = what  # type: ignore[misc]

    def describe(self, obj: Any) -> Any:
        """As given."""
        return self._describe(obj)

    def make(self, description: Any) -> Any:
        """As given."""
        return self._make(description)

    def rehearse(self, description: Any) -> Any:
        """As given, or a stand-in."""
        return StandIn() if self._rehearse is None else self._rehearse(description)

    def tell(self, obj: Any) -> str:
        """As given."""
        return self._tell if isinstance(self._tell, str) else self._tell(obj)
