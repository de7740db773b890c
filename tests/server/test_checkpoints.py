"""Checkpoints are listed, kept as long as they are needed, deleted, and restored into kernels."""

from __future__ import annotations

from typing import Any

from live_server import LiveKernel, LiveServer, wait_until


def listed(server: LiveServer) -> dict[str, dict[str, Any]]:
    return {c["id"]: c for c in server.get("gkews/checkpoints")["checkpoints"]}


def restored(server: LiveServer, checkpoint: str, body: Any = None) -> dict[str, Any]:
    operation = server.post(f"gkews/checkpoints/{checkpoint}/restore", body)
    ended = server.operation(operation["id"])
    assert ended["error"] is None, ended["error"]
    return ended


def test_the_checkpoint_of_a_paused_kernel_cannot_be_deleted(server: LiveServer) -> None:
    kernel = server.notebook("in-use.ipynb").ready()
    kernel.run("x = 1")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    path = f"gkews/checkpoints/{checkpoint}"
    assert listed(server)[checkpoint]["in_use"] is True
    error = server.ask("DELETE", path, status=409)
    assert error["reason"] == "checkpoint_in_use"
    assert kernel.run("x") == "1"
    assert server.ask("DELETE", path)["bytes_freed"] > 0
    assert checkpoint not in listed(server)
    assert kernel.status["checkpoint"] is None


def test_a_deleted_checkpoint_is_gone(server: LiveServer) -> None:
    kernel = server.notebook("deleted.ipynb").ready()
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    server.ask("DELETE", f"gkews/checkpoints/{checkpoint}")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/restore")):
        error = server.ask(method, f"gkews/checkpoints/{checkpoint}{path}", status=404)
        assert error["reason"] == "checkpoint_not_found"


def test_old_checkpoints_without_a_name_go_and_named_and_needed_ones_stay(start_server) -> None:
    server = start_server("--GkewsApp.keep_checkpoints=2")
    kernel = server.notebook("prune.ipynb").ready()
    named = kernel.do("checkpoint", {"name": "keep me"})["result"]["checkpoint"]
    made = []
    for value in range(4):
        kernel.run(f"x = {value}")
        made.append(kernel.do("checkpoint")["result"]["checkpoint"])
    paused = kernel.do("pause")["result"]["checkpoint"]
    wait_until(lambda: set(listed(server)) == {named, made[-1], paused}, "the old ones are deleted")
    assert kernel.run("x") == "3"


def test_a_checkpoint_is_restored_into_a_running_kernel_and_what_that_held_is_saved(
    server: LiveServer,
) -> None:
    kernel = server.notebook("back.ipynb").ready()
    kernel.run("x = 'then'")
    then = kernel.do("checkpoint", {"name": "then"})["result"]["checkpoint"]
    kernel.run("x = 'now'; y = 2")
    pid = kernel.pid
    ended = restored(server, then, {"kernel_id": kernel.id})
    assert ended["kind"] == "restore"
    assert ended["result"]["provenance"] == "recovered"
    assert kernel.run("x, 'y' in globals()") == "('then', False)"
    assert kernel.pid != pid
    assert kernel.status["checkpoint"] == then
    now = ended["result"]["saved_before"]
    assert listed(server)[now]["in_use"] is False
    restored(server, now, {"kernel_id": kernel.id})
    assert kernel.run("x, y") == "('now', 2)"


def test_a_restore_into_a_busy_kernel_is_refused(server: LiveServer) -> None:
    kernel = server.notebook("busy-restore.ipynb").ready()
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    cell = kernel.busy(after="x = 1")
    error = server.post(
        f"gkews/checkpoints/{checkpoint}/restore", {"kernel_id": kernel.id}, status=409
    )
    assert error["reason"] == "kernel_busy"
    assert cell.end().reply["status"] == "ok"
    assert kernel.run("x") == "1"


