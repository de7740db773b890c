"""The websockets of one kernel, as the provisioner tells them what happens to its process.

Keeps no message: each connection holds its own.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .errors import GkewsError

if TYPE_CHECKING:
    from .departed import DepartedClient

log = logging.getLogger(__name__)

#: Seconds between the questions whether a paused kernel shall run. More than one, since the first
#: may come while the pause, which a cell followed at once, is still being put on record.
ASK_AFTER_S = (0.0, 0.1, 0.3, 1.0, 3.0)


class PausableConnection(Protocol):
    """A client of the kernel whose requests are held while the kernel cannot take them."""

    def held(self) -> int:
        """How many requests are held."""

    def cell_waits(self) -> bool:
        """Whether a cell that the user ran is among what is held."""

    def kernel_stopped(self) -> None:
        """The kernel is paused now: answer or keep what was held."""

    def kernel_starting(self) -> None:
        """A resume began: hold, until own iopub has delivered something of the new process."""

    def kernel_released(self) -> None:
        """A hold ended, or the kernel resumed: pass on what was held, once iopub delivers."""

    def resume_failed(self, error: GkewsError) -> None:
        """The held cells cannot run: answer them with `error`."""

    def interrupted(self) -> None:
        """The user interrupted the kernel: the held cells shall not run."""

    def pause_ended(self) -> None:
        """The kernel was restarted or shut down: what was held is void."""


class KernelClients:
    """The connections of one kernel, and the cells that they have sent to it."""

    def __init__(self) -> None:
        #: msg_ids of the execute requests that were passed on and have not finished
        self.outstanding: set[str] = set()
        #: session key -> what a browser left behind
        self.departed: dict[str, DepartedClient] = {}
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._asking: asyncio.Task[None] | None = None

    def add(self, connection: PausableConnection) -> None:
        """Tell this connection from now on (it is not kept alive)."""
        self._connections.add(connection)

    def discard(self, connection: PausableConnection) -> None:
        """Tell it no more."""
        self._connections.discard(connection)

    def tell(self, what: Callable[[PausableConnection], object]) -> None:
        """Call `what` with every connection."""
        for connection in list(self._connections):
            try:
                what(connection)
            except Exception:  # one broken client must not keep the others from going on
                log.exception("A client could not be told")

    def cell_waits(self) -> bool:
        """Whether a cell of any connection waits for the kernel."""
        return any(connection.cell_waits() for connection in self._connections)

    def held(self) -> int:
        """How many requests of all connections wait for the kernel."""
        return sum(connection.held() for connection in self._connections)

    def ask_to_run(self, is_paused: Callable[[], bool], ask: Callable[[], object]) -> None:
        """Call `ask` soon, and again until the kernel is no longer paused or no cell waits."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask(is_paused, ask))

    async def _ask(self, is_paused: Callable[[], bool], ask: Callable[[], object]) -> None:
        for seconds in ASK_AFTER_S:
            await asyncio.sleep(seconds)
            if not (is_paused() and self.cell_waits()):
                return
            ask()
