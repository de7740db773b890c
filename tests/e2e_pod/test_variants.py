"""What may go wrong between a pause and the next cell: told truthfully, and nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kube.actors.addon import LAST, STARTED, STATE
from kube.actors.gke import TRIGGERS
from kube.actors.nodes import EVENTS
from live_server import LiveKernel, wait_until

from .laptop import Laptop
from .stand_in import StandIn
from .visitor import LIVE, ON, Visitor

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def user(stand_in: StandIn, visit: Callable[..., Visitor]) -> Visitor:
    """Of a workspace that runs."""
    stand_in.create()
    found = visit()
    found.wait_until_served()
    return found


@pytest.fixture
def kernel(user: Visitor) -> LiveKernel:
    """One that has run LIVE, and that has a checkpoint."""
    made = user.notebook("work.ipynb").ready()
    made.pid_then = made.run(LIVE).split()[0]  # type: ignore[attr-defined]
    made.do("checkpoint", {"name": "before"})
    return made


def pause(laptop: Laptop) -> str:
    """Pause it; the name of the snapshot."""
    paused = laptop.run("pause")
    assert (paused.code, paused.json.get("state")) == (0, "paused"), paused.said
    name: str = paused.json["snapshot"]["name"]
    return name


def goes_on(user: Visitor, kernel: LiveKernel, number: int = 1) -> None:
    """The next cell runs in the same process, with all that it had."""
    user.wait_until_served()
    said = user.kernel_of("work.ipynb").run(ON).split()
    assert said == [kernel.pid_then, str(number), "True"]  # type: ignore[attr-defined]


def is_new_with_its_checkpoint(user: Visitor) -> None:
    """A server without kernels, that has what the kernel wrote before."""
    user.wait_until_served()
    assert user.get("api/kernels") == []
    found = user.get("gkews/checkpoints")["checkpoints"]
    assert "before" in [one["name"] for one in found]


def test_without_capacity_it_waits_says_so_and_is_restored_once(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    pause(laptop)
    stand_in.node.capacity = False
    assert user.set_paused(False).status_code == 200
    wait_until(lambda: laptop.status()["phase"] == "waiting_for_capacity", "that it waits is told")
    told = laptop.status()
    assert told["state"] == "resuming"
    assert "one is being added" in told["message"]
    assert "unschedulable" in user.listed()["stateMessage"]
    assert user.set_paused(False).status_code == 409
    joining = laptop.begin("resume")
    stand_in.node.capacity = True
    stand_in.node.poke()
    resumed = laptop.end(joining)
    assert (resumed.code, resumed.json["request"]) == (0, "joined"), resumed.said
    assert resumed.json["provenance"] == "restored"
    goes_on(user, kernel)
    events = stand_in.admin.list(stand_in.node.path(EVENTS))
    assert len([e for e in events if e["reason"] == "GKEPodSnapshotting"]) == 1
    assert stand_in.node.hosted() == 2


def test_a_snapshot_that_fails_is_called_off_and_the_kernel_is_as_it_was(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    stand_in.gke.outcome = "failed"
    failed = laptop.run("pause")
    assert (failed.code, failed.json["reason"]) == (1, "snapshot_failed")
    assert "Error 403: Forbidden" in failed.json["message"]
    goes_on(user, kernel, 1)
    assert laptop.status()["state"] == "running"
    stand_in.gke.outcome = "ok"
    pause(laptop)
    assert laptop.run("resume").json["provenance"] == "restored"
    goes_on(user, kernel, 2)


def test_a_failure_that_nobody_follows_is_told_and_can_be_called_off_later(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    stand_in.gke.outcome = "failed"
    assert user.set_paused(True).status_code == 200
    wait_until(lambda: laptop.status()["reason"] == "snapshot_failed", "the failure is told")
    assert user.client.get("api/status").status_code == 503
    assert laptop.run("abort").code == 0
    goes_on(user, kernel)


def test_an_expired_snapshot_means_a_new_server_with_the_checkpoints(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    name = pause(laptop)
    stand_in.gke.expire(name)
    told = wait_until(
        lambda: (s := laptop.status())["snapshot"]["ready"] is False and s, "it is told before"
    )
    assert (told["state"], told["reason"]) == ("paused", "snapshot_failed")
    resumed = laptop.run("resume")
    # nobody says that it was restored, and after a minute that says that it was not
    assert (resumed.code, resumed.json["provenance"]) == (0, "fresh"), resumed.said
    is_new_with_its_checkpoint(user)


def test_another_image_means_a_new_server_with_the_checkpoints(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    pause(laptop)
    stand_in.platform.controller.pod_spec["containers"][0]["image"] = "jupyterlab:next"
    resumed = laptop.run("resume")
    # nobody says that it was restored, and after a minute that says that it was not
    assert (resumed.code, resumed.json["provenance"]) == (0, "fresh"), resumed.said
    is_new_with_its_checkpoint(user)


def test_a_server_that_is_killed_in_mid_pause_is_told_and_comes_back(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    stand_in.gke.outcome = "hang"
    pausing = laptop.begin("pause")
    wait_until(
        lambda: stand_in.admin.find(stand_in.gke.path(TRIGGERS), "ws-ws-trigger"), "it is asked for"
    )
    stand_in.node.starts = False
    stand_in.node.kill("ws")
    wait_until(lambda: stand_in.node.is_down("ws"), "the server is down")
    stand_in.gke.outcome = "ok"
    stand_in.gke.poke()
    failed = laptop.end(pausing)
    assert (failed.code, failed.json["reason"]) == (1, "snapshot_failed")
    assert "does not run" in failed.json["message"]
    stand_in.node.starts = True
    stand_in.node.poke()
    is_new_with_its_checkpoint(user)
    assert laptop.status()["state"] == "running"


def test_an_api_server_that_is_away_for_half_a_minute_costs_nothing(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    stand_in.gke.outcome = "hang"
    pausing = laptop.begin("pause")
    wait_until(
        lambda: stand_in.admin.find(stand_in.gke.path(TRIGGERS), "ws-ws-trigger"), "it is asked for"
    )
    number = 1
    with stand_in.cluster.away():
        end = time.monotonic() + 30.0
        while time.monotonic() < end:  # a page that is open goes on
            said = kernel.run(ON).split()
            assert said == [kernel.pid_then, str(number), "True"]  # type: ignore[attr-defined]
            number += 1
    stand_in.gke.outcome = "ok"
    stand_in.gke.poke()
    paused = laptop.end(pausing)
    assert (paused.code, paused.json.get("state")) == (0, "paused"), paused.said
    assert laptop.run("resume").json["provenance"] == "restored"
    goes_on(user, kernel, number)


def test_two_who_pause_or_resume_at_once_do_it_once(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    stand_in.gke.outcome = "hang"  # until all have asked
    with ThreadPoolExecutor(4) as threads:
        commands = [laptop.begin("pause", "--no-wait"), laptop.begin("pause", "--no-wait")]
        clicks = [threads.submit(user.set_paused, True) for _ in range(2)]
        codes = sorted(click.result().status_code for click in clicks)
        ended = [laptop.end(command) for command in commands]
    assert codes[0] == 200
    for one in ended:
        assert (one.code, one.json.get("state")) == (0, "pausing"), one.said
        assert one.json["request"] in ("begun", "joined")
    waiting = [laptop.begin("wait", "--for", "paused") for _ in range(2)]
    stand_in.gke.go_on()
    for one in [laptop.end(command) for command in waiting]:
        assert (one.code, one.json.get("state")) == (0, "paused"), one.said
    triggers = stand_in.admin.list(stand_in.gke.path(TRIGGERS))
    assert len(triggers) == 1
    with ThreadPoolExecutor(4) as threads:
        commands = [laptop.begin("resume"), laptop.begin("resume")]
        clicks = [threads.submit(user.set_paused, False) for _ in range(2)]
        codes = [click.result().status_code for click in clicks]
        ended = [laptop.end(command) for command in commands]
    assert codes.count(200) <= 1
    for one in ended:  # a command that starts late finds that it runs
        told = one.json.get("provenance"), one.json.get("reason")
        assert told in ((None, "not_paused"), ("restored", None)), one.said
    goes_on(user, kernel)
    assert stand_in.node.hosted() == 2


def test_without_rights_on_snapshots_details_are_missing_and_the_pause_works(
    stand_in: StandIn, visit: Callable[..., Visitor], laptop: Laptop
) -> None:
    """The roles of the pilot of GKE Workspaces: all of Workspaces, pods and events, no more."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": verbs},
    ]
    stand_in.create(rules=rules)
    user = visit()
    user.wait_until_served()
    kernel = user.notebook("work.ipynb")
    pid = kernel.run(LIVE).split()[0]
    command = "import subprocess, sys\ndone = subprocess.run([sys.executable, '-m', "
    command += "'jupyter_gkews.cli', 'workspace', {!r}, '--json', *{}], capture_output=True)\n"
    told = json.loads(kernel.run(command.format("status", []) + "print(done.stdout.decode())"))
    assert told["state"] == "running"
    assert [one["id"] for one in told["missing"]] == ["triggers", "snapshots", "policies"]
    kernel.send(command.format("pause", ["--no-wait"]) + "how = done.stdout.decode()")
    assert laptop.run("wait", "--for", "paused").code == 0
    assert laptop.run("resume").json["provenance"] == "restored"
    user.wait_until_served()
    again = user.kernel_of("work.ipynb")
    assert json.loads(again.run("print(how)"))["request"] == "begun"
    assert again.run(ON).split() == [pid, "1", "True"]


def test_a_workspace_that_was_resumed_carries_no_trace_of_its_pause(
    stand_in: StandIn, user: Visitor, kernel: LiveKernel, laptop: Laptop
) -> None:
    pause(laptop)
    assert laptop.run("resume").code == 0
    annotations = stand_in.platform.get()["metadata"]["annotations"]
    assert not {STATE, STARTED, LAST} & set(annotations)
    goes_on(user, kernel)
