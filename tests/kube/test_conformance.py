"""What we rely on of an API server and of the `kubernetes` client, asked of the fake server and of
a real kube-apiserver in the same words. What passes here may be trusted of the fake.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from .admin import RBAC, SNAPSHOT, Admin, Answered
from .clusters import Cluster
from .objects import at, made, pod, workspace
from .real_server import RealCluster

kubernetes = pytest.importorskip("kubernetes")
from kubernetes.client.exceptions import ApiException  # noqa: E402

Json = dict[str, Any]
GROUP, VERSION = "kubeflow.org", "v1beta1"
MERGE = "application/merge-patch+json"


class Client:
    """The `kubernetes` package for one token; a session of its own."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        configuration = kubernetes.client.Configuration()
        configuration.host = cluster.url
        configuration.ssl_ca_cert = str(cluster.ca)
        configuration.api_key["authorization"] = f"Bearer {token}"
        configuration.retries = False
        self.api = kubernetes.client.ApiClient(configuration)
        self.custom = kubernetes.client.CustomObjectsApi(self.api)
        self.core = kubernetes.client.CoreV1Api(self.api)

    def close(self) -> None:
        self.api.rest_client.pool_manager.clear()
        if hasattr(self.api, "close"):
            self.api.close()

    def workspaces(self, namespace: str, **query: Any) -> Json:
        return self.custom.list_namespaced_custom_object(
            GROUP, VERSION, namespace, "workspaces", _request_timeout=(3, 20), **query
        )  # type: ignore[no-any-return]

    def patch(self, namespace: str, name: str, body: Any) -> Json:
        return self.custom.patch_namespaced_custom_object(
            GROUP, VERSION, namespace, "workspaces", name, body, _request_timeout=(3, 20)
        )  # type: ignore[no-any-return]

    def events(self, namespace: str, **query: Any) -> Iterator[Json]:
        """A raw watch, line by line, until the server ends it."""
        answer = self.custom.list_namespaced_custom_object(
            GROUP, VERSION, namespace, "workspaces", watch=True, _preload_content=False,
            _request_timeout=(3, 20), **query,
        )  # fmt: skip
        rest = b""
        try:
            for piece in answer.stream(amt=None, decode_content=False):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield json.loads(line)
        finally:
            answer.close()


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Any]:
    """`connect(token)`: a client; all are closed afterwards."""
    clients: list[Client] = []

    def made(token: str) -> Client:
        clients.append(Client(cluster, token))
        return clients[-1]

    yield made
    for one in clients:
        one.close()


@pytest.fixture
def client(connect: Any, cluster: Cluster) -> Client:
    return connect(cluster.admin_token)  # type: ignore[no-any-return]


# -- objects ---------------------------------------------------------------------------------


def test_a_custom_object_comes_back_with_defaults_and_what_the_server_adds(
    admin: Admin, namespace: str
) -> None:
    found = made(admin, namespace)
    assert found["spec"]["paused"] is False
    assert found["metadata"]["generation"] == 1
    assert found["metadata"]["uid"] and found["metadata"]["creationTimestamp"]
    assert found["metadata"]["namespace"] == namespace
    assert int(found["metadata"]["resourceVersion"]) > 0


def test_what_the_schema_does_not_know_is_dropped_and_what_it_forbids_is_422(
    admin: Admin, namespace: str
) -> None:
    assert "surprise" not in made(admin, namespace, surprise=1)["spec"]
    with pytest.raises(Answered, match="paused") as refused:
        made(admin, namespace, "other", paused="yes")
    assert refused.value.code == 422
    assert refused.value.body["reason"] == "Invalid"
    broken = workspace("third")
    del broken["spec"]["kind"]
    with pytest.raises(Answered, match="kind: Required value") as refused:
        admin.create(at(namespace), broken)
    assert refused.value.code == 422
    with pytest.raises(Answered, match="displayName") as refused:
        made(admin, namespace, "fourth", displayName="")
    assert refused.value.code == 422


