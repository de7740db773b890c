"""The host's end of a sandbox's stdin and stdout: TCP ports outside, unix sockets inside.

Carries bytes and keeps the clients' connections open while the sandbox is frozen. Knows nothing of
Jupyter's messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from . import guest
from .guest import Frames, frame

#: Seconds without a byte after which a client is taken to wait for nothing, when all shall end.
QUIET_S = 0.15
#: Begins the channel of a TCP port inside: "tcp:8888".
TO_PORT = "tcp:"


class Connection(asyncio.Protocol):
    """One client's TCP connection and its stream."""

    def __init__(self, wire: Wire, channel: str) -> None:
        self._wire = wire
        self.channel = channel
        self.stream = 0
        self.credit = guest.WINDOW
        self.unacknowledged = 0
        self.moved = 0.0  # when the last byte came or went, on the loop's clock
        self._transport: asyncio.Transport | None = None
        self._full = False
        self._ended = False  # no more bytes of the client go inside

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.moved = asyncio.get_running_loop().time()
        self._wire.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass it on, never more than the guest has taken."""
        if self._ended:
            return
        self.moved = asyncio.get_running_loop().time()
        for start in range(0, len(data), guest.PIECE):
            self._wire.send(guest.DATA, self.stream, data[start : start + guest.PIECE])
        self.credit -= len(data)
        self.flow()

    def flow(self) -> None:
        """Read from the client only while the guest keeps up and is not frozen."""
        if self._transport is None or self._transport.is_closing() or self._ended:
            return
        if self.credit > 0 and not self._wire.frozen:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def deliver(self, data: bytes) -> None:
        """Bytes from inside."""
        self.moved = asyncio.get_running_loop().time()
        if self._transport is not None:
            self._transport.write(data)
        self.unacknowledged += len(data)
        if not self._full and self.unacknowledged >= guest.ENOUGH:
            self.acknowledge()

    def pause_writing(self) -> None:
        """The client does not keep up: the guest must wait."""
        self._full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._full = False
        self.acknowledge()

    def acknowledge(self) -> None:
        """Let the guest send more."""
        if self.unacknowledged and not self._wire.frozen:
            self._wire.send(guest.TAKEN, self.stream, self.unacknowledged.to_bytes(4, "big"))
            self.unacknowledged = 0

    def eof_received(self) -> bool:
        """The client sends no more; whether it may still read: a kernel's clients never do."""
        if not self.channel.startswith(TO_PORT):
            return False
        self.end()
        return True

    def end(self) -> None:
        """Nothing more of the client's goes inside; what comes from there is still delivered."""
        if not self._ended:
            self._ended = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._wire.send(guest.EOF, self.stream)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or has got everything."""
        self._transport = None
        self._wire.closed(self)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Inward:
    """A stream that a program inside has opened: read from it, write to it."""

    def __init__(self, wire: Wire, stream: int) -> None:
        self._wire = wire
        self.stream = stream
        self.credit = guest.WINDOW
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._ended = False

    async def read(self) -> bytes:
        """Some bytes; b"" at the end."""
        if self._ended and self._arrived.empty():
            return b""
        data = await self._arrived.get()
        if data:
            self._wire.send(guest.TAKEN, self.stream, len(data).to_bytes(4, "big"))
        return data

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises ConnectionResetError when the program inside has gone."""
        for start in range(0, len(data), guest.PIECE):
            await self._may_write.wait()
            if self._ended:
                raise ConnectionResetError
            piece = data[start : start + guest.PIECE]
            self.credit -= len(piece)
            if self.credit <= 0:
                self._may_write.clear()
            self._wire.send(guest.DATA, self.stream, piece)

    def deliver(self, data: bytes) -> None:
        """Bytes from inside."""
        self._arrived.put_nowait(data)

    def flow(self) -> None:
        """The credit has grown."""
        if self.credit > 0:
            self._may_write.set()

    def acknowledge(self) -> None:
        """Reading acknowledges by itself."""

    def close(self) -> None:
        """No more bytes will come, and none can be written."""
        self._ended = True
        self._arrived.put_nowait(b"")
        self._may_write.set()


Serve = Callable[[Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]]], Any]


