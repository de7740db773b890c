"""`jupyter gkews podsnapshot`, from a kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews import cli, podsnapshot_commands
from jupyter_gkews.engines.podsnapshot import snapshots
from jupyter_gkews.engines.podsnapshot.words import PAUSED

from .actors import SelfManaged
from .clusters import write_kubeconfig
from .conftest import Follow
from .fake import FakeCluster

Json = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    fake: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:  # fmt: skip
    """Run the command line in this process: exit code, stdout, stderr."""
    file = write_kubeconfig(fake, tmp_path / "kubeconfig", fake.admin_token)
    monkeypatch.setenv("KUBECONFIG", str(file))

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(["podsnapshot", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def running(self_managed: SelfManaged, running_pod: Follow) -> SelfManaged:
    """The Deployment `lab` runs."""
    running_pod("Deployment")
    return self_managed


def test_a_deployment_is_paused_and_resumed(run: Run, running: SelfManaged) -> None:
    running.gke.pace = 0.5  # so that it is seen
    code, out, err = run("pause", "default/lab")
    assert code == 0, err
    assert "Deployment default/lab: paused" in out
    assert "snapshotting: GKE takes the snapshot" in err
    assert "kept until" in out
    assert running.pods() == []
    code, out, _ = run("status", "default/lab")
    assert code == 0
    assert "Paused for" in out
    assert ": whole" in out
    code, out, err = run("resume", "default/deploy/lab")
    assert code == 0, err
    assert "Deployment default/lab: running, restored" in out
    code, out, err = run("resume", "default/lab")
    assert code == 1
    assert "not_paused" in err


def test_json_has_the_state_and_what_a_pause_would_meet(run: Run, running: SelfManaged) -> None:
    code, out, err = run("status", "default/lab", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["namespace"], found["kind"], found["name"]) == ("default", "Deployment", "lab")
    assert found["state"] == "running"
    checks = {check["id"]: check["passed"] for check in found["checks"]}
    assert checks["right"] and checks["one_pod"] and checks["gvisor"] and checks["policy"]
    assert checks["same_machine"] is None
    assert found["missing"] == []
    code, out, _ = run("pause", "default/lab", "--json")
    paused = json.loads(out)
    assert (code, paused["request"], paused["state"]) == (0, "begun", "paused")
    assert paused["snapshot"]["ready"]
    code, out, _ = run("wait", "default/lab", "--for", "paused", "--json")
    assert (code, json.loads(out)["request"]) == (0, "waited")
    code, out, _ = run("resume", "default/lab", "--json", "--no-wait")
    assert (code, json.loads(out)["request"]) == (0, "begun")
    code, out, _ = run("wait", "default/lab", "--json")
    assert (code, json.loads(out)["provenance"]) == (0, "restored")


def test_a_fresh_start_is_an_error_unless_it_is_accepted(run: Run, running: SelfManaged) -> None:
    run("pause", "default/lab")
    running.nodes.restores = "failed"
    code, _, err = run("resume", "default/lab")
    assert code == 1
    assert "restore_failed" in err
    assert "started anew" in err
    assert "The snapshot is kept" in err
    code, out, _ = run("status", "default/lab")
    assert "running, fresh" in out
    running.nodes.restores = "restored"
    code, out, err = run("resume", "default/lab", "--again")
    assert code == 0, err
    assert "running, restored" in out


def test_a_snapshot_that_hangs_is_called_off_at_the_deadline(
    run: Run, running: SelfManaged
) -> None:
    running.gke.outcome = "hang"
    code, out, err = run("pause", "default/lab", "--timeout", "0.4", "--json")
    assert code == 1
    assert json.loads(out)["reason"] == "snapshot_failed"
    assert "called off. The pod runs on, nothing was lost." in err
    code, _, err = run("pause", "default/lab", "--timeout", "0.4", "--no-abort")
    assert code == 1
    code, out, _ = run("abort", "default/lab")
    assert (code, out.strip()) == (
        0, "The pause was called off. The pod runs on, nothing was lost."
    )  # fmt: skip
    code, out, _ = run("abort", "default/lab", "--json")
    assert (code, json.loads(out)["request"]) == (0, "nothing")
    assert len(running.pods()) == 1


def test_what_is_not_there_and_what_is_no_place_are_told(run: Run, running: SelfManaged) -> None:
    code, _, err = run("status", "default/other")
    assert code == 1
    assert "There is no pod, Deployment, StatefulSet or ReplicaSet default/other" in err
    code, _, err = run("status", "lab")
    assert code == 1
    assert "is neither NAMESPACE/NAME" in err
    code, _, err = run("pause", "default/job/lab")
    assert code == 1


def test_a_snapshot_is_deleted_only_when_nobody_needs_it(
    run: Run, running: SelfManaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("list", "default")
    assert (code, out.strip()) == (0, "No snapshots.")
    run("pause", "default/lab")
    code, out, _ = run("list", "default", "--json")
    [row] = json.loads(out)["snapshots"]
    assert (row["state"], row["target"], row["named_by"]) == ("whole", "Deployment/lab", None)
    assert "is paused and would be restored" in row["needed_by"]
    code, _, err = run("delete", f"default/{row['name']}", "--yes")
    assert code == 1
    assert "checkpoint_in_use" in err
    assert len(running.snapshots()) == 1
    run("resume", "default/lab")
    code, out, _ = run("list", "default/lab")
    assert "when its pod starts anew, it starts from it" in out
    code, _, err = run("delete", f"default/{row['name']}")
    assert code == 1
    assert "--yes" in err
    running.gke.wedged = True
    monkeypatch.setattr(snapshots.delete, "__defaults__", (0.2,))
    code, out, err = run("delete", f"default/{row['name']}", "--yes")
    assert code == 0, err
    assert "podsnapshot.gke.io/podsnapshot-finalizer" in out
    assert "GKE has not finished it" in out
    running.gke.wedged = False
    running.poke()
    run("delete", f"default/{row['name']}", "--yes")
    code, _, err = run("delete", "default/none", "--yes")
    assert code == 1
    assert "snapshot_not_found" in err


@pytest.mark.parametrize("kind", ["Pod"])
def test_the_snapshot_of_a_paused_bare_pod_is_needed_and_after_its_resume_not(
    kind: str, run: Run, self_managed: SelfManaged, running_pod: Follow
) -> None:
    running_pod(kind)
    assert run("pause", "default/lab")[0] == 0
    name = self_managed.snapshots()[0]["metadata"]["name"]
    code, _, err = run("delete", f"default/{name}", "--yes")
    assert code == 1
    assert "Pod lab is paused and would be restored" in err
    assert run("resume", "default/lab")[0] == 0
    code, out, err = run("delete", f"default/{name}", "--yes")
    assert (code, out.strip()) == (0, f"The snapshot {name} is deleted."), err
    assert self_managed.snapshots() == []


def test_the_snapshot_of_a_workspace_is_left_to_its_addon(run: Run, running: SelfManaged) -> None:
    running.admin.create(
        running.path("podsnapshots"),
        {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshot",
         "metadata": {"name": "s", "labels": {"gke-pod-snapshot-triggered-by": "ws-a-trigger"}},
         "spec": {"policyName": "ws-a-policy"}},
    )  # fmt: skip
    code, _, err = run("delete", "default/s", "--yes")
    assert code == 1
    assert "belongs to a workspace" in err


def test_who_waits_for_a_resume_takes_the_notes_of_the_pause_away(
    run: Run, running: SelfManaged
) -> None:
    run("pause", "default/lab")
    run("resume", "default/lab", "--no-wait")
    assert run("wait", "default/lab")[0] == 0
    assert running.triggers() == []
    assert not set(PAUSED) & set(running.get("Deployment")["metadata"].get("annotations") or {})


def test_the_snapshots_of_one_pod_are_listed_also_by_its_kind(
    run: Run, running: SelfManaged
) -> None:
    run("pause", "default/lab")
    name = running.snapshots()[0]["metadata"]["name"]
    assert name in run("list", "default/deploy/lab")[1]
    assert run("list", "default/sts/lab")[1].strip() == "No snapshots."
    code, _, err = run("list", "default/job/lab")
    assert code == 1
    assert "KIND is pod, deployment, statefulset or replicaset" in err


@pytest.mark.parametrize(("names", "said"), [
    (("podsnapshot", "list", "default"), "goes on in the cluster"),
    (("list",), "goes on in the server"),
])  # fmt: skip
def test_an_interrupted_command_says_where_it_goes_on(
    names: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "servers", interrupted)
    monkeypatch.setattr(podsnapshot_commands, "connected", interrupted)
    assert cli.main([*names]) == 1
    assert said in capsys.readouterr().err
