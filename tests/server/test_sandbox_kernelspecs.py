"""Where kernels are picked, a user sees why those in sandboxes cannot start here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer

from jupyter_gkews.engines.gvisor import kernelspec


@pytest.fixture
def without_runsc(start_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    """A server that finds no runsc."""
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    kernelspec.write(tmp_path / "jupyter" / "data" / "kernels")
    started: LiveServer = start_server()
    return started


def test_the_reason_is_told_where_the_kernel_is_picked_and_when_it_is_started(
    without_runsc: LiveServer,
) -> None:
    listed = without_runsc.get("api/kernelspecs")["kernelspecs"]
    spec = listed[kernelspec.NAME]["spec"]
    assert spec["display_name"] == (
        "Python 3 (pausable) - cannot start here: gVisor's runsc is not installed"
    )
    assert "Install the packages" in spec["metadata"]["gkews"]["why_not"]
    assert "cannot" not in listed["python3"]["spec"]["display_name"]
    body = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": kernelspec.NAME}}
    error = without_runsc.ask("POST", "api/sessions", body, status=500)
    assert error["message"].startswith("gVisor's runsc is not installed. Install")
    (engine,) = [e for e in without_runsc.get("gkews/status")["engines"] if e["id"] == "gvisor"]
    assert "runsc is not installed" in engine["why_not"]["message"]