def test_the_status_is_written_through_its_subresource_alone(admin: Admin, namespace: str) -> None:
    made(admin, namespace)
    where = at(namespace)
    admin.merge(where, "ws", {"status": {"state": "Running"}})
    assert "status" not in admin.get(where, "ws")
    admin.merge(where, "ws", {"status": {"state": "Running"}, "spec": {"paused": True}}, "status")
    found = admin.get(where, "ws")
    assert found["status"]["state"] == "Running"
    assert found["spec"]["paused"] is False
    assert found["metadata"]["generation"] == 1
    found = admin.merge(where, "ws", {"spec": {"paused": True}})
    assert (found["metadata"]["generation"], found["status"]["state"]) == (2, "Running")
    with pytest.raises(Answered, match="state") as refused:
        admin.merge(where, "ws", {"status": {"state": "Asleep"}}, "status")
    assert refused.value.code == 422


def test_every_change_has_a_new_version_and_no_change_has_none(
    admin: Admin, namespace: str
) -> None:
    first = made(admin, namespace)
    second = admin.merge(at(namespace), "ws", {"metadata": {"annotations": {"a": "1"}}})
    third = admin.merge(at(namespace), "ws", {"metadata": {"annotations": {"a": "1"}}})
    versions = [int(f["metadata"]["resourceVersion"]) for f in (first, second, third)]
    assert versions[0] < versions[1] == versions[2]


def test_a_stale_version_is_a_conflict_for_put_and_for_a_patch_that_carries_one(
    admin: Admin, namespace: str
) -> None:
    where = at(namespace)
    stale = made(admin, namespace)
    admin.merge(where, "ws", {"metadata": {"labels": {"a": "1"}}})
    with pytest.raises(Answered, match="the object has been modified") as refused:
        admin.replace(where, "ws", stale)
    assert (refused.value.code, refused.value.body["reason"]) == (409, "Conflict")
    version = {"resourceVersion": stale["metadata"]["resourceVersion"]}
    with pytest.raises(Answered) as refused:
        admin.merge(where, "ws", {"metadata": version, "spec": {"paused": True}})
    assert (refused.value.code, refused.value.body["reason"]) == (409, "Conflict")
    assert admin.get(where, "ws")["spec"]["paused"] is False


def test_a_put_without_a_version_is_refused_for_custom_objects(
    admin: Admin, namespace: str
) -> None:
    found = made(admin, namespace)
    del found["metadata"]["resourceVersion"]
    with pytest.raises(Answered, match="must be specified for an update") as refused:
        admin.replace(at(namespace), "ws", found)
    assert refused.value.code == 422


def test_a_null_in_a_merge_patch_takes_an_annotation_away(admin: Admin, namespace: str) -> None:
    where = at(namespace)
    made(admin, namespace)
    admin.merge(where, "ws", {"metadata": {"annotations": {"a": "1", "b": "2"}}})
    found = admin.merge(where, "ws", {"metadata": {"annotations": {"a": None}}})
    assert found["metadata"]["annotations"] == {"b": "2"}


def test_a_json_patch_whose_test_fails_changes_nothing(admin: Admin, namespace: str) -> None:
    where = at(namespace)
    made(admin, namespace)
    steps = [
        {"op": "test", "path": "/spec/paused", "value": True},
        {"op": "replace", "path": "/spec/kind", "value": "other"},
    ]
    with pytest.raises(Answered) as refused:
        admin.json_patch(where, "ws", steps)
    assert (refused.value.code, refused.value.body["reason"]) == (422, "Invalid")
    assert admin.get(where, "ws")["spec"]["kind"] == "jupyterlab"
    steps[0]["value"] = False
    assert admin.json_patch(where, "ws", steps)["spec"]["kind"] == "other"


def test_the_same_name_twice_is_already_there(admin: Admin, namespace: str) -> None:
    made(admin, namespace)
    with pytest.raises(Answered, match='org "ws" already exists') as refused:
        made(admin, namespace)
    assert (refused.value.code, refused.value.body["reason"]) == (409, "AlreadyExists")


