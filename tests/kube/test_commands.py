"""`jupyter gkews workspace`, from a kubeconfig and from inside a pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews import cli
from jupyter_gkews.engines.pod_account import InPod
from jupyter_gkews.engines.workspaces import state as state_words

from .actors import Platform
from .admin import Admin
from .clusters import Cluster, in_pod, write_kubeconfig
from .fake import FakeCluster

Json = dict[str, Any]


@pytest.fixture
def run(
    fake: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[int, str, str]]:  # fmt: skip
    """Run the command line in this process: exit code, stdout, stderr."""
    file = write_kubeconfig(fake, tmp_path / "kubeconfig", fake.admin_token)
    monkeypatch.setenv("KUBECONFIG", str(file))

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(["workspace", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def running(platform: Platform, observer: object) -> Platform:
    """The workspace `ws` runs."""
    return platform


def test_a_workspace_is_paused_and_resumed(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    running.gke.pace = 0.5  # so that it is seen
    code, out, err = run("pause", "default/ws")
    assert code == 0, err
    assert "default/ws: paused" in out
    assert "snapshotting: " in err
    assert running.pod() is None
    code, out, _ = run("status", "default/ws")
    assert code == 0
    assert "Paused for" in out
    assert ": whole" in out
    code, out, err = run("resume", "default/ws")
    assert code == 0, err
    assert "default/ws: running, restored" in out


def test_a_resume_ends_when_it_is_known_whether_the_memory_came_back(
    run: Callable[..., tuple[int, str, str]], running: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_words, "SIGN_OF_RESTORE", timedelta(seconds=5))
    running.nodes.restores = "cold"  # and nobody says a word of it
    assert run("pause", "default/ws")[0] == 0
    code, out, err = run("resume", "default/ws")
    assert code == 0, err
    assert "whether it was restored is not said yet" in err
    assert "default/ws: running, fresh" in out
    assert "come back from their checkpoints" in out


def test_a_resume_that_may_not_wait_says_where_the_rest_is_told(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    running.nodes.restores = "cold"
    assert run("pause", "default/ws")[0] == 0
    assert run("resume", "default/ws", "--no-wait")[0] == 0
    code, out, err = run("wait", "default/ws")
    assert code == 0, err
    assert "default/ws: running\n" in out
    assert "jupyter gkews workspace status default/ws" in out


def test_json_has_the_state_and_what_a_pause_would_meet(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    code, out, err = run("status", "default/ws", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["state"], found["namespace"], found["name"]) == ("running", "default", "ws")
    checks = {check["id"]: check["passed"] for check in found["checks"]}
    assert checks["enabled"] and checks["gvisor"] and checks["prepared"] and checks["snapshot_api"]
    assert checks["machine"] is None
    assert found["missing"] == []
    code, out, _ = run("pause", "default/ws", "--json", "--no-wait")
    found = json.loads(out)
    assert code == 0
    assert (found["request"], found["state"]) == ("begun", "pausing")
    code, out, _ = run("wait", "default/ws", "--for", "paused", "--json")
    assert code == 0
    assert json.loads(out)["state"] == "paused"


def test_a_pause_that_would_lose_the_memory_needs_a_word(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    enabled = "podsnapshot.gke.kubeflow.org/enabled"
    running.admin.merge(running.workspaces, "ws", {"metadata": {"annotations": {enabled: None}}})
    code, _, err = run("pause", "default/ws")
    assert code == 1
    assert "its memory would be lost" in err
    assert running.get()["spec"]["paused"] is False
    code, out, err = run("pause", "default/ws", "--no-snapshot")
    assert code == 0, err
    assert "There is no snapshot of its memory" in out


def test_a_snapshot_that_hangs_is_called_off_by_hand(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    running.gke.outcome = "hang"
    code, _, err = run("pause", "default/ws", "--timeout", "0.5", "--no-abort")
    assert code == 1
    assert "not called off" in err
    code, out, err = run("abort", "default/ws")
    assert code == 0, err
    assert "nothing was lost" in out
    code, _, _ = run("wait", "default/ws", "--timeout", "20")
    assert code == 0


def test_what_is_wrong_is_said_in_a_sentence(
    run: Callable[..., tuple[int, str, str]], running: Platform, fake: FakeCluster, tmp_path: Path
) -> None:
    code, out, _ = run("pause", "default/nowhere", "--json")
    assert code == 1
    assert json.loads(out)["reason"] == "no_workspace"
    code, _, err = run("status", "ws")
    assert code == 1
    assert "is not NAMESPACE/NAME" in err
    code, _, err = run("resume", "default/ws")
    assert code == 1
    assert "not_paused" in err
    code, _, err = run("status")
    assert code == 1
    assert "NAMESPACE/NAME is missing" in err
    code, _, err = run("status", "default/ws", "--context", "elsewhere")
    assert code == 1
    assert "cluster_unreachable" in err
    code, _, err = run("status", "default/ws", "--kubeconfig", str(tmp_path / "none"))
    assert code == 1
    assert "kubeconfig cannot be used" in err
    (tmp_path / "broken").write_text("a: [1, 2")
    code, out, _ = run("status", "default/ws", "--kubeconfig", str(tmp_path / "broken"), "--json")
    assert (code, json.loads(out)["reason"]) == (1, "cluster_unreachable")
    code, out, err = run("wait", "default/ws", "--for", "paused", "--timeout", "0.3", "--json")
    assert (code, json.loads(out)["reason"]) == (1, "not_paused"), "nothing of it has failed"
    fake.stop()
    code, _, err = run("status", "default/ws")
    assert code == 1
    assert "did not answer" in err
    fake.start()


def test_a_wait_that_ends_blind_says_so_and_what_was_seen_last(
    run: Callable[..., tuple[int, str, str]], running: Platform, fake: FakeCluster
) -> None:
    away = fake.faults.add("reset", path="watch=")
    code, out, _ = run("wait", "default/ws", "--for", "paused", "--timeout", "2", "--json")
    found = json.loads(out)
    assert (code, found["reason"]) == (1, "cluster_unreachable")
    assert (
        "is not known" in found["message"]
        and "last seen so: The workspace runs" in (found["message"])
    )
    fake.faults.lift(away)
    fake.faults.refuse(401, "Unauthorized", "Unauthorized")
    code, _, err = run("status", "default/ws")
    assert code == 1
    assert "does not know who asks" in err and "log in to the cluster again" in err
    fake.faults.lift_all()


def test_an_account_without_rights_is_told_which(
    run: Callable[..., tuple[int, str, str]], running: Platform, fake: FakeCluster, tmp_path: Path
) -> None:
    token = running.admin.account("default", "poor")
    file = write_kubeconfig(fake, tmp_path / "poor", token)
    code, _, err = run("status", "default/ws", "--kubeconfig", str(file))
    assert code == 1
    assert "forbidden" in err
    assert 'cannot get resource "workspaces"' in err
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "verbs": ["*"]}
    running.admin.grant("default", "poor", [rule])
    code, out, err = run("status", "default/ws", "--kubeconfig", str(file))
    assert code == 0, err
    assert "default/ws: running" in out
    assert "Not allowed: get, list, watch pods" in out
    assert "estart" not in out, "a restart would lose the memory, for something that nobody knows"
    code, _, err = run("pause", "default/ws", "--kubeconfig", str(file), "--timeout", "20")
    assert code == 0, err


def test_in_the_pod_of_a_workspace_it_need_not_be_named(
    run: Callable[..., tuple[int, str, str]], running: Platform, fake: FakeCluster, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pod = running.pod()
    assert pod is not None
    account = in_pod(fake, tmp_path / "mounted", fake.admin_token)
    monkeypatch.delenv("KUBECONFIG")
    for name, value in account.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOSTNAME", pod["metadata"]["name"])
    monkeypatch.setattr(InPod, "account", account.account, raising=False)
    monkeypatch.setattr(
        InPod, "__init__",
        lambda self: (
            object.__setattr__(self, "account", account.account),
            object.__setattr__(self, "environ", dict(os.environ)),
        )[0],
    )  # fmt: skip
    code, out, err = run("status", "--json")
    assert code == 0, err
    assert json.loads(out)["name"] == "ws"


def test_two_who_resume_at_once_start_one_pod(
    run: Callable[..., tuple[int, str, str]], running: Platform, fake: FakeCluster, tmp_path: Path
) -> None:
    assert run("pause", "default/ws")[0] == 0
    command = [
        sys.executable, "-m", "jupyter_gkews.cli", "workspace", "resume", "default/ws", "--json",
        "--kubeconfig", str(tmp_path / "kubeconfig"),
    ]  # fmt: skip
    other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    code, _, err = run("resume", "default/ws")
    _, problems = other.communicate(timeout=60)
    assert code == 0 or "not_paused" in err
    assert other.returncode == 0 or "not_paused" in problems
    created = [path for _, method, path in fake.requests if method == "POST" and "/pods" in path]
    assert len([path for path in created if path.endswith("/pods")]) == 2  # the first, and one more


@pytest.fixture
def without_addon(admin: Admin, namespace: str) -> Iterator[Platform]:
    """On both servers: Kubeflow's controller and nodes, and nobody who takes snapshots."""
    played = Platform(admin, namespace)
    played.addon.awake = False
    played.start()
    played.create(enabled=False)
    yield played
    played.stop()


