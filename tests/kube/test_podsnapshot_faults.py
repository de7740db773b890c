"""Pausing a pod without Workspaces while its cluster misbehaves."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .conftest import Follow
from .fake import FakeCluster

Json = dict[str, Any]
TRIGGER = "podsnapshotmanualtriggers"
#: An answer that is lost: of a request that was done, and of one that was not.
LOST = ("reset_after", pytest.param("reset", marks=pytest.mark.soak))


# -- answers that are lost, slow, or refused -----------------------------------------------------


@pytest.mark.parametrize("kind", LOST)
def test_a_lost_answer_to_the_request_begins_one_snapshot_all_the_same(
    kind: str, running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    fault = fake.faults.add(kind, method="POST", path=TRIGGER, times=1)
    requested = pauses.request()
    assert fault.met == 1
    assert requested.how == "begun"
    assert pauses.wait_paused(requested, 20).state == "paused"
    assert len(self_managed.snapshots()) == 1


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize(
    ("kind", "method", "path"),
    [("StatefulSet", "PATCH", "/statefulsets/lab$"), ("Pod", "DELETE", "/pods/lab$")],
)
def test_a_lost_answer_to_the_stop_stops_it_once(
    kind: str, method: str, path: str, fault: str, running_pod: Follow,
    fake: FakeCluster,
) -> None:  # fmt: skip
    pauses = running_pod(kind)
    met = fake.faults.add(fault, method=method, path=path, times=1)
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"
    assert met.met == 1
    pauses.request_resume()
    assert pauses.wait_running(20).provenance == "restored"


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize(
    ("kind", "method", "path"),
    [("Deployment", "PATCH", "/deployments/lab$"), ("Pod", "POST", "/pods$")],
)
def test_a_lost_answer_to_the_resume_starts_one_pod(
    kind: str, method: str, path: str, fault: str, paused_pod: Follow, self_managed: SelfManaged,
    fake: FakeCluster,
) -> None:  # fmt: skip
    pauses = paused_pod(kind)
    met = fake.faults.add(fault, method=method, path=path, times=1)
    assert pauses.request_resume() == "begun"
    assert met.met >= 1
    assert pauses.wait_running(20).provenance == "restored"
    assert len(self_managed.pods()) == 1


def test_others_who_write_to_the_deployment_do_not_stop_a_pause(
    running_pod: Follow, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    conflict = fake.faults.refuse(
        409, "Conflict", "the object has been modified", method="PATCH", path="/deployments/lab$",
        times=3,
    )  # fmt: skip
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"
    assert conflict.met == 3


def test_a_pause_goes_on_when_the_cluster_was_away(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    requested = pauses.request()
    fake.stop()
    fake.start()
    self_managed.gke.outcome = "ok"
    self_managed.poke()
    assert pauses.wait_paused(requested, 30).state == "paused"


def test_a_cluster_that_is_away_at_the_moment_of_the_stop_is_waited_for(
    running_pod: Follow, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    requested = pauses.request()
    whole = pauses.observer.wait(lambda seen, _: bool(seen.attempt and seen.attempt.whole), 20)
    assert whole is not None
    away = fake.faults.add("reset", path="/podsnapshots", times=3)
    assert pauses.wait_paused(requested, 30).state == "paused"
    assert away.met == 3


def test_a_forgotten_place_in_the_history_is_listed_anew(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    requested = pauses.request()
    fake.store.compact()
    fake.cut_connections()
    self_managed.gke.outcome = "ok"
    self_managed.poke()
    assert pauses.wait_paused(requested, 30).state == "paused"


def test_a_slow_cluster_is_waited_for(running_pod: Follow, fake: FakeCluster) -> None:
    pauses = running_pod("Pod")
    slow = fake.faults.add("slow", path="podsnapshot|/pods", seconds=0.05)
    assert pauses.wait_paused(pauses.request(), 60).state == "paused"
    fake.faults.lift(slow)


def test_the_rules_of_the_cluster_that_refuse_a_request_are_told(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    said = "ValidatingAdmissionPolicy 'no-snapshots' denied request"
    fake.faults.refuse(403, "Forbidden", said, method="POST", path=TRIGGER)
    with pytest.raises(GkewsError, match="no-snapshots") as refused:
        pauses.request()
    assert refused.value.reason == "forbidden"
    assert len(self_managed.pods()) == 1


def test_a_stop_that_is_refused_leaves_the_pod_and_says_what_there_is(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    fake.faults.refuse(
        403, "Forbidden", "admission webhook said no", method="PATCH", path="/deployments/lab$"
    )
    with pytest.raises(GkewsError, match="snapshot is whole, but the pod could not be") as refused:
        pauses.wait_paused(pauses.request(), 20)
    assert refused.value.hint == "The pod runs on, nothing was lost."
    assert self_managed.get("Deployment")["spec"]["replicas"] == 1


def test_a_cluster_that_does_not_answer_at_the_deadline_is_told_and_nothing_called_off(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Pod")
    requested = pauses.request()
    away_now = fake.faults.add("reset")
    with pytest.raises(GkewsError, match="does not answer") as away:
        pauses.wait_paused(requested, 0.3)
    assert away.value.reason == "cluster_unreachable"
    assert "The pod runs on" in away.value.hint
    fake.faults.lift(away_now)
    assert len(self_managed.triggers()) == 1