def test_what_is_not_there_is_named(admin: Admin, namespace: str) -> None:
    with pytest.raises(Answered, match='org "ws" not found') as refused:
        admin.get(at(namespace), "ws")
    assert (refused.value.code, refused.value.body["reason"]) == (404, "NotFound")
    with pytest.raises(Answered) as refused:
        admin.list("apis/podmigration.gke.io/v1alpha1/podmigrations")
    assert refused.value.code == 404
    with pytest.raises(Answered, match='namespaces "nowhere" not found') as refused:
        made(admin, "nowhere")
    assert refused.value.code == 404


def test_a_finalizer_keeps_a_deleted_object_until_it_is_taken_away(
    admin: Admin, namespace: str
) -> None:
    where = f"{SNAPSHOT}/namespaces/{namespace}/podsnapshots"
    finalizer = "podsnapshot.gke.io/podsnapshot-finalizer"
    body = {
        "apiVersion": "podsnapshot.gke.io/v1",
        "kind": "PodSnapshot",
        "spec": {"policyName": "p"},
    }
    admin.create(where, {**body, "metadata": {"name": "s", "finalizers": [finalizer]}})
    admin.delete(where, "s")
    assert admin.get(where, "s")["metadata"]["deletionTimestamp"]
    admin.merge(where, "s", {"metadata": {"finalizers": None}})
    assert admin.find(where, "s") is None


def test_a_delete_with_another_version_or_uid_is_a_conflict(admin: Admin, namespace: str) -> None:
    where = at(namespace)
    found = made(admin, namespace)
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        with pytest.raises(Answered) as refused:
            admin.delete(where, "ws", preconditions=wrong)
        assert refused.value.code == 409
    admin.delete(where, "ws", preconditions={"uid": found["metadata"]["uid"]})
    assert admin.find(where, "ws") is None


def test_a_pod_on_a_node_is_gone_only_when_its_kubelet_says_so(
    admin: Admin, namespace: str
) -> None:
    where = f"api/v1/namespaces/{namespace}/pods"
    admin.create(where, pod("pending"))
    admin.delete(where, "pending")
    assert admin.find(where, "pending") is None
    bound = pod("bound")
    bound["spec"]["nodeName"] = "node"
    admin.create(where, bound)
    admin.delete(where, "bound")
    assert admin.get(where, "bound")["metadata"]["deletionTimestamp"]
    admin.delete(where, "bound", gracePeriodSeconds=0)
    assert admin.find(where, "bound") is None


# -- lists -----------------------------------------------------------------------------------


def test_lists_are_narrowed_by_labels_and_fields(
    client: Client, admin: Admin, namespace: str
) -> None:
    where = f"api/v1/namespaces/{namespace}/pods"
    admin.create(where, pod("one", app="a", tier="x"))
    admin.create(where, pod("two", app="b"))
    admin.create(where, pod("three"))

    def names(**query: object) -> list[str]:
        answer = client.core.list_namespaced_pod(namespace, _preload_content=False, **query)
        return [item["metadata"]["name"] for item in json.loads(answer.data)["items"]]

    assert names() == ["one", "three", "two"]
    assert names(label_selector="app=a") == ["one"]
    assert names(label_selector="app!=a") == ["three", "two"]
    assert names(label_selector="app") == ["one", "two"]
    assert names(label_selector="!app") == ["three"]
    assert names(label_selector="app in (a, b),tier") == ["one"]
    assert names(label_selector="app notin (a)") == ["three", "two"]
    assert names(field_selector="metadata.name=two") == ["two"]
    assert names(field_selector="status.phase=Pending,metadata.name!=two") == ["one", "three"]
    with pytest.raises(ApiException) as refused:
        names(field_selector="spec.colour=red")
    assert refused.value.status == 400