class Wire:
    """The streams of one sandbox. `attach` gives it the pipes of a started or restored one.

    `serve(read, write)` is called for each stream that a program inside opens.
    """

    def __init__(
        self,
        on_output: Callable[[bytes], object] = lambda data: None,
        serve: Serve | None = None,
    ) -> None:
        self.frozen = True
        self.pid_inside = 0
        self.exited: int | None = None
        self.started = asyncio.Event()
        self.paused = asyncio.Event()
        self.gone = asyncio.Event()
        self.ended = asyncio.Event()  # the kernel inside, or the whole sandbox
        self._on_output = on_output
        self._connections: dict[int, Connection | Inward] = {}
        self._clients: set[Connection] = set()  # also those whose stream has ended already
        self._outward = serve
        self._serving: set[asyncio.Task[None]] = set()
        self._pending: list[bytes] = []
        self._next = 2
        self._stdin: asyncio.StreamWriter | None = None
        self._reader: asyncio.Task[None] | None = None
        self._servers: list[asyncio.Server] = []

    # ---- ports ----

    async def listen(self, ip: str, ports: dict[int, str]) -> list[int]:
        """Serve each port with the channel that it stands for; the ports, where 0 is any that is
        free. Raises OSError."""
        loop = asyncio.get_running_loop()
        bound = []
        for port, channel in ports.items():
            server = await loop.create_server(partial(Connection, self, channel), ip, port)
            self._servers.append(server)
            bound.append(int(server.sockets[0].getsockname()[1]))
        return bound

    def stop_listening(self) -> None:
        """Serve no new clients."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def see_off(self, timeout_s: float) -> bool:
        """Serve no new clients, and let those that are here get what was meant for them: each is
        ended once nothing moves, all of them after half the time. Whether all have gone."""
        self.stop_listening()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._clients and loop.time() < began + timeout_s:
            late = loop.time() > began + timeout_s / 2
            for connection in self._clients:
                if late or loop.time() - connection.moved > QUIET_S:
                    connection.end()
            await asyncio.sleep(0.01)
        return not self._clients

    def hang_up(self) -> None:
        """Close every client's connection: what it spoke with is gone."""
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        self._pending.clear()

    async def close(self) -> None:
        """Stop serving and hang up on everybody."""
        self.stop_listening()
        self.hang_up()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self.detach()

    def end_inward(self) -> None:
        """End the streams that programs inside have opened, so that they see a clean end."""
        for stream, connection in list(self._connections.items()):
            if isinstance(connection, Inward):
                del self._connections[stream]
                self.send(guest.CLOSE, stream)
                connection.close()

    def opened(self, connection: Connection) -> None:
        """A client came: a stream of its own, with an even number."""
        connection.stream = self._next
        self._next += 2
        self._connections[connection.stream] = connection
        self._clients.add(connection)
        self.send(guest.OPEN, connection.stream, connection.channel.encode())
        connection.flow()

    def closed(self, connection: Connection) -> None:
        """A client went."""
        self._clients.discard(connection)
        if self._connections.pop(connection.stream, None) is not None:
            self.send(guest.CLOSE, connection.stream)

    # ---- pipes ----

    async def attach(
        self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, *, resume: bytes | None
    ) -> None:
        """Begin with these pipes. `resume`: None for a new sandbox, b"" for one that this very
        object has paused, b"reset" for one of another host process."""
        self.gone.clear()
        self.started.clear()
        self.paused.clear()
        self.ended.clear()
        self.exited = None
        self._stdin = stdin
        if resume is not None:
            stdin.write(frame(guest.RESUME, 0, resume))
        self._reader = asyncio.create_task(self._read(stdout))
        if resume is None:
            self._thaw()

    def _thaw(self) -> None:
        self.frozen = False
        pending, self._pending = self._pending, []
        if self._stdin is not None:
            self._stdin.writelines(pending)
        for connection in self._connections.values():
            connection.acknowledge()
            connection.flow()

    async def detach(self) -> None:
        """Forget the pipes; the clients stay connected."""
        self.frozen = True
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None

    def send(self, kind: int, stream: int = 0, payload: bytes = b"") -> None:
        """One frame, or later if the sandbox is frozen."""
        data = frame(kind, stream, payload)
        if self.frozen or self._stdin is None:
            self._pending.append(data)
        else:
            self._stdin.write(data)

    async def freeze(self, timeout_s: float) -> None:
        """Let the guest finish its frames and be still. Raises asyncio.TimeoutError."""
        assert self._stdin is not None
        self.end_inward()
        self.paused.clear()
        self._stdin.write(frame(guest.PAUSE))
        self.frozen = True
        for connection in self._connections.values():
            connection.flow()
        await asyncio.wait_for(self.paused.wait(), timeout_s)

    def thaw(self) -> None:
        """Go on without having been saved."""
        assert self._stdin is not None
        self._stdin.write(frame(guest.RESUME))
        self._thaw()

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        frames = Frames()
        try:
            while data := await stdout.read(1 << 18):
                frames.feed(data)
                while (got := frames.take()) is not None:
                    self._serve(*got)
        finally:
            self.gone.set()
            self.ended.set()

    def _serve(self, kind: int, stream: int, payload: bytes) -> None:
        connection = self._connections.get(stream)
        if kind == guest.OPEN:
            self._open_inward(stream)
        elif kind == guest.DATA and connection is not None:
            connection.deliver(payload)
        elif kind == guest.TAKEN and connection is not None:
            connection.credit += int.from_bytes(payload, "big")
            connection.flow()
        elif kind == guest.CLOSE and connection is not None:
            self._connections.pop(stream)
            connection.close()
        elif kind == guest.STARTED:
            self.pid_inside = int(payload)
            self.started.set()
            if self.frozen:
                self._thaw()
        elif kind == guest.EXITED:
            (self.exited,) = struct.unpack("!i", payload)
            self.ended.set()
        elif kind == guest.OUTPUT:
            self._on_output(payload)
        elif kind == guest.PAUSED:
            self.paused.set()

    def _open_inward(self, stream: int) -> None:
        """A program inside wants out."""
        inward = Inward(self, stream)
        if self._outward is None:
            self.send(guest.CLOSE, stream)
            return
        self._connections[stream] = inward
        serve = self._outward

        async def run() -> None:
            try:
                with contextlib.suppress(OSError):
                    await serve(inward.read, inward.write)
            finally:
                if self._connections.get(stream) is inward:
                    del self._connections[stream]
                    self.send(guest.CLOSE, stream)
                inward.close()

        task = asyncio.ensure_future(run())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)


def signal_frame(wire: Wire, signum: int) -> None:
    """Deliver a signal to the kernel inside."""
    wire.send(guest.SIGNAL, 0, bytes([signum]))


__all__ = ["Connection", "Wire", "signal_frame"]
