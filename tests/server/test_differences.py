"""A checkpoint in detail: compared with what the kernel that would load it has."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from live_server import LiveServer

from jupyter_gkews.kernel.checkpoint import manifest
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


def remade(store: Path, checkpoint: str, **changes: Any) -> None:
    """Let a checkpoint have been made with something else, signed again."""
    found = CheckpointStore(store).manifest(checkpoint)
    found.environment.update(changes)
    key = manifest.read_key(store)
    assert key is not None
    path = store / "checkpoints" / checkpoint / "manifest.json"
    path.write_bytes(manifest.render(found, key))


def add_kernelspec(server: LiveServer, name: str, argv: list[str]) -> None:
    folder = server.base / "data" / "kernels" / name
    folder.mkdir(parents=True)
    spec = {"argv": argv, "display_name": name, "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


def test_a_checkpoint_is_compared_with_its_kernel_running_paused_or_not_there(
    server: LiveServer,
) -> None:
    kernel = server.notebook("differs.ipynb").ready()
    kernel.run("import numpy as np; a = np.arange(5)")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    path = f"gkews/checkpoints/{checkpoint}"
    assert server.get(path)["differences"] == []
    remade(
        server.store,
        checkpoint,
        python="3.2.1",
        packages={"numpy": "0.1", "vanished": "7.0"},
        modules={"numpy": "numpy"},
    )
    found = {row["what"]: row for row in server.get(path)["differences"]}
    assert found["Python"]["made"] == "3.2.1" and "source" in found["Python"]["means"]
    assert found["numpy"]["made"] == "0.1" and found["numpy"]["severity"] == "may_lose"
    assert "vanished" not in found
    detail = server.get(f"{path}?kernel_id={kernel.id}")
    assert len(detail["differences"]) == 2
    assert detail["compared_with"]["executable"] == sys.executable
    assert kernel.run("int(a.sum())") == "10", "a difference is no reason to refuse"
    assert server.get(f"{path}?kernel_id={kernel.id}")["differences"]
    error = server.get(f"{path}?kernel_id=nothing", status=404)
    assert error["reason"] == "kernel_not_found"


def test_where_it_is_not_known_what_the_kernel_has_nothing_is_claimed(server: LiveServer) -> None:
    kernel = server.notebook("wrapped.ipynb").ready()
    checkpoint = kernel.do("checkpoint")["result"]["checkpoint"]
    for name, argv in (
        ("wrapped", ["sh", "-c", "python -m ipykernel"]),
        ("broken", ["/nowhere/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]),
    ):
        add_kernelspec(server, name, argv)
        found = CheckpointStore(server.store).manifest(checkpoint)
        found.kernel["name"] = name
        key = manifest.read_key(server.store)
        assert key is not None
        path = server.store / "checkpoints" / checkpoint / "manifest.json"
        path.write_bytes(manifest.render(found, key))
        detail = server.get(f"gkews/checkpoints/{checkpoint}")
        assert detail["differences"] is None and detail["compared_with"] is None
