"""A pause of a pod without Workspaces that is refused, and the rights that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from live_server import wait_until

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.resuming import Resumes
from jupyter_gkews.engines.podsnapshot.rights import NEEDS
from jupyter_gkews.engines.podsnapshot.targets import Target, find_target, parse_target
from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .clusters import admin_of, in_pod
from .conftest import QUICK, Follow
from .fake import FakeCluster
from .roles import PODSNAPSHOT, bind_podsnapshot

Json = dict[str, Any]


# -- what keeps a pause from being asked for -----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("Deployment", {"replicas": 2}, "has 2 pods; only a single one can be paused"),
        ("Deployment", {"paused": True}, "rollout of .* is paused"),
        ("StatefulSet", {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "partition": 1}}}, "rollout of .* is paused"),
        ("StatefulSet", {"volumeClaimTemplates": [{"metadata": {"name": "home"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}},
         "deletes its volumes when it is scaled down"),
        ("Pod", {"volumes": [{"name": "scratch", "ephemeral": {}}]}, "is deleted with the pod"),
        ("Pod", {"runtimeClassName": None}, "does not run in gVisor"),
        ("Pod", {"containers": [{"name": "lab", "image": "i", "resources": {"limits": {
            "google.com/tpu": "4"}}}]}, "with a TPU cannot be snapshotted"),
    ],
)  # fmt: skip
def test_what_cannot_be_paused_is_refused_before_anything_is_asked_for(
    kind: str, spec: Json, said: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod(kind, **spec)
    with pytest.raises(GkewsError, match=said) as refused:
        pauses.request()
    assert refused.value.reason == "snapshot_unavailable"
    assert self_managed.triggers() == []
    assert self_managed.admin.list(self_managed.path("podsnapshotpolicies")) == []


def test_a_second_pod_that_is_on_its_way_up_is_no_reason_to_wait(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    self_managed.nodes.starts = False
    self_managed.admin.merge(self_managed.path("Deployment"), "lab", {"spec": {"replicas": 2}})
    rising = pauses.observer.wait(lambda _, state: state.state == "resuming", 20)
    assert rising is not None, pauses.observer.state()
    with pytest.raises(GkewsError, match="has 2 pods; only a single one") as refused:
        pauses.request()
    assert refused.value.reason == "snapshot_unavailable"


def test_a_stateful_set_whose_image_was_changed_but_not_rolled_out_is_not_paused(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("StatefulSet", updateStrategy={"type": "OnDelete"})
    change = {"containers": [{"name": "lab", "image": "jupyterlab:2"}]}
    template = {"spec": {"template": {"spec": change}}}
    self_managed.admin.merge(self_managed.path("StatefulSet"), "lab", template)
    revision = self_managed.pods()[0]["metadata"]["labels"]["controller-revision-hash"]
    wait_until(
        lambda: self_managed.get("StatefulSet")["status"]["updateRevision"] != revision,
        "the change is seen",
    )
    with pytest.raises(GkewsError, match="was changed since its pod started") as refused:
        pauses.request()
    assert "jupyterlab:1 and is jupyterlab:2" in refused.value.message


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"triggerConfig": {"type": "manual", "postCheckpoint": "stop"}}, "stops the pod as soon"),
        ({"triggerConfig": {"type": "workload"}}, "for snapshots of type workload"),
        ({"triggerConfig": {"type": "manual"}, "snapshotScope": "rootfs-only"}, "keeps only files"),
    ],
)
def test_a_policy_that_will_not_do_is_told(
    spec: Json, said: str, running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    _policy(self_managed, **spec)
    with pytest.raises(GkewsError, match=said) as refused:
        pauses.request()
    assert refused.value.reason == "snapshot_unavailable"
    assert self_managed.triggers() == []


def test_a_policy_that_keeps_only_some_of_a_group_is_a_risk_that_is_told(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    rules = {"labels": ["team"], "groupRetentionPolicy": {"maxSnapshotCountPerGroup": 1}}
    _policy(self_managed, triggerConfig={"type": "manual"},
            snapshotGroupingRules={"groupByLabelValue": rules})  # fmt: skip
    told: list[str] = []
    pauses.request(lambda checks: told.extend(one.message for one in checks if not one.passed))
    assert any("keeps only 1 snapshots of all pods with the same team" in one for one in told)


def test_the_policy_that_there_is_is_used_and_none_made(
    running_pod: Follow, self_managed: SelfManaged
) -> None:
    pauses = running_pod("Deployment")
    _policy(self_managed, triggerConfig={"type": "manual"},
            retentionConfig={"lastAccessTimeout": "30d"})  # fmt: skip
    paused = pauses.wait_paused(pauses.request(), 20)
    [policy] = self_managed.admin.list(self_managed.path("podsnapshotpolicies"))
    assert policy["metadata"]["name"] == "theirs"
    assert paused.snapshot is not None
    assert paused.snapshot.created is not None
    assert paused.snapshot.keeps_until is not None
    assert paused.snapshot.keeps_until > paused.snapshot.created


def test_several_storage_configs_have_to_be_chosen_from(
    follow: Follow, self_managed: SelfManaged
) -> None:
    spec = {"snapshotStorageConfig": {"gcs": {"bucket": "other"}}}
    self_managed.admin.create(
        "apis/podsnapshot.gke.io/v1/podsnapshotstorageconfigs",
        {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshotStorageConfig",
         "metadata": {"name": "other"}, "spec": spec},
    )  # fmt: skip
    self_managed.create("Deployment")
    with pytest.raises(GkewsError, match="--storage-config one of buckets, other"):
        follow().request()
    with pytest.raises(GkewsError, match="no PodSnapshotStorageConfig nope that is ready") as no:
        follow(storage="nope").request()
    assert "(buckets, other)" in no.value.message
    chosen = follow(storage="other", keep="12h")
    assert chosen.wait_paused(chosen.request(), 20).state == "paused"
    [policy] = self_managed.admin.list(self_managed.path("podsnapshotpolicies"))
    assert policy["spec"]["storageConfigName"] == "other"
    assert policy["spec"]["retentionConfig"] == {"lastAccessTimeout": "12h"}
    assert policy["spec"]["triggerConfig"] == {"type": "manual", "postCheckpoint": "resume"}


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "train"}, "is kept by Job train"),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}, "is kept by DaemonSet d"),
    ],
)
def test_a_pod_that_something_else_makes_anew_is_refused(
    reference: Json, said: str, asked: Asked, self_managed: SelfManaged
) -> None:
    owners = [{**reference, "uid": "1", "controller": True}]
    pod = {"metadata": {"name": "p", "ownerReferences": owners}, "spec": self_managed.pod_spec}
    self_managed.admin.create(self_managed.path("Pod"), pod)
    with pytest.raises(GkewsError, match=said) as refused:
        find_target(asked, *parse_target("default/p"))
    assert refused.value.reason == "snapshot_unavailable"


def test_a_stateful_set_that_something_scales_back_is_refused(
    asked: Asked, self_managed: SelfManaged
) -> None:
    self_managed.create("StatefulSet")
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "nb", "uid": "1",
             "controller": True}  # fmt: skip
    reference = {"metadata": {"ownerReferences": [owner]}}
    self_managed.admin.merge(self_managed.path("StatefulSet"), "lab", reference)
    with pytest.raises(GkewsError, match="is kept by Notebook nb"):
        find_target(asked, *parse_target("default/lab"))


def test_a_pod_of_a_workspace_is_left_to_the_workspace(
    asked: Asked, self_managed: SelfManaged
) -> None:
    labels = {"notebooks.kubeflow.org/workspace-name": "ws"}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": self_managed.pod_spec}
    self_managed.admin.create(self_managed.path("Pod"), pod)
    with pytest.raises(GkewsError, match="belongs to the workspace ws") as refused:
        find_target(asked, *parse_target("default/p"))
    assert "workspace pause default/ws" in refused.value.hint


def test_names_as_long_as_kubernetes_allows_make_names_that_it_takes(
    follow: Follow, self_managed: SelfManaged
) -> None:
    name = "lab." + "a-b." * 50 + "end"
    self_managed.create("Pod", name=name)
    pauses = follow(f"default/{name}")
    requested = pauses.request()
    assert len(requested.trigger) <= 63  # it is the value of a label of its snapshot
    assert requested.trigger.replace("-", "a").isalnum()
    assert pauses.wait_paused(requested, 20).state == "paused"
    pauses.request_resume()
    assert pauses.wait_running(20).provenance == "restored"


def test_a_name_of_several_has_to_be_made_clear(asked: Asked, self_managed: SelfManaged) -> None:
    self_managed.create("StatefulSet")
    wait_until(lambda: len(self_managed.pods()) == 1, "its pod is made")
    self_managed.create("Deployment")
    with pytest.raises(GkewsError, match="the name of several") as refused:
        find_target(asked, *parse_target("default/lab"))
    assert "default/deployment/lab" in refused.value.hint
    assert find_target(asked, *parse_target("default/sts/lab")).kind == "StatefulSet"
    assert find_target(asked, *parse_target("default/pod/lab-0")).id == "StatefulSet/lab"


# -- rights --------------------------------------------------------------------------------------


def test_the_roles_have_the_verbs_that_are_needed_and_no_others() -> None:
    granted = {
        (verb, group, resource)
        for manifest in yaml.safe_load_all(PODSNAPSHOT.read_text(encoding="utf-8"))
        for rule in manifest["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    needed = {
        (verb, need.resource.group, need.resource.plural) for need in NEEDS for verb in need.verbs
    }
    assert granted == needed


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_with_the_roles_a_pod_is_paused_and_resumed(
    kind: str, fake: FakeCluster, self_managed: SelfManaged, tmp_path: Path
) -> None:
    admin = admin_of(fake)
    bind_podsnapshot(admin, "default", "who")
    client = Asked(in_pod(fake, tmp_path / "who", admin.account("default", "who")))
    self_managed.create(kind)
    observer = TargetObserver(client, Target("default", kind, "lab"), pace=QUICK).start()
    assert observer.wait(lambda _, state: state.state == "running", 20)
    resumes = Resumes(observer)
    assert resumes.wait_paused(resumes.request(), 20).snapshot is not None
    resumes.request_resume()
    assert resumes.wait_running(20).provenance == "restored"
    observer.stop()
    client.close()


def test_a_right_that_is_missing_is_told_before_anything_is_asked_for(
    fake: FakeCluster, self_managed: SelfManaged, tmp_path: Path
) -> None:
    admin = admin_of(fake)
    rules = [
        {"apiGroups": ["podsnapshot.gke.io"], "verbs": ["get", "list", "watch", "create"],
         "resources": ["podsnapshots", "podsnapshotmanualtriggers", "podsnapshotpolicies"]},
        {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"],
         "verbs": ["get", "list", "watch"]},
    ]  # fmt: skip
    admin.grant("default", "reader", rules)
    client = Asked(in_pod(fake, tmp_path / "reader", admin.account("default", "reader")))
    self_managed.create("Deployment")
    observer = TargetObserver(client, Target("default", "Deployment", "lab"), pace=QUICK).start()
    assert observer.wait(lambda _, state: state.state == "running", 20)
    with pytest.raises(GkewsError, match=r"patch deployments\.apps") as refused:
        Resumes(observer, storage="buckets").request()
    assert refused.value.reason == "forbidden"
    assert self_managed.triggers() == []
    observer.stop()
    client.close()


def _policy(played: SelfManaged, **spec: Any) -> None:
    body = {"storageConfigName": "buckets", "selector": {"matchLabels": {"app": "lab"}}, **spec}
    played.admin.create(
        played.path("podsnapshotpolicies"),
        {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshotPolicy",
         "metadata": {"name": "theirs"}, "spec": body},
    )  # fmt: skip
