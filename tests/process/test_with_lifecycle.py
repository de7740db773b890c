"""The seam between the process and the state machine, on a server with the whole extension."""

from __future__ import annotations

from live_server import LiveServer, wait_until


def test_pause_in_a_cell_pauses_when_the_cell_has_finished(server: LiveServer) -> None:
    kernel = server.notebook("magic.ipynb").ready()
    kernel.run("x = 'kept'")
    text = kernel.run("%pause\nimport time; time.sleep(0.5); print('done')")
    assert "done" in text
    wait_until(lambda: kernel.status["state"] == "paused", "the kernel is paused")
    assert kernel.run("x") == "'kept'"
    assert kernel.status["provenance"] == "recovered"


def test_a_cell_that_is_run_during_the_pause_resumes_the_kernel_and_runs(
    server: LiveServer,
) -> None:
    kernel = server.notebook("hasty.ipynb").ready()
    gate = server.root / "written"
    kernel.run(
        "class Slow:\n"
        "    def __getstate__(self):\n"
        "        import os, time\n"
        f"        while not os.path.exists({str(gate)!r}): time.sleep(.02)\n"
        "        return {}\n"
        "x = Slow(); y = 'kept'"
    )
    operation = kernel.ask("pause")
    wait_until(
        lambda: server.get(f"gkews/operations/{operation['id']}")["phase"] == "checkpointing",
        "the checkpoint is being taken",
    )
    cell = kernel.send("print(y)")
    gate.touch()
    assert kernel.answer(cell).text == "kept\n"
    assert server.operation(operation["id"])["error"] is None
    assert kernel.status["provenance"] == "recovered"


def test_a_cell_is_answered_when_the_checkpoint_cannot_be_used(server: LiveServer) -> None:
    kernel = server.notebook("damaged.ipynb").ready()
    kernel.run("x = 1")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    manifest = server.store / "checkpoints" / checkpoint / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    answer = kernel.answer(kernel.send("x"))
    assert answer.reply["status"] == "error"
    assert answer.reply["ename"] == "KernelPaused"
    assert kernel.status["state"] == "paused"
    manifest.write_bytes(whole)
    assert kernel.run("x") == "1"
