"""A pod without Workspaces: snapshotted, stopped and brought back through what makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gkews.engines.podsnapshot.resuming import Resumes
from jupyter_gkews.engines.podsnapshot.words import PAUSED
from jupyter_gkews.engines.workspaces.state import WorkspaceState
from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .actors.nodes import PS_NAME
from .conftest import Follow, wait_for

Json = dict[str, Any]
KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Pod")
LONG = pytest.mark.soak
SOME_KINDS = ("Deployment", "Pod", *(pytest.param(k, marks=LONG) for k in KINDS[1:3]))
TRIGGER = "podsnapshotmanualtriggers"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_is_stopped_when_its_snapshot_is_whole_and_comes_back_from_it(
    kind: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod(kind)
    before = self_managed.pods()[0]["metadata"]["uid"]
    told: list[WorkspaceState] = []
    self_managed.gke.outcome = "hang"  # until it was told that it is being taken

    def tell(state: WorkspaceState) -> None:
        told.append(state)
        if state.phase == "snapshotting":
            self_managed.gke.go_on()

    requested = pauses.request()
    assert requested.how == "begun"
    paused = pauses.wait_paused(requested, 20, tell)
    assert paused.state == "paused"
    assert self_managed.pods() == []
    [snapshot] = self_managed.snapshots()
    assert paused.snapshot is not None
    assert (paused.snapshot.name, paused.snapshot.ready) == (snapshot["metadata"]["name"], True)
    assert paused.snapshot.keeps_until is not None
    assert "is not in it" in paused.hint
    assert "snapshotting" in {state.phase for state in told}
    assert pauses.request_resume() == "begun"
    running = pauses.wait_running(20)
    assert (running.state, running.provenance) == ("running", "restored")
    assert snapshot["metadata"]["name"] in running.message
    [pod] = self_managed.pods()
    assert pod["metadata"]["uid"] != before
    assert pod["metadata"]["annotations"][PS_NAME] == snapshot["metadata"]["name"]


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_it_can_be_paused_again_and_then_comes_back_from_the_newer_snapshot(
    kind: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod(kind)
    names = []
    for _ in range(2):
        paused = pauses.wait_paused(pauses.request(), 20)
        assert paused.snapshot is not None
        names.append(paused.snapshot.name)
        pauses.request_resume()
        assert names[-1] in pauses.wait_running(20).message
    assert names[0] != names[1]
    assert self_managed.triggers() == []
    if kind != "Pod":
        owner = self_managed.get(kind)
        assert not set(PAUSED) & set(owner["metadata"].get("annotations") or {})


# -- until the snapshot is whole, nothing is stopped ---------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("failed", "Deployment"),
        ("not stored", "Pod"),
        pytest.param("failed", "Pod", marks=LONG),
        pytest.param("not stored", "Deployment", marks=LONG),
    ],
)
def test_a_snapshot_that_fails_leaves_the_pod_running_and_is_told_in_the_words_of_gke(
    outcome: str, kind: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = outcome
    pauses = running_pod(kind)
    [pod] = self_managed.pods()
    with pytest.raises(GkewsError, match="Error 403: Forbidden") as failed:
        pauses.wait_paused(pauses.request(), 20)
    assert failed.value.reason == "snapshot_failed"
    assert failed.value.hint == "The pod runs on, nothing was lost."
    assert [one["metadata"]["uid"] for one in self_managed.pods()] == [pod["metadata"]["uid"]]
    told = wait_for(pauses, "running")
    assert "The last snapshot failed" in told.message
    assert told.reason == "snapshot_failed"
    self_managed.gke.outcome = "ok"
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"


@pytest.mark.parametrize("outcome", ["hang", "lost"])
def test_a_snapshot_that_hangs_is_called_off_at_the_deadline_and_the_next_one_works(
    outcome: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = outcome
    pauses = running_pod("Deployment")
    with pytest.raises(GkewsError, match="No end of the snapshot") as failed:
        pauses.wait_paused(pauses.request(), 0.5)
    assert failed.value.reason == "snapshot_failed"
    assert "called off. The pod runs on" in failed.value.hint
    assert self_managed.triggers() == []
    assert len(self_managed.pods()) == 1
    self_managed.gke.outcome = "ok"
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"


def test_a_hanging_snapshot_is_left_if_that_is_wanted(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Pod")
    with pytest.raises(GkewsError, match="No end of the snapshot") as failed:
        pauses.wait_paused(pauses.request(), 0.3, abort=False)
    assert failed.value.hint == "It is not called off. The pod runs on, nothing was lost."
    assert len(self_managed.triggers()) == 1
    assert wait_for(pauses, "pausing").phase == "snapshotting"


def test_a_snapshot_of_another_pod_is_not_taken_for_ours(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    self_managed.gke.outcome = "hang"
    requested = pauses.request()
    [trigger] = self_managed.triggers()
    policy = {"policyName": "gkews-deployment-lab"}
    other = self_managed.admin.create(
        self_managed.path("podsnapshots"),
        {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshot",
         "metadata": {"name": "other",
                      "annotations": {"podsnapshot.gke.io/origin-pod": "somebody-else"}},
         "spec": policy},
    )  # fmt: skip
    ready = [{"type": "Ready", "status": "True", "reason": "AllSnapshotsAvailable"}]
    name = other["metadata"]["name"]
    self_managed.admin.merge(
        self_managed.path("podsnapshots"), name, {"status": {"conditions": ready}}, "status"
    )
    done = [{"type": "Triggered", "status": "True", "reason": "Complete"}]
    status = {"conditions": done, "snapshotCreated": {"name": name}}
    self_managed.admin.merge(
        self_managed.path(TRIGGER), trigger["metadata"]["name"], {"status": status}, "status"
    )
    with pytest.raises(GkewsError, match="No end of the snapshot"):
        pauses.wait_paused(requested, 0.5)
    assert len(self_managed.pods()) == 1


def test_the_name_of_the_snapshot_may_be_a_text(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.name_as_text = True
    pauses = running_pod("Pod")
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"


def test_a_deployment_that_is_scaled_out_meanwhile_is_not_stopped(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.pace = 0.3
    pauses = running_pod("Deployment")
    requested = pauses.request()
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", {"spec": {"replicas": 2}})
    with pytest.raises(GkewsError, match="was scaled to 2"):
        pauses.wait_paused(requested, 20)
    assert self_managed.get("Deployment")["spec"]["replicas"] == 2


def test_a_pod_that_is_replaced_meanwhile_is_not_taken_for_the_one_of_the_snapshot(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.pace = 0.5
    pauses = running_pod("StatefulSet")
    requested = pauses.request()
    self_managed.admin.delete(self_managed.path("Pod"), "lab-0")
    with pytest.raises(GkewsError, match=r"was (replaced by another|deleted by somebody) while"):
        pauses.wait_paused(requested, 20)
    assert self_managed.get("StatefulSet")["spec"]["replicas"] == 1


def test_somebody_who_scales_to_zero_meanwhile_is_not_told_as_a_pause(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    requested = pauses.request()
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", {"spec": {"replicas": 0}})
    with pytest.raises(GkewsError, match=r"Somebody scaled .* to 0 while its snapshot"):
        pauses.wait_paused(requested, 20)


# -- one at a time -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_many_who_ask_at_once_begin_one_snapshot_and_all_see_its_end(
    kind: str, follow: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"  # until all have asked
    self_managed.create(kind)
    many = [follow() for _ in range(5)]
    asked = threading.Barrier(5, self_managed.gke.go_on, timeout=60)
    found: list[tuple[str, str]] = []

    def ask(pauses: Resumes) -> None:
        requested = pauses.request()
        asked.wait()
        found.append((requested.how, pauses.wait_paused(requested, 20).state))

    _at_once([lambda p=p: ask(p) for p in many])  # type: ignore[misc]
    assert sorted(found) == [("begun", "paused")] + [("joined", "paused")] * 4
    assert len(self_managed.snapshots()) == 1


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_many_who_resume_at_once_begin_one_restore(
    kind: str, follow: Follow, self_managed: SelfManaged
) -> None:
    self_managed.create(kind)
    many = [follow() for _ in range(5)]
    many[0].wait_paused(many[0].request(), 20)
    self_managed.nodes.starts = False
    found: list[str] = []
    _at_once([lambda p=p: found.append(p.request_resume()) for p in many])  # type: ignore[misc]
    assert sorted(found) == ["begun"] + ["joined"] * 4
    self_managed.nodes.starts = True
    self_managed.poke()
    assert many[1].wait_running(20).provenance == "restored"
    assert len(self_managed.pods()) == 1


def test_a_snapshot_that_somebody_else_has_taken_is_not_disturbed(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    [pod] = self_managed.pods()
    self_managed.admin.create(
        self_managed.path(TRIGGER),
        {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshotManualTrigger",
         "metadata": {"name": "theirs"}, "spec": {"targetPod": pod["metadata"]["name"]}},
    )  # fmt: skip
    with pytest.raises(GkewsError, match="trigger theirs") as refused:
        pauses.request()
    assert refused.value.reason == "operation_running"
    assert len(self_managed.triggers()) == 1


def test_what_is_paused_is_not_paused_again_and_what_runs_not_resumed(running_pod: Follow) -> None:
    pauses = running_pod("Deployment")
    with pytest.raises(GkewsError) as refused:
        pauses.request_resume()
    assert refused.value.reason == "not_paused"
    pauses.wait_paused(pauses.request(), 20)
    with pytest.raises(GkewsError) as refused:
        pauses.request()
    assert refused.value.reason == "already_paused"


def _at_once(works: list[Callable[[], object]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# -- call off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_a_pause_that_is_called_off_leaves_the_pod_and_who_waits_is_told(
    kind: str, follow: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"
    self_managed.create(kind)
    pauses, other = follow(), follow()
    requested = pauses.request()
    wait_for(pauses, "pausing")
    done = other.abort()
    assert (done.how, done.message) == (
        "aborted", "The pause was called off. The pod runs on, nothing was lost."
    )  # fmt: skip
    with pytest.raises(GkewsError) as over:
        pauses.wait_paused(requested, 20)
    assert over.value.reason == "cancelled"
    assert other.abort().how == "nothing"
    assert len(self_managed.pods()) == 1


def test_a_whole_snapshot_is_called_off_before_the_stop(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    requested = pauses.request()
    found = pauses.observer.wait(lambda seen, _: bool(seen.attempt and seen.attempt.whole), 20)
    assert found is not None
    assert "whole, but the pod was not stopped" in found.message
    assert pauses.abort().how == "aborted"
    with pytest.raises(GkewsError) as over:
        pauses.wait_paused(requested, 20)
    assert over.value.reason == "cancelled"
    assert len(self_managed.pods()) == 1


def test_a_whole_snapshot_whose_pod_was_never_stopped_is_not_used_for_the_next_pause(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Pod")
    pauses.request()  # and its process was killed
    assert pauses.observer.wait(lambda seen, _: bool(seen.attempt and seen.attempt.whole), 20)
    [old] = self_managed.snapshots()
    requested = pauses.request()
    assert requested.how == "begun"
    paused = pauses.wait_paused(requested, 20)
    assert paused.snapshot is not None
    assert paused.snapshot.name != old["metadata"]["name"]
    trigger = self_managed.admin.get(self_managed.path(TRIGGER), requested.trigger)
    assert paused.snapshot.name == trigger["status"]["snapshotCreated"]["name"]
    pauses.request_resume()
    assert paused.snapshot.name in pauses.wait_running(20).message


def test_a_request_that_the_cluster_does_not_let_go_of_is_told(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    requested = pauses.request()
    held = {"metadata": {"finalizers": ["podsnapshot.gke.io/wedged"]}}
    self_managed.admin.merge(self_managed.path(TRIGGER), requested.trigger, held)
    done = pauses.abort(0.3)
    assert "has not let go of the request yet" in done.message
    with pytest.raises(GkewsError, match=r"podsnapshot\.gke\.io/wedged") as refused:
        pauses.request()
    assert refused.value.reason == "operation_running"
    assert len(self_managed.pods()) == 1


def test_a_bare_pod_that_is_called_off_in_the_middle_of_its_stop_is_brought_back(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    self_managed.nodes.lets_go = False
    pauses = running_pod("Pod")
    requested = pauses.request()
    called_off = threading.Thread(
        target=lambda: (
            pauses.observer.wait(lambda seen, _: seen.terminating, 20),
            self_managed.admin.delete(self_managed.path(TRIGGER), requested.trigger),
            setattr(self_managed.nodes, "lets_go", True),
            self_managed.poke(),
        )
    )
    called_off.start()
    with pytest.raises(GkewsError, match="called off while the pod was being stopped") as over:
        pauses.wait_paused(requested, 20)
    called_off.join()
    assert "brought back" in over.value.hint
    assert wait_for(pauses, "running").provenance == "restored"
