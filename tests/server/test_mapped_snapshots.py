"""The image of a kernel with big arrays holds none of them, and needs the store's chunks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gvisor_here import skip_without_runsc
from live_server import LiveKernel, LiveServer

from jupyter_gkews.engines.gvisor import kernelspec

MB = 1 << 20
SETUP = """
import numpy as np, os
a = np.random.default_rng(0).random({mb} << 17)
tail, keep = a[1000:], float(a.sum())
def on_chunks():
    maps = [line.split()[0].split("-") for line in open("/proc/self/maps") if "/chunks/" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in maps) >> 20
"""


@pytest.fixture
def kernel(server: LiveServer, tmp_path: Path) -> Iterator[LiveKernel]:
    """A notebook whose kernel lives in a sandbox."""
    skip_without_runsc(tmp_path / "state")
    kernelspec.write(server.base / "data" / "kernels")
    started = server.notebook(f"n{os.urandom(3).hex()}.ipynb", kernelspec.NAME).ready()
    yield started
    started.close()
    server.client.delete(f"api/kernels/{started.id}")


def pause(kernel: LiveKernel) -> tuple[dict[str, Any], Path]:
    """The result, and where the image is."""
    result = kernel.do("pause")["result"]
    assert result["note"] is None and result["snapshot"]
    return result, kernel.server.store / "snapshots" / result["snapshot"]


def image_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "image").iterdir())


def needed_chunks(folder: Path) -> list[str]:
    return [row[0] for row in json.loads((folder / "needed.json").read_text())["chunks"]]


def chunk_file(server: LiveServer, name: str) -> Path:
    return server.store / "chunks" / name.split("-")[1][:2] / name


def test_the_weights_stay_in_the_store_round_after_round(kernel: LiveKernel) -> None:
    kernel.run(SETUP.format(mb=64))
    kernel.run("import mmap; shared = mmap.mmap(-1, 1 << 20); shared[:4] = b'kept'")
    assert kernel.status["ram"] > 64 * MB, "what the sandbox holds, as its pids mean nothing here"
    first, image = pause(kernel)
    assert image_bytes(image) < 40 * MB and len(needed_chunks(image)) >= 4
    assert first["released"]["ram"] > 64 * MB
    files = {
        name: chunk_file(kernel.server, name).read_bytes() for name in needed_chunks(image)[:2]
    }
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert "kept" in kernel.run("print(shared[:4]); shared.close()")
    check = "print(float(a.sum()) == keep, np.shares_memory(a, tail), on_chunks() > 60)"
    assert kernel.run(check).split() == ["True"] * 3
    kernel.run("a[5:2000:7] = -1.5; tail[-1] = 2.5; keep = float(a.sum())")
    second, image = pause(kernel)
    assert second["bytes_written"] < 40 * MB, "two chunks have changed"
    assert image_bytes(image) < 40 * MB
    assert {name: chunk_file(kernel.server, name).read_bytes() for name in files} == files, (
        "the store has not changed"
    )
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run(f"{check}; print(a[5], a[-1])").split() == ["True"] * 3 + ["-1.5", "2.5"]
    # the checkpoints go, and with them the files: the process has the memory all the same
    for checkpoint in kernel.server.get("gkews/checkpoints")["checkpoints"]:
        kernel.server.ask("DELETE", f"gkews/checkpoints/{checkpoint['id']}")
    assert not any(chunk_file(kernel.server, name).exists() for name in files)
    assert kernel.run(check).split() == ["True"] * 3
    _, image = pause(kernel)
    assert image_bytes(image) < 40 * MB
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run(check).split() == ["True"] * 3


def test_a_chunk_that_is_gone_is_named_and_the_image_kept(kernel: LiveKernel) -> None:
    kernel.run(SETUP.format(mb=20) + "x = 5")
    _, image = pause(kernel)
    chunk = chunk_file(kernel.server, needed_chunks(image)[0])
    kernel.server.post("gkews/gc", None, status=200)
    assert chunk.exists(), "what an image needs is not removed"
    content = chunk.read_bytes()
    chunk.rename(chunk.with_suffix(".away"))
    error = kernel.fail("resume")
    assert error["reason"] == "snapshot_incompatible" and chunk.name in error["message"]
    assert "from the checkpoint" in error["hint"] and image.exists()
    chunk.write_bytes(bytes(len(content)))
    error = kernel.fail("resume")
    assert "other bytes" in error["message"] and kernel.status["state"] == "paused"
    chunk.write_bytes(content)  # brought back from a backup: another file, the same bytes
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run("print(float(a.sum()) == keep, x)").split() == ["True", "5"]
    # written over in place under its old time, as some copying does it
    _, image = pause(kernel)
    chunk = chunk_file(kernel.server, needed_chunks(image)[0])
    before, content = chunk.stat(), chunk.read_bytes()
    chunk.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "other bytes" in kernel.fail("resume")["message"]
    chunk.write_bytes(content)
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    _, image = pause(kernel)
    chunk_file(kernel.server, needed_chunks(image)[0]).unlink()
    kernel.fail("resume")
    resumed = kernel.do("resume", {"snapshot": False})["result"]
    assert resumed["provenance"] == "recovered"
    assert {"a", "tail"} <= {loss["name"] for loss in resumed["lost"]}
    assert kernel.run("print(x)").strip() == "5"
