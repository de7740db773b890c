"""What all tests share: nothing of the user's is read or written, and every server is ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from expected import skip_without
from kube import real_server
from kube.real_server import RealCluster
from live_server import LiveServer

from jupyter_gkews.kernel.checkpoint import start_state

StartServer = Callable[..., LiveServer]


@pytest.fixture(autouse=True, scope="session")
def no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let the home and Jupyter's directories be temporary for everything that the tests start."""
    base = tmp_path_factory.mktemp("home")
    # models that are on this machine already may be read, never fetched again
    cache = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    changed = {
        "HOME": str(base),
        "HF_HOME": cache,
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "IPYTHONDIR": str(base / "ipython"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changed.items():
            patch.setenv(name, value)
        # a cluster of the user's is neither asked nor seen; who needs one sets these
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            patch.delenv(name, raising=False)
        yield base


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers that share one home (the store, the runtime directory); ended afterwards."""
    started: list[LiveServer] = []

    def start(*options: str, root: Path | None = None, token: str | None = None) -> LiveServer:
        server = LiveServer(tmp_path / "jupyter", root or tmp_path / "root", *options, token=token)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One server for the tests of a module: each brings its own notebooks."""
    base = tmp_path_factory.mktemp("server")
    live = LiveServer(base, base / "root")
    try:
        yield live.start()
    finally:
        live.stop()


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """The real kube-apiserver with our CRDs, one for each process of the test run."""
    from kube.clusters import admin_of, define

    reason = real_server.why_not()
    if reason is not None:
        skip_without("kube-apiserver", reason)
    cluster = RealCluster(tmp_path_factory.mktemp("real"))
    try:
        cluster.start()
        define(admin_of(cluster))
        yield cluster
    finally:
        cluster.stop()


def pytest_collection_finish() -> None:
    """What the tests themselves have imported is not the work of cells."""
    start_state.note_start()
