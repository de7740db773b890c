"""A server that starts anew after a pause of its workspace brings the kernels of the pause back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from live_server import LiveKernel, LiveServer, wait_until

from jupyter_gkews.journal.pauses import JournalledKernel, PauseEntry, WorkspacePauses, life
from jupyter_gkews.lifecycle import adoption
from jupyter_gkews.lifecycle.records import PausedRecord, PausedRecords
from jupyter_gkews.lifecycle.recovery import LIVES, Recoveries

StartServer = Callable[..., LiveServer]

CELL = "import os\nx = [1, 2]\ny = x\nprint(os.getpid())"


def checkpointed(server: LiveServer, path: str) -> LiveKernel:
    """A notebook whose kernel has a checkpoint, as a pause of the workspace leaves it."""
    kernel = server.notebook(path).ready()
    kernel.run(CELL)
    kernel.do("checkpoint")
    return kernel


def journalled(kernel: LiveKernel, **changed: Any) -> JournalledKernel:
    status = kernel.status
    facts = {
        "kernel": kernel.id,
        "kernel_name": "python3",
        "path": kernel.path,
        "notebook": str(kernel.server.root / str(kernel.path)),
        "state": "running",
        "checkpoint": status["checkpoint"],
    }
    return JournalledKernel(**{**facts, **changed})


def open_pause(server: LiveServer, *kernels: JournalledKernel, **other: Any) -> PauseEntry:
    """What the journal has when the cluster is asked. The test's process, which lives on, is not
    the one that the server looks for."""
    pauses = WorkspacePauses(server.store)
    return pauses.open(
        workspace={"namespace": "team", "name": "me"},
        pod={"name": "ws-me-0", "uid": "1"},
        kernels=kernels,
        server={"root": str(server.root.resolve()), "base_url": "/", **other},
    )


def ended(server: LiveServer, pause: PauseEntry) -> dict[str, Any]:
    """How the journal closed it."""

    def closed() -> Any:
        (found,) = [each for each in WorkspacePauses(server.store).entries() if each.id == pause.id]
        return found.closed

    found: dict[str, Any] = wait_until(closed, "the pause is closed in the journal")
    return found


def workspace_event(events: Any) -> Any:
    """The next event on the bus, if it is about the workspace."""
    event = json.loads(events.recv())
    return event if event.get("action") == "workspace" else None


def test_kernels_wait_under_their_ids_and_a_cell_recovers_one(start_server: StartServer) -> None:
    first = start_server()
    one, two = checkpointed(first, "one.ipynb"), checkpointed(first, "two.ipynb")
    bare = first.notebook("bare.ipynb").ready()
    why = {"reason": "kernel_busy", "message": "A cell was running.", "hint": ""}
    pid = one.pid
    pause = open_pause(
        first, journalled(one), journalled(two), journalled(bare, checkpoint=None, why_not=why)
    )
    first.stop(signal.SIGKILL)

    second = start_server()
    recovery = second.get("gkews/status")["recovery"]
    assert recovery["pause"] == pause.id and recovery["way"] == "ask"
    assert recovery["provenance"] == "fresh"
    assert {(each["path"], each["state"], each["why"]) for each in recovery["kernels"]} == {
        ("one.ipynb", "waiting", ""),
        ("two.ipynb", "waiting", ""),
        ("bare.ipynb", "lost", "A cell was running."),
    }
    closed = ended(second, pause)
    # nothing was loaded yet
    assert closed["outcome"] == "fresh" and closed["evidence"]["way"] == "ask"
    assert "1 kernel: not brought back; see each reason." in closed["message"]
    # the open page asks for the kernel that it had
    again = second.kernel_of("one.ipynb")
    assert again.id == one.id and again.status["state"] == "paused"
    assert second.get("gkews/status")["workspace"]["provenance"] == "fresh"
    events = second.events()
    assert again.run("print(x is y, os.getpid())").split()[0] == "True"
    assert again.pid != pid and again.status["provenance"] == "recovered"
    recovery = second.get("gkews/status")["recovery"]
    told = wait_until(lambda: workspace_event(events), "the bus tells of it")
    assert told["provenance"] == "recovered"
    assert recovery["provenance"] == "recovered" and "1 kernel: recovered" in recovery["message"]
    assert second.kernel_of("two.ipynb").status["state"] == "paused"
    assert len(second.get("api/kernels")) == 2
    second.stop()

    third = start_server()  # the journal's pause is closed: its kernels do not come back again
    assert third.get("gkews/status")["recovery"] is None
    assert [each["path"] for each in third.get("gkews/status")["kernels"]] == ["two.ipynb"]


def test_they_are_recovered_at_once_if_that_is_wanted_one_failure_or_not(
    start_server: StartServer,
) -> None:
    first = start_server()
    good, broken = checkpointed(first, "good.ipynb"), checkpointed(first, "broken.ipynb")
    gone = checkpointed(first, "gone.ipynb")
    damaged = first.store / "checkpoints" / broken.status["checkpoint"] / "graph.pkl"
    pause = open_pause(first, journalled(broken), journalled(gone), journalled(good))
    first.stop(signal.SIGKILL)
    damaged.write_bytes(b"no graph")
    (first.root / "gone.ipynb").unlink()

    second = start_server("--GkewsApp.recover=automatic")
    closed = ended(second, pause)
    assert closed["outcome"] == "recovered"
    states = {each["path"]: each["state"] for each in closed["evidence"]["kernels"]}
    assert states == {"good.ipynb": "recovered", "broken.ipynb": "failed", "gone.ipynb": "lost"}
    assert second.kernel_of("good.ipynb").status["state"] == "running"
    assert second.kernel_of("good.ipynb").run("print(x is y)").strip() == "True"
    still = second.kernel_of("broken.ipynb")
    assert still.id == broken.id and still.status["state"] == "paused"
    (lost,) = [
        each
        for each in second.get("gkews/status")["recovery"]["kernels"]
        if each["state"] == "lost"
    ]
    assert "the notebook is gone" in lost["why"]
    assert gone.id not in [each["id"] for each in second.get("api/kernels")]


@pytest.mark.soak
def test_nothing_comes_back_if_that_is_not_wanted(start_server: StartServer) -> None:
    first = start_server()
    kernel = checkpointed(first, "n.ipynb")
    pause = open_pause(first, journalled(kernel))
    checkpoint = kernel.status["checkpoint"]
    first.stop(signal.SIGKILL)
    second = start_server("--GkewsApp.recover=never")
    assert ended(second, pause)["outcome"] == "declined"
    assert second.get("api/kernels") == []
    assert [each["id"] for each in second.get("gkews/checkpoints")["checkpoints"]] == [checkpoint]


def test_a_record_that_the_journal_did_not_write_stays(start_server: StartServer) -> None:
    first = start_server()
    kernel = checkpointed(first, "n.ipynb")
    pause = open_pause(first, journalled(kernel))
    own = PausedRecord(
        kernel.id, "python3", kernel.status["checkpoint"], "2026-01-01T00:00:00.000Z",
        notebook=str(first.root / "n.ipynb"), auto_resume=False,
    )  # fmt: skip
    first.stop(signal.SIGKILL)
    records = PausedRecords(first.store)
    records.write(own)
    records.close()
    second = start_server("--GkewsApp.adopt_paused=False")
    (found,) = second.get("gkews/status")["recovery"]["kernels"]
    assert found["state"] == "lost" and "it has a record of a paused kernel" in found["why"]
    ended(second, pause)
    assert second.get("api/kernels") == []
    assert PausedRecords(second.store).get(kernel.id) == own


@pytest.mark.soak
@pytest.mark.parametrize(
    "other", [{"base_url": "/workspace/connect/team/other/8888/"}, {"root": "/elsewhere"}]
)
def test_the_pause_of_another_workspace_with_the_same_home_is_left_alone(
    start_server: StartServer, other: dict[str, str]
) -> None:
    first = start_server()
    kernel = checkpointed(first, "n.ipynb")
    open_pause(first, journalled(kernel), **other)
    first.stop(signal.SIGKILL)
    second = start_server()
    assert second.get("gkews/status")["recovery"] is None and second.get("api/kernels") == []
    assert len(WorkspacePauses(second.store).open_entries()) == 1


def test_a_second_server_beside_the_one_that_pauses_takes_nothing(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as in a pod, so that the first says that it lives
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    first = start_server()
    kernel = checkpointed(first, "n.ipynb")
    (life,) = wait_until(lambda: os.listdir(first.store / LIVES), "it says that it lives")
    pause = open_pause(first, journalled(kernel))
    journal = first.store / "journal.jsonl"
    journal.write_text(journal.read_text().replace(pause.life, life))
    second = start_server()
    assert second.get("gkews/status")["recovery"] is None and second.get("api/kernels") == []
    second.stop()
    first.stop(signal.SIGKILL)
    third = start_server()
    assert third.kernel_of("n.ipynb").id == kernel.id
    assert third.get("gkews/status")["recovery"]["pause"] == pause.id


def test_a_page_that_asks_while_kernels_are_taken_over_takes_none_for_shut_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses, server = WorkspacePauses(tmp_path), {"root": "/home/me", "base_url": "/"}
    kernel = JournalledKernel("k", "python3", "n.ipynb", "/home/me/n.ipynb", "running", "c")
    pauses.open(
        workspace={"namespace": "team", "name": "me"},
        pod={"name": "ws-me-0", "uid": "1"},
        kernels=[kernel],
        server=server,
    )
    journal = tmp_path / "journal.jsonl"
    journal.write_text(journal.read_text().replace(life(), "of a server that has ended"))
    listed: set[str] = set()
    ctx: Any = SimpleNamespace(
        store=SimpleNamespace(root=tmp_path, manifest=lambda _: SimpleNamespace(environment={})),
        kernels=listed, records=PausedRecords(tmp_path), log=logging.getLogger(),
    )  # fmt: skip
    recoveries = Recoveries(
        ctx, "ask", pauses=pauses, server=server, resume=AsyncMock(), tell=lambda: None
    )
    told = []

    async def adopt(_: Any, records: list[PausedRecord]) -> list[PausedRecord]:
        told.append(recoveries.describe())
        listed.update(record.kernel for record in records)
        return records

    monkeypatch.setattr(adoption, "why_not", lambda *_: None)
    monkeypatch.setattr(adoption, "adopt", adopt)
    assert recoveries.describe() is None
    asyncio.run(recoveries.take_over())
    told.append(recoveries.describe())
    assert [each["kernels"][0]["state"] for each in told if each] == ["waiting", "waiting"]
    listed.clear()  # the user shuts it down
    last = recoveries.describe()
    assert last is not None and last["kernels"][0]["state"] == "lost"
