"""The way out of a sandbox: an HTTP proxy on the host, reached over the wire alone.

Serves CONNECT and absolute-form requests. Never connects to this machine itself: not to its
loopback, its own addresses or link-local ones (a cloud's metadata server), unless it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

import psutil

#: Seconds to reach a host, and bytes of a request's head.
CONNECT_S = 30.0
HEAD_LIMIT = 64 << 10
#: Where clouds tell machines about themselves, besides the link-local 169.254.169.254: AWS by
#: IPv6, Azure, Alibaba, Oracle.
METADATA = {"fd00:ec2::254", "168.63.129.16", "100.100.100.200", "192.0.0.192"}
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


class RefusedError(Exception):
    """What the program inside is answered: an HTTP status line and a sentence."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Outward:
    """Serves streams that programs inside have opened.

    `allow`: hosts or addresses that may be reached although they are this machine's.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allow = set(allow)

    async def serve(self, read: Read, write: Write) -> None:
        """One stream, from its first byte to its end. `read` gives b"" at the end."""
        try:
            head, rest = await _head(read)
            reader, writer, first = await self._connect(head)
        except RefusedError as refused:
            body = f"{refused}\n".encode()
            await write(
                f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            return
        except (OSError, asyncio.TimeoutError, EOFError):
            return
        try:
            if first:
                writer.write(first)
            else:
                await write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            writer.write(rest)
            await _both_ways(read, write, reader, writer)
        finally:
            writer.close()

    async def _connect(
        self, head: bytes
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Connect for a request; what must be sent first (nothing for CONNECT)."""
        lines = head.split(b"\r\n")
        try:
            method, target, version = lines[0].decode("ascii").split(" ")
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = parts.hostname, parts.port or (443 if method == "CONNECT" else 80)
        except ValueError:
            raise RefusedError("400 Bad Request", "This is no request to a proxy.") from None
        if not host or (method != "CONNECT" and parts.scheme != "http"):
            raise RefusedError("400 Bad Request", "This is no request to a proxy.")
        reader, writer = await self._reach(host, port)
        if method == "CONNECT":
            return reader, writer, b""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = [line for line in lines[1:] if line and not _is_for_the_proxy(line)]
        first = f"{method} {path} {version}".encode()
        return reader, writer, b"\r\n".join([first, *kept, b"Connection: close", b"", b""])

    async def _reach(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # no host name can be like that
            raise RefusedError("502 Bad Gateway", f"{host} is not known: {error}") from None
        addresses = [str(info[4][0]) for info in found]
        if host not in self._allow:
            addresses = [a for a in addresses if a in self._allow or not is_this_machine(a)]
        if not addresses:
            raise RefusedError(
                "403 Forbidden",
                f"{host} is this machine: a sandbox cannot reach it unless the server's "
                "configuration allows it (SandboxProvisioner.allow_hosts).",
            )
        last: Exception | None = None
        for address in dict.fromkeys(addresses):  # checked above: never the name again
            try:
                return await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_S)
            except (OSError, asyncio.TimeoutError) as error:
                last = error
        raise RefusedError("502 Bad Gateway", f"{host} cannot be reached: {last}")


def is_this_machine(address: str) -> bool:
    """Whether an address leads to this machine, to its link, or to the metadata of the cloud that
    it runs in: loopback, its own, link-local, also where IPv6 wraps such an address."""
    found = _unwrapped(ipaddress.ip_address(address.split("%")[0]))
    if found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast:
        return True
    own = (entry.address.split("%")[0] for each in psutil.net_if_addrs().values() for entry in each)
    return str(found) in METADATA or str(found) in set(own)


def _unwrapped(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 address stands for: mapped, compatible, 6to4, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inside = address.ipv4_mapped or address.sixtofour
    if inside is None and (address in NAT64 or (int(address) >> 32 == 0 and int(address) > 1)):
        inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inside or address


def environment(port: int) -> dict[str, str]:
    """What programs inside must know to find the proxy."""
    address = f"http://127.0.0.1:{port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    own = "localhost,127.0.0.1,::1"
    return {**dict.fromkeys(names, address), "NO_PROXY": own, "no_proxy": own}


def _is_for_the_proxy(line: bytes) -> bool:
    return line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:"))


async def _head(read: Read) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            raise RefusedError("431 Request Header Fields Too Large", "The request is too long.")
        more = await read()
        if not more:
            raise EOFError
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


async def _both_ways(
    read: Read, write: Write, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async def out() -> None:
        while data := await read():
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            if writer.can_write_eof():
                writer.write_eof()

    async def back() -> None:
        while data := await reader.read(1 << 16):
            await write(data)

    going = asyncio.ensure_future(out())
    try:
        await back()
    except OSError:
        pass
    finally:
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await going


__all__ = ["Outward", "environment", "is_this_machine"]
