"""What stands between the browser and the cluster: one origin, a session, and the way to the pod.

`/workspace/connect/<namespace>/<workspace>/<port>/` leads to that workspace's pod while it is ready
(503 else), `/workspaces/api/v1/` to the backend; websockets included, bytes are passed on as they
come. Who has no session is asked to sign in; a request to the backend that changes something must
send back the cookie against forgery, as Kubeflow's web applications want it, and come from this
origin. One request a connection.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import parse_qs, quote, urlsplit

from .backend import USER

COOKIE = "gkews_stand_in_session"
XSRF_COOKIE, XSRF_HEADER = "XSRF-TOKEN", "x-xsrf-token"
CONNECT = "/workspace/connect/"
API = "/workspaces/api/"
SIGN_IN = "/oauth2/sign_in"
HEAD_LIMIT = 64 << 10
SAFE = ("GET", "HEAD", "OPTIONS")
Address = tuple[str, int]


class RefusedError(Exception):
    def __init__(self, code: int, message: str, *headers: str) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers


class AccessProxy:
    """`pod_of(namespace, workspace)`: where its Service leads; `may(user, namespace, workspace)`:
    whether the user may get it. Both block."""

    def __init__(
        self,
        backend: Address,
        pod_of: Callable[[str, str], Address | None],
        may: Callable[[str, str, str], bool],
    ) -> None:
        self._backend, self._pod_of, self._may = backend, pod_of, may
        self._sessions: dict[str, str] = {}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def sign_in(self, user: str) -> str:
        """The value of the cookie of a new session."""
        session = secrets.token_hex(16)
        self._sessions[session] = user
        return session

    # -- one connection ------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = _Head(await reader.readuntil(b"\r\n\r\n"))
        try:
            address = await self._route(head)
            there, back = await asyncio.open_connection(*address)
        except RefusedError as refused:
            writer.write(_answer(refused))
            await writer.drain()
            return
        except OSError:
            writer.write(_answer(RefusedError(503, "upstream connect error")))
            await writer.drain()
            return
        try:
            back.write(head.passed_on(self._user(head) or ""))
            await _splice(reader, writer, there, back)
        finally:
            back.close()

    async def _route(self, head: _Head) -> Address:
        path = urlsplit(head.target).path
        if path == SIGN_IN:
            asked = parse_qs(urlsplit(head.target).query)
            cookie = f"{COOKIE}={self.sign_in(asked['user'][0])}; Path=/; HttpOnly; SameSite=Lax"
            forgery = f"{XSRF_COOKIE}={secrets.token_hex(16)}; Path=/; SameSite=Strict"
            to = asked.get("rd", ["/"])[0]
            headers = f"Set-Cookie: {cookie}", f"Set-Cookie: {forgery}", f"Location: {to}"
            raise RefusedError(302, "signed in", *headers)
        user = self._user(head)
        if user is None:
            if "text/html" in head.get("accept") and head.method == "GET":
                where = f"Location: {SIGN_IN}?rd={quote(head.target)}"
                raise RefusedError(302, "sign in", where)
            raise RefusedError(401, "no session")
        origin = head.get("origin")
        if head.method not in SAFE and origin and urlsplit(origin).netloc != head.get("host"):
            raise RefusedError(403, "this is another origin")
        if path.startswith(API):
            token = head.cookie(XSRF_COOKIE)
            if head.method not in SAFE and (not token or token != head.get(XSRF_HEADER)):
                raise RefusedError(403, f"{XSRF_COOKIE} was not sent back")
            return self._backend
        if path.startswith(CONNECT):
            parts = path.removeprefix(CONNECT).split("/")
            if len(parts) < 3 or not all(parts[:3]):
                raise RefusedError(400, "malformed workspace connect path")
            namespace, workspace = parts[:2]
            if not await asyncio.to_thread(self._may, user, namespace, workspace):
                raise RefusedError(403, "RBAC: access denied")
            found = await asyncio.to_thread(self._pod_of, namespace, workspace)
            if found is None:
                raise RefusedError(503, "no healthy upstream")
            return found
        raise RefusedError(404, "nothing is served here")

    def _user(self, head: _Head) -> str | None:
        return self._sessions.get(head.cookie(COOKIE))


class _Head:
    """A request's first line and headers."""

    def __init__(self, data: bytes) -> None:
        self._lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        self.method, self.target, _ = self._lines[0].split(" ", 2)

    def get(self, name: str) -> str:
        """Lower case; what is given several times is joined."""
        found = [line.partition(":") for line in self._lines[1:]]
        return ", ".join(v.strip() for k, _, v in found if k.lower() == name)

    def cookie(self, wanted: str) -> str:
        """Its value; empty if there is none."""
        for part in self.get("cookie").split(";"):
            name, _, value = part.strip().partition("=")
            if name == wanted:
                return value
        return ""

    def passed_on(self, user: str) -> bytes:
        """With the user that the session names, whatever the client says it is."""
        upgrade = "upgrade" in self.get("connection").lower()
        dropped = (USER,) if upgrade else (USER, "connection", "keep-alive")
        kept = [line for line in self._lines[1:] if line.partition(":")[0].lower() not in dropped]
        if not upgrade:
            kept.append("Connection: close")
        lines = [self._lines[0], *kept, f"{USER}: {user}", "", ""]
        return "\r\n".join(lines).encode("latin-1")


async def _splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    there: asyncio.StreamReader, back: asyncio.StreamWriter,
) -> None:  # fmt: skip
    """Both ways, until the pod's side ends; a client that goes takes its request with it."""

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()

    going = asyncio.ensure_future(copy(reader, back))
    coming = asyncio.ensure_future(copy(there, writer))
    try:
        await asyncio.wait((going, coming), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (going, coming):
            task.cancel()
        await asyncio.gather(going, coming, return_exceptions=True)


def _answer(refused: RefusedError) -> bytes:
    body = f"{refused}\n".encode()
    lines = [
        f"HTTP/1.1 {refused.code} {HTTPStatus(refused.code).phrase}", *refused.headers,
        "Content-Type: text/plain", f"Content-Length: {len(body)}", "Connection: close", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode("latin-1") + body
