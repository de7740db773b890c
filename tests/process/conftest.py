"""A real Jupyter server whose kernels can be paused, wired by hand: no lifecycle, no REST."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from pytest_jupyter.jupyter_server import *  # noqa: F403  # its fixtures and hooks, here alone

from jupyter_gkews.kernel_client import UNTRACKED_MESSAGE_TYPES
from jupyter_gkews.launching import LaunchSettings
from jupyter_gkews.websocket import pausable_connection_class

from .notebook import Notebook

OpenNotebook = Callable[..., Awaitable[Notebook]]


@pytest.fixture
def pausable_app(jp_serverapp: Any, http_server: Any, tmp_path: Path) -> Iterator[Any]:
    """The server, with what GkewsApp would set."""
    factory = KernelProvisionerFactory.instance(parent=jp_serverapp)
    factory.default_provisioner_name = "gkews-provisioner"
    mkm = jp_serverapp.kernel_manager
    mkm.gkews_launch = LaunchSettings(store=tmp_path / "store", runtime=tmp_path / "run")
    mkm.untracked_message_types = mkm.untracked_message_types + UNTRACKED_MESSAGE_TYPES
    settings = jp_serverapp.web_app.settings
    base = settings["kernel_websocket_connection_class"]
    settings["kernel_websocket_connection_class"] = pausable_connection_class(base)
    yield jp_serverapp
    KernelProvisionerFactory.clear_instance()


@pytest.fixture
def open_notebook(pausable_app: Any, jp_asyncio_loop: Any, jp_http_port: int) -> Iterator[Any]:
    """`await open_notebook(kernel_name=...)`: a started kernel whose kernel side is loaded."""
    opened: list[Notebook] = []

    async def start(
        kernel_name: str | None = None, *, ready: bool = True, **kwargs: Any
    ) -> Notebook:
        kernel_id = await pausable_app.kernel_manager.start_kernel(
            kernel_name=kernel_name or pausable_app.kernel_manager.default_kernel_name, **kwargs
        )
        notebook = Notebook(pausable_app, jp_http_port, kernel_id)
        opened.append(notebook)
        if ready:
            await notebook.ready()
        return notebook

    yield start

    async def close() -> None:
        for notebook in opened:
            await notebook.close()

    jp_asyncio_loop.run_until_complete(close())


@pytest.fixture
def add_kernelspec(jp_data_dir: Path, pausable_app: Any) -> Callable[..., str]:
    """`add_kernelspec(name, argv, ...)`: install a kernelspec; argv defaults to this Python's."""

    def add(name: str, argv: list[str] | None = None, **spec: Any) -> str:
        folder = jp_data_dir / "kernels" / name
        folder.mkdir(parents=True)
        argv = argv or [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": name, "language": "python", **spec}
        (folder / "kernel.json").write_text(json.dumps(spec))
        return name

    return add
