"""`POST /gkews/gc` removes what nothing needs, and tells it truly; what is paused stays."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from live_server import LiveServer, wait_until

from jupyter_gkews.kernel.checkpoint import manifest
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


def age(server: LiveServer, checkpoint: str) -> None:
    """Written long ago, as far as the file system knows."""
    then = time.time() - 3 * 86400
    os.utime(server.store / "checkpoints" / checkpoint, (then, then))


def ids(server: LiveServer) -> set[str]:
    return {c["id"] for c in server.get("gkews/checkpoints")["checkpoints"]}


def test_what_a_dry_run_tells_is_what_goes_and_a_paused_kernel_resumes(server: LiveServer) -> None:
    assert server.get("gkews/store")["bytes"] == 0
    kernel = server.notebook("gc.ipynb").ready()
    kernel.run("x = 'first'")
    first = kernel.do("checkpoint")["result"]["checkpoint"]
    kernel.run("x = 'second'")
    paused = kernel.do("pause")["result"]["checkpoint"]
    before = server.get("gkews/store")
    assert before["checkpoints"] == 2 and before["bytes"] > 0 and before["stays"] is None
    assert Path(before["path"]) == server.store

    (server.store / "chunks" / "ab").mkdir(parents=True, exist_ok=True)
    stray = server.store / "chunks" / "ab" / f"blake3-{'ab' * 32}"
    stray.write_bytes(b"x" * 5000)
    assert server.get("gkews/store")["unused"] == 5000
    told = server.post("gkews/gc", {"dry_run": True, "older_than_s": 0}, status=200)
    assert told["chunks"] == {"count": 1, "bytes": 5000}
    assert told["checkpoints"] == [], "both were written just now"
    assert stray.exists()
    done = server.post("gkews/gc", None, status=200)
    assert done["bytes_freed"] == 5000 and not stray.exists()
    assert ids(server) == {first, paused}
    # what the paused kernel needs stays whatever its age; the number of days is a rule of the user
    for checkpoint in (first, paused):
        age(server, checkpoint)
    told = server.post("gkews/gc", {"dry_run": True, "keep": 1}, status=200)
    assert told["checkpoints"] == [], "the manifest says that it is new"
    assert kernel.run("x") == "'second'"


def test_a_request_for_gc_that_is_wrong_is_refused(server: LiveServer) -> None:
    for body in (
        {"older": 1},
        {"dry_run": "yes"},
        {"older_than_s": -1},
        {"older_than_s": "30d"},
        {"keep": 0},
        {"keep": 1.5},
        {"keep": True},
    ):
        error = server.post("gkews/gc", body, status=400)
        assert error["reason"] == "bad_request", body


def test_old_checkpoints_go_by_the_setting(start_server) -> None:
    server = start_server()
    kernel = server.notebook("old.ipynb").ready()
    old = kernel.do("checkpoint")["result"]["checkpoint"]
    server.stop()
    make_old(server.store, old)
    server = start_server("--GkewsApp.delete_after=1")
    wait_until(lambda: old not in ids(server), "the old checkpoint is deleted")
    wait_until(lambda: not any((server.store / "checkpoints").iterdir()), "nothing is left of it")


def make_old(store: Path, checkpoint: str) -> None:
    """Let a checkpoint be of three days ago, signed again."""
    found = CheckpointStore(store).manifest(checkpoint)
    then = time.time() - 3 * 86400
    found.created = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(then))
    key = manifest.read_key(store)
    assert key is not None
    path = store / "checkpoints" / checkpoint
    (path / "manifest.json").write_bytes(manifest.render(found, key))
    os.utime(path, (then, then))


def test_a_collection_while_the_store_is_missing_frees_nothing(start_server) -> None:
    server = start_server()
    shutil.rmtree(server.store, ignore_errors=True)
    assert server.post("gkews/gc", None, status=200)["bytes_freed"] == 0