def test_a_restore_that_fails_leaves_the_kernel_paused_with_what_it_held(
    server: LiveServer,
) -> None:
    kernel = server.notebook("failing-restore.ipynb").ready()
    poison = server.root / "restore-poison"
    kernel.run(
        "def make(cls, path):\n"
        "    import os\n"
        "    if os.path.exists(path): os._exit(1)\n"
        "    return cls()\n"
        "class Dies:\n"
        f"    def __reduce__(self): return (make, (Dies, {str(poison)!r}))\n"
        "x = Dies()"
    )
    bad = kernel.do("checkpoint", {"name": "bad"})["result"]["checkpoint"]
    kernel.run("x = 'precious'")
    poison.touch()
    operation = server.post(f"gkews/checkpoints/{bad}/restore", {"kernel_id": kernel.id})
    error = server.operation(operation["id"])["error"]
    assert error["reason"] == "kernel_died"
    assert "resume" in error["hint"]
    assert kernel.status["state"] == "paused"
    assert kernel.run("x") == "'precious'"


def test_a_checkpoint_is_not_deleted_while_it_is_loaded_nor_another_loaded_into_its_kernel(
    server: LiveServer,
) -> None:
    kernel = server.notebook("loading.ipynb").ready()
    gate = server.root / "loading-gate"
    gate.touch()
    kernel.run(
        "def make(cls, path):\n"
        "    import os, time\n"
        "    while not os.path.exists(path): time.sleep(.02)\n"
        "    return cls()\n"
        "class Waits:\n"
        f"    def __reduce__(self): return (make, (Waits, {str(gate)!r}))\n"
        "x = Waits()"
    )
    slow = kernel.do("checkpoint", {"name": "slow"})["result"]["checkpoint"]
    kernel.run("x = 1")
    other = kernel.do("pause")["result"]["checkpoint"]
    gate.unlink()
    body = {"kernel_id": kernel.id}
    operation = server.post(f"gkews/checkpoints/{slow}/restore", body)
    assert server.post(f"gkews/checkpoints/{slow}/restore", body)["id"] == operation["id"]
    refused = server.post(f"gkews/checkpoints/{other}/restore", body, status=409)
    assert refused["reason"] == "operation_running"
    refused = server.ask("DELETE", f"gkews/checkpoints/{slow}", status=409)
    assert refused["reason"] == "checkpoint_in_use"
    gate.touch()
    assert server.operation(operation["id"])["error"] is None
    assert kernel.run("type(x).__name__") == "'Waits'"


def test_a_restore_into_an_unknown_kernel_is_refused(server: LiveServer) -> None:
    kernel = server.notebook("nobody.ipynb").ready()
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    path = f"gkews/checkpoints/{checkpoint}/restore"
    assert server.post(path, {"kernel_id": "nobody"}, status=404)["reason"] == "kernel_not_found"
    assert server.post(path, {"kernel_id": 5}, status=400)["reason"] == "bad_request"
    assert server.post(path, {"kernel": kernel.id}, status=400)["reason"] == "bad_request"


def test_a_checkpoint_is_restored_into_a_new_kernel_for_its_notebook(server: LiveServer) -> None:
    kernel = server.notebook("new.ipynb").ready()
    kernel.run("x = 3")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    server.ask("DELETE", f"api/kernels/{kernel.id}", status=204)
    ended = restored(server, checkpoint)
    new = server.kernel_of("new.ipynb")
    assert new.id == ended["kernel"] != kernel.id
    assert new.run("x") == "3"
    assert (new.status["state"], new.status["provenance"]) == ("running", "recovered")


def test_a_new_kernel_takes_the_notebook_over_and_the_old_one_runs_on(server: LiveServer) -> None:
    kernel = server.notebook("takeover.ipynb").ready()
    kernel.run("x = 'old'")
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    kernel.run("x = 'newer'")
    ended = restored(server, checkpoint)
    new = server.kernel_of("takeover.ipynb")
    assert new.id == ended["kernel"] != kernel.id
    assert new.run("x") == "'old'"
    assert LiveKernel(server, kernel.id).run("x") == "'newer'"
