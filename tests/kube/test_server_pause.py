"""Pause Workspace through the server: a real Jupyter server with real kernels, whose pod is one of
the fake cluster's."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from jupyter_gkews.journal.pauses import WorkspacePauses

from .actors import Platform
from .actors.addon import ENABLED, STATE
from .fake import FakeCluster
from .pod_server import PILOT, PodServer

Start = Callable[..., PodServer]


@pytest.fixture
def start(tmp_path: Path, fake: FakeCluster, platform: Platform) -> Iterator[Start]:
    """Start the server of the workspace `ws`, whose pod is up."""
    started: list[PodServer] = []
    platform.create()

    def running() -> bool:
        return bool(platform.get().get("status", {}).get("state") == "Running")

    wait_until(running, "the workspace runs")

    def begin(*options: str, rules: Any = None) -> PodServer:
        server = PodServer(tmp_path / "pod", fake, platform, *options, rules=rules)
        started.append(server)
        server.start()
        return server

    yield begin
    for server in started:
        server.stop()


def a_pause_that_hangs(server: PodServer, platform: Platform) -> Any:
    """The operation; the cluster takes the snapshot, and will not come to an end of it."""
    platform.gke.outcome = "hang"
    begun = server.pause()
    wait_until(lambda: server.workspace["phase"] == "snapshotting", "the cluster was asked")
    wait_until(lambda: platform.get()["metadata"]["annotations"].get(STATE), "it takes it")
    return begun


def test_the_server_finds_its_workspace_when_it_is_asked_and_not_before(
    start: Start, fake: FakeCluster, platform: Platform
) -> None:
    asked = len([user for user, _, _ in fake.requests if user != "admin"])
    server = start()
    server.notebook("a.ipynb").ready()
    assert len([user for user, _, _ in fake.requests if user != "admin"]) == asked
    found = server.looked()
    pod = platform.pod()
    assert pod is not None
    assert (found["state"], found["engine"], found["namespace"], found["name"], found["pod"]) == (
        "running", "workspaces", "default", "ws", pod["metadata"]["name"],
    )  # fmt: skip
    wait_until(lambda: server.workspace["checks"], "it was judged")
    found = server.workspace
    assert found["pausable"]
    assert found["stateless"] is False
    assert {one["passed"] for one in found["checks"] if one["costs"] != "risk"} == {True}
    assert all(one["message"].endswith((".", ")")) for one in found["checks"])
    assert {one["id"]: one["allowed"] for one in found["allowed"]}["snapshots"]
    assert server.get("gkews/workspace")["state"] == "running"


def test_a_pause_writes_checkpoints_and_the_journal_and_then_asks_once(
    start: Start, platform: Platform
) -> None:
    server = start()
    first, second = server.notebook("a.ipynb").ready(), server.notebook("b.ipynb").ready()
    first.run("a = 1")
    second.run("b = 2")
    done = server.paused()
    assert done["error"] is None
    assert (done["kind"], done["kernel"], done["phase"]) == ("pause", None, "releasing")
    assert [row["state"] for row in done["kernels"]] == ["written", "written"]
    assert all(row["checkpoint"] for row in done["kernels"])
    assert done["workspace"] == {"namespace": "default", "name": "ws"}
    assert server.workspace["state"] == "paused"
    assert platform.pod() is None
    assert len(server.patches()) == 1
    assert server.events_of_the_journal() == ["pause_opened", "pause_asked"]
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.asked
    kept = {kernel.path: kernel.checkpoint for kernel in entry.kernels}
    assert kept == {row["path"]: row["checkpoint"] for row in done["kernels"]}
    assert entry.kernels[0].notebook == str(server.root / "a.ipynb")
    wait_until(lambda: first.run("print(a)") == "1\n", "the kernels were let go")


def test_two_clicks_are_one_pause(start: Start, platform: Platform) -> None:
    server = start()
    server.notebook("a.ipynb").ready()
    server.looked()
    answers: list[str] = []
    clicks = [
        threading.Thread(target=lambda: answers.append(server.pause()["id"])) for _ in range(4)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert len(set(answers)) == 1
    assert server.operation(answers[0])["error"] is None
    assert len(server.patches()) == 1
    assert server.events_of_the_journal() == ["pause_opened", "pause_asked"]


@pytest.mark.soak
def test_what_was_frozen_is_what_the_checkpoint_has(start: Start, platform: Platform) -> None:
    platform.gke.outcome = "hang"
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    kernel.run("a = 1")
    begun = server.pause()
    wait_until(lambda: server.workspace["phase"] == "snapshotting", "the cluster was asked")
    late = kernel.send("a = 2; print('ran')")
    assert kernel.status["message"] == "Running, held: the workspace is being paused."
    platform.gke.outcome = "ok"
    platform.poke()
    assert server.operation(begun["id"])["error"] is None
    assert kernel.answer(late).text == "ran\n"


@pytest.mark.soak
def test_cells_run_when_the_process_knows_that_it_was_restored_before_the_cluster_says_so(
    start: Start, platform: Platform
) -> None:
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    begun = a_pause_that_hangs(server, platform)
    wait_until(lambda: "held" in kernel.status["message"], "it is held")
    # the two signs of a restore: the token is another pod's, and the clock has jumped
    spec = {"serviceAccountName": "default", "containers": [{"name": "main", "image": "i"}]}
    pods = "api/v1/namespaces/default/pods"
    other = platform.admin.create(pods, {"metadata": {"name": "next"}, "spec": spec})
    (server.account / "token").write_text(platform.admin.account("default", "default", other))
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(4.0)  # what the clock has to jump by
    server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: server.get("gkews/status")["woke"], "the server knows it")
    # the connections of before were closed
    assert server.kernel_of("a.ipynb").run("print('ran')") == "ran\n"
    assert platform.get()["metadata"]["annotations"].get(STATE) == "Checkpointing"
    assert server.get(f"gkews/operations/{begun['id']}")["finished"] is None


def test_a_snapshot_that_fails_is_called_off_and_leaves_the_kernels_intact(
    start: Start, platform: Platform
) -> None:
    platform.gke.outcome = "failed"
    server = start("--GkewsApp.workspace_timeout=8")
    kernel = server.notebook("a.ipynb").ready()
    kernel.run("a = object(); before = id(a)")
    done = server.paused()
    assert done["error"]["reason"] == "snapshot_failed"
    assert "Error 403" in done["error"]["message"]
    assert "nothing was lost" in done["error"]["hint"]
    assert kernel.run("print(id(a) == before)") == "True\n"
    assert platform.pod() is not None
    (entry,) = WorkspacePauses(server.store).entries()
    assert entry.closed is not None
    assert (entry.closed["outcome"], entry.closed["reason"]) == ("failed", "snapshot_failed")
    platform.gke.outcome = "ok"
    # again where this machine stalls for longer than that
    wait_until(lambda: server.paused()["error"] is None, "a pause succeeds")


def test_a_pause_is_called_off_while_the_snapshot_is_taken(
    start: Start, platform: Platform
) -> None:
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    begun = a_pause_that_hangs(server, platform)
    shown = server.workspace["operation"]
    assert shown["cancellable"]
    server.post("gkews/workspace/resume", status=202)
    done = server.operation(begun["id"])
    assert done["error"]["reason"] == "cancelled"
    assert kernel.run("print(1)") == "1\n"
    (entry,) = WorkspacePauses(server.store).entries()
    assert entry.closed is not None
    assert entry.closed["outcome"] == "cancelled"
    wait_until(lambda: server.workspace["state"] == "running", "it runs on")
    assert server.post("gkews/workspace/resume", status=409)["reason"] == "not_paused"


@pytest.mark.soak
def test_a_pause_that_others_began_is_called_off_from_here(
    start: Start, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    server = start()
    server.notebook("a.ipynb").ready()
    server.looked()
    platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": True}})
    wait_until(lambda: server.workspace["state"] == "pausing", "the server sees it")
    assert server.pause(status=409)["reason"] == "operation_running"
    called = server.post("gkews/workspace/resume", status=202)
    done = server.operation(called["id"])
    assert (done["kind"], done["error"]) == ("resume", None)
    assert "nothing was lost" in done["result"]["note"]
    (entry,) = WorkspacePauses(server.store).entries()
    assert entry.closed is not None
    assert (entry.how, entry.closed["outcome"]) == ("elsewhere", "cancelled")


@pytest.mark.soak
def test_a_pause_that_others_began_is_in_the_journal_with_the_last_checkpoints(
    start: Start, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    server = start()
    kept, bare = server.notebook("kept.ipynb").ready(), server.notebook("bare.ipynb").ready()
    again = server.notebook("again.ipynb").ready()
    kept.run("a = 1")
    for kernel in (kept, again):
        kernel.do("checkpoint")
    checkpoint = kept.status["checkpoint"]
    server.post(f"api/kernels/{again.id}/restart", status=200)
    again.ready()
    server.looked()
    platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": True}})
    (entry,) = wait_until(WorkspacePauses(server.store).open_entries, "the journal has it")
    wait_until(lambda: "pause_asked" in server.events_of_the_journal(), "and that it was asked")
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert (entry.how, entry.asked, entry.stateless) == ("elsewhere", True, False)
    assert "was asked for elsewhere" in entry.sentence()
    rows = {row.path: row for row in entry.kernels}
    assert (rows["kept.ipynb"].checkpoint, rows["kept.ipynb"].why_not) == (checkpoint, None)
    (summary,) = [one for one in server.get("gkews/checkpoints")["checkpoints"]
                  if one["id"] == checkpoint]  # fmt: skip
    assert rows["kept.ipynb"].taken == summary["created"]
    for path, why in (("bare.ipynb", "had no checkpoint"), ("again.ipynb", "was restarted")):
        assert rows[path].checkpoint is None
        assert why in (rows[path].why_not or {})["message"]
    assert bare.run("print(1)") == "1\n"  # it is held by nobody
    # the memory does not come back: another server of the same workspace finds it
    server.stop(signal.SIGKILL)
    later = server.start()
    recovery = later.get("gkews/status")["recovery"]
    assert {(one["path"], one["state"], one["taken"]) for one in recovery["kernels"]} == {
        ("kept.ipynb", "waiting", summary["created"]),
        ("bare.ipynb", "lost", None),
        ("again.ipynb", "lost", None),
    }
    assert "what came later is not in them" in recovery["message"]
    later.looked()
    (entry,) = WorkspacePauses(server.store).entries()  # which still runs, and is no other one
    waits = later.kernel_of("kept.ipynb")
    assert waits.id == kept.id
    assert "some time before the pause" in waits.status["message"]
    assert waits.do("resume")["result"]["note"].startswith("This is the state of ")
    assert waits.run("print(a)") == "1\n"
    assert waits.status["message"] == "Running, recovered from its checkpoint."


@pytest.mark.soak
def test_a_stateless_pause_that_others_began_is_in_the_journal_before_the_server_is_stopped(
    start: Start, platform: Platform
) -> None:
    annotations = {"metadata": {"annotations": {ENABLED: "false"}}}
    platform.admin.merge(platform.workspaces, "ws", annotations)
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    kernel.do("checkpoint")
    checkpoint = kernel.status["checkpoint"]
    server.looked()
    platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": True}})
    wait_until(lambda: "pause_asked" in server.events_of_the_journal(), "the journal has it")
    server.stop()
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.stateless
    assert [row.checkpoint for row in entry.kernels] == [checkpoint]


@pytest.mark.soak
def test_our_own_pause_is_entered_once_also_where_the_cluster_is_seen_to_pause(
    start: Start, platform: Platform
) -> None:
    server = start()
    server.notebook("a.ipynb").ready()
    assert server.paused()["error"] is None
    wait_until(lambda: server.workspace["state"] == "paused", "it is seen")
    assert server.events_of_the_journal() == ["pause_opened", "pause_asked"]


def test_a_stateless_pause_is_told_before_and_done_only_when_accepted(
    start: Start, platform: Platform
) -> None:
    annotations = {"metadata": {"annotations": {ENABLED: "false"}}}
    platform.admin.merge(platform.workspaces, "ws", annotations)
    server = start()
    server.notebook("a.ipynb").ready()
    assert server.get("gkews/workspace")["stateless"] is True
    refused = server.pause(status=409)
    assert refused["reason"] == "snapshot_unavailable"
    assert "its memory would be lost" in refused["message"]
    assert server.patches() == []
    assert server.journal() == []
    assert server.workspace["last_operation"] is None
    done = server.paused({"stateless": True})
    assert done["error"] is None
    assert done["stateless"]
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.stateless
    assert entry.kernels[0].checkpoint == done["kernels"][0]["checkpoint"]


@pytest.mark.soak
def test_without_rights_on_snapshots_the_pause_works_and_says_what_is_not_seen(
    start: Start, platform: Platform
) -> None:
    server = start(rules=PILOT)
    server.notebook("a.ipynb").ready()
    server.looked()
    wait_until(lambda: server.workspace["allowed"], "the rights are known")
    found = {one["id"]: one for one in server.workspace["allowed"]}
    assert not found["snapshots"]["allowed"]
    assert found["snapshots"]["without"]
    assert found["pause"]["allowed"]
    assert server.paused()["error"] is None
    assert server.workspace["snapshot"]["ready"] is None


@pytest.mark.soak
def test_without_the_right_to_pause_nothing_is_begun(start: Start, platform: Platform) -> None:
    rules = [{**rule, "verbs": ["get", "list", "watch"]} for rule in PILOT]
    server = start(rules=rules)
    kernel = server.notebook("a.ipynb").ready()
    refused = server.pause(status=403)
    assert refused["reason"] == "forbidden"
    assert "no right to pause" in refused["message"]
    assert kernel.status["checkpoint"] is None
    assert not server.workspace["pausable"]


def test_kernels_without_a_checkpoint_are_named_and_the_user_decides(
    start: Start, platform: Platform
) -> None:
    server = start()
    idle, busy = server.notebook("idle.ipynb").ready(), server.notebook("busy.ipynb").ready()
    gate = server.root / "gate"
    cell = busy.send(
        f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\nprint('end')"
    )
    wait_until(lambda: busy.status["execution_state"] == "busy", "the cell runs")
    done = server.paused({"when": "now"})
    assert done["error"]["reason"] == "kernel_busy"
    assert "busy.ipynb" in done["error"]["message"]
    rows = {row["path"]: row for row in done["kernels"]}
    assert rows["idle.ipynb"]["state"] == "written"
    assert rows["busy.ipynb"]["state"] == "none"
    assert rows["busy.ipynb"]["why_not"]["reason"] == "kernel_busy"
    assert server.patches() == []
    assert server.journal() == []
    assert idle.run("print(1)") == "1\n"
    done = server.paused({"when": "now", "without_checkpoint": True})
    assert done["error"] is None
    assert "busy.ipynb" in done["result"]["note"]
    (entry,) = WorkspacePauses(server.store).open_entries()
    kept = {kernel.path: kernel for kernel in entry.kernels}
    assert kept["idle.ipynb"].checkpoint
    assert kept["busy.ipynb"].checkpoint is None
    assert kept["busy.ipynb"].why_not is not None
    gate.touch()
    assert busy.answer(cell).text == "end\n"


@pytest.mark.soak
def test_a_busy_notebook_does_not_hold_the_others_while_it_is_waited_for(
    start: Start, platform: Platform
) -> None:
    server = start()
    idle, busy = server.notebook("idle.ipynb").ready(), server.notebook("busy.ipynb").ready()
    gate = server.root / "gate"
    busy.send(f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)")
    wait_until(lambda: busy.status["execution_state"] == "busy", "the cell runs")
    begun = server.pause()
    wait_until(lambda: idle.status["operation"], "its checkpoint was asked for")
    assert idle.run("print(1)") == "1\n"
    cancelled = server.ask("DELETE", f"gkews/operations/{begun['id']}", status=202)
    assert cancelled["kernels"]
    done = server.operation(begun["id"])
    assert done["error"]["reason"] == "cancelled"
    assert server.journal() == []
    gate.touch()
    wait_until(lambda: busy.run("print(2)") == "2\n", "the busy one goes on")
    assert idle.run("print(3)") == "3\n"


@pytest.mark.soak
def test_a_kernel_that_was_paused_by_itself_is_in_the_journal_with_its_checkpoint(
    start: Start, platform: Platform
) -> None:
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    kernel.do("pause")
    done = server.paused()
    assert done["error"] is None
    assert done["kernels"][0]["state"] == "paused"
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.kernels[0].state == "paused"
    assert entry.kernels[0].checkpoint == kernel.status["checkpoint"]


def test_a_server_killed_between_journal_and_request_leaves_an_open_entry_that_says_so(
    start: Start, platform: Platform, fake: FakeCluster
) -> None:
    server = start()
    server.notebook("a.ipynb").ready()
    server.looked()
    fake.faults.add("slow", path=r"/workspaces/ws\b", seconds=60)
    server.pause()
    wait_until(lambda: server.journal(), "the journal has it")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    fake.faults.lift_all()
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert not entry.asked
    assert "whether it was asked is not known" in entry.sentence()
    assert entry.kernels[0].checkpoint


@pytest.mark.soak
def test_a_server_that_stops_in_the_middle_leaves_the_pause_to_the_cluster(
    start: Start, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    server = start()
    server.notebook("a.ipynb").ready()
    server.pause()
    wait_until(lambda: "pause_asked" in server.events_of_the_journal(), "it was asked for")
    server.stop()
    assert platform.get()["metadata"]["annotations"][STATE] == "Checkpointing"
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.asked
    assert entry.unsure is not None


@pytest.mark.soak
def test_a_cluster_that_is_away_is_said_and_nothing_is_begun(
    start: Start, fake: FakeCluster, platform: Platform
) -> None:
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    server.looked()
    fake.faults.add("reset", path=".")
    fake.cut_connections()
    wait_until(lambda: server.workspace["reason"] == "cluster_unreachable", "it is seen")
    assert "the last that was seen" in server.workspace["message"]
    refused = server.pause(status=503)
    assert refused["reason"] == "cluster_unreachable"
    assert kernel.status["checkpoint"] is None
    fake.faults.lift_all()
    wait_until(lambda: server.workspace["reason"] is None, "it is there again")
    assert server.paused()["error"] is None


@pytest.mark.soak
def test_somebody_elses_pause_and_resume_in_between_is_not_paused_again(
    start: Start, platform: Platform
) -> None:
    server = start()
    busy = server.notebook("busy.ipynb").ready()
    gate = server.root / "gate"
    busy.send(f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)")
    wait_until(lambda: busy.status["execution_state"] == "busy", "the cell runs")
    begun = server.pause()
    for paused, state in ((True, "Paused"), (False, "Running")):
        platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": paused}})
        wait_until(lambda s=state: platform.get()["status"].get("state") == s, state)
    gate.touch()
    done = server.operation(begun["id"])
    assert done["error"]["reason"] == "cancelled"
    assert "somebody else" in done["error"]["message"]
    assert server.patches() == []
    ours, theirs = WorkspacePauses(server.store).entries()
    assert ours.closed is not None
    assert ours.closed["outcome"] == "not_asked"
    assert theirs.closed is not None
    assert (theirs.how, theirs.closed["outcome"]) == ("elsewhere", "superseded")


@pytest.mark.soak
def test_a_pause_that_goes_out_of_sight_stays_open_until_it_is_seen_to_be_over(
    start: Start, fake: FakeCluster, platform: Platform
) -> None:
    server = start("--GkewsApp.workspace_timeout=3")
    kernel = server.notebook("a.ipynb").ready()
    begun = a_pause_that_hangs(server, platform)
    fake.faults.add("reset", path=".")
    fake.cut_connections()
    done = server.operation(begun["id"])
    assert done["error"]["reason"] == "cluster_unreachable"
    assert "It is not called off" in done["error"]["hint"]
    assert kernel.run("print(1)") == "1\n"
    (entry,) = WorkspacePauses(server.store).open_entries()
    assert entry.unsure is not None
    fake.faults.lift_all()
    wait_until(lambda: server.workspace["reason"] is None, "it is seen again")
    gone = {"metadata": {"annotations": {STATE: None}}}
    platform.admin.merge(platform.workspaces, "ws", gone)
    wait_until(lambda: not WorkspacePauses(server.store).open_entries(), "it is closed")
    (entry,) = WorkspacePauses(server.store).entries()
    assert entry.closed is not None
    assert entry.closed["outcome"] == "cancelled"


@pytest.mark.soak
def test_a_cell_pauses_the_workspace(start: Start, platform: Platform) -> None:
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    assert "pause the workspace" in kernel.run("%pause --workspace before the night\nlast = 1")
    wait_until(lambda: server.workspace["state"] == "paused", "the workspace is paused")
    (entry,) = WorkspacePauses(server.store).open_entries()
    (kept,) = server.get("gkews/checkpoints")["checkpoints"]
    assert (kept["id"], kept["name"]) == (entry.kernels[0].checkpoint, "before the night")
    assert kept["counts"]["kept"] == 1


@pytest.mark.soak
def test_a_cell_is_told_why_the_workspace_is_not_paused(start: Start, platform: Platform) -> None:
    annotations = {"metadata": {"annotations": {ENABLED: "false"}}}
    platform.admin.merge(platform.workspaces, "ws", annotations)
    server = start()
    kernel = server.notebook("a.ipynb").ready()
    kernel.run("%pause --workspace")
    wait_until(lambda: kernel.status["reason"] == "snapshot_unavailable", "it is said")
    assert server.patches() == []


@pytest.mark.soak
def test_the_command_line_pauses_the_workspace_of_a_server(
    start: Start, platform: Platform
) -> None:
    server = start()
    server.notebook("a.ipynb").ready()
    about = ["--url", server.url, "--token", server.token]

    def gkews(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jupyter_gkews.cli", *words, *about],
            env=server.environment(), capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    refused = gkews("pause", "--workspace", "a.ipynb")
    assert refused.returncode == 2
    assert "neither with a kernel" in refused.stderr
    assert gkews("pause", "a.ipynb", "--stateless").returncode == 2
    assert server.patches() == []
    done = gkews("pause", "--workspace")
    assert done.returncode == 0, done.stderr
    assert "a.ipynb" in done.stdout
    assert "default/ws was paused." in done.stdout
    assert gkews("pause", "--workspace", "--json").returncode == 1
