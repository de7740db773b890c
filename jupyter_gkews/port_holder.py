"""Keeps the ports of a paused kernel, so that no other program can take them meanwhile.

Listens, accepts and says nothing: clients that reconnect find an open but silent peer, and try
again at once when it goes away. (A full backlog would leave them in the retransmission back-off
of TCP, for up to a minute after the resume.) Never reads what it is sent.
"""

from __future__ import annotations

import asyncio
import socket


class _Silent(asyncio.Protocol):
    """One accepted connection: kept open, ignored."""

    def __init__(self, transports: set[asyncio.BaseTransport]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transports.discard(self._transport)


class PortHolder:
    """Listens on TCP ports until `release`."""

    def __init__(self) -> None:
        self._servers: list[asyncio.AbstractServer] = []
        self._transports: set[asyncio.BaseTransport] = set()

    async def hold(self, ip: str, ports: list[int], *, timeout_s: float = 2.0) -> list[int]:
        """Listen on `ports` of `ip`; returns those that somebody else has.

        Tries again for `timeout_s` (s): a killed process's sockets can outlive it by an instant.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        missing = list(ports)
        while True:
            still: list[int] = []
            for port in missing:
                try:
                    sock = _listen(ip, port)
                except OSError:
                    still.append(port)
                    continue
                server = await loop.create_server(
                    lambda: _Silent(self._transports), sock=sock, backlog=128
                )
                self._servers.append(server)
            missing = still
            if not missing or loop.time() >= deadline:
                return missing
            await asyncio.sleep(0.05)

    def release(self) -> None:
        """Stop listening and drop every connection, now."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for transport in list(self._transports):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        self._transports.clear()


def _listen(ip: str, port: int) -> socket.socket:
    """A listening socket on `ip`:`port`. Raises OSError when it is taken."""
    sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET)
    try:
        # The previous listener's connections may be in TIME_WAIT. This does not allow to share
        # a port with somebody who listens, and nobody can join us since we listen as well.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((ip, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock
