"""What a restore leaves wrong in a Jupyter server, and puts it right: clocks of activity that are
hours old, websockets whose other end is gone, a port that may hear nothing.

Only for a process that was restored; decides nothing, knows no cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

from jupyter_server._tz import utcnow
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

#: WebSocket close code: the server goes away.
GOING_AWAY = 1001
#: Seconds in which the server must answer itself.
ANSWERS_S = 10.0


def hang_up() -> int:
    """Close the kernel websockets of all browsers; how many.

    In one turn of the loop the server begins to keep what each kernel says for its last client,
    as it does whenever a connection is lost: a message was either sent before, or it is kept and
    sent when the same client is back.
    """
    connections = list(ZMQChannelsWebsocketConnection._open_sockets)
    for connection in connections:
        handler: Any = connection.websocket_handler
        connection.disconnect()
        handler.on_close = lambda: None  # it would disconnect a second time
        handler.close(GOING_AWAY, "The server is paused.")
    return len(connections)


class RestoredServer:
    """One Jupyter server, seen after a restore of its process."""

    def __init__(self, serverapp: Any) -> None:
        self._app = serverapp

    def count_as_active(self) -> None:
        """Nobody was idle while nothing ran: whoever pauses, culls or shuts down what has been
        idle for long begins to count anew."""
        now = utcnow()
        # each setting of such a name counts for `last_activity` of /api/status
        self._app.web_app.settings["gkews_last_activity"] = now
        kernels = self._app.kernel_manager
        for kernel in list(getattr(kernels, "_kernels", {}).values()):
            if hasattr(kernel, "last_activity"):
                kernel.last_activity = now
        terminals = self._app.web_app.settings.get("terminal_manager")
        for terminal in list(getattr(terminals, "terminals", {}).values()):
            if hasattr(terminal, "last_activity"):
                terminal.last_activity = now

    def hang_up(self) -> int:
        """The websockets of pages: their other end is gone, however they look."""
        return hang_up()

    async def answers_itself(self) -> str | None:
        """Ask over its own port; None if it answers, else why not. What listens is watched anew if
        it does not: a socket in an epoll set may hear nothing after a restore (gvisor#13920)."""
        why = await self._ask()
        if why is None:
            return None
        self._listen_anew()
        again = await self._ask()
        return None if again is None else f"{again} Its sockets were watched anew, in vain."

    async def _ask(self) -> str | None:
        app = self._app
        try:
            reader, writer = await asyncio.wait_for(self._connect(), ANSWERS_S)
        except (OSError, asyncio.TimeoutError) as error:
            return f"Its own port does not take a connection ({_said(error)})."
        try:
            request = f"GET {app.base_url}api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            writer.write(f"{request}\r\n".encode())
            answer = await asyncio.wait_for(reader.read(5), ANSWERS_S)
        except (OSError, asyncio.TimeoutError) as error:
            return f"Its own port takes a connection, and does not answer ({_said(error)})."
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), ANSWERS_S)
        return None if answer == b"HTTP/" else "What answers at its own port is no web server."

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        app = self._app
        if app.sock:
            return await asyncio.open_unix_connection(app.sock)
        ip = app.ip if app.ip not in ("", "*", "0.0.0.0", "::") else "localhost"
        secure = None
        if app.certfile:
            # of our own port we only want to know whether it lives
            secure = ssl.create_default_context()
            secure.check_hostname, secure.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(ip, app.port, ssl=secure)

    def _listen_anew(self) -> None:
        http = self._app.http_server
        listening = list(getattr(http, "_sockets", {}).values())
        for number, stop in list(getattr(http, "_handlers", {}).items()):
            stop()
            http._handlers.pop(number, None)
            http._sockets.pop(number, None)
        http.add_sockets(listening)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
