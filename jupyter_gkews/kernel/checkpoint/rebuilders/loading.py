"""What makes an object again may ask of the checkpoint that is being loaded, and what it calls.

The reader puts itself here while it reads. Constructors never raise where they can say
`loading().fail(...)`: an error would make the reader begin again, in its slow way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Protocol

from ....errors import GkewsError
from .. import stand_ins
from ..placeholders import Lost, loss_of
from ..singletons import StandIn
from ..watch import Hung, interrupted
from .interface import CannotKeepError, Rebuilder


class Loading(Protocol):
    """The load on its way, as constructors see it."""

    @property
    def dry(self) -> bool:
        """Whether this is a test load: nothing outside the process may be touched."""

    def fail(self, what: str, problem: str) -> Lost:
        """A placeholder for what could not be made here, told to the user."""

    def note(self, text: str) -> None:
        """Tell the user that the present name came back otherwise than it was."""

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do `work` when every name has been read, and all objects are whole."""


_now = threading.local()
#: What stands for objects in this test load (which keeps all that it has made, to its end).
_rehearsed: dict[int, Any] = {}


@contextmanager
def begun(load: Loading) -> Iterator[None]:
    """Within this block, `loading()` is `load`."""
    before = getattr(_now, "load", None)
    _now.load = load
    try:
        yield
    finally:
        _now.load = before


def loading() -> Loading:
    """The load on its way in this thread. Raises RuntimeError where there is none."""
    load: Loading | None = getattr(_now, "load", None)
    if load is None:
        raise RuntimeError("this has a meaning only while a checkpoint is being restored")
    return load


def stand_in() -> Any:
    """What takes an object's place in a test load, where the object itself cannot be made. The
    handler says so at the pause, with registry.stands_in(writer, obj)."""
    made = StandIn()
    _rehearsed[id(made)] = made
    return made


def rehearsed(obj: Any) -> bool:
    """Whether `obj` takes the place of another in this test load."""
    return id(obj) in _rehearsed


def not_to_compare(made: Any) -> Any:
    """`made`, of which a test load shall say nothing: it is built otherwise than what was saved."""
    if loading().dry:
        _rehearsed[id(made)] = made
    return made


# ---- called by the graph ----


def make_again(rebuilder: Rebuilder, description: Any, what: str) -> Any:
    """What a rebuilder of others makes; a placeholder if it cannot."""
    load = loading()
    if isinstance(rebuilder, Lost):
        return load.fail(what, f"its rebuilder is not here: {loss_of(rebuilder).reason}")
    try:
        if load.dry:
            made = rebuilder.rehearse(description)
        else:
            with stand_ins.trusted():
                made = rebuilder.make(description)
    except CannotKeepError as refusal:
        return load.fail(refusal.loss.what, refusal.loss.reason)
    except (Hung, Exception, SystemExit, KeyboardInterrupt) as error:
        return _failed(load, what, error)
    if load.dry:
        _rehearsed[id(made)] = made
    return made


def fill_again(made: Any, how: tuple[Rebuilder, Any, str]) -> None:
    """Give what was made again its contents."""
    rebuilder, contents, what = how
    if isinstance(made, (Lost, StandIn)) or isinstance(rebuilder, Lost):
        return
    try:
        with stand_ins.trusted():
            rebuilder.fill(made, contents)
    except (Hung, Exception, SystemExit, KeyboardInterrupt) as error:
        loading().note(f"{what} came back without its contents: {_reason(error)}")


def _failed(load: Loading, what: str, error: BaseException) -> Lost:
    return load.fail(what, f"it could not be made again: {_reason(error)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, (GkewsError, MemoryError)):
        raise error
    if isinstance(error, KeyboardInterrupt) and interrupted():
        raise error
    text = str(error).strip().split("\n")[0] or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
