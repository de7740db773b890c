"""The whole life of a kernel: paused, gone from memory, resumed, and the next cell goes on."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from live_server import LiveKernel, LiveServer, wait_until

SLOW = """
import time
class Slow:  # writing it takes a while
    def __reduce__(self):
        time.sleep({seconds})
        return (str, ("slow",))
slow = Slow()
"""


def test_a_paused_kernel_has_no_process_and_comes_back_with_its_variables(
    server: LiveServer,
) -> None:
    kernel = server.notebook("life.ipynb").ready()
    kernel.run("a = [1, 2]; b = a\ndef f(): return a\ncount = 41")
    pid = kernel.pid
    connection = kernel.run("from ipykernel import get_connection_file as f_; open(f_()).read()")
    before = kernel.status
    assert (before["state"], before["provenance"], before["path"]) == (
        "running",
        None,
        "life.ipynb",
    )
    assert before["ram"] > 10_000_000

    paused = kernel.do("pause")
    assert not psutil.pid_exists(pid)
    assert paused["result"]["released"]["ram"] > 10_000_000
    assert paused["result"]["kept"] >= 4
    assert list(paused["result"]["seconds"]) == ["waiting_for_idle", "checkpointing", "releasing"]
    status = kernel.status
    assert (status["state"], status["ram"]) == ("paused", None)
    assert status["checkpoint"] == paused["result"]["checkpoint"]
    assert status["last_operation"] == paused
    assert kernel.id in [k["id"] for k in server.get("api/kernels")]
    session = next(s for s in server.get("api/sessions") if s["path"] == "life.ipynb")
    assert session["kernel"]["id"] == kernel.id
    assert session["kernel"]["execution_state"] == "idle"

    resumed = kernel.do("resume")
    assert resumed["result"]["provenance"] == "recovered"
    assert list(resumed["result"]["seconds"]) == ["restoring", "verifying"]
    assert (kernel.status["state"], kernel.status["provenance"]) == ("running", "recovered")
    assert kernel.run("count + 1, a is b, f() is a") == "(42, True, True)"
    assert kernel.pid != pid
    again = kernel.run("open(f_()).read()")
    assert again == connection, "ports and key are the same"


def test_a_cell_that_is_run_in_a_paused_notebook_resumes_it_first(server: LiveServer) -> None:
    kernel = server.notebook("cell.ipynb").ready()
    kernel.run("x = 20")
    kernel.do("pause")
    assert kernel.run("x + 1") == "21"
    status = kernel.status
    assert (status["state"], status["provenance"]) == ("running", "recovered")


def test_a_page_that_is_loaded_while_the_kernel_is_paused_can_resume_it_too(
    server: LiveServer,
) -> None:
    kernel = server.notebook("reload.ipynb").ready()
    kernel.run("x = 30")
    kernel.close()
    kernel.do("pause")
    tab = LiveKernel(server, kernel.id)
    assert tab.run("x + 1") == "31"


@pytest.mark.parametrize("turns", [3, pytest.param(8, marks=pytest.mark.soak)])
def test_the_cell_of_a_page_that_has_only_just_connected_reaches_the_kernel_every_time(
    server: LiveServer, turns: int
) -> None:
    kernel = server.notebook(f"fresh-tabs-{turns}.ipynb").ready()
    kernel.run("x = 0")
    kernel.close()
    for turn in range(1, turns + 1):
        kernel.do("pause")
        tab = LiveKernel(server, kernel.id)
        # its sockets are still connecting when the resume begins
        assert tab.run("x += 1; x") == str(turn)
        tab.close()


def test_a_cell_does_not_resume_the_kernel_where_that_is_turned_off(server: LiveServer) -> None:
    kernel = server.notebook("manual.ipynb").ready()
    kernel.run("x = 1")
    changed = server.ask("PATCH", f"gkews/kernels/{kernel.id}", {"auto_resume": False})
    assert changed["auto_resume"] is False
    kernel.do("pause")
    refused = kernel.answer(kernel.send("x + 1"))
    assert refused.reply["status"] == "error"
    assert "resume" in (refused.reply["evalue"] + refused.text).lower()
    assert kernel.status["state"] == "paused"
    kernel.do("resume")
    assert kernel.run("x + 1") == "2"


def test_the_magic_pauses_the_kernel_that_runs_it(server: LiveServer) -> None:
    kernel = server.notebook("magic.ipynb").ready()
    kernel.run("x = 5")
    kernel.run("%pause")
    wait_until(lambda: kernel.status["state"] == "paused", "%pause has paused the kernel")
    assert kernel.run("x") == "5"


def test_a_checkpoint_lets_the_kernel_go_on_and_is_listed_with_its_name(server: LiveServer) -> None:
    kernel = server.notebook("named.ipynb").ready()
    pid = kernel.pid
    kernel.run("x = 6")
    done = kernel.do("checkpoint", {"name": "before the sweep"})
    listed = server.get(f"gkews/checkpoints/{done['result']['checkpoint']}")
    assert (listed["name"], listed["in_use"]) == ("before the sweep", False)
    assert listed["kernel"]["id"] == kernel.id
    assert listed["notebook"] == str(server.root / "named.ipynb")
    assert kernel.pid == pid
    assert kernel.status["checkpoint"] == listed["id"]


def test_a_pause_may_interrupt_the_running_cell(server: LiveServer) -> None:
    kernel = server.notebook("interrupt.ipynb").ready()
    cell = kernel.busy("x = 'set'")
    kernel.do("pause", {"when": "interrupt"})
    assert kernel.answer(cell.message).reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("x") == "'set'"


def test_a_pause_waits_for_the_running_cell_and_holds_those_that_come_later(
    server: LiveServer,
) -> None:
    kernel = server.notebook("waits.ipynb").ready()
    first = kernel.busy(after="x = 1")
    operation = kernel.ask("pause")
    assert operation["phase"] == "waiting_for_idle"
    assert first.end().reply["status"] == "ok"
    assert server.operation(operation["id"])["error"] is None
    assert kernel.status["state"] == "paused"
    assert kernel.run("x") == "1"


def test_a_cell_that_is_run_while_the_checkpoint_is_written_wakes_the_kernel_again(
    server: LiveServer,
) -> None:
    kernel = server.notebook("meanwhile.ipynb").ready()
    kernel.run(SLOW.format(seconds=0.1) + "\nmany = [Slow() for _ in range(10)]; x = 16")
    operation = kernel.ask("pause")
    path = f"gkews/operations/{operation['id']}"
    wait_until(lambda: server.get(path)["phase"] == "checkpointing", "the checkpoint is written")
    cell = kernel.send("print(x)")
    assert server.operation(operation["id"])["error"] is None
    answer = kernel.answer(cell)
    assert (answer.reply["status"], answer.text) == ("ok", "16\n")
    assert kernel.status["provenance"] == "recovered"


def test_a_pause_of_a_paused_kernel_is_refused(server: LiveServer) -> None:
    kernel = server.notebook("twice.ipynb").ready()
    kernel.run("x = 7")
    kernel.do("pause")
    for what in ("pause", "checkpoint"):
        error = kernel.ask(what, status=409)
        assert error["reason"] == "already_paused"
        assert "esume" in error["hint"]
    assert kernel.run("x") == "7"


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_fifty_requests_at_once_are_one_operation(server: LiveServer, what: str) -> None:
    kernel = server.notebook(f"fifty-{what}.ipynb").ready()
    kernel.run(SLOW.format(seconds=1))
    if what == "resume":
        kernel.run("import os; big = os.urandom(50_000_000)")
        kernel.do("pause")
    with ThreadPoolExecutor(10) as clicks:
        path = f"gkews/kernels/{kernel.id}/{what}"
        answers = list(clicks.map(lambda _: server.client.post(path), range(50)))
    accepted = {a.json()["id"] for a in answers if a.status_code == 202}
    refused = {a.json()["reason"] for a in answers if a.status_code != 202}
    assert len(accepted) == 1
    # a click that comes after the end is told that there is nothing left to do
    assert refused <= {"already_paused", "not_paused"}
    assert server.operation(accepted.pop())["error"] is None
    assert kernel.run("slow") in ("'slow'", "<__main__.Slow object>") or kernel.run("1") == "1"


def test_the_opposite_request_of_another_tab_is_refused_while_a_pause_runs(
    server: LiveServer,
) -> None:
    kernel = server.notebook("opposite.ipynb").ready()
    kernel.run(SLOW.format(seconds=1))
    operation = kernel.ask("pause")
    assert kernel.ask("resume", status=409)["reason"] == "operation_running"
    assert kernel.ask("checkpoint", status=409)["reason"] == "operation_running"
    assert kernel.ask("pause")["id"] == operation["id"]
    assert server.operation(operation["id"])["error"] is None
    assert kernel.status["state"] == "paused"
    resume = kernel.ask("resume")
    assert kernel.ask("pause", status=409)["reason"] == "operation_running"
    assert server.operation(resume["id"])["error"] is None


def test_a_checkpoint_that_is_cancelled_leaves_the_kernel_as_it_was(server: LiveServer) -> None:
    kernel = server.notebook("cancel.ipynb").ready()
    kernel.run(SLOW.format(seconds=0.2) + "\nmany = [Slow() for _ in range(60)]; x = 8")
    pid = kernel.pid
    operation = kernel.ask("pause")
    path = f"gkews/operations/{operation['id']}"
    wait_until(lambda: server.get(path)["step"] is not None, "the kernel writes")
    server.ask("DELETE", path, status=202)
    assert server.operation(operation["id"])["error"]["reason"] == "cancelled"
    assert kernel.status["state"] == "running"
    assert kernel.run("x") == "8"
    assert kernel.pid == pid
    assert not list((server.store / "paused").glob(f"{kernel.id}*"))


def test_a_resume_that_is_cancelled_leaves_the_kernel_paused(server: LiveServer) -> None:
    kernel = server.notebook("cancel-resume.ipynb").ready()
    gate = server.root / "gate"
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
    kernel.do("pause")
    gate.unlink()
    operation = kernel.ask("resume")
    server.ask("DELETE", f"gkews/operations/{operation['id']}", status=202)
    assert server.operation(operation["id"])["error"]["reason"] == "cancelled"
    assert kernel.status["state"] == "paused"
    gate.touch()
    assert kernel.run("type(x).__name__") == "'Waits'"


def test_a_restart_of_a_paused_kernel_is_fresh_and_keeps_the_checkpoint(server: LiveServer) -> None:
    kernel = server.notebook("restart.ipynb").ready()
    kernel.run("x = 10")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    server.post(f"api/kernels/{kernel.id}/restart", status=200)
    tab = LiveKernel(server, kernel.id).ready()
    status = kernel.status
    assert (status["state"], status["provenance"]) == ("running", "fresh")
    assert status["checkpoint"] == checkpoint
    assert tab.run("'x' in globals()") == "False"
    assert server.get(f"gkews/checkpoints/{checkpoint}")["in_use"] is False
    assert not list((server.store / "paused").glob(f"{kernel.id}*"))


def test_a_restart_of_a_kernel_that_never_paused_has_no_provenance(server: LiveServer) -> None:
    kernel = server.notebook("plain-restart.ipynb").ready()
    server.post(f"api/kernels/{kernel.id}/restart", status=200)
    LiveKernel(server, kernel.id).ready()
    assert kernel.status["provenance"] is None


def test_a_paused_kernel_that_is_shut_down_leaves_its_checkpoint(server: LiveServer) -> None:
    kernel = server.notebook("shutdown.ipynb").ready()
    kernel.run("x = 11")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    server.ask("DELETE", f"api/kernels/{kernel.id}", status=204)
    assert server.get(f"gkews/kernels/{kernel.id}", status=404)["reason"] == "kernel_not_found"
    assert server.get(f"gkews/checkpoints/{checkpoint}")["in_use"] is False
    assert not list((server.store / "paused").glob(f"{kernel.id}*"))


def test_a_notebook_copied_while_paused_gets_a_kernel_of_its_own(server: LiveServer) -> None:
    kernel = server.notebook("original.ipynb").ready()
    kernel.run("x = 12")
    kernel.do("pause")
    shutil.copy(server.root / "original.ipynb", server.root / "copy.ipynb")
    copy = server.notebook("copy.ipynb").ready()
    assert copy.id != kernel.id
    assert copy.run("'x' in globals()") == "False"
    assert copy.status["provenance"] is None
    assert kernel.status["state"] == "paused"
    assert kernel.run("x") == "12"


def test_a_kernel_that_dies_in_the_middle_of_a_pause_is_fresh_and_keeps_its_last_checkpoint(
    server: LiveServer,
) -> None:
    kernel = server.notebook("dies.ipynb").ready()
    kernel.run("x = 13")
    good = kernel.do("checkpoint")["result"]["checkpoint"]
    kernel.run(
        "import os, signal\n"
        "class Dies:\n"
        "    def __reduce__(self): os.kill(os.getpid(), signal.SIGKILL)\n"
        "dies = Dies()"
    )
    error = kernel.fail("pause")
    assert error["reason"] == "kernel_died"
    assert error["hint"]
    status = wait_until(
        lambda: (s := kernel.status)["provenance"] == "fresh" and s, "the kernel is started again"
    )
    assert (status["state"], status["checkpoint"]) == ("running", good)
    status = wait_until(
        lambda: (s := kernel.status)["reason"] == "kernel_died" and s, "the pause has ended"
    )
    assert status["message"] == (
        "Running, fresh: the kernel died during the pause and was started again; "
        "its variables are gone."
    )
    assert "checkpoint" in status["hint"] and "can be restored" in status["hint"]
    assert server.get(f"gkews/checkpoints/{good}")["error"] is None
    wait_until(
        lambda: not list((server.store / "checkpoints").glob(".saving-*")),
        "what the pause had half written is gone",
    )
    assert not list((server.store / "paused").glob(f"{kernel.id}*"))
    tab = LiveKernel(server, kernel.id).ready()
    assert tab.run("'x' in globals()") == "False"
    restored = server.post(f"gkews/checkpoints/{good}/restore", {"kernel_id": kernel.id})
    assert server.operation(restored["id"])["error"] is None
    assert tab.run("x") == "13"


def test_a_kernel_that_dies_in_the_middle_of_a_resume_stays_paused(server: LiveServer) -> None:
    kernel = server.notebook("dies-late.ipynb").ready()
    poison = server.root / "poison"
    kernel.run(
        "def make(cls, path):\n"
        "    import os\n"
        "    if os.path.exists(path): os._exit(1)\n"
        "    return cls()\n"
        "class Dies:\n"
        f"    def __reduce__(self): return (make, (Dies, {str(poison)!r}))\n"
        "x = Dies()"
    )
    kernel.do("pause")
    poison.touch()
    error = kernel.fail("resume")
    assert error["reason"] == "kernel_died"
    status = kernel.status
    assert (status["state"], status["reason"]) == ("paused", "kernel_died")
    refused = kernel.answer(kernel.send("x"))
    assert refused.reply["status"] == "error", "the cell that was waiting is told"
    poison.unlink()
    assert kernel.run("type(x).__name__") == "'Dies'"


def test_survives_tells_the_last_table_where_the_kernel_cannot_be_asked(server: LiveServer) -> None:
    kernel = server.notebook("survives.ipynb").ready()
    kernel.run("import time; x = 15; lines = (n for n in range(3))")
    path = f"gkews/kernels/{kernel.id}/survives"
    table = server.get(path)
    fates = {v["name"]: v["fate"] for v in table["variables"]}
    assert (fates["x"], fates["lines"]) == ("kept", "lost")
    assert table["stale"] is False
    assert table["bytes"]["kept"] > 0
    cell = kernel.busy()
    busy = server.get(path)
    assert (busy["stale"], busy["as_of"]) == (True, table["as_of"])
    assert busy["variables"] == table["variables"]
    assert cell.end().reply["status"] == "ok"
    kernel.run("later = 1")
    kernel.do("pause")
    paused = server.get(path)
    assert paused["stale"] is True
    assert "later" in [v["name"] for v in paused["variables"]], "it is the checkpoint's own table"


def test_survives_of_a_busy_kernel_that_was_never_asked_is_refused(server: LiveServer) -> None:
    kernel = server.notebook("survives-busy.ipynb").ready()
    cell = kernel.busy()
    assert server.get(f"gkews/kernels/{kernel.id}/survives", status=409)["reason"] == "kernel_busy"
    assert cell.end().reply["status"] == "ok"


def test_events_tell_every_state_and_progress_at_most_twice_a_second(server: LiveServer) -> None:
    kernel = server.notebook("events.ipynb").ready()
    kernel.run(SLOW.format(seconds=0.1) + "\nmany = [Slow() for _ in range(15)]")
    listener = server.events()
    operation = kernel.do("pause")
    kernel.do("resume")
    states, progress, checkpoints = [], 0, 0
    while not (states and states[-1] == "running"):
        event = json.loads(listener.recv())
        if not event["schema_id"].endswith("/jupyter_gkews/lifecycle/v1"):
            continue
        if event["action"] == "checkpoints":
            checkpoints += 1
            continue
        assert event["kernel"] == kernel.id
        if event["action"] == "progress":
            progress += 1
        if not states or states[-1] != event["state"]:
            states.append(event["state"])
    assert states == ["pausing", "paused", "resuming", "running"]
    assert checkpoints >= 1
    took = sum(operation["result"]["seconds"].values())
    # each step may be told once more than twice a second: its beginning always is
    assert progress <= 2 * took + 12


def test_an_event_tells_when_a_new_kernel_can_be_paused(server: LiveServer) -> None:
    listener = server.events()
    kernel = server.notebook("ready.ipynb")
    while not kernel.status["pausable"]:
        assert kernel.status["why_not"]["reason"] == "kernel_starting"
        while json.loads(listener.recv()).get("kernel") != kernel.id:
            pass
    kernel.do("pause")
