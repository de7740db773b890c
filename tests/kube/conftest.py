"""The fake cluster, and the real one where it can be built, each with our CRDs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from . import real_server
from .admin import Admin, Answered
from .fake import FakeCluster
from .real_server import RealCluster

CRDS = Path(__file__).parent / "crds"
DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Cluster = FakeCluster | RealCluster


def admin_of(cluster: Cluster) -> Admin:
    return Admin(cluster.url, cluster.ca, cluster.admin_token)


def define(admin: Admin) -> None:
    """Create our CRDs and wait until they are served."""
    paths = []
    for file in sorted(CRDS.glob("*.yaml")):
        for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            admin.create(DEFINITIONS, definition)
            spec = definition["spec"]
            version = spec["versions"][0]["name"]
            paths.append(f"apis/{spec['group']}/{version}/{spec['names']['plural']}")
    end = time.monotonic() + 30
    for path in paths:
        while True:
            try:
                admin.list(path)
                break
            except Answered:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # a real server announces it to nobody


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


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """The real kube-apiserver, started once; the test is skipped where there is none."""
    reason = real_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    cluster = RealCluster(tmp_path_factory.mktemp("real"))
    try:
        cluster.start()
        define(admin_of(cluster))
        yield cluster
    finally:
        cluster.stop()


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
