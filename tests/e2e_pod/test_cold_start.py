"""A pause through our own server after which the memory does not come back: its kernels do, from
the checkpoints of that very pause, and the server says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kube.actors.gke import TRIGGERS
from live_server import LiveKernel, wait_until

from .conftest import BARE
from .laptop import Json, Laptop
from .stand_in import StandIn
from .visitor import Visitor

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

AUTOMATIC = [*BARE, "--GkewsApp.recover=automatic"]
CELL = "import os\nrows = [1, 2]\nsame = rows\nprint(os.getpid())"
STILL = "print(rows, same is rows, os.getpid())"


@pytest.fixture
def user(stand_in: StandIn, visit: Callable[..., Visitor]) -> Visitor:
    """Of a workspace that runs."""
    stand_in.create()
    found = visit()
    found.wait_until_served()
    return found


def notebook(user: Visitor, path: str) -> LiveKernel:
    """One whose kernel has run CELL."""
    made = user.notebook(path).ready()
    made.pid_then = made.run(CELL).strip()  # type: ignore[attr-defined]
    return made


def pause(user: Visitor, laptop: Laptop) -> str:
    """Through the server, as the page does it; the name of the snapshot."""
    user.post("gkews/workspace/pause")
    paused = laptop.run("wait", "--for", "paused")
    assert (paused.code, paused.json.get("state")) == (0, "paused"), paused.said
    name: str = paused.json["snapshot"]["name"]
    return name


def recovery(user: Visitor) -> Json:
    """What the new server says of the pause before it."""
    user.wait_until_served()
    found: Json = wait_until(
        lambda: user.get("gkews/status")["recovery"], "the server tells of the pause before it"
    )
    return found


def goes_on_from_its_checkpoint(user: Visitor, kernel: LiveKernel) -> None:
    """Under the id that the open page knows, in a new process, with what it had."""
    again = user.kernel_of(str(kernel.path))
    assert again.id == kernel.id
    said = again.run(STILL).strip()
    assert said.startswith("[1, 2] True ")
    assert said.split()[-1] != kernel.pid_then  # type: ignore[attr-defined]
    assert again.status["provenance"] == "recovered"


def test_after_an_expired_snapshot_kernels_wait_with_their_checkpoints_and_a_cell_recovers_them(
    stand_in: StandIn, user: Visitor, laptop: Laptop
) -> None:
    one, two = notebook(user, "one.ipynb"), notebook(user, "two.ipynb")
    stand_in.gke.expire(pause(user, laptop))
    resumed = laptop.run("resume")
    assert (resumed.code, resumed.json["provenance"]) == (0, "fresh"), resumed.said
    told = recovery(user)
    assert (told["way"], told["provenance"]) == ("ask", "fresh")
    assert {(each["path"], each["state"]) for each in told["kernels"]} == {
        ("one.ipynb", "waiting"), ("two.ipynb", "waiting"),
    }  # fmt: skip
    assert user.get("gkews/status")["workspace"]["provenance"] == "fresh"
    for kernel in (one, two):
        goes_on_from_its_checkpoint(user, kernel)
    assert recovery(user)["provenance"] == "recovered"
    assert user.get("gkews/status")["workspace"]["provenance"] == "recovered"
    # and it can be paused again, and comes back as what it is now
    pause(user, laptop)
    assert laptop.run("resume").json["provenance"] == "restored"
    user.wait_until_served()
    assert user.kernel_of("one.ipynb").run(STILL).startswith("[1, 2] True ")


def test_after_a_pause_by_the_dashboard_kernels_wait_with_what_they_wrote_before_it(
    stand_in: StandIn, user: Visitor, laptop: Laptop
) -> None:
    kernel, bare = notebook(user, "work.ipynb"), notebook(user, "bare.ipynb")
    kernel.do("checkpoint")
    kernel.run("rows.append(3)")
    wait_until(  # a page that is open has asked
        lambda: user.get("gkews/status")["workspace"]["state"] == "running", "it is followed"
    )
    assert user.set_paused(True).status_code == 200
    user.wait_for("Paused")
    stand_in.gke.expire(laptop.status()["snapshot"]["name"])
    assert user.set_paused(False).status_code == 200
    told = recovery(user)
    (checkpoint,) = user.get("gkews/checkpoints")["checkpoints"]
    assert {(each["path"], each["state"], each["taken"]) for each in told["kernels"]} == {
        ("work.ipynb", "waiting", checkpoint["created"]), ("bare.ipynb", "lost", None),
    }  # fmt: skip
    assert "what came later is not in them" in told["message"]
    assert bare.id not in [each["id"] for each in user.get("api/kernels")]
    goes_on_from_its_checkpoint(user, kernel)


@pytest.mark.parametrize("stand_in", [AUTOMATIC], indirect=True, ids=["automatic"])
def test_with_another_image_kernels_are_recovered_at_the_start_if_that_is_wanted(
    stand_in: StandIn, user: Visitor, laptop: Laptop
) -> None:
    kernel = notebook(user, "work.ipynb")
    stand_in.platform.controller.pod_spec["containers"][0]["image"] = "jupyterlab:next"
    pending = {"status": {"pendingRestart": True}}
    stand_in.admin.merge(stand_in.platform.workspaces, "ws", pending, "status")

    def warned() -> bool:
        checks = {each["id"]: each for each in user.get("gkews/workspace")["checks"]}
        return "will not fit" in checks["pending_restart"]["message"]

    wait_until(warned, "it is warned before the pause")
    pause(user, laptop)
    resumed = laptop.run("resume")
    assert (resumed.code, resumed.json["provenance"]) == (0, "fresh"), resumed.said

    def recovered() -> Json | None:
        found = recovery(user)
        return found if found["provenance"] == "recovered" else None

    told: Json = wait_until(recovered, "the kernel is recovered")
    assert [each["state"] for each in told["kernels"]] == ["recovered"]
    goes_on_from_its_checkpoint(user, kernel)


def test_a_server_that_is_killed_in_the_middle_of_its_own_pause_recovers_its_kernels(
    stand_in: StandIn, user: Visitor, laptop: Laptop
) -> None:
    kernel = notebook(user, "work.ipynb")
    stand_in.gke.outcome = "hang"
    user.post("gkews/workspace/pause")
    wait_until(
        lambda: stand_in.admin.find(stand_in.gke.path(TRIGGERS), "ws-ws-trigger"), "it is asked for"
    )
    stand_in.node.starts = False
    stand_in.node.kill("ws")
    wait_until(lambda: stand_in.node.is_down("ws"), "the server is down")
    stand_in.gke.outcome = "ok"
    stand_in.gke.poke()
    wait_until(lambda: laptop.status()["reason"] == "snapshot_failed", "the failure is told")
    assert laptop.run("abort").code == 0
    stand_in.node.starts = True
    stand_in.node.poke()
    told = recovery(user)
    assert [(each["path"], each["state"], each["why"]) for each in told["kernels"]] == [
        ("work.ipynb", "waiting", "")
    ]
    goes_on_from_its_checkpoint(user, kernel)
