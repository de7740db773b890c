"""A whole Jupyter server in one sandbox: paused from outside, its kernels go on as they were."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from jupyter_gkews.engines.gvisor.runsc import Runsc
from jupyter_gkews.engines.gvisor.server_sandbox import ServerPlan, ServerSandbox
from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

LIVE = """
import os, threading, time
ticks = []
def tick():
    while True: ticks.append(1); time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
numbers = (n for n in range(100)); print(os.getpid(), next(numbers))
"""


async def test_kernels_go_on_and_a_printing_cell_loses_no_line(
    server_in_sandbox: Any, tmp_path: Path
) -> None:
    async with server_in_sandbox() as server:
        page = await server.page()
        pid, _ = await page.run(LIVE)
        port = server.sandbox.port
        held = server.sandbox.pids()
        page.lines.clear()
        end = server.home / "end"
        cell = await page.send(
            f"i = 0\nwhile not os.path.exists({str(end)!r}): print(i); i += 1; time.sleep(0.05)"
        )
        await page.read(lambda: len(page.lines) > 8)
        reading = asyncio.ensure_future(page.read(lambda: False))
        done = await server.sandbox.pause(tmp_path / "first")
        await asyncio.wait_for(reading, 60)  # the connection has ended, by the server
        assert done.image_bytes > 1_000_000 and not server.sandbox.running
        assert [each["why"] for each in done.left] == ["The kernel was still busy after 1 s."]
        with pytest.raises(httpx.ConnectError):
            await server.get("/api")
        await server.sandbox.resume(tmp_path / "first")
        assert server.sandbox.port == port and not held & server.sandbox.pids()
        await page.connect()
        before = len(page.lines)
        await page.read(lambda: len(page.lines) > before)
        end.touch()
        await page.read(lambda: cell in page.idle)
        printed = list(page.lines)
        assert printed == [str(i) for i in range(len(printed))]
        assert await page.run("print(i)") == [str(len(printed))], "the last ones are there too"
        said = await page.run(
            "n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)\n"
            "print(os.getpid(), next(numbers))"
        )
        assert said == [pid, "1"]
        # a quiet kernel has a checkpoint of its own before the image is taken
        done = await server.sandbox.pause(tmp_path / "image")
        (written,) = done.checkpoints
        store = CheckpointStore(tmp_path / "server-1" / "store")
        lost = {row["name"]: row["reason"] for row in store.summary(written["checkpoint"])["lost"]}
        assert "numbers" in lost and "ticks" not in lost, "its thread only changes it"


@pytest.mark.soak
async def test_what_cannot_be_saved_refuses_the_pause_and_the_server_runs_on(
    server_in_sandbox: Any, tmp_path: Path
) -> None:
    async with server_in_sandbox() as server:
        page = await server.page()
        await page.run("import asyncio\ns = await asyncio.start_server(print, '127.0.0.1', 8123)")
        with pytest.raises(GkewsError, match="the server on 127") as refused:
            await server.sandbox.pause(tmp_path / "image")
        assert "runs on untouched" in refused.value.hint and not (tmp_path / "image").exists()
        assert await page.run("s.close(); await s.wait_closed(); print('on')") == ["on"]
        await server.sandbox.pause(tmp_path / "image")
        assert not server.sandbox.running


@pytest.mark.soak
async def test_many_connections_at_once_and_files_placed_inside(
    server_in_sandbox: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    secrets = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert not os.path.exists(secrets)
    big = os.urandom(3_000_000)
    async with server_in_sandbox(places={f"{secrets}/token": str(token)}) as server:
        (server.home / "big.bin").write_bytes(big)

        async def fetch(client: httpx.AsyncClient) -> bool:
            return (await client.get("/files/big.bin")).content == big

        async with server.client as client:
            assert all(await asyncio.gather(*(fetch(client) for _ in range(12))))
        page = await server.page()
        read = f"print(open('{secrets}/token').read())"
        assert await page.run(read) == ["first"]
        await server.sandbox.pause(tmp_path / "image", checkpoint=False)
        token.write_text("second")  # as a projected token is renewed
        await server.sandbox.resume(tmp_path / "image")
        await page.connect()
        assert await page.run(read) == ["second"]
        assert not os.path.exists(secrets)  # nothing was made outside


async def test_a_port_that_is_taken_and_a_command_that_ends_are_told(
    runsc: Runsc, tmp_path: Path
) -> None:
    del runsc
    holder = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = holder.sockets[0].getsockname()[1]
    plan = ServerPlan(["false"], str(tmp_path), {"PATH": os.environ["PATH"]})
    with pytest.raises(GkewsError, match=f"Port {port} cannot be had"):
        await ServerSandbox(tmp_path / "a", plan).start(port=port)
    holder.close()
    sandbox = ServerSandbox(tmp_path / "b", plan)
    with pytest.raises(GkewsError, match="ended before it answered"):
        await sandbox.start()
    assert not sandbox.running and not sandbox.pids()


@pytest.mark.parametrize(
    ("words", "port"),
    [
        (["jupyter", "lab"], 8888),
        (["jupyter", "lab", "--port=9"], 9),
        (["jupyter", "lab", "--port", "9"], 9),
        (["jupyter", "lab", "--ServerApp.port=9", "x"], 9),
    ],
)
def test_the_port_inside_is_the_one_of_the_command(words: list[str], port: int) -> None:
    assert ServerPlan(words, "/").port == port
