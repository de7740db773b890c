"""A workspace is paused and resumed: its cells go on in the same process, on a cluster's terms."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .access_proxy import XSRF_HEADER
from .laptop import Laptop
from .stand_in import StandIn
from .visitor import LIVE, ON, Visitor


def test_a_workspace_goes_on_after_a_pause_and_a_resume(
    stand_in: StandIn, visit: Callable[..., Visitor], laptop: Laptop
) -> None:
    stand_in.create()
    user = visit()
    user.wait_until_served()
    kernel = user.notebook("work.ipynb")
    pid, _ = kernel.run(LIVE).split()

    stranger = visit("eve@example.com")
    assert stranger.set_paused(True).status_code == 403
    assert stranger.client.get("api/status").status_code == 403
    assert user.set_paused(True, **{XSRF_HEADER: "guessed"}).status_code == 403
    assert user.set_paused(True, Origin="http://elsewhere.example").status_code == 403
    assert user.set_paused(False).status_code == 409  # it is not paused
    assert user.set_paused(True).json() == {"data": {"paused": False}}
    waited = laptop.run("wait", "--for", "paused")
    assert waited.json["state"] == "paused", waited.said
    assert waited.json["snapshot"]["ready"] is True
    assert user.wait_for("Paused")["paused"] is True
    assert stand_in.platform.pod() is None
    assert user.client.get("api/status").status_code == 503

    resumed = laptop.run("resume")
    assert resumed.code == 0, resumed.said
    assert (resumed.json["state"], resumed.json["provenance"]) == ("running", "restored")
    assert user.wait_for("Running")["paused"] is False
    assert user.kernel_of("work.ipynb").run(ON).split() == [pid, "1", "True"]


@pytest.mark.soak
def test_a_pause_from_outside_and_a_resume_in_the_dashboard_and_all_of_it_again(
    stand_in: StandIn, visit: Callable[..., Visitor], laptop: Laptop
) -> None:
    stand_in.create()
    user = visit()
    user.wait_until_served()
    pid, _ = user.notebook("work.ipynb").run(LIVE).split()
    before = laptop.status()
    assert (before["state"], before["missing"]) == ("running", [])
    assert all(one["passed"] is not False for one in before["checks"])
    for number in ("1", "2"):
        paused = laptop.run("pause")
        assert (paused.code, paused.json["state"]) == (0, "paused"), paused.said
        assert user.set_paused(False).status_code == 200
        running = laptop.run("wait", "--for", "running")
        assert running.json["provenance"] == "restored", running.said
        user.wait_until_served()
        assert user.kernel_of("work.ipynb").run(ON).split() == [pid, number, "True"]
    # nothing of it is left: the next start would find no snapshot
    assert laptop.status()["snapshot"] is None


@pytest.mark.soak
def test_a_cell_in_the_pod_pauses_its_own_workspace(
    stand_in: StandIn, visit: Callable[..., Visitor], laptop: Laptop
) -> None:
    stand_in.create()
    user = visit()
    user.wait_until_served()
    kernel = user.notebook("work.ipynb")
    command = "import subprocess, sys\ndone = subprocess.run([sys.executable, '-m', "
    command += "'jupyter_gkews.cli', 'workspace', {!r}, '--json', *{}], capture_output=True)\n"
    told = kernel.run(command.format("status", []) + "print(done.stdout.decode())")
    inside = json.loads(told)
    assert f"{inside['namespace']}/{inside['name']}" == user.place
    assert (inside["state"], inside["missing"]) == ("running", [])
    kernel.send(command.format("pause", ["--no-wait"]) + "how = done.stdout.decode()")
    paused = laptop.run("wait", "--for", "paused")
    assert paused.code == 0, paused.said
    assert laptop.run("resume").json["provenance"] == "restored"
    user.wait_until_served()
    said = user.kernel_of("work.ipynb").run("print(how)")
    assert json.loads(said)["request"] == "begun"
