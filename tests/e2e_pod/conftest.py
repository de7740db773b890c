"""The stand-in for a cluster; skipped with the reason where runsc or the API server cannot run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gvisor_here import skip_without_runsc
from kube.real_server import RealCluster
from live_server import EXTENSIONS

from .laptop import Laptop
from .stand_in import USER, StandIn
from .visitor import Visitor

#: Without JupyterLab, which no test but those with a browser needs.
BARE = ["jupyter_server", f"--ServerApp.jpserver_extensions={EXTENSIONS}"]
LAB = [
    "jupyterlab", f"--ServerApp.jpserver_extensions={EXTENSIONS | {'jupyterlab': True}}",
    "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]  # fmt: skip


@pytest.fixture
def stand_in(
    request: pytest.FixtureRequest,
    real: RealCluster,
    tmp_path: Path,
) -> Iterator[StandIn]:
    """A namespace of the test's own, in which nothing runs yet."""
    skip_without_runsc(tmp_path / "state")
    folder, namespace = tmp_path / "stand-in", f"e-{secrets.token_hex(4)}"
    made = StandIn(real, namespace, folder, getattr(request, "param", BARE)).start()
    yield made
    made.stop()


@pytest.fixture
def visit(stand_in: StandIn) -> Iterator[Callable[..., Visitor]]:
    """Users, each with a session."""
    came: list[Visitor] = []

    def come(user: str = USER) -> Visitor:
        came.append(Visitor(stand_in, user=user))
        return came[-1]

    yield come
    for one in came:
        one.close()


@pytest.fixture
def laptop(stand_in: StandIn, tmp_path: Path) -> Iterator[Laptop]:
    """The user's own machine."""
    made = Laptop(stand_in, tmp_path / "laptop")
    yield made
    made.close()
