"""What is seen of a workspace becomes a state with a true sentence; the unknown is not said."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jupyter_gkews.engines.workspaces.access import NEEDS
from jupyter_gkews.engines.workspaces.preflight import (
    Facts,
    check,
    costs_memory,
    quantity,
    refuses,
)
from jupyter_gkews.engines.workspaces.seen import Seen, gpu_name, interval, moment
from jupyter_gkews.engines.workspaces.state import age, read

from .actors.addon import ENABLED, GATE, LAST, STARTED, STATE

Json = dict[str, Any]
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workspace(*, paused: bool = False, state: str = "Running", **annotations: str) -> Json:
    return {
        "metadata": {"name": "ws", "annotations": annotations},
        "spec": {"kind": "jupyterlab", "paused": paused},
        "status": {"state": state, "pauseTime": int((NOW - timedelta(hours=2)).timestamp() * 1000)},
    }


def condition(
    kind: str, status: str = "True", reason: str = "", message: str = "", **at: float
) -> Json:
    made = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**made, "lastTransitionTime": ago(**(at or {"minutes": 3}))}


def started(**at: float) -> list[Json]:
    return [{"name": "main", "state": {"running": {"startedAt": ago(**at)}}}]


def pod(*conditions: Json, phase: str = "Running", **more: Any) -> Json:
    selector = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    spec = {
        "nodeName": "node-a",
        "nodeSelector": selector,
        "runtimeClassName": "gvisor",
        "readinessGates": [{"conditionType": GATE}],
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "40Gi"}}}
        ],
    }
    spec |= more.pop("spec", {})
    metadata = {"name": "ws-0", "uid": "u", **more.pop("metadata", {})}
    status = {"phase": phase, "conditions": list(conditions), **more}
    return {"metadata": metadata, "spec": spec, "status": status}


READY = condition("Ready")
NO_ROOM = condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")


def event(reason: str, message: str, kind: str = "Normal", uid: str = "u", **at: float) -> Json:
    return {
        "reason": reason, "message": message, "type": kind,
        "involvedObject": {"uid": uid}, "lastTimestamp": ago(**(at or {"minutes": 1})),
    }  # fmt: skip


def test_a_ready_pod_runs() -> None:
    state = read(Seen(workspace(), pod(READY)), NOW)
    assert (state.state, state.phase, state.provenance) == ("running", None, None)
    assert state.message == "The workspace runs for 3 min."
    assert (state.pod, state.node) == ("ws-0", "node-a")


def test_checkpointing_is_pausing_though_the_controller_knows_nothing_of_it() -> None:
    annotations = {STATE: "Checkpointing", STARTED: ago(seconds=40)}
    seen = Seen(workspace(state="Unknown", **annotations), pod(condition("Ready", "False")))
    state = read(seen, NOW)
    assert (state.state, state.phase) == ("pausing", "snapshotting")
    assert "40 s" in state.message
    assert "may be closed" in state.hint


@pytest.mark.parametrize("reason", ["Failed", "Error"])
def test_a_trigger_that_failed_is_told_in_its_own_words(reason: str) -> None:
    trigger = {"status": {"conditions": [condition("Triggered", "False", reason, "GCS said 403")]}}
    annotations = {STATE: "Checkpointing", STARTED: ago(seconds=40)}
    state = read(Seen(workspace(state="Unknown", **annotations), pod(), trigger), NOW)
    assert (state.state, state.reason) == ("pausing", "snapshot_failed")
    assert "GCS said 403" in state.message


@pytest.mark.parametrize("created", ["snap", {"name": "snap"}])
def test_the_snapshot_of_a_trigger_is_found_in_both_its_shapes(created: object) -> None:
    trigger = {"status": {"snapshotCreated": created}}
    snapshot = {"metadata": {"name": "snap"}, "status": {"conditions": [condition("Ready")]}}
    annotations = {STATE: "Checkpointing", STARTED: ago(seconds=40)}
    state = read(Seen(workspace(**annotations), pod(), trigger, [snapshot]), NOW)
    assert state.phase == "releasing"
    assert state.snapshot is not None
    assert (state.snapshot.name, state.snapshot.ready) == ("snap", True)


def test_paused_says_since_when_and_how_long_the_snapshot_is_kept() -> None:
    snapshot = {
        "metadata": {"name": "snap", "creationTimestamp": ago(hours=2)},
        "status": {"conditions": [condition("Ready")], "lastAccessTime": ago(hours=1)},
    }
    policy = {"spec": {"retentionConfig": {"lastAccessTimeout": "7d"}}}
    found = workspace(paused=True, state="Paused", **{STATE: "Ready", LAST: "snap"})
    state = read(Seen(found, snapshots=[snapshot], policy=policy), NOW)
    assert state.state == "paused"
    assert "Paused for 2 h" in state.message
    assert "kept until 2026-12-07" in state.hint
    assert state.snapshot is not None
    assert state.snapshot.keeps_until == "2026-12-07T11:00:00Z"


def test_paused_without_a_snapshot_never_promises_the_same_processes() -> None:
    state = read(Seen(workspace(paused=True, state="Paused")), NOW)
    assert state.stateless
    assert "same processes" not in state.hint
    assert "checkpoints" in state.hint


def test_a_snapshot_that_may_not_be_read_is_not_said_to_be_gone() -> None:
    found = workspace(paused=True, state="Paused", **{STATE: "Ready", LAST: "snap"})
    state = read(Seen(found, hidden=frozenset({"snapshots"})), NOW)
    assert state.reason is None
    assert state.snapshot is not None
    assert state.snapshot.ready is None


def test_an_unschedulable_pod_waits_though_the_controller_says_error() -> None:
    seen = Seen(
        workspace(state="Error", **{STATE: "Restoring", LAST: "s"}),
        pod(NO_ROOM, phase="Pending", spec={"nodeName": None}),
        events=[event("TriggeredScaleUp", "pool-t4 0->1", minutes=2)],
    )
    state = read(seen, NOW)
    assert (state.state, state.phase, state.reason) == ("resuming", "waiting_for_capacity", None)
    assert state.message.startswith("Waiting for a T4 since 3 min: no node yet, one is being added")


def test_events_of_an_earlier_pod_of_the_same_name_do_not_count() -> None:
    seen = Seen(
        workspace(state="Error"),
        pod(NO_ROOM, phase="Pending"),
        events=[event("FailedScaleUp", "quota", uid="earlier")],
    )
    assert "quota" not in read(seen, NOW).message


def test_the_newest_word_of_the_autoscaler_counts() -> None:
    events = [
        event("FailedScaleUp", "quota exceeded", "Warning", minutes=5),
        event("TriggeredScaleUp", "pool 0->1", minutes=1),
    ]
    seen = Seen(workspace(state="Error"), pod(NO_ROOM, phase="Pending"), events=events)
    assert "being added" in read(seen, NOW).message
    seen.events = [event("TriggeredScaleUp", "pool 0->1", minutes=9), events[0]]
    assert "quota exceeded" in read(seen, NOW).message


def test_nobody_adding_a_node_for_long_is_told() -> None:
    long = condition("PodScheduled", "False", "Unschedulable", "no room", minutes=25)
    hint = read(Seen(workspace(state="Error"), pod(long, phase="Pending")), NOW).hint
    assert "Nobody adds a node" in hint


def test_a_container_that_cannot_start_is_told() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    found = pod(phase="Pending", containerStatuses=[{"name": "main", "state": waiting}])
    state = read(Seen(workspace(state="Error"), found), NOW)
    assert state.reason == "restore_failed"
    assert "ImagePullBackOff: no such image" in state.message


def test_restored_and_cold_are_told_apart() -> None:
    wanted = {"annotations": {"podsnapshot.gke.io/ps-name": "snap"}}
    restored = pod(READY, condition("PodRestored"), metadata=wanted)
    assert read(Seen(workspace(), restored), NOW).provenance == "restored"
    failed = pod(READY, condition("PodRestored", "False", "X", "other GPU"), metadata=wanted)
    cold = read(Seen(workspace(), failed), NOW)
    assert (cold.provenance, "other GPU" in cold.message) == ("fresh", True)
    silent = pod(READY, metadata=wanted)
    assert read(Seen(workspace(), silent), NOW).provenance == "fresh"
    new = pod(condition("Ready", seconds=5), metadata=wanted)
    assert read(Seen(workspace(), new), NOW).provenance is None


def test_a_ready_pod_that_is_still_being_restored_is_verified_first() -> None:
    found = workspace(**{STATE: "Restoring", LAST: "snap"})
    state = read(Seen(found, pod(READY)), NOW)
    assert (state.state, state.phase) == ("resuming", "verifying")


def test_nothing_there_and_nothing_allowed_are_two_things() -> None:
    assert read(Seen(), NOW).reason == "no_workspace"
    assert read(Seen(hidden=frozenset({"see"})), NOW).reason == "forbidden"


def test_sizes_times_and_names_are_read() -> None:
    assert [quantity(text) for text in ("40Gi", "512M", "1.5G", "1e9", "7", "x", "")] == [
        40 * 2**30, 512 * 10**6, 1_500_000_000, 10**9, 7, None, None,
    ]  # fmt: skip
    assert interval("7d") == timedelta(days=7)
    assert interval("30min") == timedelta(minutes=30)
    assert interval("7 days") is None
    assert moment("nonsense") is None
    assert gpu_name("nvidia-h100-80gb") == "H100 80GB"
    assert [age(s) for s in (5, 65, 3600, 7500, 200000)] == [
        "5 s",
        "1 min",
        "1 h",
        "2 h 5 min",
        "2 d",
    ]


# -- preflight -------------------------------------------------------------------------------


def good() -> Seen:
    return Seen(workspace(**{ENABLED: "true"}), pod(READY))


def failed(seen: Seen, facts: Facts | None = None) -> list[str]:
    facts = facts or Facts(snapshot_api=True)
    return [one.id for one in check(seen, (), facts) if one.passed is False]


def test_a_prepared_workspace_passes_and_says_what_it_cannot_know() -> None:
    checks = check(good(), (), Facts(snapshot_api=True))
    assert failed(good()) == []
    assert {one.id for one in checks if one.passed is None} == {"machine", "vram"}
    assert all(one.message.endswith(".") for one in checks)


def test_each_thing_that_stands_in_the_way_is_found_alone() -> None:
    cases: dict[str, Seen] = {}
    cases["enabled"] = Seen(workspace(), pod(READY), kind={"metadata": {}})
    cases["gvisor"] = Seen(good().workspace, pod(READY, spec={"runtimeClassName": "runc"}))
    cases["prepared"] = Seen(good().workspace, pod(READY, spec={"readinessGates": []}))
    tpu = [{"name": "main", "resources": {"limits": {"google.com/tpu": "4"}}}]
    cases["tpu"] = Seen(good().workspace, pod(READY, spec={"containers": tpu}))
    cases["runs"] = Seen(good().workspace, pod(phase="Pending"))
    part = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    cases["whole_gpu"] = Seen(good().workspace, pod(READY, spec={"nodeSelector": part}))
    two = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 2}}}]
    cases["gpus"] = Seen(good().workspace, pod(READY, spec={"containers": two}))
    machine = {"node.kubernetes.io/instance-type": "e2-standard-4"}
    cases["machine"] = Seen(good().workspace, pod(READY, spec={"nodeSelector": machine}))
    pending = workspace(**{ENABLED: "true"})
    pending["status"]["pendingRestart"] = True
    cases["pending_restart"] = Seen(pending, pod(READY))
    for expected, seen in cases.items():
        assert failed(seen) == [expected]


def test_several_l4_are_fine() -> None:
    two = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 2}}}]
    selector = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    spec = {"containers": two, "nodeSelector": selector}
    assert failed(Seen(good().workspace, pod(READY, spec=spec))) == []


def test_memory_must_have_room_for_that_of_the_gpu() -> None:
    facts = Facts(True, vram=30 * 2**30, resident=20 * 2**30)
    assert failed(good(), facts) == ["vram"]
    assert failed(good(), Facts(True, vram=6 * 2**30, resident=20 * 2**30)) == []


def test_a_kind_may_turn_snapshots_on_and_a_workspace_off() -> None:
    kind = {"metadata": {"annotations": {ENABLED: "true"}}}
    assert failed(Seen(workspace(), pod(READY), kind=kind)) == []
    assert failed(Seen(workspace(**{ENABLED: "false"}), pod(READY), kind=kind)) == ["enabled"]
    hidden = frozenset({"kinds"})
    assert failed(Seen(workspace(), pod(READY), hidden=hidden)) == []


def test_what_fails_is_sorted_by_what_it_costs() -> None:
    pause = next(need for need in NEEDS if need.id == "pause")
    bad = Seen(workspace(**{ENABLED: "false"}), pod(READY))
    assert bad.workspace is not None
    bad.workspace["status"]["pendingRestart"] = True
    checks = check(bad, [pause], Facts(snapshot_api=False))
    assert [one.id for one in refuses(checks)] == ["right"]
    assert [one.id for one in costs_memory(checks)] == ["enabled", "snapshot_api"]
    assert [one.id for one in checks if one.passed is False and one.costs == "risk"] == [
        "pending_restart"
    ]


def test_without_the_right_to_read_pods_nothing_of_the_pod_is_claimed() -> None:
    seen = Seen(workspace(**{ENABLED: "true"}), hidden=frozenset({"pods"}))
    of_pod = {"tpu", "runs", "gvisor", "prepared", "whole_gpu", "gpus"}
    checks = {one.id: one for one in check(seen, (), Facts(True))}
    assert all(checks[id_].passed is None for id_ in of_pod)


def test_a_pod_whose_probe_fails_runs_and_is_not_on_its_way_up() -> None:
    fails = [condition(kind, "False", minutes=2) for kind in ("Ready", "ContainersReady")]
    state = read(Seen(workspace(), pod(*fails, containerStatuses=started(hours=3))), NOW)
    assert state.state == "running"
    assert "runs. Its server does not say that it is ready (for 2 min)." in state.message
    # before it was ever ready, the condition is older than its container
    rising = [condition(kind, "False", minutes=2) for kind in ("Ready", "ContainersReady")]
    for statuses in (started(minutes=1), [{"name": "main", "state": {"waiting": {}}}], []):
        state = read(Seen(workspace(), pod(*rising, containerStatuses=statuses)), NOW)
        assert (state.state, state.phase) == ("resuming", "restoring")
