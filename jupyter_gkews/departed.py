"""A browser that closed its websocket while its cells were waiting for the kernel.

The cells run all the same when the kernel is back, as they would have with a running kernel. A
browser that comes back first takes them over. Never answers anybody: nobody is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .errors import GkewsError
from .kernel.protocol import ACTION_PING, MSG_REQUEST

if TYPE_CHECKING:
    from .provisioning import PausableProvisioner
    from .websocket import HeldRequest

#: Seconds to wait for the server's message buffer to hear from the resumed kernel.
BUFFER_WAIT_S = 5.0


class DepartedClient:
    """Requests left by the websocket `connection`; a PausableConnection."""

    def __init__(
        self, connection: Any, provisioner: PausableProvisioner, requests: list[HeldRequest]
    ) -> None:
        self._session_key: str = connection.session_key
        self._session = connection.session
        self._km = connection.kernel_manager
        self._provisioner = provisioner
        self.held_requests = requests
        self._sending: asyncio.Future[None] | None = None

    def take(self) -> list[HeldRequest]:
        """Hand the requests over, to the connection with which the browser came back."""
        requests, self.held_requests = self.held_requests, []
        if self._sending is not None:
            self._sending.cancel()
        self._leave()
        return requests

    def _leave(self) -> None:
        self._provisioner.clients.discard(self)
        if self._provisioner.clients.departed.get(self._session_key) is self:
            del self._provisioner.clients.departed[self._session_key]

    def held(self) -> int:
        """How many requests are held."""
        return len(self.held_requests)

    def cell_waits(self) -> bool:
        """Whether a cell that the user ran is among the requests."""
        return any(request.is_cell for request in self.held_requests)

    def kernel_stopped(self) -> None:
        """The kernel is paused: a cell among the requests wakes it, if cells may."""
        if not (self.cell_waits() and self._provisioner.auto_resume):
            self.take()
        else:
            self._provisioner.request_run()

    def kernel_starting(self) -> None:
        """Nothing to prepare."""

    def kernel_released(self) -> None:
        """Send the requests, once the buffer that keeps the output for the browser listens."""
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + BUFFER_WAIT_S
        control = self._km.connect_control()
        try:
            while loop.time() < deadline and not self._buffer_hears():
                self._session.send(control, MSG_REQUEST, {"action": ACTION_PING})
                await asyncio.sleep(0.1)
        finally:
            control.close(linger=0)
        requests, self.held_requests = self.held_requests, []
        self._leave()
        channels = self._buffer().get("channels", {})
        for request in requests:
            if request.msg_type == "execute_request":
                self._provisioner.clients.outstanding.add(str(request.header.get("msg_id")))
            stream = channels.get(request.channel)
            if stream is not None and not stream.closed():
                self._session.send_raw(stream, request.frames)
            elif request.channel == "shell":
                # Another browser keeps the kernel's sockets: the cell runs, its output goes there.
                shell = self._km.connect_shell()
                self._session.send_raw(shell, request.frames)
                shell.flush()
                shell.close(linger=5000)

    def _buffer(self) -> dict[str, Any]:
        buffers = getattr(self._km.parent, "_kernel_buffers", {})
        found = buffers.get(self._km.kernel_id) or {}
        return found if found.get("session_key") == self._session_key else {}

    def _buffer_hears(self) -> bool:
        """Whether the buffer has got an iopub message of the new process (or there is none)."""
        buffer = self._buffer()
        hello = self._provisioner.hello
        if not buffer:
            return True
        if hello is None:
            return False
        session = hello.session.encode()
        return any(
            channel == "iopub" and any(session in frame for frame in frames)
            for channel, frames in buffer["buffer"]
        )

    def resume_failed(self, error: GkewsError) -> None:
        """Nobody is there to be told."""
        self.take()

    def interrupted(self) -> None:
        """The cells shall not run."""
        self.take()

    def pause_ended(self) -> None:
        """The requests are void."""
        self.take()
