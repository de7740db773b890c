"""A pod without Workspaces, when others delete, change or hide what its pause or resume needs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.podsnapshot.attempts import attempt
from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.policies import our_policy
from jupyter_gkews.engines.podsnapshot.requesting import Requests
from jupyter_gkews.engines.podsnapshot.targets import Target
from jupyter_gkews.engines.podsnapshot.words import PAUSED
from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .actors.nodes import PS_NAME
from .clusters import admin_of, in_pod
from .conftest import QUICK, Follow
from .fake import FakeCluster
from .roles import bind_podsnapshot

Json = dict[str, Any]
TRIGGER = "podsnapshotmanualtriggers"


# -- a bare pod that is to be replaced -----------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "method", "path"),
    [
        (None, "", ""),
        ("reset_after", "DELETE", "/pods/lab"),
        ("reset_after", "POST", "/pods$"),
        ("reset", "POST", "/pods$"),
    ],
)
def test_a_bare_pod_whose_trigger_is_gone_is_replaced_by_one_like_it(
    fault: str | None, method: str, path: str, running_pod: Follow, self_managed: SelfManaged,
    fake: FakeCluster,
) -> None:  # fmt: skip
    env = [{"name": "GREETING", "value": "안녕"}]
    containers = [{"name": "lab", "image": "jupyterlab:1", "env": env}]
    pauses = running_pod("Pod", containers=containers, sign_s=0.5)
    paused = pauses.wait_paused(pauses.request(), 20)
    assert paused.snapshot is not None
    self_managed.nodes.restores = "cold"
    pauses.request_resume()
    assert pauses.wait_running(20, accept_fresh=True).provenance == "fresh"
    [before] = self_managed.pods()
    [trigger] = self_managed.triggers()
    self_managed.admin.delete(self_managed.path(TRIGGER), trigger["metadata"]["name"])
    assert pauses.observer.wait(lambda seen, _: seen.kept is None, 20)
    self_managed.nodes.restores = "restored"
    if fault is not None:
        fake.faults.add(fault, method=method, path=path, times=1)
    assert pauses.request_resume(again=True) == "begun"
    assert pauses.wait_running(20).provenance == "restored"
    [after] = self_managed.pods()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["annotations"][PS_NAME] == paused.snapshot.name
    assert after["spec"]["containers"][0]["env"] == env


# -- a policy of the name of ours ----------------------------------------------------------------


@pytest.mark.parametrize("fits", [True, False])
def test_who_has_the_roles_and_meets_a_policy_of_the_same_name_uses_it_if_it_fits(
    fits: bool, fake: FakeCluster, self_managed: SelfManaged, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    admin = admin_of(fake)
    bind_podsnapshot(admin, "default", "who")
    client = Asked(in_pod(fake, tmp_path / "who", admin.account("default", "who")))
    self_managed.create("Deployment")
    target = Target("default", "Deployment", "lab")
    requests = Requests(TargetObserver(client, target))
    pod_seen = TargetObserver(client, target).start()
    assert pod_seen.wait(lambda _, state: state.state == "running", 20)
    seen = requests.look()
    pod_seen.stop(10.0)
    # another asks at the same time: it is made after we have looked
    theirs = our_policy(target, seen.pod or {}, seen.owner, "buckets", "7d")
    if not fits:
        theirs["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    self_managed.admin.create(self_managed.path("podsnapshotpolicies"), theirs)
    looks = iter([seen])
    after = requests.look
    monkeypatch.setattr(requests, "look", lambda: next(looks, None) or after())
    if fits:
        assert requests.request().how == "begun"
    else:
        with pytest.raises(GkewsError, match="does not select this pod") as refused:
            requests.request()
        assert refused.value.reason == "snapshot_unavailable"
        assert self_managed.triggers() == []
    client.close()


# -- what is deleted, or may not be seen, while it is waited for ---------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_a_resume_whose_target_is_deleted_ends(
    kind: str, paused_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = paused_pod(kind)
    self_managed.nodes.starts = False
    pauses.request_resume()

    told: list[Any] = []
    deleting = threading.Thread(
        target=lambda: (
            pauses.observer.wait(lambda seen, _: bool(seen.pods and told), 60),
            self_managed.admin.delete(self_managed.path(kind), "lab"),
        )
    )
    deleting.start()
    with pytest.raises(GkewsError) as over:
        pauses.wait_running(1800, told.append)
    deleting.join()
    assert over.value.reason == ("no_workspace" if kind == "Deployment" else "cancelled")


@pytest.mark.parametrize("code", [403, 404])
def test_after_a_restore_the_notes_of_the_pause_go_although_a_trigger_stays(
    code: int, paused_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    pauses = paused_pod("Deployment")
    refused = fake.faults.refuse(code, "Refused", "no", method="DELETE", path=TRIGGER)
    pauses.request_resume()
    assert pauses.wait_running(20).provenance == "restored"
    assert refused.met == 1
    owner = self_managed.get("Deployment")
    assert not set(PAUSED) & set(owner["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("kind", "path"),
    [("Deployment", r"deployments\?"), ("Deployment", r"/pods\?"), ("Pod", r"/pods\?")],
)
def test_what_may_not_be_watched_is_not_told_as_missing(
    kind: str, path: str, asked: Asked, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    self_managed.create(kind)
    watches = sum(len(actor.follows) for actor in self_managed._actors)  # those are let through
    wait_until(
        lambda: len([one for _, _, one in fake.requests if "watch=true" in one]) >= watches,
        "all parties of the cluster follow it",
    )
    refused = fake.faults.refuse(403, "Forbidden", "may not", method="GET", path=path)
    observer = TargetObserver(asked, Target("default", kind, "lab"), pace=QUICK).start()
    assert observer.wait_until_seen(20)
    state = observer.state()
    assert (state.state, state.reason) == ("unknown", "forbidden")
    assert "may not be read" in state.message
    assert observer.trouble is not None
    fake.faults.lift(refused)
    assert observer.wait(lambda _, now: now.state == "running", 20)
    observer.stop(10.0)


# -- when the cluster does not answer after something was done -----------------------------------


def test_a_pause_is_told_as_called_off_also_if_the_cluster_is_away_after_that(
    running_pod: Follow, self_managed: SelfManaged, fake: FakeCluster
) -> None:
    self_managed.gke.outcome = "hang"
    pauses = running_pod("Deployment")
    requested = pauses.request()
    away = fake.faults.add("reset", method="GET", path=f"{TRIGGER}/{requested.trigger}")
    done = pauses.abort()
    fake.faults.lift(away)
    assert away.met
    assert done.how == "aborted"
    assert "whether the cluster let go of the request is not known" in done.message
    assert "runs on" in done.message


def test_a_name_that_is_taken_and_cannot_be_read_is_an_error_that_is_told(
    running_pod: Follow, fake: FakeCluster
) -> None:
    pauses = running_pod("Deployment")
    taken = fake.faults.refuse(409, "AlreadyExists", "it is there", method="POST", path=TRIGGER)
    fake.faults.add("reset", method="GET", path=f"{TRIGGER}/gkews-")
    with pytest.raises(GkewsError) as away:
        pauses.request()
    assert taken.met == 1
    assert away.value.reason == "cluster_unreachable"


# -- a snapshot that somebody has deleted --------------------------------------------------------


@pytest.mark.parametrize("ours", [True, False])
def test_a_request_whose_snapshot_was_deleted_does_not_keep_a_pod_from_being_paused(
    ours: bool, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    [pod] = self_managed.pods()
    if ours:
        pauses.request()  # and its process was killed
    else:
        policy = our_policy(pauses.target, pod, None, "buckets", "7d")
        self_managed.admin.create(self_managed.path("podsnapshotpolicies"), policy)
        self_managed.admin.create(
            self_managed.path(TRIGGER),
            {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshotManualTrigger",
             "metadata": {"name": "theirs"}, "spec": {"targetPod": pod["metadata"]["name"]}},
        )  # fmt: skip
    assert pauses.observer.wait(
        lambda seen, _: any(attempt(one, seen.snapshots).whole for one in seen.triggers), 20
    )
    [snapshot] = self_managed.snapshots()
    self_managed.admin.delete(self_managed.path("podsnapshots"), snapshot["metadata"]["name"])
    assert pauses.observer.wait(lambda seen, _: not seen.snapshots, 20)
    requested = pauses.request()
    assert requested.how == "begun"
    paused = pauses.wait_paused(requested, 20)
    assert paused.snapshot is not None
    assert paused.snapshot.name != snapshot["metadata"]["name"]
    assert pod["metadata"]["uid"] not in {one["metadata"]["uid"] for one in self_managed.pods()}