def test_events_are_found_by_what_they_are_about(admin: Admin, namespace: str) -> None:
    where = f"api/v1/namespaces/{namespace}/events"
    for name, about, reason in (("e1", "ws-0", "Scheduled"), ("e2", "other", "Scheduled")):
        involved = {"kind": "Pod", "namespace": namespace, "name": about, "uid": "u-" + about}
        admin.create(
            where,
            {
                "metadata": {"name": name},
                "involvedObject": involved,
                "reason": reason,
                "type": "Normal",
            },
        )
    found = admin.list(where, fieldSelector="involvedObject.kind=Pod,involvedObject.name=ws-0")
    assert [event["metadata"]["name"] for event in found] == ["e1"]
    assert admin.list(where, fieldSelector="involvedObject.uid=u-other,reason=Scheduled")


def test_a_long_list_comes_in_pages_of_one_moment(
    client: Client, admin: Admin, namespace: str
) -> None:
    for index in range(5):
        made(admin, namespace, f"w{index}")
    page = client.workspaces(namespace, limit=2)
    made(admin, namespace, "w2b")
    found = [item["metadata"]["name"] for item in page["items"]]
    while page["metadata"].get("continue"):
        page = client.workspaces(namespace, limit=2, _continue=page["metadata"]["continue"])
        found += [item["metadata"]["name"] for item in page["items"]]
    assert found == ["w0", "w1", "w2", "w3", "w4"]


# -- watches ---------------------------------------------------------------------------------


def test_a_watch_from_a_list_misses_nothing_and_ends_in_its_time(
    client: Client, admin: Admin, namespace: str
) -> None:
    made(admin, namespace)
    version = client.workspaces(namespace)["metadata"]["resourceVersion"]
    admin.merge(at(namespace), "ws", {"spec": {"paused": True}})
    made(admin, namespace, "late")
    admin.delete(at(namespace), "ws")
    seen = [
        (event["type"], event["object"]["metadata"]["name"])
        for event in client.events(namespace, resource_version=version, timeout_seconds=1)
    ]
    assert seen == [("MODIFIED", "ws"), ("ADDED", "late"), ("DELETED", "ws")]


def test_a_watch_without_a_version_begins_with_what_is_there(
    client: Client, admin: Admin, namespace: str
) -> None:
    made(admin, namespace)
    first = next(client.events(namespace, timeout_seconds=5))
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Workspace")


def test_a_watch_tells_of_a_change_at_once(client: Client, admin: Admin, namespace: str) -> None:
    version = client.workspaces(namespace)["metadata"]["resourceVersion"]
    timer = threading.Timer(0.2, made, (admin, namespace))
    timer.start()
    events = client.events(namespace, resource_version=version, timeout_seconds=15)
    assert next(events)["type"] == "ADDED"
    events.close()
    timer.join()


def test_an_object_leaves_a_watch_when_it_no_longer_matches(
    client: Client, admin: Admin, namespace: str
) -> None:
    version = client.workspaces(namespace)["metadata"]["resourceVersion"]
    body = workspace()
    body["metadata"]["labels"] = {"mine": "yes"}
    admin.create(at(namespace), body)
    made(admin, namespace, "other")
    admin.merge(at(namespace), "ws", {"metadata": {"labels": {"mine": "no"}}})
    admin.merge(at(namespace), "other", {"metadata": {"labels": {"mine": "yes"}}})
    seen = [
        (event["type"], event["object"]["metadata"]["name"])
        for event in islice(
            client.events(namespace, resource_version=version, label_selector="mine=yes"), 3
        )
    ]
    assert seen == [("ADDED", "ws"), ("DELETED", "ws"), ("ADDED", "other")]


def test_a_watch_by_name_sees_one_object(client: Client, admin: Admin, namespace: str) -> None:
    version = client.workspaces(namespace)["metadata"]["resourceVersion"]
    made(admin, namespace, "one")
    made(admin, namespace, "two")
    event = next(
        client.events(namespace, resource_version=version, field_selector="metadata.name=two")
    )
    assert event["object"]["metadata"]["name"] == "two"


def test_a_watch_from_a_forgotten_version_is_told_that_it_is_gone(
    client: Client, cluster: Cluster, admin: Admin, namespace: str
) -> None:
    made(admin, namespace)
    admin.merge(at(namespace), "ws", {"spec": {"paused": True}})
    if isinstance(cluster, RealCluster):
        cluster.compact()
    else:
        cluster.store.compact()
    events = list(client.events(namespace, resource_version="1", timeout_seconds=2))
    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    with pytest.raises(ApiException) as refused:
        client.workspaces(namespace, resource_version="1", resource_version_match="Exact")
    assert refused.value.status == 410


