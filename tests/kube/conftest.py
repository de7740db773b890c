"""The fake cluster, and what follows and plays in it; the real one is a fixture of all tests."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.cluster.cluster import Cluster as Asked
from jupyter_gkews.engines.cluster.watching import Pace
from jupyter_gkews.engines.podsnapshot.observing import TargetObserver
from jupyter_gkews.engines.podsnapshot.resuming import Resumes
from jupyter_gkews.engines.podsnapshot.targets import find_target, parse_target
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.state import WorkspaceState

from .actors import Platform, SelfManaged
from .admin import Admin
from .clusters import Cluster, admin_of, define, in_pod
from .fake import FakeCluster


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeCluster]:
    """A fake cluster of the test's own, to be told to fail."""
    cluster = FakeCluster(tmp_path / "fake cluster").start()
    define(admin_of(cluster))
    yield cluster
    cluster.stop()
    assert not cluster.failures, cluster.failures[0]


@pytest.fixture(scope="session")
def _shared_fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCluster]:
    cluster = FakeCluster(tmp_path_factory.mktemp("fake")).start()
    define(admin_of(cluster))
    yield cluster
    cluster.stop()
    assert not cluster.failures, cluster.failures[0]


@pytest.fixture(params=["fake", "real"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Both, one after the other: what is tested with it behaves alike on them."""
    name = {"fake": "_shared_fake", "real": "real"}[request.param]
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    return admin_of(cluster)


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A namespace of the test's own."""
    return admin.namespace(f"t-{secrets.token_hex(4)}")


# -- our own client, and the parties of a cluster with Workspaces ---------------------------------

#: So that a test of a failing server takes no minutes.
QUICK = Pace(first=0.05, longest=0.2, refused=0.2)


@pytest.fixture
def asked(fake: FakeCluster, tmp_path: Path) -> Iterator[Asked]:
    """Our client of the fake cluster, as its admin."""
    client = Asked(in_pod(fake, tmp_path / "account", fake.admin_token))
    yield client
    client.close()


@pytest.fixture
def platform(fake: FakeCluster) -> Iterator[Platform]:
    """Kubeflow's controller, the snapshot addon, GKE and nodes, playing in `default`."""
    played = Platform(admin_of(fake), "default")
    fake.registry.admission.append(played.hook)
    yield played.start()
    played.stop()


@pytest.fixture
def observer(asked: Asked, platform: Platform) -> Iterator[WorkspaceObserver]:
    """Follows the workspace `ws`, which runs."""
    platform.create()
    following = WorkspaceObserver(asked, "default", "ws", pace=QUICK).start()
    running = following.wait(lambda seen, _: seen.pod_ready and seen.state == "Running", 20)
    assert running is not None, following.state()
    yield following
    following.stop()


@pytest.fixture
def self_managed(fake: FakeCluster) -> Iterator[SelfManaged]:
    """Pod Snapshots without Workspaces, playing in `default`."""
    played = SelfManaged(admin_of(fake), "default")
    yield played.start()
    played.stop()


#: What makes one that can be paused and resumed.
Follow = Callable[..., Resumes]


@pytest.fixture
def follow(asked: Asked, self_managed: SelfManaged) -> Iterator[Follow]:
    """`follow(place)`: pauses and resumes of what is named, once its pod runs."""
    observers: list[TargetObserver] = []

    def begin(place: str = "default/lab", *, sign_s: float = 60.0, **about: Any) -> Resumes:
        target = find_target(asked, *parse_target(place))
        sign = timedelta(seconds=sign_s)
        observer = TargetObserver(asked, target, pace=QUICK, sign=sign).start()
        observers.append(observer)
        running = observer.wait(lambda _, state: state.state == "running", 20)
        assert running is not None, observer.state()
        return Resumes(observer, **about)

    yield begin
    for observer in observers:
        observer.stop()


@pytest.fixture
def running_pod(self_managed: SelfManaged, follow: Follow) -> Follow:
    """`running_pod(kind)`: pauses and resumes of `lab`, which is made, and runs."""

    def make(kind: str = "Deployment", *, sign_s: float = 60.0, **spec: Any) -> Resumes:
        self_managed.create(kind, **spec)
        return follow(sign_s=sign_s)

    return make


@pytest.fixture
def paused_pod(running_pod: Follow) -> Follow:
    """`paused_pod(kind)`: the same, which is paused then, with a snapshot that is whole."""

    def make(*about: Any, **more: Any) -> Resumes:
        pauses = running_pod(*about, **more)
        assert pauses.wait_paused(pauses.request(), 20).state == "paused"
        return pauses

    return make


def wait_for(pauses: Resumes, state: str, phase: str | None = None) -> WorkspaceState:
    """Until what it follows is seen like this."""
    found = pauses.observer.wait(
        lambda _, now: now.state == state and (phase is None or now.phase == phase), 20
    )
    assert found is not None, pauses.observer.state()
    return found
