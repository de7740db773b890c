"""Pause, calling off and resume of a workspace, with addon, GKE and nodes playing their parts."""

from __future__ import annotations

import threading

import pytest
import yaml

from jupyter_gkews.engines.cluster.words import SNAPSHOT_GROUP
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.pausing import Pauses, deadline_s
from jupyter_gkews.engines.workspaces.state import WorkspaceState
from jupyter_gkews.errors import GkewsError

from .actors import Platform
from .actors.addon import ENABLED, LAST, STARTED, STATE
from .clusters import CRDS, DEFINITIONS
from .fake import FakeCluster

PATCHES = r"/workspaces/ws\b"


@pytest.fixture
def pauses(observer: WorkspaceObserver) -> Pauses:
    return Pauses(observer)


def wait_for(observer: WorkspaceObserver, state: str, phase: str | None = None) -> WorkspaceState:
    found = observer.wait(
        lambda _, now: now.state == state and (phase is None or now.phase == phase), 20
    )
    assert found is not None, observer.state()
    return found


def test_a_pause_takes_the_snapshot_and_a_resume_is_restored_from_it(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    told: list[WorkspaceState] = []
    platform.gke.outcome = "hang"  # until it was told that it is being taken

    def tell(state: WorkspaceState) -> None:
        told.append(state)
        if state.phase == "snapshotting":
            platform.gke.go_on()

    requested = pauses.request()
    assert (requested.how, requested.stateless) == ("begun", False)
    paused = pauses.wait_paused(requested, 20, tell)
    assert paused.state == "paused"
    assert paused.snapshot is not None
    assert paused.snapshot.ready
    assert paused.snapshot.name == platform.get()["metadata"]["annotations"][LAST]
    assert "snapshotting" in {state.phase for state in told}
    assert platform.pod() is None
    running = pauses.wait_running(pauses.request_resume(), 20)
    assert running.state == "running"
    assert running.provenance == "restored"
    assert platform.pod()["status"]["phase"] == "Running"


def test_a_paused_workspace_is_not_paused_again_and_a_running_one_not_resumed(
    pauses: Pauses,
) -> None:
    with pytest.raises(GkewsError) as refused:
        pauses.request_resume()
    assert refused.value.reason == "not_paused"
    pauses.wait_paused(pauses.request(), 20)
    with pytest.raises(GkewsError) as refused:
        pauses.request()
    assert refused.value.reason == "already_paused"


def test_a_second_request_joins_the_pause_that_runs_and_does_not_begin_it_anew(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform, fake: FakeCluster
) -> None:
    platform.gke.outcome = "hang"
    pauses.request()
    started = platform.get()["metadata"]["annotations"][STARTED]
    wait_for(observer, "pausing")
    before = len(fake.requests)
    assert pauses.request().how == "joined"
    assert not [r for r in fake.requests[before:] if r[1] == "PATCH" and r[2].endswith("/ws")]
    assert platform.get()["metadata"]["annotations"][STARTED] == started
    platform.gke.outcome = "ok"
    platform.poke()


def test_many_who_ask_at_once_begin_one_pause(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(pauses.request().how)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["begun"] + ["joined"] * 5


def test_a_failed_snapshot_is_called_off_with_the_reason_and_the_workspace_runs_on(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.gke.outcome = "failed"
    pod = platform.pod()
    assert pod is not None
    with pytest.raises(GkewsError, match="Error 403: Forbidden") as failed:
        pauses.wait_paused(pauses.request(), 20, grace_s=0.3)
    assert failed.value.reason == "snapshot_failed"
    assert "nothing was lost" in failed.value.hint
    wait_for(observer, "running")
    workspace = platform.get()
    assert STATE not in workspace["metadata"]["annotations"]
    assert workspace["spec"]["paused"] is False
    after = platform.pod()
    assert after is not None
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_snapshot_that_hangs_is_called_off_at_the_deadline(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    with pytest.raises(GkewsError, match="No end of the pause") as failed:
        pauses.wait_paused(pauses.request(), 1.0)
    assert failed.value.reason == "snapshot_failed"
    wait_for(observer, "running")


def test_after_a_pause_was_called_off_the_next_one_works(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    requested = pauses.request()
    wait_for(observer, "pausing")
    assert "nothing was lost" in pauses.abort(20).message
    with pytest.raises(GkewsError) as over:
        pauses.wait_paused(requested, 20)
    assert over.value.reason == "cancelled"
    platform.gke.outcome = "ok"
    platform.poke()
    assert pauses.wait_paused(pauses.request(), 20).snapshot is not None


def test_a_pause_that_would_lose_the_memory_is_refused_before_it_is_asked_for(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform, fake: FakeCluster
) -> None:
    off = {"metadata": {"annotations": {ENABLED: "false"}}}
    version = platform.admin.merge(platform.workspaces, "ws", off)["metadata"]["resourceVersion"]
    assert observer.catch_up(version, 20)
    before = len(fake.requests)
    with pytest.raises(GkewsError, match="turned off for this workspace") as refused:
        pauses.request()
    assert refused.value.reason == "snapshot_unavailable"
    ours = [r for r in fake.requests[before:] if r[1] == "PATCH" and r[2].endswith("/ws")]
    assert not ours
    requested = pauses.request(stateless=True)
    assert requested.stateless
    paused = pauses.wait_paused(requested, 20)
    assert paused.stateless
    assert "no snapshot" in paused.message


def test_a_change_that_was_not_seen_yet_is_judged_before_anything_is_done(
    pauses: Pauses, platform: Platform, fake: FakeCluster
) -> None:
    watches = fake.faults.add("black_hole", path="watch=.*kubeflow|workspaces.*watch=")
    off = {"metadata": {"annotations": {ENABLED: "false"}}}
    platform.admin.merge(platform.workspaces, "ws", off)
    with pytest.raises(GkewsError, match="turned off for this workspace"):
        pauses.request()
    assert platform.get()["spec"]["paused"] is False
    fake.faults.lift(watches)


def test_a_pause_that_nobody_turns_into_a_snapshot_is_taken_back_at_once(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.addon.awake = False
    platform.nodes.lets_go = False  # it shows that the pod was told to go, if it was
    with pytest.raises(GkewsError, match="did not act on the request") as failed:
        pauses.request()
    assert failed.value.reason == "snapshot_failed"
    assert platform.get()["spec"]["paused"] is False
    pod = platform.pod()
    assert ("called off in time" in failed.value.message) == (pod is not None)
    platform.nodes.lets_go = True
    platform.poke()


def test_a_request_is_taken_back_although_others_write_meanwhile(
    pauses: Pauses, platform: Platform, fake: FakeCluster
) -> None:
    platform.addon.awake = False
    platform.nodes.lets_go = False
    conflict = fake.faults.refuse(
        409, "Conflict", "the object has been modified", method="PATCH", path=r"/workspaces/ws$",
        times=3,
    )  # fmt: skip
    conflict.skip = 1  # the request itself goes through
    with pytest.raises(GkewsError, match="was called off"):
        pauses.request()
    assert conflict.met == 3
    assert platform.get()["spec"]["paused"] is False
    platform.nodes.lets_go = True
    platform.poke()


def test_a_lost_answer_is_looked_up_and_the_request_not_repeated(
    pauses: Pauses, platform: Platform, fake: FakeCluster
) -> None:
    platform.gke.outcome = "hang"
    fault = fake.faults.add("reset_after", method="PATCH", path=PATCHES, times=1)
    assert pauses.request().how == "begun"
    assert fault.met == 1
    platform.gke.outcome = "ok"
    platform.poke()


def test_a_request_that_never_arrived_is_reported_and_not_repeated(
    pauses: Pauses, platform: Platform, fake: FakeCluster
) -> None:
    fault = fake.faults.add("reset", method="PATCH", path=r"/workspaces/ws$")
    with pytest.raises(GkewsError, match="has not answered") as failed:
        pauses.request()
    assert failed.value.reason == "cluster_unreachable"
    assert fault.met == 1
    fake.faults.lift(fault)
    assert platform.get()["spec"]["paused"] is False


def test_an_admission_policy_that_forbids_the_pause_is_quoted(
    pauses: Pauses, fake: FakeCluster
) -> None:
    fake.faults.refuse(
        403, "Forbidden",
        "ValidatingAdmissionPolicy 'notebooks-gke-pilot-workspaces' denied request: not yours",
        method="PATCH", path=r"/workspaces/ws$",
    )  # fmt: skip
    with pytest.raises(GkewsError, match="notebooks-gke-pilot-workspaces") as refused:
        pauses.request()
    assert refused.value.reason == "forbidden"


def test_waiting_for_a_node_is_told_with_the_reason_and_ends_when_there_is_one(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    pauses.wait_paused(pauses.request(), 20)
    platform.nodes.capacity = False
    requested = pauses.request_resume()
    observer.wait(lambda _, state: "one is being added" in state.message, 20)
    waiting = wait_for(observer, "resuming", "waiting_for_capacity")
    assert "one is being added" in waiting.message
    assert waiting.seen_as in ("Error", "Pending", "Unknown", "Paused")
    assert waiting.since is not None
    assert pauses.request_resume().how == "joined"
    platform.nodes.capacity = True
    platform.poke()
    assert pauses.wait_running(requested, 20).provenance == "restored"


def test_a_quota_that_is_spent_is_told(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    pauses.wait_paused(pauses.request(), 20)
    platform.nodes.capacity = False
    platform.nodes.scaling = "failed"
    requested = pauses.request_resume()
    found = observer.wait(lambda _, state: "quota exceeded" in state.message, 20)
    assert found is not None, observer.state()
    with pytest.raises(GkewsError, match="quota exceeded") as late:
        pauses.wait_running(requested, 0.2)
    assert late.value.reason == "restore_failed"


@pytest.mark.parametrize(
    ("how", "words"),
    [("fallback", "falling back to a cold start"), ("failed", "incompatible FeatureSet")],
)
def test_a_cold_start_is_never_called_a_restore(
    pauses: Pauses, platform: Platform, how: str, words: str
) -> None:
    platform.nodes.restores = how
    pauses.wait_paused(pauses.request(), 20)
    running = pauses.wait_running(pauses.request_resume(), 20)
    assert running.provenance == "fresh"
    assert words in running.message


def test_a_silent_cold_start_has_no_provenance_of_a_restore(
    pauses: Pauses, platform: Platform
) -> None:
    platform.nodes.restores = "cold"
    pauses.wait_paused(pauses.request(), 20)
    running = pauses.wait_running(pauses.request_resume(), 20)
    assert running.provenance is None
    assert "not said yet" in running.message


def test_a_snapshot_that_was_deleted_meanwhile_is_told_before_the_resume(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    paused = pauses.wait_paused(pauses.request(), 20)
    assert paused.snapshot is not None
    where = "apis/podsnapshot.gke.io/v1/namespaces/default/podsnapshots"
    platform.admin.delete(where, paused.snapshot.name)
    found = observer.wait(lambda _, state: state.reason == "snapshot_failed", 20)
    assert found is not None
    assert found.state == "paused"
    assert "is gone" in found.message


def test_a_wedged_finalizer_does_not_hide_that_the_workspace_runs(
    pauses: Pauses, platform: Platform
) -> None:
    platform.gke.wedged = True
    pauses.wait_paused(pauses.request(), 20)
    assert pauses.wait_running(pauses.request_resume(), 20).provenance == "restored"
    platform.gke.wedged = False
    platform.poke()


def test_the_server_may_be_away_in_the_middle(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform, fake: FakeCluster
) -> None:
    platform.gke.outcome = "hang"
    requested = pauses.request()
    wait_for(observer, "pausing")
    fake.stop()
    with pytest.raises(GkewsError) as away:
        pauses.wait_paused(requested, 1.0)
    assert away.value.reason == "cluster_unreachable"
    assert "not called off" in away.value.hint
    platform.gke.outcome = "ok"
    fake.start()
    platform.poke()
    assert pauses.wait_paused(requested, 30).state == "paused"


def test_somebody_who_resumes_at_once_ends_the_wait_and_is_no_calling_off(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    requested = pauses.request()
    observer.stop()  # as in the pod itself: frozen here, and woken in the next one
    platform_state(platform, "Paused")
    platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": False}})
    platform_state(platform, "Running")
    state = pauses.wait_paused(requested, 0.2)
    assert state.state in ("running", "resuming")
    assert state.pod == platform.pod()["metadata"]["name"]


def platform_state(platform: Platform, wanted: str) -> None:
    """Wait, as somebody else, for a word of the controller."""
    events = platform.admin.watch(platform.workspaces, timeoutSeconds=20)
    states = (event["object"].get("status", {}).get("state") for event in events)
    assert wanted in states, platform.get()
    events.close()


def test_a_workspace_that_is_deleted_meanwhile_ends_the_wait(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    requested = pauses.request()
    wait_for(observer, "pausing")
    platform.admin.delete(platform.workspaces, "ws")
    with pytest.raises(GkewsError, match="was deleted") as gone:
        pauses.wait_paused(requested, 20)
    assert gone.value.reason == "no_workspace"
    with pytest.raises(GkewsError, match="There is no workspace default/ws") as gone:
        pauses.request()


def test_the_deadline_grows_with_what_is_resident() -> None:
    assert deadline_s(None) == 180
    assert deadline_s(2**30) == 180
    assert deadline_s(20 * 2**30) == 460
    assert deadline_s(500 * 2**30) == 1200


def test_the_snapshot_of_an_earlier_pause_does_not_count_for_this_one(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    platform.addon.awake = False
    platform.nodes.lets_go = False
    earlier = {"metadata": {"annotations": {LAST: "of-an-earlier-pause"}}}
    found = platform.admin.merge(platform.workspaces, "ws", earlier)
    assert observer.catch_up(found["metadata"]["resourceVersion"], 20)
    with pytest.raises(GkewsError, match="did not act on the request") as failed:
        pauses.request()
    assert failed.value.reason == "snapshot_failed"
    assert platform.get()["spec"]["paused"] is False
    platform.nodes.lets_go = True
    platform.poke()


def test_a_resume_that_is_not_seen_is_not_taken_for_another_pause(
    pauses: Pauses, platform: Platform, fake: FakeCluster
) -> None:
    pauses.wait_paused(pauses.request(), 20)
    watches = fake.faults.add("black_hole", path=r"/workspaces\?.*watch=")
    fake.cut_connections()
    requested = pauses.request_resume()
    with pytest.raises(GkewsError, match="was not seen after") as unseen:
        pauses.wait_running(requested, 1.0)
    assert unseen.value.reason == "cluster_unreachable"
    fake.faults.lift(watches)
    assert pauses.wait_running(requested, 20).state == "running"


def test_where_no_snapshot_runs_calling_off_says_how_things_are(
    pauses: Pauses, observer: WorkspaceObserver, platform: Platform
) -> None:
    done = pauses.abort(20)
    assert done.how == "nothing"
    assert done.message.startswith("No pause runs: The workspace runs")
    pauses.wait_paused(pauses.request(), 20)
    with pytest.raises(GkewsError, match="Paused for") as late:
        pauses.abort(20)
    assert late.value.reason == "not_cancellable"
    platform.nodes.capacity = False
    requested = pauses.request_resume()
    wait_for(observer, "resuming", "waiting_for_capacity")
    with pytest.raises(GkewsError, match="Waiting for") as late:
        pauses.abort(20)
    assert late.value.reason == "not_cancellable"
    platform.nodes.capacity = True
    platform.poke()
    pauses.wait_running(requested, 20)


def test_pod_snapshots_in_an_older_version_alone_are_none(
    pauses: Pauses, platform: Platform
) -> None:
    for file in sorted(CRDS.glob("*.yaml")):
        for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if definition["spec"]["group"] == SNAPSHOT_GROUP:
                platform.admin.delete(DEFINITIONS, definition["metadata"]["name"])
                definition["spec"]["versions"][0]["name"] = "v1alpha1"
                platform.admin.create(DEFINITIONS, definition)
    found = {one.id: one for one in pauses.preflight()}["snapshot_api"]
    assert found.passed is False
    assert found.costs == "memory"
    for actor in (platform.addon, platform.gke, platform.nodes):
        actor.faults.clear()  # what they follow is gone with it
