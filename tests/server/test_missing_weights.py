"""Weights in files that are gone or were changed: told before anything starts, and a way on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from live_server import LiveKernel, LiveServer
from safetensors.numpy import save_file

#: The tests' folders are temporary ones, whose files are else always copied.
_LOAD = """
import jupyter_gkews.kernel.checkpoint.safetensors_files as files
files.NOT_DURABLE = ()
del files
from safetensors.numpy import load_file
weights = load_file({path!r})
total = float(weights['up'].sum())
other = [1, 2]
"""


def paused(server: LiveServer, name: str) -> tuple[LiveKernel, Path, dict[str, Any]]:
    """A kernel that was paused with weights of a file, the file, and the pause's result."""
    path = server.root / f"{name}.safetensors"
    save_file({"up": np.arange(1 << 19, dtype=np.float32), "down": np.ones(1 << 19)}, path)
    kernel = server.notebook(f"{name}.ipynb").ready()
    kernel.run(_LOAD.format(path=str(path)))
    return kernel, path, kernel.do("pause")["result"]


def test_a_resume_without_its_weights_is_refused_and_works_when_they_are_back(
    server: LiveServer,
) -> None:
    kernel, path, result = paused(server, "vanished")
    assert result["bytes_referenced"] == 6 << 20 and result["bytes_written"] < 1 << 20
    away = path.with_name("away")
    path.rename(away)
    error = kernel.fail("resume")
    assert error["reason"] == "weights_missing"
    assert str(path) in error["message"] and "used by weights" in error["message"]
    assert kernel.status["state"] == "paused" and kernel.status["reason"] == "weights_missing"
    table = server.get(f"gkews/kernels/{kernel.id}/survives")
    row = next(row for row in table["variables"] if row["name"] == "weights")
    assert row["fate"] == "lost" and str(path) in row["reason"]
    (file,) = server.get(f"gkews/checkpoints/{result['checkpoint']}")["files"]
    assert file["path"] == str(path) and file["problem"] == "it is not there any more"
    away.rename(path)
    kernel.do("resume")
    assert kernel.run("float(weights['up'].sum()) == total, other") == "(True, [1, 2])"


def test_weights_that_were_changed_are_lost_alone_if_that_is_accepted(server: LiveServer) -> None:
    kernel, path, _ = paused(server, "changed")
    with open(path, "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    assert kernel.fail("resume")["reason"] == "weights_missing"
    ended = kernel.do("resume", {"accept_missing": True})
    (lost,) = ended["result"]["lost"]
    assert lost["name"] in ("weights['up']", "weights['down']") and str(path) in lost["reason"]
    assert kernel.run("other, type(weights).__name__") == "([1, 2], 'dict')"


def test_a_cell_that_is_run_without_the_weights_is_answered_with_what_to_do(
    server: LiveServer,
) -> None:
    kernel, path, _ = paused(server, "cell")
    path.unlink()
    reply = kernel.answer(kernel.send("other")).reply
    assert reply["status"] == "error"
    assert str(path) in str(reply) and "accept_missing" in str(reply)
    assert kernel.status["state"] == "paused"


def test_a_restore_without_its_weights_leaves_the_running_kernel_as_it_is(
    server: LiveServer,
) -> None:
    kernel, path, result = paused(server, "restored")
    assert kernel.run("other") == "[1, 2]"
    kernel.run("mine = 5")
    pid = kernel.pid
    path.unlink()
    route = f"gkews/checkpoints/{result['checkpoint']}/restore"
    operation = server.operation(server.post(route, {"kernel_id": kernel.id})["id"])
    assert operation["error"]["reason"] == "weights_missing"
    assert kernel.pid == pid and kernel.run("mine") == "5"
    body = {"kernel_id": kernel.id, "accept_missing": True}
    operation = server.operation(server.post(route, body)["id"])
    assert operation["error"] is None and len(operation["result"]["lost"]) == 2
    assert kernel.run("other, 'mine' in globals()") == "([1, 2], False)"
    error = server.post(route, {"accept_missing": "yes"}, status=400)
    assert error["reason"] == "bad_request"


def test_with_the_setting_off_the_weights_are_copied(start_server: Any) -> None:
    server = start_server("--GkewsApp.reference_files=False")
    kernel, path, result = paused(server, "copied")
    assert result["bytes_referenced"] == 0 and result["bytes_written"] > 6 << 20
    path.unlink()
    assert kernel.run("float(weights['up'].sum()) == total") == "True"
