"""`jupyter gkews` against a running server: tables, JSON, and exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from live_server import LiveKernel, LiveServer

from jupyter_gkews import __version__
from jupyter_gkews.cli import main
from jupyter_gkews.tables import duration, size, table


class Said(NamedTuple):
    code: int
    out: str
    err: str


Gkews = Callable[..., Said]


@pytest.fixture
def gkews(server: LiveServer, monkeypatch, capsys) -> Gkews:
    """Run a command as a user of the server's machine does."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.base / "runtime"))
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)

    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def kernel(server: LiveServer) -> LiveKernel:
    """A running kernel with a variable of each fate."""
    kernel = server.notebook("work/cli.ipynb").ready()
    kernel.run("big = b'x' * 5_000_000; lines = (n for n in range(3))")
    return kernel


def test_status_lists_the_kernels_of_the_server(gkews: Gkews, kernel: LiveKernel) -> None:
    said = gkews("status")
    assert said.code == 0
    line = next(line for line in said.out.splitlines() if line.startswith(kernel.id[:8]))
    assert "work/cli.ipynb" in line
    assert "running" in line
    assert "MB" in line
    assert kernel.server.url in said.out


def test_status_of_one_kernel_says_its_state_in_a_sentence(
    gkews: Gkews, kernel: LiveKernel
) -> None:
    said = gkews("status", "work/cli.ipynb")
    assert said.code == 0
    assert kernel.id in said.out
    assert "Running" in said.out


def test_status_as_json_is_what_the_server_says(gkews: Gkews, kernel: LiveKernel) -> None:
    value = json.loads(gkews("status", "--json").out)["servers"]
    assert [s["url"] for s in value] == [kernel.server.url]
    assert value[0]["version"] == __version__
    assert kernel.id in [k["id"] for k in value[0]["kernels"]]
    assert json.loads(gkews("status", kernel.id[:8], "--json").out)["id"] == kernel.id


@pytest.mark.parametrize("named", ["id", "path", "file"])
def test_a_kernel_is_paused_and_resumed_by_each_of_its_names(
    gkews: Gkews, kernel: LiveKernel, named: str
) -> None:
    name = {
        "id": kernel.id[:6],
        "path": "work/cli.ipynb",
        "file": str(kernel.server.root / "work" / "cli.ipynb"),
    }[named]
    paused = gkews("pause", name)
    assert paused.code == 0, paused.err
    assert paused.out.startswith("Paused work/cli.ipynb")
    assert "given back" in paused.out
    assert "generator" in paused.out, "what is lost is told, with the reason"
    assert kernel.status["state"] == "paused"
    resumed = gkews("resume", name)
    assert resumed.code == 0, resumed.err
    assert "recovered" in resumed.out
    assert kernel.run("len(big)") == "5000000"
    kernel.run("lines = (n for n in range(3))")


def test_survives_shows_what_would_be_kept_and_lost_biggest_first(
    gkews: Gkews, kernel: LiveKernel
) -> None:
    said = gkews("survives", kernel.id[:8])
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert [row[0] for row in rows if row][1] == "big"
    fates = {row[0]: row for row in rows if row}
    assert "kept" in fates["big"]
    assert "lost" in fates["lines"]
    names = {v["name"] for v in json.loads(gkews("survives", kernel.id, "--json").out)["variables"]}
    assert {"big", "lines"} <= names


def test_a_checkpoint_is_made_with_a_name_and_listed(gkews: Gkews, kernel: LiveKernel) -> None:
    made = gkews("checkpoint", kernel.id[:8], "--name", "milestone", "--json")
    checkpoint = json.loads(made.out)["result"]["checkpoint"]
    said = gkews("list")
    assert said.code == 0
    line = next(line for line in said.out.splitlines() if line.startswith(checkpoint))
    assert "milestone" in line
    assert "work/cli.ipynb" in line
    assert checkpoint in [c["id"] for c in json.loads(gkews("list", "--json").out)["checkpoints"]]


def test_an_error_of_the_server_is_told_with_reason_and_hint(
    gkews: Gkews, kernel: LiveKernel
) -> None:
    said = gkews("resume", kernel.id[:8])
    assert said.code == 1
    assert said.out == ""
    assert said.err.startswith("error: not_paused: ")
    assert "hint: " in said.err
    said = gkews("resume", kernel.id[:8], "--json")
    assert said.code == 1
    error = json.loads(said.out)
    assert set(error) == {"reason", "message", "hint"} and all(error.values())
    assert error["reason"] == "not_paused"


