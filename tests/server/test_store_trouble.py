"""A store that cannot be written, or that was tampered with: told, and nothing is lost by it."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from live_server import LiveKernel, LiveServer


def paused(server: LiveServer, name: str) -> tuple[LiveKernel, str, Path]:
    """A kernel that was paused with x = 1, its checkpoint, and the folder of that."""
    kernel = server.notebook(name).ready()
    kernel.run("x = 1; data = bytes(range(256)) * 8000")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    return kernel, checkpoint, server.store / "checkpoints" / checkpoint


def truncated(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes()[:-20])


def emptied(manifest: Path) -> None:
    manifest.write_bytes(b"")


def without_signature(manifest: Path) -> None:
    value = json.loads(manifest.read_text())
    for key in [k for k in value if k in ("signature", "mac", "hmac")]:
        del value[key]
    manifest.write_text(json.dumps(value))


def changed(manifest: Path) -> None:
    text = manifest.read_text()
    assert "x" in text
    manifest.write_text(text.replace("paused", "xxxxxx", 1).replace("python", "pythox", 1))


@pytest.mark.parametrize(
    ("spoil", "reasons"),
    [
        (truncated, {"checkpoint_damaged"}),
        (emptied, {"checkpoint_damaged"}),
        (without_signature, {"checkpoint_unsigned"}),
        (changed, {"checkpoint_damaged", "checkpoint_unsigned"}),
    ],
)
def test_a_manifest_that_was_spoilt_is_refused_and_the_kernel_stays_paused(
    server: LiveServer, spoil: Callable[[Path], None], reasons: set[str]
) -> None:
    kernel, checkpoint, folder = paused(server, f"{spoil.__name__}.ipynb")
    manifest = folder / "manifest.json"
    good = manifest.read_bytes()
    spoil(manifest)
    assert manifest.read_bytes() != good
    error = kernel.fail("resume")
    assert error["reason"] in reasons
    assert error["hint"]
    assert kernel.status["state"] == "paused"
    listed = {c["id"]: c for c in server.get("gkews/checkpoints")["checkpoints"]}
    assert listed[checkpoint]["error"]["reason"] in reasons
    assert listed[checkpoint]["in_use"] is True
    refused = server.client.post(f"gkews/checkpoints/{checkpoint}/restore")
    assert refused.json()["reason"] in reasons
    manifest.write_bytes(good)
    assert kernel.run("x") == "1"


def test_a_checkpoint_of_another_key_is_refused(server: LiveServer) -> None:
    kernel, _, _ = paused(server, "foreign-key.ipynb")
    key = server.store / "key"
    good = key.read_bytes()
    key.write_bytes(secrets.token_bytes(len(good)))
    try:
        assert kernel.fail("resume")["reason"] == "checkpoint_foreign_key"
        assert kernel.status["state"] == "paused"
    finally:
        key.write_bytes(good)
    assert kernel.run("x") == "1"


def test_a_checkpoint_of_a_newer_format_is_refused(server: LiveServer) -> None:
    kernel, _, folder = paused(server, "too-new.ipynb")
    manifest = folder / "manifest.json"
    good = manifest.read_bytes()
    value = json.loads(good)
    value["format"] = 999
    manifest.write_text(json.dumps(value))
    assert kernel.fail("resume")["reason"] == "checkpoint_too_new"
    manifest.write_bytes(good)
    assert kernel.run("x") == "1"


def test_a_checkpoint_whose_folder_vanished_leaves_the_kernel_paused_and_another_can_be_restored(
    server: LiveServer,
) -> None:
    kernel = server.notebook("vanished.ipynb").ready()
    kernel.run("x = 1")
    older = kernel.do("checkpoint", {"name": "older"})["result"]["checkpoint"]
    kernel.run("x = 2")
    newer = kernel.do("pause")["result"]["checkpoint"]
    shutil.rmtree(server.store / "checkpoints" / newer)
    error = kernel.fail("resume")
    assert error["reason"] == "checkpoint_not_found"
    assert kernel.status["state"] == "paused"
    restored = server.post(f"gkews/checkpoints/{older}/restore", {"kernel_id": kernel.id})
    assert server.operation(restored["id"])["error"] is None
    assert kernel.run("x") == "1"
    assert kernel.status["provenance"] == "recovered"


def test_a_store_that_cannot_be_written_leaves_the_kernel_running(start_server, tmp_path) -> None:
    store = tmp_path / "store"
    store.write_text("not a folder")
    server = start_server(f"--GkewsApp.store_dir={store}")
    kernel = server.notebook("unwritable.ipynb").ready()
    kernel.run("x = 3")
    pid = kernel.pid
    for what in ("pause", "checkpoint"):
        error = kernel.fail(what)
        assert error["reason"] == "store_not_writable"
        assert error["hint"]
    status = kernel.status
    assert (status["state"], status["reason"]) == ("running", "store_not_writable")
    assert kernel.run("x") == "3"
    assert kernel.pid == pid
    store.unlink()
    kernel.do("pause")
    assert kernel.run("x") == "3"


def test_a_record_that_cannot_be_written_leaves_the_kernel_running(start_server) -> None:
    server = start_server()
    kernel = server.notebook("record.ipynb").ready()
    kernel.run("x = 4")
    kernel.do("checkpoint")
    paused = server.store / "paused"
    paused.write_text("not a folder")
    assert kernel.fail("pause")["reason"] == "store_not_writable"
    assert kernel.status["state"] == "running"
    assert kernel.run("x") == "4"
    paused.unlink()
    kernel.do("pause")
    assert kernel.run("x") == "4"


def test_a_full_disk_leaves_the_kernel_running_and_the_last_checkpoint_whole(
    server: LiveServer,
) -> None:
    kernel = server.notebook("full.ipynb").ready()
    kernel.run("x = 5")
    good = kernel.do("checkpoint")["result"]["checkpoint"]
    # a limit on the size of files fails a write as a full disk does, in this kernel alone
    kernel.run(
        "import os, resource, signal\n"
        "big = os.urandom(8_000_000)\n"
        "_ = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))"
    )
    pid = kernel.pid
    error = kernel.fail("pause")
    assert error["reason"] == "disk_full"
    assert error["hint"]
    status = kernel.status
    assert (status["state"], status["reason"]) == ("running", "disk_full")
    assert kernel.pid == pid
    assert server.get(f"gkews/checkpoints/{good}")["error"] is None
    kernel.run("resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))")
    kernel.do("pause")
    assert kernel.run("x, len(big)") == "(5, 8000000)"
