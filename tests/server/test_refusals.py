"""What cannot be done is refused with a typed error, and nothing is changed by it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from live_server import LiveKernel, LiveServer


@pytest.fixture(scope="module")
def kernel(server: LiveServer) -> LiveKernel:
    """A running kernel that every test leaves running."""
    return server.notebook("refusals.ipynb").ready()


@pytest.mark.parametrize("what", ["pause", "resume", "checkpoint"])
def test_an_unknown_kernel_is_not_found(server: LiveServer, what: str) -> None:
    error = server.post(f"gkews/kernels/no-such-kernel/{what}", status=404)
    assert error["reason"] == "kernel_not_found"
    assert error["hint"]


def test_an_unknown_kernel_has_no_state_and_no_fates(server: LiveServer) -> None:
    for path in ("gkews/kernels/nope", "gkews/kernels/nope/survives"):
        assert server.get(path, status=404)["reason"] == "kernel_not_found"
    error = server.ask("PATCH", "gkews/kernels/nope", {"auto_resume": True}, status=404)
    assert error["reason"] == "kernel_not_found"


def test_an_unknown_operation_is_not_found(server: LiveServer) -> None:
    for method in ("GET", "DELETE"):
        error = server.ask(method, "gkews/operations/nope", status=404)
        assert error["reason"] == "operation_not_found"


@pytest.mark.parametrize("checkpoint", ["nope", "..", "%2e%2e%2fkey", "a%2fb", "%00"])
def test_an_unknown_checkpoint_is_not_found(server: LiveServer, checkpoint: str) -> None:
    path = f"gkews/checkpoints/{checkpoint}"
    for method, where in (("GET", path), ("DELETE", path), ("POST", f"{path}/restore")):
        # sent as it is: httpx would resolve the dots
        request = server.client.build_request(
            method, "gkews/status", extensions={"target": f"/{where}".encode()}
        )
        answer = server.client.send(request)
        assert answer.status_code == 404, (method, where, answer.text)
        assert answer.json()["reason"] in ("checkpoint_not_found", "no_such_route")


def test_resuming_a_running_kernel_is_refused(kernel: LiveKernel) -> None:
    error = kernel.ask("resume", status=409)
    assert error["reason"] == "not_paused"
    assert error["hint"]
    assert kernel.status["state"] == "running"


@pytest.mark.parametrize(
    "body",
    [
        {"when": "later"},
        {"when": None},
        {"timeout_s": "soon"},
        {"timeout_s": -1},
        {"timeout_s": True},
        {"name": ""},
        {"name": 5},
        {"name": "x" * 201},
        {"name": "two\nlines"},
        {"name": "\x1b[31mred"},
        {"name": "back\u202ewards"},
        {"snapshot": "yes"},
        {"timout_s": 5},
        ["idle"],
        "idle",
    ],
)
def test_a_pause_that_asks_for_nonsense_is_refused(kernel: LiveKernel, body: Any) -> None:
    error = kernel.ask("pause", body, status=400)
    assert error["reason"] == "bad_request"
    assert kernel.status["state"] == "running"


def test_a_body_that_is_not_json_is_refused(kernel: LiveKernel) -> None:
    for content in (b"{", b"\xff\xfe", b"nonsense"):
        answer = kernel.server.client.post(f"gkews/kernels/{kernel.id}/pause", content=content)
        assert answer.status_code == 400
        assert answer.json()["reason"] == "bad_request"


def test_infinity_is_no_time_to_wait(kernel: LiveKernel) -> None:
    answer = kernel.server.client.post(
        f"gkews/kernels/{kernel.id}/pause", content=json.dumps({"timeout_s": float("inf")})
    )
    assert answer.status_code == 400


def test_a_snapshot_that_is_demanded_is_refused_where_no_engine_takes_one(
    kernel: LiveKernel,
) -> None:
    assert kernel.ask("pause", {"snapshot": True}, status=409)["reason"] == "snapshot_unavailable"
    assert kernel.status["state"] == "running"


@pytest.mark.parametrize("body", [{}, {"auto_resume": "yes"}, {"auto": True}, {"auto_resume": 1}])
def test_a_change_of_a_kernel_that_makes_no_sense_is_refused(
    kernel: LiveKernel, body: dict[str, Any]
) -> None:
    error = kernel.server.ask("PATCH", f"gkews/kernels/{kernel.id}", body, status=400)
    assert error["reason"] == "bad_request"
    assert kernel.status["auto_resume"] is True


def test_a_busy_kernel_is_not_paused_now(kernel: LiveKernel) -> None:
    cell = kernel.busy(after="done = 1")
    assert kernel.ask("pause", {"when": "now"}, status=409)["reason"] == "kernel_busy"
    assert cell.end().reply["status"] == "ok"
    assert kernel.run("done") == "1"


def test_a_busy_kernel_runs_on_when_the_time_to_wait_is_over(kernel: LiveKernel) -> None:
    cell = kernel.busy(after="done = 2")
    error = kernel.fail("pause", {"timeout_s": 0.3})
    assert error["reason"] == "kernel_busy"
    assert error["hint"]
    status = kernel.status
    assert (status["state"], status["reason"]) == ("running", "kernel_busy")
    assert cell.end().reply["status"] == "ok"
    assert kernel.run("done") == "2"


def test_waiting_for_a_busy_kernel_can_be_cancelled(kernel: LiveKernel) -> None:
    cell = kernel.busy(after="done = 3")
    operation = kernel.ask("pause")
    assert kernel.status["state"] == "pausing"
    kernel.server.ask("DELETE", f"gkews/operations/{operation['id']}", status=202)
    assert kernel.server.operation(operation["id"])["error"]["reason"] == "cancelled"
    status = kernel.status
    assert (status["state"], status["reason"]) == ("running", None)
    assert cell.end().reply["status"] == "ok"
    assert kernel.run("done") == "3"


def test_an_ended_operation_cannot_be_cancelled(kernel: LiveKernel) -> None:
    operation = kernel.status["last_operation"] or kernel.do("checkpoint")
    error = kernel.server.ask("DELETE", f"gkews/operations/{operation['id']}", status=409)
    assert error["reason"] == "not_cancellable"
    assert error["hint"]


def test_a_kernel_that_is_not_python_is_listed_and_says_why_it_cannot_pause(
    start_server, tmp_path
) -> None:
    spec = tmp_path / "jupyter" / "data" / "kernels" / "other"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Other", "language": "julia"})
    )
    server = start_server()
    kernel = server.notebook("other.ipynb", "other")
    kernel.run("x = 1")
    status = server.get("gkews/status")["kernels"][0]
    assert (status["id"], status["pausable"]) == (kernel.id, False)
    assert status["why_not"]["reason"] == "not_pausable"
    assert "Python" in status["why_not"]["message"]
    for what in ("pause", "checkpoint"):
        assert kernel.ask(what, status=409)["reason"] == "not_pausable"
    assert server.get(f"gkews/kernels/{kernel.id}/survives", status=409)["reason"] == "not_pausable"
    assert kernel.run("x") == "1"


def test_a_kernel_of_another_provisioner_is_listed_and_says_why_it_cannot_pause(
    start_server, tmp_path
) -> None:
    spec = tmp_path / "jupyter" / "data" / "kernels" / "foreign"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    provisioner = {"kernel_provisioner": {"provisioner_name": "local-provisioner"}}
    (spec / "kernel.json").write_text(
        json.dumps(
            {"argv": argv, "display_name": "F", "language": "python", "metadata": provisioner}
        )
    )
    server = start_server()
    kernel = server.notebook("foreign.ipynb", "foreign")
    status = kernel.status
    assert (status["pausable"], status["why_not"]["reason"]) == (False, "not_pausable")
    assert "provisioner" in status["why_not"]["message"]
    assert kernel.ask("pause", status=409)["reason"] == "not_pausable"
    assert kernel.run("1 + 1") == "2"
