"""A whole server wakes up after a restore: it notices by itself, and puts right what is wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from whole_server import OneServer

HOOKS = """
import os
from jupyter_gkews import on_resume
heard = []
@on_resume
def reopen(resumed):
    heard.append((resumed.provenance, resumed.away_s > 5, resumed.paused < resumed.resumed))
@on_resume
def broken():
    raise ValueError("the other end is gone")
@on_resume
def last(resumed): heard.append("last")
print(os.getpid())
"""
UNTIL = """
import time
print("begun", flush=True)
while not os.path.exists({!r}):
    time.sleep(0.1)
print("waited", len(heard))
"""


def notebook(text: str) -> dict[str, Any]:
    """What a page saves."""
    cell = {"cell_type": "markdown", "id": "one", "metadata": {}, "source": text}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return {"type": "notebook", "format": "json", "content": content}


async def save(client: httpx.AsyncClient, name: str, text: str) -> httpx.Response:
    return await client.put(f"/api/contents/{name}", json=notebook(text))


async def last_activity(server: OneServer) -> datetime:
    said = (await server.get("/api/status"))["last_activity"]
    return datetime.fromisoformat(said.replace("Z", "+00:00"))


def token(pod: str) -> str:
    """A service-account token as a pod has it; nobody verifies it here."""
    claims = {"kubernetes.io": {"namespace": "team", "pod": {"name": "ws-me-0", "uid": pod}}}
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{middle}.signature"


async def test_a_restored_server_notices_and_puts_right_what_is_wrong(
    server_in_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    account = tmp_path / "token"
    account.write_text(token("pod-1"))
    places = {"/var/run/secrets/kubernetes.io/serviceaccount/token": str(account)}
    async with server_in_sandbox(places=places) as server:
        page = await server.page()
        (pid,) = await page.run(HOOKS)
        async with server.client as client:
            for name in ("kept.ipynb", "changed.ipynb", "asked.ipynb", "gone.ipynb"):
                (await save(client, name, "mine")).raise_for_status()
        active = await last_activity(server)
        status = await server.get("/gkews/status")
        assert status["woke"] is None
        await server.sandbox.pause(tmp_path / "image", checkpoint=False)
        for name in ("changed.ipynb", "asked.ipynb"):
            theirs = json.dumps(notebook("theirs")["content"])
            (server.home / name).write_text(theirs)
        (server.home / "gone.ipynb").unlink()
        account.write_text(token("pod-2"))
        await asyncio.sleep(5)  # the heartbeat must be late
        await server.sandbox.resume(tmp_path / "image")
        # the very first request must not find a server that has been idle for long
        assert (await last_activity(server) - active).total_seconds() > 5
        (kernel,) = await server.get("/api/kernels")
        assert datetime.fromisoformat(kernel["last_activity"].replace("Z", "+00:00")) > active
        # the user's functions ran, before the first cell, in the same process
        await page.connect()
        said = await page.run("print(os.getpid(), heard)")
        assert said[0] == pid and "".join(said[1:]) == "[('restored',True,True),'last']"
        (shown,) = page.errors_shown
        assert "broken" in shown and "the other end is gone" in shown
        assert await page.run("print(len(heard))") == ["2"] and page.errors_shown == []
        # what was changed on the volume is not overwritten by who has not looked
        async with server.client as client:
            refused = await save(client, "changed.ipynb", "mine again")
            assert refused.status_code == 409 and "was changed on the volume" in refused.text
            assert "theirs" in (server.home / "changed.ipynb").read_text()
            (await save(client, "kept.ipynb", "mine again")).raise_for_status()
            (await save(client, "gone.ipynb", "mine again")).raise_for_status()
            # JupyterLab asks first, and the user says whether to overwrite it
            how = {"content": "0", "hash": "1"}
            (await client.get("/api/contents/asked.ipynb", params=how)).raise_for_status()
            answer = await save(client, "asked.ipynb", "mine, I know")
            assert answer.status_code == 200, answer.text
        status = await server.get("/gkews/status")
        woke = status["woke"]
        assert status["workspace"]["provenance"] == "restored"
        signs = {each["sign"] for each in woke["evidence"]}
        assert signs >= {"clock", "pod"}
        assert woke["away_s"] > 5 and woke["trouble"] == {}
        assert [os.path.basename(path) for path in woke["changed_files"]] == [
            "asked.ipynb",
            "changed.ipynb",
        ]
        assert woke["hooks_failed"] == {
            kernel["id"]: {"broken": "ValueError: the other end is gone"}
        }


@pytest.mark.soak
async def test_again_and_again_also_in_the_middle_of_a_cell(
    server_in_sandbox: Any, tmp_path: Path
) -> None:
    async with server_in_sandbox() as server:
        page = await server.page()
        await page.run(HOOKS)
        before = None
        for round_ in range(1, 4):
            go_on = server.home / f"go-on-{round_}"
            cell = await page.send(UNTIL.format(str(go_on)))
            await page.read(lambda: "begun" in page.lines)
            await server.sandbox.pause(tmp_path / f"image-{round_}", checkpoint=False)
            await asyncio.sleep(5)
            await server.sandbox.resume(tmp_path / f"image-{round_}")
            woke = (await server.get("/gkews/status"))["woke"]
            assert woke["woke"] != before and len(woke["evidence"]) >= 2
            before = woke["woke"]
            page.lines.clear()
            await page.connect()
            go_on.touch()
            await page.read(lambda cell=cell: cell in page.idle)  # type: ignore[misc]
            # they wait for the end of the cell, and run before the next one
            assert page.lines == ["waited", str(2 * (round_ - 1))]
            assert await page.run("print(len(heard))") == [str(2 * round_)]
