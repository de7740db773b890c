"""What pausing a pod without Workspaces relies on, asked of the fake and of a real kube-apiserver
alike; and whole pauses on the real one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.cluster.problems import ClusterError
from jupyter_gkews.engines.cluster.words import (
    PODS,
    TRIGGERS,
    annotations_of,
    uid_of,
    version_of,
)
from jupyter_gkews.engines.podsnapshot.made_of import manifest_of
from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.policies import our_policy, selector_text
from jupyter_gkews.engines.podsnapshot.resuming import Resumes
from jupyter_gkews.engines.podsnapshot.rights import NEEDS, missing
from jupyter_gkews.engines.podsnapshot.targets import Target
from jupyter_gkews.engines.podsnapshot.words import DEPLOYMENTS
from jupyter_gkews.engines.workspaces.access import AccessReviews
from jupyter_gkews.errors import GkewsError

from .actors import SelfManaged
from .admin import Admin
from .clusters import Cluster, admin_of, in_pod
from .conftest import QUICK
from .real_server import RealCluster
from .roles import bind_podsnapshot
from .test_real_pause import NODE

Json = dict[str, Any]
SPEC = {"containers": [{"name": "lab", "image": "jupyterlab:1"}]}


@pytest.fixture
def client(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Asked]:
    """Our client as the cluster's admin."""
    found = Asked(in_pod(cluster, tmp_path / "account", cluster.admin_token, namespace))
    yield found
    found.close()


def deployment(**spec: Any) -> Json:
    labels = {"app": "lab"}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lab"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": SPEC}, **spec},
    }  # fmt: skip


def pod(name: str = "lab", **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": SPEC}  # fmt: skip


def placed(admin: Admin, namespace: str, name: str = "lab") -> None:
    """On a node: such a pod is gone only when its kubelet says so."""
    meta = {"name": name, "namespace": namespace}
    admin.ask(
        "POST", f"api/v1/namespaces/{namespace}/pods/{name}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": meta,
         "target": {"kind": "Node", "name": "node"}},
    )  # fmt: skip
    # The server judges a deletion by what its watch cache has: "0" asks that one.
    pods = f"api/v1/namespaces/{namespace}/pods"
    wait_until(
        lambda: any(
            one["metadata"]["name"] == name and one["spec"].get("nodeName")
            for one in admin.list(pods, resourceVersion="0")
        ),
        "the binding has reached the cache",
    )


def test_a_scale_and_a_template_are_changed_in_one_step_onto_one_version_alone(
    client: Asked, namespace: str
) -> None:
    made = client.create(DEPLOYMENTS, deployment(), namespace)
    change = {"replicas": 0, "template": {"metadata": {"annotations": {"a": "b"}}}}

    def onto(version: str) -> Json:
        meta = {"resourceVersion": version, "annotations": {"c": "d"}}
        return client.merge(
            DEPLOYMENTS, namespace, "lab", {"metadata": meta, "spec": change}
        )  # fmt: skip

    found = onto(version_of(made))
    assert found["spec"]["replicas"] == 0
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "jupyterlab:1"
    assert annotations_of(found["spec"]["template"]) == {"a": "b"}
    assert found["metadata"]["generation"] == made["metadata"]["generation"] + 1
    with pytest.raises(ClusterError) as stale:
        onto(version_of(made))
    assert stale.value.conflict
    gone = {"metadata": {"annotations": {"c": None}},
            "spec": {"template": {"metadata": {"annotations": {"a": None}}}}}  # fmt: skip
    found = client.merge(DEPLOYMENTS, namespace, "lab", gone)
    assert "c" not in annotations_of(found)
    assert not annotations_of(found["spec"]["template"])


def test_a_pod_is_deleted_by_its_uid_and_no_other_of_its_name(
    client: Asked, namespace: str
) -> None:
    made = client.create(PODS, pod(), namespace)
    with pytest.raises(ClusterError) as refused:
        client.delete(PODS, namespace, "lab", "00000000-0000-0000-0000-000000000000")
    assert refused.value.conflict
    assert client.find(PODS, namespace, "lab") is not None
    client.delete(PODS, namespace, "lab", uid_of(made))
    assert client.find(PODS, namespace, "lab") is None


def test_the_name_of_a_pod_is_taken_until_it_is_gone(
    client: Asked, admin: Admin, namespace: str
) -> None:
    made = client.create(PODS, pod(), namespace)
    placed(admin, namespace)
    client.delete(PODS, namespace, "lab", uid_of(made))
    with pytest.raises(ClusterError) as taken:
        client.create(PODS, pod(), namespace)
    assert taken.value.conflict
    admin.delete(f"api/v1/namespaces/{namespace}/pods", "lab", gracePeriodSeconds=0)
    assert uid_of(client.create(PODS, pod(), namespace)) != uid_of(made)


def test_the_manifest_of_a_pod_that_ran_makes_it_again(
    client: Asked, admin: Admin, namespace: str
) -> None:
    body = pod(app="lab")
    body["spec"] = {**SPEC, "volumes": [{"name": "scratch", "emptyDir": {}}],
                    "nodeSelector": {"disk": "fast"}}  # fmt: skip
    client.create(PODS, body, namespace)
    placed(admin, namespace)
    ran = client.get(PODS, namespace, "lab")
    admin.delete(f"api/v1/namespaces/{namespace}/pods", "lab", gracePeriodSeconds=0)
    again = client.create(PODS, manifest_of(ran), namespace)
    assert not again["spec"].get("nodeName")
    ran["spec"].pop("nodeName")
    assert again["spec"] == ran["spec"]
    assert again["metadata"]["labels"] == {"app": "lab"}


