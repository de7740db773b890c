"""Kernels in sandboxes, paused and resumed through REST: the same process goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest
from gvisor_here import add_kernelspec, skip_without_runsc
from live_server import LiveKernel, LiveServer, wait_until


@pytest.fixture(scope="module")
def sandboxing(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> LiveServer:
    """The server, with the pausable kernel installed; skipped where runsc cannot run."""
    skip_without_runsc(tmp_path_factory.mktemp("state"))
    add_kernelspec(server)
    return server


@pytest.fixture
def kernel(sandboxing: LiveServer) -> Iterator[LiveKernel]:
    """A notebook whose kernel lives in a sandbox."""
    started = sandboxing.notebook(f"n{os.urandom(3).hex()}.ipynb", "python3-pausable").ready()
    yield started
    started.close()
    sandboxing.client.delete(f"api/kernels/{started.id}")
    folder = sandboxing.store / "sandboxes" / started.id
    wait_until(lambda: not folder.exists(), "nothing is left of an ended kernel")


LIVE = """
import os, threading, time
ticks = []
def tick():
    while True: ticks.append(1); time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
numbers = (n for n in range(100)); next(numbers)
print(os.getpid())
"""


def test_the_same_process_goes_on_after_a_pause(kernel: LiveKernel) -> None:
    pid = kernel.run(LIVE)
    for round_ in range(1, 3):
        paused = kernel.do("pause")
        assert paused["result"]["snapshot"] and paused["result"]["note"] is None
        assert "snapshotting" in paused["result"]["seconds"]
        assert paused["result"]["released"]["ram"] > 10_000_000
        status = kernel.status
        assert (status["state"], status["engine"]) == ("paused", "gvisor")
        assert status["snapshot"] == paused["result"]["snapshot"]
        resumed = kernel.do("resume")
        assert resumed["result"]["provenance"] == kernel.status["provenance"] == "restored"
        said = kernel.run(
            "n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)\n"
            "print(os.getpid(), next(numbers))"
        )
        assert said.split() == [pid.strip(), str(round_)]
        assert not list((kernel.server.store / "snapshots").iterdir())


def test_a_cell_that_is_run_wakes_the_same_process(kernel: LiveKernel) -> None:
    pid = kernel.run(LIVE)
    kernel.do("pause")
    assert kernel.run("print(os.getpid(), next(numbers))").split() == [pid.strip(), "1"]
    wait_until(lambda: kernel.status["state"] == "running", "it runs")
    assert kernel.status["provenance"] == "restored"


def test_the_user_may_resume_from_the_checkpoint_instead(kernel: LiveKernel) -> None:
    kernel.run(LIVE + "x = [1]; y = x")
    kernel.do("pause")
    resumed = kernel.do("resume", {"snapshot": False})
    assert resumed["result"]["provenance"] == "recovered"
    assert "numbers" in {loss["name"] for loss in resumed["result"]["lost"]}
    assert kernel.run("print(x is y)").strip() == "True"
    assert kernel.status["snapshot"] is None


def test_a_pause_without_a_snapshot_is_a_checkpoint(kernel: LiveKernel) -> None:
    kernel.run("x = 1")
    paused = kernel.do("pause", {"snapshot": False})
    assert (
        paused["result"]["snapshot"] is None and "snapshotting" not in paused["result"]["seconds"]
    )
    assert kernel.do("resume")["result"]["provenance"] == "recovered"


def test_what_cannot_be_saved_is_named_and_the_pause_rests_on_the_checkpoint(
    kernel: LiveKernel,
) -> None:
    kernel.run("import asyncio\nx = 5\ns = await asyncio.start_server(print, '127.0.0.1', 8123)")
    paused = kernel.do("pause")
    assert paused["result"]["snapshot"] is None
    assert "the server on 127.0.0.1:8123" in paused["result"]["note"]
    assert "rests on the checkpoint" in paused["result"]["note"]
    assert kernel.do("resume")["result"]["provenance"] == "recovered"
    assert kernel.run("print(x)").strip() == "5"


def test_a_broken_image_is_kept_and_the_checkpoint_is_offered(kernel: LiveKernel) -> None:
    kernel.run(LIVE + "x = 5")
    snapshot = kernel.do("pause")["result"]["snapshot"]
    image = next((kernel.server.store / "snapshots" / snapshot / "image").iterdir())
    whole = image.read_bytes()
    image.write_bytes(whole[:1000])
    error = kernel.fail("resume")
    assert error["reason"] == "snapshot_failed" and "from the checkpoint" in error["hint"]
    assert kernel.status["state"] == "paused" and image.exists()
    image.write_bytes(whole)
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run("print(x)").strip() == "5"


def test_the_engine_is_listed(sandboxing: LiveServer) -> None:
    (engine,) = sandboxing.get("gkews/status")["engines"]
    assert engine == {"id": "gvisor", "available": True, "why_not": None}


def test_restart_of_a_frozen_kernel_is_fresh(kernel: LiveKernel) -> None:
    kernel.run(LIVE)
    kernel.do("pause")
    kernel.server.post(f"api/kernels/{kernel.id}/restart", status=200)
    wait_until(lambda: kernel.status["state"] == "running", "it runs")
    kernel.close()  # as JupyterLab does: an open connection may hear the new process too late
    answer = kernel.answer(kernel.send("numbers"))
    assert answer.reply["ename"] == "NameError"
    assert kernel.status["snapshot"] is None
    images = kernel.server.store / "snapshots"
    wait_until(lambda: not list(images.iterdir()), "the image of the ended life is gone")


def read_spec(server: LiveServer) -> dict[str, object]:
    """kernel.json as it was installed."""
    file = server.base / "data" / "kernels" / "python3-pausable" / "kernel.json"
    found: dict[str, object] = json.loads(file.read_text())
    return found


def test_the_kernelspec_names_the_provisioner(sandboxing: LiveServer) -> None:
    spec = read_spec(sandboxing)
    assert spec["display_name"] == "Python 3 (pausable)"
    assert spec["metadata"] == {"kernel_provisioner": {"provisioner_name": "gkews-gvisor"}}


def test_programs_inside_find_the_proxy_and_it_does_not_lead_to_this_machine(
    kernel: LiveKernel,
) -> None:
    port = kernel.server.url.split(":")[2].split("/")[0]
    said = kernel.run(
        "import http.client, os\n"
        "host, port = os.environ['HTTP_PROXY'].removeprefix('http://').split(':')\n"
        "c = http.client.HTTPConnection(host, int(port), timeout=20)\n"
        f"c.request('GET', 'http://127.0.0.1:{port}/api')\n"
        "r = c.getresponse(); print(r.status, r.read().decode())"
    )
    assert said.startswith("403") and "SandboxProvisioner.allow_hosts" in said


def test_nothing_is_removed_while_a_sandbox_saves(kernel: LiveKernel) -> None:
    store = kernel.server.store
    kernel.do("checkpoint")
    kernel.run(
        "from pathlib import Path\n"
        "from jupyter_gkews.kernel.checkpoint import locks\n"
        f"held = locks.shared(Path({str(store)!r})); held.__enter__()"
    )
    kept = kernel.server.ask("POST", "gkews/gc", {"dry_run": False}, status=200)
    assert "nothing was removed" in kept["stays"], kept["stays"]
    kernel.run("held.__exit__(None, None, None)")
    assert kernel.server.ask("POST", "gkews/gc", {}, status=200)["stays"] is None
    (store / "alone").touch()  # as another server, on another machine, would hold it
    kernel.run("seen = []\nimport threading, time\ndef save():\n"
               f"    with locks.shared(Path({str(store)!r})): seen.append(time.time())\n"
               "saving = threading.Thread(target=save); saving.start()")  # fmt: skip
    assert kernel.run("saving.join(0.3); print(seen)") == "[]\n"
    (store / "alone").unlink()
    assert kernel.run("saving.join(); print(len(seen))") == "1\n"


def test_a_kernel_whose_folder_is_old_or_gone_starts_again(kernel: LiveKernel) -> None:
    folder = kernel.server.store / "sandboxes" / kernel.id
    kernel.run("x = 1")
    os.utime(folder, (1, 1))  # as after a night
    kernel.server.client.post(f"api/kernels/{kernel.id}/restart").raise_for_status()
    kernel.close()
    assert kernel.ready().run("print('x' in globals())") == "False\n"
    kernel.run("x = 2")
    kernel.do("pause", {"snapshot": False})
    shutil.rmtree(folder)
    kernel.do("resume")
    assert kernel.run("print(x)") == "2\n"
