"""Keeps the ports of a paused kernel, so that no other program can take them meanwhile.

Listens, accepts and says nothing: clients that reconnect find an open but silent peer, and try
again at once when it goes away. (A full backlog would leave them in the retransmission back-off
of TCP, for up to a minute after the resume.) Throws away what it is sent.
"""

from __future__ import annotations

import asyncio
import socket
import struct

#: Close by a reset: the peer notices at once, and the port is free at once.
_RESET = struct.pack("ii", 1, 0)


class PortHolder:
    """Listens on TCP ports until `release`.

    Bare sockets and no asyncio server: between that one's accept and its `connection_made` lies a
    turn of the loop in which a connection is nobody's. A `release` then would leave it open, and
    its client would wait for us half a minute instead of reaching the kernel.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening: list[socket.socket] = []
        self._accepted: set[socket.socket] = set()

    async def hold(self, ip: str, ports: list[int], *, timeout_s: float = 2.0) -> list[int]:
        """Listen on `ports` of `ip`; returns those that somebody else has.

        Tries again for `timeout_s` (s): a killed process's sockets can outlive it by an instant.
        """
        loop = self._loop = asyncio.get_running_loop()
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
                self._listening.append(sock)
                loop.add_reader(sock, self._accept, sock)
            missing = still
            if not missing or loop.time() >= deadline:
                return missing
            await asyncio.sleep(0.05)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # gone again, or no file descriptor left: it stays in the backlog
            return
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._accepted.add(connection)
        if self._loop is not None:
            self._loop.add_reader(connection, self._ignore, connection)

    def _ignore(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the peer has gone
            self._accepted.discard(connection)
            self._close(connection)

    def release(self) -> None:
        """Stop listening and drop every connection, now."""
        listening, self._listening = self._listening, []
        accepted, self._accepted = self._accepted, set()
        for sock in (*listening, *accepted):
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(sock)
        sock.close()


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
