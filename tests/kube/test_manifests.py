"""What deploy/ grants is what the client needs, no verb more or less; a real server takes it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_server import wait_until

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.cluster.problems import ClusterError
from jupyter_gkews.engines.cluster.words import PODS, SNAPSHOTS, WORKSPACES
from jupyter_gkews.engines.workspaces.access import NEEDS, AccessReviews
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.pausing import Pauses

from .actors import Platform
from .admin import Admin, Answered
from .clusters import Cluster, admin_of, in_pod
from .conftest import QUICK
from .fake import FakeCluster
from .roles import DEPLOY, bind_workspace, workspace_manifests

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]


@pytest.fixture
def granted(cluster: Cluster, admin: Admin, namespace: str, tmp_path: Path) -> Iterator[Asked]:
    """Our client as a service account that has what the manifests grant."""
    token = admin.account(namespace, "ws")
    bind_workspace(admin, namespace, "ws")
    client = Asked(in_pod(cluster, tmp_path / "account", token, namespace))
    yield client
    client.close()


def test_the_roles_have_the_verbs_that_are_needed_and_no_others() -> None:
    granted = {
        (verb, group, resource)
        for manifest in workspace_manifests()
        for rule in manifest.get("rules", [])
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    needed = {
        (verb, need.resource.group, need.resource.plural) for need in NEEDS for verb in need.verbs
    }
    assert granted == needed


def test_with_the_roles_nothing_is_missing(granted: Asked, namespace: str) -> None:
    access = AccessReviews(granted, namespace, "ws")
    wait_until(lambda: access.forget() or not access.missing(), "the rights are there")
    assert access.missing() == []
    for verb, resource in (
        ("delete", PODS), ("create", PODS), ("delete", WORKSPACES), ("create", SNAPSHOTS),
        ("patch", SNAPSHOTS), ("update", WORKSPACES),
    ):  # fmt: skip
        assert not access.may(verb, resource), (verb, resource)


def test_the_roles_are_good_in_their_namespace_alone(
    granted: Asked, admin: Admin, namespace: str
) -> None:
    other = admin.namespace(namespace + "-b")
    access = AccessReviews(granted, namespace, "ws")
    wait_until(lambda: access.forget() or not access.missing(), "the rights are there")
    with pytest.raises(ClusterError) as refused:
        granted.list(PODS, other)
    assert refused.value.forbidden


def test_a_pod_with_these_roles_is_paused_and_resumed(
    fake: FakeCluster, platform: Platform, tmp_path: Path
) -> None:
    admin = admin_of(fake)
    token = admin.account("default", "ws-ws")
    bind_workspace(admin, "default", "ws-ws")
    client = Asked(in_pod(fake, tmp_path / "account", token))
    platform.create()
    observer = WorkspaceObserver(client, "default", "ws", pace=QUICK).start()
    assert observer.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 20)
    pauses = Pauses(observer)
    assert pauses.wait_paused(pauses.request(), 20).snapshot is not None
    assert pauses.wait_running(pauses.request_resume(), 20).provenance == "restored"
    refused = [user for user, *_ in fake.requests if user == ""]
    assert not refused
    observer.stop()
    client.close()


def test_without_rights_on_snapshots_a_pause_works_and_only_details_are_hidden(
    fake: FakeCluster, platform: Platform, tmp_path: Path
) -> None:
    admin = admin_of(fake)
    rules = [
        {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"],
         "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
    ]  # fmt: skip
    admin.grant("default", "pilot", rules)
    client = Asked(in_pod(fake, tmp_path / "pilot", admin.account("default", "pilot")))
    platform.create()
    observer = WorkspaceObserver(client, "default", "ws", pace=QUICK).start()
    assert observer.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 20)
    assert observer.seen().hidden == {"triggers", "snapshots", "policies", "kinds"}
    pauses = Pauses(observer)
    paused = pauses.wait_paused(pauses.request(), 20)
    assert paused.snapshot is not None
    assert paused.snapshot.ready is None
    assert paused.reason is None
    observer.stop()
    client.close()


def test_the_patch_adds_the_role_beside_those_that_the_kind_has(
    admin: Admin, namespace: str
) -> None:
    kinds = "apis/kubeflow.org/v1beta1/workspacekinds"
    name = f"jupyterlab-{namespace}"
    admin.create(
        kinds,
        {
            "apiVersion": "kubeflow.org/v1beta1",
            "kind": "WorkspaceKind",
            "metadata": {"name": name},
            "spec": {
                "podTemplate": {"serviceAccount": {"clusterRoles": [{"name": "kubeflow-edit"}]}}
            },
        },
    )
    steps = yaml.safe_load((DEPLOY / "workspacekind-patch.yaml").read_text(encoding="utf-8"))
    found = admin.json_patch(kinds, name, steps)
    roles = [
        role["name"] for role in found["spec"]["podTemplate"]["serviceAccount"]["clusterRoles"]
    ]
    assert roles == ["kubeflow-edit", "jupyter-gkews-workspace"]
    assert roles[1] in {manifest["metadata"]["name"] for manifest in workspace_manifests()}


def test_a_policy_of_our_shape_is_taken_and_a_broken_one_refused(
    admin: Admin, namespace: str
) -> None:
    where = f"apis/podsnapshot.gke.io/v1/namespaces/{namespace}/podsnapshotpolicies"
    policy: Json = {
        "apiVersion": "podsnapshot.gke.io/v1",
        "kind": "PodSnapshotPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "storageConfigName": "c",
            "selector": {"matchLabels": {"notebooks.kubeflow.org/workspace-name": "ws"}},
            "triggerConfig": {"type": "manual"},
            "retentionConfig": {"lastAccessTimeout": "7d"},
        },
    }
    found = admin.create(where, policy)
    assert found["spec"]["triggerConfig"]["postCheckpoint"] == "resume"
    policy["metadata"]["name"] = "q"
    policy["spec"]["retentionConfig"]["lastAccessTimeout"] = "a week"
    with pytest.raises(Answered, match="lastAccessTimeout") as refused:
        admin.create(where, policy)
    assert refused.value.code == 422


def test_the_image_installs_what_the_package_has() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"\.whl\)\[(\w+)\]", text)
    assert extras == ["gke"]
    assert re.search(r'(?m)^gke = \["kubernetes', project)
    instructions = [line.split()[0] for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert instructions == ["ARG", "FROM", "COPY", "USER", "RUN"]
    run = text[text.index("RUN ") + 4 :].replace("\\\n", " ")
    assert "jupyter_gkews.cli" in shlex.split(run)
    assert "dist/*.whl" in text
