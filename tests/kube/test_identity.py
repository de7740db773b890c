"""A process finds out in which workspace it lives, and what it may do there."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.cluster.cluster import Cluster
from jupyter_gkews.engines.cluster.problems import ClusterError
from jupyter_gkews.engines.cluster.words import PODS, SNAPSHOTS, WORKSPACES
from jupyter_gkews.engines.pod_account import InPod
from jupyter_gkews.engines.workspaces.access import BELIEVED_S, NEEDS, AccessReviews, need
from jupyter_gkews.engines.workspaces.identity import find_identity, from_token
from jupyter_gkews.engines.workspaces.observing import no_such_workspace
from jupyter_gkews.errors import GkewsError

from .admin import Admin
from .clusters import Cluster as AnyCluster
from .clusters import admin_of, in_pod
from .fake import FakeCluster
from .objects import made, pod

LABEL = "notebooks.kubeflow.org/workspace-name"
#: What the pilot of GKE Workspaces grants today, as far as it matters here.
PILOT = [
    {"apiGroups": ["kubeflow.org"], "resources": ["workspaces", "workspaces/status"],
     "verbs": ["get", "list", "watch", "patch", "update"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
]  # fmt: skip


@pytest.fixture
def enter(
    cluster: AnyCluster, admin: Admin, namespace: str, tmp_path: Path
) -> Iterator[Callable[..., tuple[Cluster, InPod]]]:
    """`enter(account, pod, rules)`: our client as a process of that pod sees the cluster."""
    clients: list[Cluster] = []

    def into(account: str, name: str, rules: list[Any], **labels: str) -> tuple[Cluster, InPod]:
        body = pod(name, **labels)
        body["spec"]["serviceAccountName"] = account
        found = admin.create(f"api/v1/namespaces/{namespace}/pods", body)
        if rules:
            admin.grant(namespace, account, rules)
        token = admin.account(namespace, account, found)
        here = in_pod(cluster, tmp_path / account, token, namespace)
        here.environ["HOSTNAME"] = name
        clients.append(Cluster(here))
        return clients[-1], here

    yield into
    for client in clients:
        client.close()


def test_the_label_of_the_pod_tells_the_workspace(
    enter: Callable[..., tuple[Cluster, InPod]], namespace: str
) -> None:
    client, here = enter("ws-mine", "ws-mine-0", PILOT, **{LABEL: "mine"})
    found = find_identity(client, here)
    assert (found.namespace, found.workspace, found.how) == (namespace, "mine", "pod label")
    assert found.pod == "ws-mine-0"
    assert found.pod_uid
    assert found.why_not is None


def test_without_the_right_to_read_pods_the_address_of_the_page_tells_it(
    enter: Callable[..., tuple[Cluster, InPod]], admin: Admin, namespace: str
) -> None:
    made(admin, namespace, "mine")
    client, here = enter("some", "ws-mine-0", PILOT[:1], **{LABEL: "mine"})
    found = find_identity(client, here, f"/workspace/connect/{namespace}/mine/8888/")
    assert (found.workspace, found.how) == ("mine", "base URL")


def test_without_both_the_service_account_tells_it_if_there_is_such_a_workspace(
    enter: Callable[..., tuple[Cluster, InPod]], admin: Admin, namespace: str
) -> None:
    made(admin, namespace, "mine")
    client, here = enter("ws-mine", "x", PILOT[:1])
    found = find_identity(client, here)
    assert (found.workspace, found.how) == ("mine", "service account")


def test_a_pod_of_no_workspace_says_so(
    enter: Callable[..., tuple[Cluster, InPod]],
) -> None:
    client, here = enter("other", "x", PILOT)
    found = find_identity(client, here)
    assert found.workspace == ""
    assert found.why_not == "This pod belongs to no Workspace."


def test_a_process_outside_of_pods_asks_nobody(tmp_path: Path) -> None:
    why_not = InPod(tmp_path, {}).why_not()
    assert why_not is not None
    assert "does not run in a Kubernetes pod" in why_not
    assert "no service-account token" in str(
        InPod(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).why_not()
    )
    with pytest.raises(GkewsError):
        InPod(tmp_path, {}).token()


def test_a_token_says_whose_it_is_and_nonsense_says_nothing() -> None:
    claims = {"kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "a"}}}
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert from_token(f"x.{middle}.y")["namespace"] == "n"
    for text in ("", "a.b", "a.b.c", "a.!!!.c", f"x.{middle}"):
        assert from_token(text) == {}


def test_rights_are_asked_once_and_what_is_missing_is_named(
    enter: Callable[..., tuple[Cluster, InPod]], namespace: str
) -> None:
    client, _ = enter("ws-mine", "ws-mine-0", PILOT, **{LABEL: "mine"})
    now = [0.0]
    access = AccessReviews(client, namespace, "mine", clock=lambda: now[0])
    _until(lambda: access.forget() or access.has(need("pause")))
    assert access.has(need("see"))
    missing = {one.id for one in access.missing()}
    # the kinds are granted to everybody where another test has applied the manifests of deploy/
    assert missing - {"kinds"} == {"triggers", "snapshots", "policies"}
    assert not access.may("delete", PODS)
    assert not access.may("get", SNAPSHOTS)


def test_an_answer_about_rights_is_believed_for_a_while(asked: Cluster, fake: FakeCluster) -> None:
    now = [0.0]
    access = AccessReviews(asked, "default", "ws", clock=lambda: now[0])

    def reviews() -> int:
        return len([path for _, _, path in fake.requests if "accessreviews" in path])

    assert access.may("patch", WORKSPACES, "ws")
    assert access.may("patch", WORKSPACES, "ws")
    assert reviews() == 1
    now[0] = BELIEVED_S + 1
    assert access.may("patch", WORKSPACES, "ws")
    assert reviews() == 2


def test_rights_are_asked_at_the_same_time_and_each_once(
    asked: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = AccessReviews(asked, "default", "ws")
    together = threading.Barrier(2, timeout=60)
    send, sent = asked.create, []

    def create(*about: Any) -> Any:
        sent.append(about)
        if len(sent) <= 2:
            together.wait()  # the first is not answered before the second is asked
        return send(*about)

    monkeypatch.setattr(asked, "create", create)
    assert access.missing() == []
    questions = len(sent)
    assert questions == len({(one.resource, verb) for one in NEEDS for verb in one.verbs})
    assert access.missing() == []
    assert len(sent) == questions


def test_a_right_that_is_known_to_be_missing_is_not_asked_again(
    enter: Callable[..., tuple[Cluster, InPod]], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = enter("ws-mine", "ws-mine-0", PILOT, **{LABEL: "mine"})
    access = AccessReviews(client, namespace, "mine")
    _until(lambda: access.forget() or access.has(need("pause")))
    missing = access.missing()
    assert missing

    def nobody(*about: object) -> Any:
        raise AssertionError(f"asked again: {about}")

    monkeypatch.setattr(client, "create", nobody)
    assert access.missing() == missing


def test_a_cluster_that_is_away_leaves_rights_unknown(asked: Cluster, fake: FakeCluster) -> None:
    access = AccessReviews(asked, "default", "ws")
    fake.stop()
    with pytest.raises(ClusterError) as away:
        access.missing()
    assert away.value.unreachable
    fake.start()
    assert access.missing() == []


def test_an_answer_that_is_lost_on_the_way_is_no_answer(asked: Cluster, fake: FakeCluster) -> None:
    made(admin_of(fake), "default")
    for kind, maybe in (("reset", True), ("reset_after", True)):
        fault = fake.faults.add(kind, method="PATCH")
        with pytest.raises(ClusterError) as lost:
            asked.merge(WORKSPACES, "default", "ws", {"spec": {"displayName": "x"}})
        assert lost.value.code == 0
        assert lost.value.maybe_done is maybe
        assert fault.met == 1  # a write is never sent twice
        fake.faults.lift(fault)
    fault = fake.faults.add("reset", method="GET", times=1)
    assert asked.get(WORKSPACES, "default", "ws")["spec"]["displayName"] == "x"
    assert fault.met == 1  # a read is


def test_a_proxy_for_the_web_is_not_used_for_the_cluster_of_the_pod(
    fake: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(admin_of(fake), "default")
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    client = Cluster(in_pod(fake, tmp_path / "account", fake.admin_token))
    assert client.get(WORKSPACES, "default", "ws")["kind"] == "Workspace"
    client.close()


def test_a_cluster_without_workspaces_is_told_from_a_wrong_name(tmp_path: Path) -> None:
    bare = FakeCluster(tmp_path / "bare").start()
    client = Cluster(in_pod(bare, tmp_path / "account", bare.admin_token))
    assert client.find(WORKSPACES, "default", "ws") is None
    assert "has no Workspaces" in no_such_workspace(client, "default", "ws").message
    client.close()
    bare.stop()


def test_a_slow_server_is_given_up_after_our_own_time(
    asked: Cluster, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_gkews.engines.cluster import cluster as module

    monkeypatch.setattr(module, "CALL_TIMEOUT", (1.0, 0.3))
    made(admin_of(fake), "default")
    fake.faults.add("black_hole", method="GET")
    with pytest.raises(ClusterError) as late:
        asked.get(WORKSPACES, "default", "ws")
    assert late.value.unreachable
    assert late.value.explain().reason == "cluster_unreachable"


def _until(step: Callable[[], object]) -> None:
    """A real server's RBAC follows what was written a moment later."""
    import time

    end = time.monotonic() + 15
    while not step():
        assert time.monotonic() < end
        time.sleep(0.05)
