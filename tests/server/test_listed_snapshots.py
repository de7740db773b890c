"""Process snapshots as users see them: foreseen, listed, checked before a restore, deleted, in REST
and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gvisor_here import skip_without_runsc
from live_server import LiveKernel, LiveServer, wait_until

from jupyter_gkews.cli import main
from jupyter_gkews.engines.gvisor.kernelspec import write

Gkews = Callable[..., str]


@pytest.fixture(scope="module")
def sandboxing(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> LiveServer:
    """The server with the pausable kernel; skipped where runsc cannot run."""
    skip_without_runsc(tmp_path_factory.mktemp("state"))
    write(server.base / "data" / "kernels")
    return server


@pytest.fixture(scope="module")
def kernel(sandboxing: LiveServer) -> Iterator[LiveKernel]:
    """One kernel for all tests of this module, with what a checkpoint cannot carry."""
    started = sandboxing.notebook("n.ipynb", "python3-pausable").ready()
    started.run(LIVE)
    yield started
    started.close()
    sandboxing.client.delete(f"api/kernels/{started.id}")


@pytest.fixture
def paused(kernel: LiveKernel) -> LiveKernel:
    """The same, frozen."""
    if kernel.status["state"] != "paused" or not kernel.status["snapshot"]:
        if kernel.status["state"] == "paused":
            kernel.do("resume")
        kernel.run(LIVE)
        kernel.do("pause", {"snapshot": True})
    return kernel


@pytest.fixture
def gkews(
    sandboxing: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Gkews:
    """Run a command that succeeds; what it prints."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(sandboxing.base / "runtime"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(sandboxing.base / "data"))

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


LIVE = """
import subprocess, threading, time
if "sleeper" not in globals(): sleeper = subprocess.Popen(["sleep", "100000"])
ticks = []
def tick():
    while True: ticks.append(1); time.sleep(0.05)
if not any(thread.name == "ticker" for thread in threading.enumerate()):
    threading.Thread(target=tick, name="ticker", daemon=True).start()
numbers = (n for n in range(100)); next(numbers)
notes = open("notes.txt", "a")
"""


def test_a_pause_is_foreseen_with_what_the_process_holds_and_what_it_costs(
    kernel: LiveKernel, gkews: Gkews
) -> None:
    told = kernel.server.get(f"gkews/kernels/{kernel.id}/survives")["snapshot"]
    holds = told["holds"]
    assert (holds["threads"], holds["generators"]) == (["ticker"], ["numbers"])
    assert [name.split()[0] for name in holds["children"]] == ["sleep"]
    assert holds["files"] == [str(kernel.server.root / "notes.txt")]
    assert told["objections"] == [] and told["taken"] is None and told["keeps"]
    assert 1e6 < told["estimate"]["image_bytes"] < 1e9 and told["estimate"]["seconds"] > 0
    said = gkews("survives", "n.ipynb")
    assert "1 thread; 1 generator; 1 child process; 1 open file" in said and "to restore" in said


def test_what_stands_in_the_way_is_foreseen(kernel: LiveKernel, gkews: Gkews) -> None:
    kernel.run("server = await __import__('asyncio').start_server(print, '127.0.0.1', 8124)")
    said = gkews("survives", "n.ipynb")
    assert "rest on the checkpoint" in said and "the server on 127.0.0.1:8124" in said
    kernel.run("server.close(); await server.wait_closed(); del server")
    assert "also freezes the process" in gkews("survives", "n.ipynb")


def test_a_snapshot_is_listed_beside_its_checkpoint(paused: LiveKernel, gkews: Gkews) -> None:
    (shown,) = paused.server.get("gkews/snapshots")["snapshots"]
    status = paused.status
    assert (shown["id"], shown["checkpoint"]) == (status["snapshot"], status["checkpoint"])
    assert shown["in_use"] and shown["unneeded"] is None and shown["problem"] is None
    assert shown["bytes"] > 1_000_000 and shown["notebook"].endswith("n.ipynb")
    assert shown["environment"]["runsc"] and shown["environment"]["cpu"]
    assert shown["holds"]["threads"] == ["ticker"]
    assert paused.server.get(f"gkews/snapshots/{shown['id']}") == shown
    line = next(row for row in gkews("list").splitlines() if row.startswith(shown["id"]))
    assert f"runsc {shown['environment']['runsc']}" in line and "in use" in line
    assert "1 thread, 1 generator, 1 child process, 1 open file" in line
    assert line.endswith("n.ipynb")
    assert json.loads(gkews("list", "--json"))["snapshots"] == [shown]
    said = gkews("show", shown["id"])
    assert said.startswith(f"Process snapshot {shown['id']}")
    assert "1 child process" in said and shown["checkpoint"] in said
    assert json.loads(gkews("show", shown["id"], "--json")) == shown
    outlook = paused.server.get(f"gkews/kernels/{paused.id}/survives")["snapshot"]
    assert outlook["taken"] == shown["id"] and outlook["holds"] == shown["holds"]


