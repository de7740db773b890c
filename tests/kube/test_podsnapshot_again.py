"""A pod without Workspaces, when others delete, change or hide what its pause or resume needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.policies import our_policy
from jupyter_gkews.engines.podsnapshot.requesting import Requests
from jupyter_gkews.engines.podsnapshot.targets import Target
from jupyter_gkews.engines.workspaces.cluster import Cluster as Asked
from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .actors.nodes import PS_NAME
from .conftest import Follow, admin_of, in_pod
from .fake import FakeCluster
from .test_podsnapshot_faults import bind

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
    fault: str | None, method: str, path: str, follow: Follow, self_managed: SelfManaged,
    fake: FakeCluster,
) -> None:  # fmt: skip
    env = [{"name": "GREETING", "value": "안녕"}]
    containers = [{"name": "lab", "image": "jupyterlab:1", "env": env}]
    self_managed.create("Pod", containers=containers)
    pauses = follow(sign_s=0.5)
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
    bind(admin, "default", "who")
    client = Asked(in_pod(fake, tmp_path / "who", admin.account("default", "who")))
    self_managed.create("Deployment")
    target = Target("default", "Deployment", "lab")
    requests = Requests(TargetObserver(client, target))
    pod_seen = TargetObserver(client, target).start()
    assert pod_seen.wait(lambda _, state: state.state == "running", 20)
    seen = requests.look()
    pod_seen.stop()
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