def test_a_trigger_of_one_name_is_made_once_and_deleted_by_its_uid(
    client: Asked, namespace: str
) -> None:
    about = {"name": "t", "annotations": {"jupyter-gkews/manifest": "x" * 100_000}}
    body = {"apiVersion": "podsnapshot.gke.io/v1", "kind": "PodSnapshotManualTrigger",
            "metadata": about, "spec": {"targetPod": "lab"}}  # fmt: skip
    made = client.create(TRIGGERS, body, namespace)
    with pytest.raises(ClusterError) as taken:
        client.create(TRIGGERS, body, namespace)
    assert (taken.value.conflict, taken.value.reason) == (True, "AlreadyExists")
    with pytest.raises(ClusterError) as refused:
        client.delete(TRIGGERS, namespace, "t", "00000000-0000-0000-0000-000000000000")
    assert refused.value.conflict
    client.delete(TRIGGERS, namespace, "t", uid_of(made))
    assert client.find(TRIGGERS, namespace, "t") is None


def test_a_selector_with_expressions_lists_what_it_selects(client: Asked, namespace: str) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "x"}), ("c", {})):
        client.create(PODS, pod(name, **labels), namespace)
    expressions = [{"key": "tier", "operator": "In", "values": ["1", "2"]},
                   {"key": "old", "operator": "DoesNotExist"}]  # fmt: skip
    selector = {"matchLabels": {"app": "x"}, "matchExpressions": expressions}
    found, _ = client.list(PODS, namespace, selector_text(selector))
    assert [one["metadata"]["name"] for one in found] == ["a"]


def test_the_policy_that_we_make_is_taken_by_the_cluster(admin: Admin, namespace: str) -> None:
    about = {"metadata": {"name": "p", "labels": {"app": "p"}}}
    policy = our_policy(Target(namespace, "Pod", "p"), about, None, "buckets", "7d")
    where = f"apis/podsnapshot.gke.io/v1/namespaces/{namespace}/podsnapshotpolicies"
    found = admin.create(where, policy)
    assert found["spec"] == policy["spec"]


def test_with_the_roles_nothing_is_missing(
    cluster: Cluster, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    bind_podsnapshot(admin, namespace, "who")
    asked = Asked(in_pod(cluster, tmp_path / "who", admin.account(namespace, "who"), namespace))
    access = AccessReviews(asked, namespace, "lab")
    wait_until(lambda: access.forget() or not missing(access, list(NEEDS)), "the rights are there")
    asked.close()


# -- whole pauses on the real one ----------------------------------------------------------------


@pytest.fixture
def played(real: RealCluster) -> Iterator[SelfManaged]:
    admin = admin_of(real)
    namespace = admin.namespace(f"p-{secrets.token_hex(4)}")
    if admin.find(NODE, "gvisor") is None:
        admin.create(NODE, {"metadata": {"name": "gvisor"}, "handler": "gvisor"})
    platform = SelfManaged(admin, namespace)
    yield platform.start()
    platform.stop()


@pytest.fixture
def follow_real(
    real: RealCluster, played: SelfManaged, tmp_path: Path
) -> Iterator[Callable[[str], Resumes]]:
    """As a service account with the roles of deploy/ and no others."""
    namespace = played.namespace
    bind_podsnapshot(played.admin, namespace, "who")
    token = played.admin.account(namespace, "who")
    client = Asked(in_pod(real, tmp_path / "who", token, namespace))
    observers: list[TargetObserver] = []

    def begin(kind: str) -> Resumes:
        target = Target(namespace, kind, "lab")
        observer = TargetObserver(client, target, pace=QUICK)
        wait_until(
            lambda: observer.access.forget() or not missing(observer.access, list(NEEDS)),
            "the rights are there",
        )
        observers.append(observer.start())
        running = observer.wait(lambda _, state: state.state == "running", 30)
        assert running is not None, observer.state()
        return Resumes(observer)

    yield begin
    for observer in observers:
        observer.stop()
    client.close()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_the_memory_of_a_pod_goes_through_a_snapshot(
    kind: str, follow_real: Callable[[str], Resumes], played: SelfManaged
) -> None:
    played.create(kind)
    pauses = follow_real(kind)
    paused = pauses.wait_paused(pauses.request(), 30)
    assert paused.snapshot is not None
    assert paused.snapshot.ready
    assert played.pods() == []
    assert pauses.request_resume() == "begun"
    running = pauses.wait_running(30)
    assert running.provenance == "restored"
    assert paused.snapshot.name in running.message


def test_a_snapshot_that_fails_leaves_the_pod_running(
    follow_real: Callable[[str], Resumes], played: SelfManaged
) -> None:
    played.gke.outcome = "failed"
    played.create("Pod")
    pauses = follow_real("Pod")
    with pytest.raises(GkewsError, match="Error 403: Forbidden") as failed:
        pauses.wait_paused(pauses.request(), 30)
    assert failed.value.hint == "The pod runs on, nothing was lost."
    assert len(played.pods()) == 1