def test_bookmarks_may_be_asked_for(client: Client, admin: Admin, namespace: str) -> None:
    made(admin, namespace)
    kinds = [
        event["type"]
        for event in client.events(namespace, allow_watch_bookmarks=True, timeout_seconds=1)
    ]
    assert kinds[0] == "ADDED"
    assert set(kinds[1:]) <= {"BOOKMARK"}


# -- who may do what -------------------------------------------------------------------------


def test_no_token_and_a_wrong_one_are_401(connect: Any, namespace: str) -> None:
    for token in ("", "wrong"):
        with pytest.raises(ApiException) as refused:
            connect(token).workspaces(namespace)
        assert refused.value.status in (401, 403 if not token else 401)


def test_an_account_may_do_what_its_role_says_and_no_more(
    connect: Any, admin: Admin, namespace: str
) -> None:
    made(admin, namespace)
    client = connect(admin.account(namespace, "ws"))
    with pytest.raises(ApiException) as refused:
        client.workspaces(namespace)
    assert refused.value.status == 403
    message = json.loads(refused.value.body)["message"]
    assert (
        f'User "system:serviceaccount:{namespace}:ws" cannot list resource "workspaces"' in message
    )
    assert f'in API group "kubeflow.org" in the namespace "{namespace}"' in message
    admin.grant(
        namespace, "ws",
        [{"apiGroups": ["kubeflow.org"], "resources": ["workspaces"],
          "resourceNames": ["ws"], "verbs": ["get", "list", "watch", "patch"]}],
    )  # fmt: skip
    _eventually(lambda: client.patch(namespace, "ws", {"spec": {"paused": True}}))
    selector = {"field_selector": "metadata.name=ws"}
    assert len(client.workspaces(namespace, **selector)["items"]) == 1
    assert next(client.events(namespace, timeout_seconds=5, **selector))
    for refused_call in (
        lambda: client.workspaces(namespace),
        lambda: client.workspaces(namespace, field_selector="metadata.name=other"),
        lambda: client.patch(namespace, "other", {"spec": {"paused": True}}),
        lambda: client.custom.delete_namespaced_custom_object(
            GROUP, VERSION, namespace, "workspaces", "ws"
        ),
        lambda: client.custom.patch_namespaced_custom_object_status(
            GROUP, VERSION, namespace, "workspaces", "ws", {"status": {"state": "Paused"}}
        ),
    ):
        with pytest.raises(ApiException) as refused:
            refused_call()
        assert refused.value.status == 403


def test_a_cluster_role_is_good_in_the_namespace_of_its_binding_alone(
    connect: Any, admin: Admin, namespace: str
) -> None:
    other = admin.namespace(namespace + "-b")
    role = f"reader-{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    group = {
        "kind": "Group", "apiGroup": "rbac.authorization.k8s.io",
        "name": f"system:serviceaccounts:{namespace}",
    }  # fmt: skip
    admin.create(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {"metadata": {"name": "r"}, "subjects": [group],
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}},
    )  # fmt: skip
    client = connect(admin.account(namespace, "any"))
    _eventually(lambda: client.core.list_namespaced_pod(namespace))
    with pytest.raises(ApiException) as refused:
        client.core.list_namespaced_pod(other)
    assert refused.value.status == 403


