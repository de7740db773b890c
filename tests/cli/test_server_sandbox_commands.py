"""`jupyter gkews sandbox`: a whole server, run from a shell that may be closed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from gvisor_here import skip_without_runsc
from live_server import EXTENSIONS, wait_until

from jupyter_gkews.cli import main
from jupyter_gkews.engines.gvisor.server_folder import ServerFolder, ServerRecord, all_servers
from jupyter_gkews.engines.gvisor.server_sandbox import ServerPlan
from jupyter_gkews.server_sandbox_commands import arguments

SERVER = [sys.executable, "-m", "jupyter_server", f"--ServerApp.jpserver_extensions={EXTENSIONS}"]


class Shell:
    """Commands in processes of their own, with a folder of servers of their own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.servers, self.capsys = base, base / "servers", capsys

    def start(self, name: str) -> Any:
        """Start a server from a shell that is closed then."""
        line = [sys.executable, "-m", "jupyter_gkews.cli", "sandbox", "--json", "--name", name]
        line += ["--servers", str(self.servers), "--", *SERVER]
        done = subprocess.run(line, cwd=self.base, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, action: str, *words: str) -> Any:
        """What a command answers as JSON, also where it fails."""
        self.capsys.readouterr()
        main(["sandbox", action, "--json", "--servers", str(self.servers), *words])
        return json.loads(self.capsys.readouterr().out)

    def state(self, name: str) -> str:
        (found,) = (each for each in self.run("list")["servers"] if each["name"] == name)
        return str(found["state"])

    def end(self) -> None:
        """Whatever is left."""
        for folder in all_servers(self.servers):
            record = folder.record()
            if record.state == "running":
                self.run("stop", record.id)
            elif record.host_pid:
                psutil.Process(record.host_pid).terminate()


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """Skipped where runsc cannot run."""
    skip_without_runsc(tmp_path / "state")
    found = Shell(tmp_path, capsys)
    yield found
    found.end()


def answer(record: Any, path: str) -> Any:
    """What the server answers over REST."""
    found = httpx.get(
        record["url"] + path,
        headers={"Authorization": f"token {record['token']}"},
        trust_env=False,
        timeout=60,
    )
    return found.raise_for_status().json()


def memory(process: psutil.Process) -> int:
    """Bytes that a process holds; what is dead, and only not yet buried, holds none."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def test_a_server_is_started_paused_resumed_and_stopped(shell: Shell) -> None:
    begun = shell.start("one")
    assert begun["state"] == "running" and begun["token"]
    before = answer(begun, "api/status")["started"]
    processes = psutil.Process(begun["host_pid"]).children(recursive=True)
    assert processes
    paused = shell.run("pause", "one")
    assert paused["state"] == "paused" and paused["image_bytes"] == paused["image"]["bytes"]
    assert sum(memory(process) for process in processes) == 0
    image = shell.servers / begun["id"] / "image"
    assert image.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in image.iterdir()} == {0o600}
    assert shell.run("pause", begun["id"][:6])["reason"] == "already_paused"
    resumed = shell.run("resume", "one")
    assert resumed["port"] == begun["port"] and resumed["host_pid"] != begun["host_pid"]
    assert answer(resumed, "api/status")["started"] == before  # the same process
    assert not image.exists() and shell.run("resume", "one")["reason"] == "not_paused"
    assert any("Jupyter Server" in line for line in shell.run("logs", "one")["lines"])
    assert shell.run("stop", "one") == {"id": begun["id"], "checkpoints": None}
    assert shell.run("list") == {"servers": []} and not list(shell.servers.iterdir())


@pytest.mark.soak
def test_two_side_by_side_and_what_a_killed_host_leaves(shell: Shell) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(shell.start, ("one", "two"))
    assert one["port"] != two["port"]
    shell.run("pause", "one")
    assert (shell.state("one"), shell.state("two")) == ("paused", "running")
    assert answer(two, "api/status")["kernels"] == 0
    with ServerFolder(shell.servers / one["id"]).held():
        assert shell.run("resume", "one")["reason"] == "operation_running"
    assert shell.run("resume", "one")["state"] == "running"
    children = psutil.Process(two["host_pid"]).children(recursive=True)
    os.kill(two["host_pid"], signal.SIGKILL)
    wait_until(lambda: not any(p.is_running() for p in children), "the sandbox has ended")
    assert (shell.state("one"), shell.state("two")) == ("running", "lost")
    assert shell.run("pause", "two")["reason"] == "not_pausable"
    assert shell.run("stop", "two")["id"] == two["id"]
    # an image survives whatever happens to the process that wrote it
    paused = shell.run("pause", "one")
    other = ServerFolder(shell.servers / one["id"])
    record = other.stored()
    other.write(record, image={**paused["image"], "environment": {"runsc": "another"}})
    assert "with runsc another" in shell.run("resume", "one")["message"]
    other.write(record)
    assert shell.run("resume", "one")["state"] == "running"


def test_what_cannot_start_is_told_and_leaves_nothing(shell: Shell) -> None:
    for words, said in (
        (["--port", "99999", "--", "true"], "Port 99999 cannot be had"),
        (["--place", "/etc/hosts:/nowhere/x", "--", "true"], "/nowhere/x does not exist"),
        (["--", "no-such-program"], "no-such-program is not found"),
    ):
        shell.capsys.readouterr()
        assert main(["sandbox", "--json", "--servers", str(shell.servers), *words]) == 1
        assert said in json.loads(shell.capsys.readouterr().out)["message"]
    assert not list(shell.servers.iterdir())


def test_the_words_after_the_dashes_are_the_command() -> None:
    assert arguments(["sandbox", "--port", "9", "--", "jupyter", "lab", "--", "x"]) == (
        ["sandbox", "run", "--port", "9"],
        ["jupyter", "lab", "--", "x"],
    )
    assert arguments(["sandbox", "list"]) == (["sandbox", "list"], [])
    assert arguments(["status"]) == (["status"], [])


def test_mistakes_are_told_and_start_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ["--servers", str(tmp_path / "servers")]
    for words, said in (
        (["run", *servers], "Write the command after --"),
        (["--place", "nothing", *servers, "--", "true"], "OUTSIDE:INSIDE"),
        (["pause", "x", *servers], "no sandboxed server"),
    ):
        assert main(["sandbox", *words]) == 1
        told = capsys.readouterr()
        assert said in told.out + told.err or "runsc" in told.err
    assert not (tmp_path / "servers").exists()


def test_a_record_of_a_dead_host_does_not_stand(tmp_path: Path) -> None:
    folder = ServerFolder.create(tmp_path / "servers", ServerPlan(["x"], "/", {}))
    running: ServerRecord = folder.write(folder.stored(), state="running", host_pid=1)
    assert folder.record().state == "lost" and folder.record().error is not None
    with folder.held():
        assert folder.record().state == "running" and folder.host_lives()
    folder.image.mkdir()
    folder.write(running, state="resuming", image={"bytes": 1})
    assert folder.record().state == "paused"
