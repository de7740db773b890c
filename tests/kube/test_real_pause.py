"""A pause with a snapshot and a resume from it on a real kube-apiserver, webhook and all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import wait_until

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.pausing import Pauses
from jupyter_gkews.errors import GkewsError

from .actors import Platform
from .actors.addon import LAST, STATE
from .clusters import admin_of, in_pod
from .conftest import QUICK
from .real_server import RealCluster
from .roles import bind_workspace
from .webhook import Webhook

NODE = "apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture
def played(real: RealCluster, tmp_path: Path) -> Iterator[Platform]:
    admin = admin_of(real)
    namespace = admin.namespace(f"r-{secrets.token_hex(4)}")
    if admin.find(NODE, "gvisor") is None:
        admin.create(NODE, {"metadata": {"name": "gvisor"}, "handler": "gvisor"})
    platform = Platform(admin, namespace)
    webhook = Webhook(admin, namespace, platform.hook, tmp_path / "webhook").start()
    platform.start()
    platform.create()
    yield platform
    platform.stop()
    webhook.stop()


@pytest.fixture
def pauses(real: RealCluster, played: Platform, tmp_path: Path) -> Iterator[Pauses]:
    """As the service account of the pod, with the roles of deploy/ and no others."""
    admin, namespace = played.admin, played.namespace
    token = admin.account(namespace, "ws-ws")
    bind_workspace(admin, namespace, "ws-ws")
    client = Asked(in_pod(real, tmp_path / "account", token, namespace))
    observer = WorkspaceObserver(client, namespace, "ws", pace=QUICK)
    access = observer.access
    wait_until(lambda: access.forget() or not access.missing(), "the rights are there")
    observer.start()
    ready = observer.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 30)
    assert ready is not None, observer.state()
    yield Pauses(observer)
    observer.stop()
    client.close()


def test_the_memory_of_a_workspace_goes_through_a_snapshot(
    pauses: Pauses, played: Platform
) -> None:
    requested = pauses.request()
    assert (requested.how, requested.stateless) == ("begun", False)
    paused = pauses.wait_paused(requested, 30)
    assert paused.snapshot is not None
    assert paused.snapshot.ready
    assert played.get()["metadata"]["annotations"][LAST] == paused.snapshot.name
    running = pauses.wait_running(pauses.request_resume(), 30)
    assert running.provenance == "restored"


def test_a_snapshot_that_fails_is_called_off(pauses: Pauses, played: Platform) -> None:
    played.gke.outcome = "failed"
    with pytest.raises(GkewsError, match="Error 403: Forbidden") as failed:
        pauses.wait_paused(pauses.request(), 30, grace_s=0.3)
    assert failed.value.reason == "snapshot_failed"
    assert "nothing was lost" in failed.value.hint
    found = played.get()
    assert STATE not in found["metadata"]["annotations"]
    assert found["spec"]["paused"] is False


def test_an_addon_that_sleeps_is_noticed_and_the_request_taken_back(
    pauses: Pauses, played: Platform
) -> None:
    played.addon.awake = False
    with pytest.raises(GkewsError, match="did not act on the request"):
        pauses.request()
    assert played.get()["spec"]["paused"] is False