def test_without_the_addon_a_workspace_is_paused_and_resumed_on_both_servers(
    cluster: Cluster, without_addon: Platform, namespace: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = write_kubeconfig(cluster, tmp_path / "kubeconfig", cluster.admin_token)
    place = f"{namespace}/ws"

    def run(*arguments: str) -> Json:
        capsys.readouterr()
        code = cli.main(["workspace", *arguments, "--json", "--kubeconfig", str(file)])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)  # type: ignore[no-any-return]

    assert run("wait", place, "--timeout", "30")["state"] == "running"
    checks = {check["id"]: check["passed"] for check in run("status", place)["checks"]}
    assert checks["right"] is True
    assert checks["gvisor"] is False
    paused = run("pause", place, "--no-snapshot", "--timeout", "30")
    assert (paused["state"], paused["stateless"]) == ("paused", True)
    assert run("resume", place, "--timeout", "30")["state"] == "running"


def test_nothing_of_the_client_is_imported_by_other_commands() -> None:
    code = (
        "import sys; from jupyter_gkews import cli; cli._parser();"
        "bad = [m for m in sys.modules if m.split('.')[0] == 'kubernetes'"
        " or 'workspaces' in m or 'engines.cluster' in m];"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_waiting_tells_a_state_once_however_much_changes(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    ended = threading.Event()

    def change() -> None:
        count = 0
        while not ended.wait(0.1):
            count += 1
            note = {"metadata": {"annotations": {"example.com/count": str(count)}}}
            running.admin.merge(running.workspaces, "ws", note)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        code, _, err = run("wait", "default/ws", "--for", "paused", "--timeout", "2")
    finally:
        ended.set()
        changing.join()
    assert code == 1
    assert len([line for line in err.splitlines() if line.startswith("running: ")]) == 1


def test_calling_off_where_nothing_runs_says_so(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    code, out, err = run("abort", "default/ws")
    assert code == 0, err
    assert out.startswith("No pause runs: ")
    code, out, err = run("abort", "default/ws", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["request"], found["state"]) == ("nothing", "running")
    assert found["note"].startswith("No pause runs: ")


def test_a_command_leaves_no_thread_that_could_abort_the_process_at_its_end(
    run: Callable[..., tuple[int, str, str]], running: Platform
) -> None:
    before = set(threading.enumerate())
    assert run("pause", "default/ws")[0] == 0
    assert run("resume", "default/ws")[0] == 0  # its pod is another: events are followed anew
    left = set(threading.enumerate()) - before
    assert [one.name for one in left if one.name.startswith("gkews watch")] == []