def test_an_account_can_ask_what_it_may_do(connect: Any, admin: Admin, namespace: str) -> None:
    admin.grant(
        namespace, "ws",
        [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
         {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "resourceNames": ["ws"],
          "verbs": ["patch"]}],
    )  # fmt: skip
    client = connect(admin.account(namespace, "ws"))

    def allowed(verb: str, group: str, resource: str, name: str = "") -> bool:
        attributes = {
            "verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name
        }  # fmt: skip
        answer = client.custom.create_cluster_custom_object(
            "authorization.k8s.io", "v1", "selfsubjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
             "spec": {"resourceAttributes": attributes}},
        )  # fmt: skip
        return bool(answer["status"]["allowed"])

    _eventually(lambda: _true(allowed("get", "", "pods")))
    assert allowed("patch", "kubeflow.org", "workspaces", "ws")
    assert not allowed("patch", "kubeflow.org", "workspaces")
    assert not allowed("delete", "", "pods")
    assert not allowed("get", "podsnapshot.gke.io", "podsnapshots")
    rules = client.custom.create_cluster_custom_object(
        "authorization.k8s.io", "v1", "selfsubjectrulesreviews",
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
         "spec": {"namespace": namespace}},
    )["status"]["resourceRules"]  # fmt: skip
    assert any(r["resources"] == ["pods"] and r["verbs"] == ["get"] for r in rules)
    assert any(r.get("resourceNames") == ["ws"] and r["verbs"] == ["patch"] for r in rules)


def test_a_token_bound_to_a_pod_dies_with_it(connect: Any, admin: Admin, namespace: str) -> None:
    where = f"api/v1/namespaces/{namespace}/pods"
    body = pod("ws-0")
    body["spec"]["serviceAccountName"] = "ws"
    found = admin.create(where, body)
    other = admin.create(where, pod("other"))
    with pytest.raises(Answered, match="different serviceaccount name") as refused_binding:
        admin.account(namespace, "ws", other)
    assert refused_binding.value.code == 400
    admin.grant(namespace, "ws", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    client = connect(admin.account(namespace, "ws", found))
    _eventually(lambda: client.core.list_namespaced_pod(namespace))
    # a real server believes a token that it has just seen for ten seconds more
    client = connect(admin.account(namespace, "ws", found, seconds=3601))
    admin.delete(where, "ws-0", gracePeriodSeconds=0)

    def refused() -> None:
        with pytest.raises(ApiException) as error:
            client.core.list_namespaced_pod(namespace)
        assert error.value.status == 401

    _eventually(refused, pytest.fail.Exception)


def test_a_token_shorter_than_ten_minutes_is_refused(admin: Admin, namespace: str) -> None:
    accounts = f"api/v1/namespaces/{namespace}/serviceaccounts"
    admin.create(accounts, {"metadata": {"name": "ws"}})
    request = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 60},
    }  # fmt: skip
    with pytest.raises(Answered, match="10 minutes") as refused:
        admin.ask("POST", f"{accounts}/ws/token", request)
    assert refused.value.code == 422


# -- what the client sends -------------------------------------------------------------------


def test_a_dictionary_and_a_list_go_out_as_merge_patches(
    client: Client, admin: Admin, namespace: str
) -> None:
    made(admin, namespace)
    found = client.patch(namespace, "ws", {"metadata": {"annotations": {"a": "1"}}})
    assert found["metadata"]["annotations"] == {"a": "1"}
    with pytest.raises(ApiException) as refused:
        client.patch(namespace, "ws", [{"op": "replace", "path": "/spec/paused", "value": True}])
    assert refused.value.status in (400, 422)
    assert admin.get(at(namespace), "ws")["spec"]["paused"] is False


def test_the_groups_and_versions_that_are_served_can_be_found(client: Client, admin: Admin) -> None:
    group = admin.ask("GET", "apis/podsnapshot.gke.io")
    assert group["preferredVersion"]["version"] == "v1"
    names = {r["name"] for r in admin.ask("GET", "apis/podsnapshot.gke.io/v1")["resources"]}
    assert {"podsnapshots", "podsnapshotpolicies", "podsnapshotmanualtriggers"} <= names
    with pytest.raises(Answered) as refused:
        admin.ask("GET", "apis/podmigration.gke.io")
    assert refused.value.code == 404


def _true(value: bool) -> None:
    assert value


def _eventually(step: Any, *errors: type[BaseException]) -> Any:
    """RBAC and tokens are read from caches that follow what was just written."""
    expected = (ApiException, AssertionError, *errors)
    end = time.monotonic() + 15
    while True:
        try:
            return step()
        except expected:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
