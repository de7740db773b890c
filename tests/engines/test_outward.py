"""The way out of a sandbox: through a proxy that never leads to this machine unasked."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.gvisor.outward import Outward, is_this_machine


class Site:
    """A web server on this machine's loopback, allowed by name."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def start(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen.append(head)
        body = b"x" * 5_000_000 if b"/big" in head else b"hello"
        if b"/slow" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst")
            await writer.drain()
            await reader.read()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()


async def test_programs_inside_reach_the_web_but_not_this_machine(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    site = Site()
    port = await site.start()
    async with sandboxed_kernel(Outward(allow=["localhost"])) as kernel:
        # urllib leaves out the proxy for localhost: asked by hand, as pip and others do for names
        ask = f"""
import http.client
def through(host, path='/', n=None):
    c = http.client.HTTPConnection('127.0.0.1', 3128, timeout=20)
    c.request('GET', f'http://{{host}}:{port}{{path}}')
    r = c.getresponse()
    return r.status, len(r.read()) if n else r.read()
"""
        await kernel.run(ask)
        assert await kernel.run("print(through('localhost'))") == "(200, b'hello')"
        assert await kernel.run("print(through('localhost', '/big', 1))") == "(200, 5000000)"
        assert b"GET / HTTP/1.1" in site.seen[0] and b"Proxy" not in site.seen[0]
        assert "403" in await kernel.run("print(through('127.0.0.1'))")
        assert "403" in await kernel.run("print(through('169.254.169.254'))")
        tunnel = f"""
c = http.client.HTTPConnection('127.0.0.1', 3128, timeout=20); c.set_tunnel('localhost', {port})
c.request('GET', '/'); print(c.getresponse().read())
"""
        assert await kernel.run(tunnel) == "b'hello'"
        await kernel.sandbox.freeze(tmp_path / "image")
        await kernel.sandbox.restore(tmp_path / "image")
        assert await kernel.run("print(through('localhost'))") == "(200, b'hello')"
    site.server.close()


async def test_a_download_in_flight_ends_cleanly_at_a_pause(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    site = Site()
    port = await site.start()
    async with sandboxed_kernel(Outward(allow=["localhost"])) as kernel:
        cell = kernel.client.execute(
            "import http.client\nc = http.client.HTTPConnection('127.0.0.1', 3128, timeout=60)\n"
            f"c.request('GET', 'http://localhost:{port}/slow')\n"
            "r = c.getresponse(); print('began', flush=True)\n"
            "try: r.read()\nexcept http.client.IncompleteRead as e: print('ended', e.partial)"
        )
        while (await kernel.client.get_iopub_msg())["msg_type"] != "stream":
            pass
        await kernel.sandbox.freeze(tmp_path / "image")
        await kernel.sandbox.restore(tmp_path / "image")
        assert (await kernel.output_of(cell)) == "ended b'first'"
    site.server.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "0.0.0.0",
        "::",
        "::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "168.63.129.16",
    ],
)
def test_addresses_of_this_machine_are_known(address: str) -> None:
    assert is_this_machine(address)


def test_an_address_elsewhere_is_not_this_machine() -> None:
    assert not is_this_machine("192.0.2.1") and not is_this_machine("2001:db8::1")


async def answered(outward: Outward, request: str) -> str:
    """The first line and the body that a program inside gets for a request."""
    sent, got = [request.encode()], bytearray()

    async def read() -> bytes:
        if sent:
            return sent.pop()
        await asyncio.sleep(60)
        return b""

    async def write(data: bytes) -> None:
        got.extend(data)

    await asyncio.wait_for(outward.serve(read, write), 60)
    return got.decode()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0",
        "localhost",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "169.254.169.254",
        "someone@127.0.0.1",
        socket.gethostname(),
        "a..b",
    ],
)
async def test_no_name_of_this_machine_leads_to_it(host: str) -> None:
    site = Site()
    port = await site.start()
    outward = Outward()
    for request in (
        f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        f"CONNECT {host}:{port} HTTP/1.1\r\nHost: example.org\r\n\r\n",
    ):
        said = await answered(outward, request)
        assert said.startswith(("HTTP/1.1 403", "HTTP/1.1 502", "HTTP/1.1 400")), said
    site.server.close()
    assert not site.seen


async def test_a_redirect_to_this_machine_is_refused_when_it_is_followed() -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/secret\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    outward = Outward(allow=["localhost"])
    said = await answered(outward, f"GET http://localhost:{port}/ HTTP/1.1\r\n\r\n")
    (target,) = [line.split(": ")[1] for line in said.split("\r\n") if "Location" in line]
    again = await answered(outward, f"GET {target} HTTP/1.1\r\n\r\n")
    assert again.startswith("HTTP/1.1 403")
    server.close()


async def test_a_name_that_resolves_to_this_machine_among_others_is_not_followed_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    port = await site.start()
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: str, port: int, **more: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    said = await answered(Outward(), f"GET http://rebinding.example:{port}/ HTTP/1.1\r\n\r\n")
    assert said.startswith("HTTP/1.1 403") and not site.seen
    site.server.close()