def test_nobody_else_can_read_it(paused: LiveKernel) -> None:
    place = paused.server.store / "snapshots"
    found = [place, *place.rglob("*")]
    assert len(found) >= 5
    for path in found:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_what_a_paused_kernel_needs_is_not_collected(paused: LiveKernel, gkews: Gkews) -> None:
    stray = paused.server.store / "snapshots" / "20200101-000000-aaaa"
    found = paused.server.get(f"gkews/snapshots/{paused.status['snapshot']}")
    stray.mkdir()
    (stray / "snapshot.json").write_text(json.dumps({**_recorded(paused), "id": stray.name}))
    told = gkews("gc", "--dry-run")
    assert stray.name in told and found["id"] not in told and stray.exists()
    assert paused.server.get("gkews/store")["snapshots"] == 2
    assert "1 process snapshots" in gkews("gc") and not stray.exists()
    assert paused.server.get("gkews/snapshots")["snapshots"] == [found]


def _recorded(paused: LiveKernel) -> dict[str, object]:
    place = paused.server.store / "snapshots" / paused.status["snapshot"]
    data: dict[str, object] = json.loads((place / "snapshot.json").read_text())
    return data


def test_a_file_that_vanished_is_named_before_the_restore_is_tried(
    paused: LiveKernel, gkews: Gkews, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, log = paused.server.root / "notes.txt", _log(paused)
    began = log.stat().st_mtime_ns
    notes.rename(notes.with_name("away.txt"))
    error = paused.fail("resume")
    assert error["reason"] == paused.status["reason"] == "snapshot_incompatible"
    assert str(notes) in error["message"] and "resume from the checkpoint" in error["hint"]
    assert log.stat().st_mtime_ns == began, "nothing was tried"
    listed = gkews("list")
    assert f"{paused.status['snapshot']}: " in listed and str(notes) in listed
    assert main(["resume", "n.ipynb"]) == 1
    said = capsys.readouterr().err
    assert "snapshot_incompatible" in said and "--no-snapshot" in said
    notes.with_name("away.txt").rename(notes)
    assert paused.do("resume")["result"]["provenance"] == "restored"
    paused.run("n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)")
    assert "was restored from a process snapshot" in paused.run("%gkews")


def _log(kernel: LiveKernel) -> Path:
    return kernel.server.store / "sandboxes" / kernel.id / "runsc.log"


def test_what_runsc_says_of_a_failed_restore_is_a_sentence(paused: LiveKernel) -> None:
    (image,) = (paused.server.store / "snapshots" / paused.status["snapshot"] / "image").iterdir()
    whole = image.read_bytes()
    image.write_bytes(whole[:5000] + bytes(len(whole) - 5000))
    error = paused.fail("resume")
    assert error["reason"] == "snapshot_failed" and "runsc" in error["message"]
    assert "kept" in error["hint"] and image.exists()
    image.write_bytes(whole)


def test_a_deleted_snapshot_leaves_the_checkpoint_which_resumes(
    paused: LiveKernel, gkews: Gkews
) -> None:
    snapshot = paused.status["snapshot"]
    said = gkews("delete", snapshot, "--yes")
    assert "stays paused" in said and paused.status["checkpoint"] in said
    assert paused.status["snapshot"] is None and paused.status["state"] == "paused"
    assert paused.server.get(f"gkews/snapshots/{snapshot}", status=404)
    assert not list((paused.server.store / "snapshots").iterdir())
    resumed = paused.do("resume")["result"]
    assert resumed["provenance"] == "recovered"
    assert "numbers" in {loss["name"] for loss in resumed["lost"]}
    wait_until(lambda: paused.status["state"] == "running", "it runs")
