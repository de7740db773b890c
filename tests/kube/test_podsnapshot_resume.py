"""What comes back after a pause of a pod without Workspaces, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .actors.nodes import PS_NAME
from .conftest import Follow, wait_for
from .test_podsnapshot import LONG, SOME_KINDS

Json = dict[str, Any]


@pytest.mark.parametrize("how", ["cold", "failed", pytest.param("fallback", marks=LONG)])
def test_a_cold_start_is_told_as_fresh_and_its_snapshot_kept(
    how: str, paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Deployment", sign_s=0.5)
    self_managed.nodes.restores = how
    pauses.request_resume()
    with pytest.raises(GkewsError, match="it was started anew") as fresh:
        pauses.wait_running(20)
    assert fresh.value.reason == "restore_failed"
    assert "The snapshot is kept" in fresh.value.hint
    said = {"fallback": "falling back to a cold start", "failed": "incompatible FeatureSet"}
    assert said.get(how, "nothing says that it was restored") in fresh.value.message
    assert pauses.observer.state().provenance == "fresh"
    assert len(self_managed.snapshots()) == 1


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_a_restore_that_was_not_tried_is_tried_again_with_another_pod(
    kind: str, paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod(kind, sign_s=0.5)
    self_managed.nodes.restores = "cold"
    pauses.request_resume()
    assert pauses.wait_running(20, accept_fresh=True).provenance == "fresh"
    self_managed.nodes.restores = "restored"
    with pytest.raises(GkewsError, match="started anew") as refused:
        pauses.request_resume()
    assert refused.value.reason == "not_paused"
    assert pauses.request_resume(again=True) == "begun"
    assert pauses.wait_running(20).provenance == "restored"


def test_a_pod_is_neither_restored_nor_fresh_before_that_is_said(
    paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("StatefulSet")
    self_managed.nodes.says = False
    pauses.request_resume()
    state = wait_for(pauses, "resuming", "verifying")
    assert state.provenance is None
    self_managed.nodes.says = True
    self_managed.poke()
    assert pauses.wait_running(20).provenance == "restored"


def test_a_restore_from_another_snapshot_is_no_restore_from_ours(
    paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Deployment")
    self_managed.nodes.says = False
    pauses.request_resume()
    wait_for(pauses, "resuming", "verifying")
    [pod] = self_managed.pods()
    other = "00000000-1111-2222-3333-444444444444"
    told = {"type": "PodRestored", "status": "True", "reason": "Restored",
            "message": f"restored the pod from PodSnapshot default/{other}"}  # fmt: skip
    conditions = [*pod["status"]["conditions"], told]
    self_managed.admin.merge(
        self_managed.path("Pod"), pod["metadata"]["name"], {"status": {"conditions": conditions}},
        "status",
    )  # fmt: skip
    with pytest.raises(GkewsError, match=f"restored from {other}, not from") as wrong:
        pauses.wait_running(20)
    assert wrong.value.reason == "snapshot_incompatible"


def test_waiting_for_a_node_is_told_and_ends_in_one_restore(
    paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Pod")
    self_managed.nodes.capacity = False
    pauses.request_resume()
    waiting = pauses.observer.wait(lambda _, now: "one is being added" in now.message, 20)
    assert waiting is not None
    assert waiting.phase == "waiting_for_capacity"
    with pytest.raises(GkewsError, match="Waiting for a node") as late:
        pauses.wait_running(0.2)
    assert late.value.reason == "restore_failed"
    assert pauses.request_resume() == "joined"
    self_managed.nodes.capacity = True
    self_managed.poke()
    assert pauses.wait_running(20).provenance == "restored"


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_a_snapshot_that_is_gone_is_told_before_anything_is_started(
    kind: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod(kind)
    paused = pauses.wait_paused(pauses.request(), 20)
    assert paused.snapshot is not None
    self_managed.admin.delete(self_managed.path("podsnapshots"), paused.snapshot.name)
    state = wait_for(pauses, "paused")
    gone = pauses.observer.wait(lambda _, now: now.reason == "snapshot_not_found", 20)
    assert gone is not None, state
    with pytest.raises(GkewsError) as refused:
        pauses.request_resume()
    assert refused.value.reason == "snapshot_not_found"
    assert "--accept-fresh" in refused.value.hint
    assert self_managed.pods() == []
    assert pauses.request_resume(accept_fresh=True) == "begun"
    running = pauses.wait_running(20, accept_fresh=True)
    assert (running.state, running.provenance) == ("running", None)
    [pod] = self_managed.pods()
    assert PS_NAME not in (pod["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"containers": [{"name": "lab", "image": "jupyterlab:2"}]}, "image of container lab was"),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}}, "The GPU was"),
        pytest.param(
            {"containers": [{"name": "lab", "image": "jupyterlab:1", "args": ["--x"]}]},
            "args of",
            marks=LONG,
        ),
        pytest.param(
            {"nodeSelector": {"cloud.google.com/machine-family": "n2"}},
            "series of machines was",
            marks=LONG,
        ),
        pytest.param(
            {"runtimeClassName": "runc"}, "runtime class was gvisor and is runc", marks=LONG
        ),
    ],
)
def test_a_deployment_that_was_changed_while_paused_is_told_before_anything_is_started(
    change: Json, said: str, paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Deployment", sign_s=0.5)
    template = {"spec": {"template": {"spec": change}}}
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", template)
    with pytest.raises(GkewsError, match=said) as refused:
        pauses.request_resume()
    assert refused.value.reason == "snapshot_incompatible"
    assert self_managed.get("Deployment")["spec"]["replicas"] == 0


def test_with_another_image_the_pod_is_fresh_although_gke_says_nothing(
    paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Deployment", sign_s=0.5)
    change = {"containers": [{"name": "lab", "image": "jupyterlab:2"}]}
    template = {"spec": {"template": {"spec": change}}}
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", template)
    pauses.request_resume(accept_fresh=True)
    assert pauses.wait_running(20, accept_fresh=True).provenance == "fresh"


def test_who_scales_it_up_by_hand_gets_the_snapshot_too(
    paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod("Deployment")
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", {"spec": {"replicas": 1}})
    assert wait_for(pauses, "running").provenance == "restored"


def test_what_was_scaled_to_zero_by_hand_is_not_told_as_paused_with_a_snapshot(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", {"spec": {"replicas": 0}})
    state = wait_for(pauses, "paused")
    assert state.stateless
    assert "there is no snapshot" in state.message
    with pytest.raises(GkewsError) as refused:
        pauses.request_resume()
    assert refused.value.reason == "snapshot_not_found"
    pauses.request_resume(accept_fresh=True)
    assert pauses.wait_running(20, accept_fresh=True).state == "running"


def test_the_manifest_of_a_bare_pod_comes_back_as_it_was(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    env = [{"name": "GREETING", "value": "안녕"}]
    containers = [{"name": "lab", "image": "jupyterlab:1", "env": env, "args": ["lab", "--x=1"]}]
    pauses = running_pod("Pod", containers=containers, terminationGracePeriodSeconds=5)
    [before] = self_managed.pods()
    pauses.wait_paused(pauses.request(), 20)
    pauses.request_resume()
    pauses.wait_running(20)
    [after] = self_managed.pods()
    for one in (before, after):
        one["spec"].pop("nodeName")
        one["spec"].pop("volumes", None)
        for container in one["spec"]["containers"]:
            container.pop("volumeMounts", None)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_a_resume_that_waits_for_a_node_is_called_off_and_can_be_asked_for_again(
    kind: str, paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod(kind)
    self_managed.nodes.capacity = False
    pauses.request_resume()
    wait_for(pauses, "resuming", "waiting_for_capacity")
    done = pauses.abort()
    assert (done.how, "paused as before" in done.message) == ("aborted", True)
    paused = wait_for(pauses, "paused")
    assert paused.snapshot is not None
    assert paused.snapshot.ready
    self_managed.nodes.capacity = True
    assert pauses.request_resume() == "begun"
    assert pauses.wait_running(20).provenance == "restored"


def test_a_resume_that_was_scaled_back_by_hand_before_it_came_up_is_still_paused(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("StatefulSet")
    paused = pauses.wait_paused(pauses.request(), 20)
    self_managed.nodes.capacity = False
    pauses.request_resume()
    wait_for(pauses, "resuming", "waiting_for_capacity")
    self_managed.admin.merge(self_managed.path("StatefulSet"), "lab", {"spec": {"replicas": 0}})
    again = wait_for(pauses, "paused")
    assert again.snapshot == paused.snapshot
    assert not again.stateless


def test_a_pod_that_was_made_without_the_name_of_its_snapshot_is_not_told_as_restored(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("StatefulSet", updateStrategy={"type": "OnDelete"}, sign_s=0.5)
    named = {"spec": {"template": {"metadata": {"annotations": {PS_NAME: "one"}}}}}
    self_managed.admin.merge(self_managed.path("StatefulSet"), "lab", named)
    told = pauses.observer.wait(lambda _, now: now.provenance == "fresh", 20)
    assert told is not None
    assert "made without the name of the snapshot" in told.message


def test_a_pod_that_is_not_ready_can_be_paused_all_the_same(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Pod")
    [pod] = self_managed.pods()
    conditions = [
        {**one, "status": "False"} if one["type"] in ("Ready", "ContainersReady") else one
        for one in pod["status"]["conditions"]
    ]
    self_managed.nodes.starts = False
    self_managed.admin.merge(
        self_managed.path("Pod"), "lab", {"status": {"conditions": conditions}}, "status"
    )
    unready = pauses.observer.wait(lambda _, now: "not ready" in now.message, 20)
    assert unready is not None
    assert unready.state == "running"
    assert pauses.wait_paused(pauses.request(), 20).state == "paused"


def test_a_pod_that_was_evicted_does_not_stand_in_the_way_of_the_one_after_it(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    [evicted] = self_managed.pods()
    name = evicted["metadata"]["name"]
    self_managed.admin.merge(
        self_managed.path("Pod"), name, {"status": {"phase": "Failed"}}, "status"
    )
    other = pauses.observer.wait(
        lambda seen, state: state.state == "running" and state.pod != name and seen.pod_ready, 20
    )
    assert other is not None
    paused = pauses.wait_paused(pauses.request(), 20)
    assert paused.state == "paused"
    assert [one["metadata"]["name"] for one in self_managed.pods()] == [name]
    pauses.request_resume()
    assert pauses.wait_running(20).provenance == "restored"


def test_a_bare_pod_that_has_ended_is_not_paused(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Pod")
    self_managed.admin.merge(
        self_managed.path("Pod"), "lab", {"status": {"phase": "Succeeded"}}, "status"
    )
    assert pauses.observer.wait(lambda _, now: "has ended (Succeeded)" in now.message, 20)
    with pytest.raises(GkewsError, match="has ended") as refused:
        pauses.request()
    assert refused.value.reason == "snapshot_unavailable"
    assert self_managed.triggers() == []