def test_an_operation_that_fails_is_told_with_reason_and_hint(
    gkews: Gkews, kernel: LiveKernel
) -> None:
    cell = kernel.busy()
    said = gkews("pause", kernel.id[:8], "--timeout", "0.2", "--json")
    assert said.code == 1
    assert "error: kernel_busy" in said.err
    assert "hint: " in said.err
    assert json.loads(said.out)["error"]["reason"] == "kernel_busy"
    assert cell.end().reply["status"] == "ok"


def test_without_waiting_the_operation_is_named(gkews: Gkews, kernel: LiveKernel) -> None:
    said = gkews("checkpoint", kernel.id[:8], "--no-wait", "--json")
    operation = json.loads(said.out)["id"]
    assert said.code == 0
    assert kernel.server.operation(operation)["error"] is None


def test_a_kernel_that_does_not_exist_is_an_error(gkews: Gkews, kernel: LiveKernel) -> None:
    for command in ("status", "pause", "resume", "checkpoint", "survives"):
        said = gkews(command, "nothing.ipynb")
        assert said.code == 1
        assert "kernel_not_found" in said.err
        assert "hint: " in said.err


def test_a_name_that_fits_several_kernels_is_an_error(gkews: Gkews, server: LiveServer) -> None:
    ids = [f"feedbeef-0000-4000-8000-00000000000{last}" for last in (1, 2)]
    for kernel_id in ids:
        path = f"{kernel_id}.ipynb"
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"id": kernel_id}}
        server.ask("POST", "api/sessions", body, status=201)
    said = gkews("status", "feedbeef")
    assert said.code == 1
    assert "several" in said.err
    assert gkews("status", ids[1]).code == 0


def test_a_wrong_command_line_is_a_usage_error(gkews: Gkews) -> None:
    for words in (
        (),
        ("nonsense",),
        ("pause",),
        ("pause", "x", "--when", "never"),
        ("pause", "x", "--timeout", "-5"),
        ("pause", "x", "--timeout", "soon"),
    ):
        said = gkews(*words)
        assert said.code == 2, words
        assert "usage:" in said.err


def test_no_running_server_is_an_error(gkews: Gkews, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    said = gkews("status")
    assert said.code == 1
    assert "No Jupyter server" in said.err
    assert "hint: " in said.err
    said = gkews("status", "--json")
    assert said.code == 1
    error = json.loads(said.out)
    assert error["reason"] == "kernel_unreachable"
    assert "No Jupyter server" in error["message"] and error["hint"]


def test_a_server_is_named_by_its_url_and_token(
    gkews: Gkews, kernel: LiveKernel, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    server = kernel.server
    said = gkews("status", kernel.id[:8], "--url", server.url, "--token", server.token)
    assert said.code == 0
    refused = gkews("status", "--url", server.url, "--token", "wrong")
    assert refused.code == 1
    assert "token" in refused.err
    refused = gkews("status", "--url", server.url, "--token", "wrong", "--json")
    assert json.loads(refused.out)["reason"] == "forbidden"
    nobody = gkews("status", "--url", "http://127.0.0.1:9/")
    assert nobody.code == 1
    assert "does not answer" in nobody.err


def test_a_server_without_a_token_is_asked_too(gkews: Gkews, start_server, monkeypatch) -> None:
    server = start_server(token="")
    server.client.headers["X-XSRFToken"] = "00"
    server.client.cookies.set("_xsrf", "00")
    kernel = server.notebook("open.ipynb").ready()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.base / "runtime"))
    done = gkews("pause", "open.ipynb")
    assert done.code == 0, done.err
    assert kernel.status["state"] == "paused"


def test_it_is_a_subcommand_of_jupyter(kernel: LiveKernel) -> None:
    bin_dir = str(Path(sys.executable).parent)
    assert shutil.which("jupyter-gkews", path=bin_dir)
    done = subprocess.run(
        [str(Path(bin_dir) / "jupyter"), "gkews", "status", kernel.id[:8], "--json"],
        env={
            **os.environ,
            "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}",
            "JUPYTER_RUNTIME_DIR": str(kernel.server.base / "runtime"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"] == kernel.id


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (6_200_000_000, "6.2 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_sizes_are_written_as_the_operating_system_does(count, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (7260, "2 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_written_in_their_two_largest_units(seconds, text: str) -> None:
    assert duration(seconds) == text


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert table(("a", "long"), [("xyz", ""), ("y", "z")]) == "A    LONG\nxyz  -\ny    z"


def test_commands_that_ask_no_server_look_for_none(tmp_path: Path) -> None:
    code = (
        "import sys; from jupyter_gkews import cli;"
        "cli.main(['doctor', '--json']);"
        f"cli.main(['sandbox', 'list', '--servers', {str(tmp_path)!r}]);"
        f"cli.main(['workspace', 'status', 'a/b', '--kubeconfig', {str(tmp_path / 'none')!r}]);"
        "assert 'jupyter_server.serverapp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)
