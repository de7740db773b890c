"""Hashes of weights that are made beside the graph pass are guesses: they save work, or nothing."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from safetensors.numpy import save_file

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import (
    chunks,
    early_hashes,
    file_hashing,
    own_memory,
    safetensors_files,
)
from jupyter_gkews.kernel.checkpoint.background import BackgroundSave
from jupyter_gkews.kernel.checkpoint.early_hashes import EarlyHashes
from jupyter_gkews.kernel.checkpoint.known import KNOWN
from jupyter_gkews.kernel.checkpoint.preparing import Subject
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.running import child_processes
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

UP, DOWN = 5_000_000, 700_000
#: Bytes of the two tensors that count: the first is of two chunks.
WEIGHTS = (UP + DOWN) * 4

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 10) or not sys.platform.startswith("linux") or not hasattr(os, "fork"),
    reason="not made here",
)


@pytest.fixture(autouse=True)
def every_file_counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However small it is, and although it lies in a temporary folder. No process is left."""
    monkeypatch.setattr(safetensors_files, "NOT_DURABLE", ())
    monkeypatch.setattr(safetensors_files, "_opened", {})
    monkeypatch.setattr(early_hashes, "LEAST", 1)
    monkeypatch.setattr(early_hashes, "END_S", 60.0)  # this machine may be busy
    monkeypatch.setattr(chunks, "cores", lambda: 2)
    monkeypatch.setattr(KNOWN, "_chunks", {})  # of another test's memory at the same place
    yield
    assert not early_hashes.PIDS
    left = [child for child in psutil.Process().children() if "file_hashing" in str(_words(child))]
    assert not left


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or [process.name()]
    except psutil.Error:
        return []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "model.safetensors", 0)


@pytest.fixture
def weights(file: Path) -> dict[str, Any]:
    """Private maps of the file, as safetensors makes them for torch."""
    return mapped(file)


def write(path: Path, seed: int) -> Path:
    numbers = np.arange(seed, UP + seed, dtype=np.float32)
    save_file({"up": numbers, "down": numbers[:DOWN][::-1].copy()}, path)
    return path


def places(path: Path) -> dict[str, int]:
    with open(path, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    return {name: 8 + length + header[name]["data_offsets"][0] for name in ("up", "down")}


def mapped(path: Path) -> dict[str, Any]:
    safetensors_files.note(path)
    at = places(path)
    with open(path, "rb") as opened:
        memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    return {
        "up": np.frombuffer(memory, "f4", UP, at["up"]),
        "down": np.frombuffer(memory, "f4", DOWN, at["down"]),
    }


def begun(store: CheckpointStore) -> EarlyHashes:
    early = EarlyHashes()
    early.begin(store.root)
    return early


def made(store: CheckpointStore) -> None:
    """All hashes of what is mapped now, however long that takes."""
    early = begun(store)
    assert early._process is not None
    assert early._process.wait(60) == 0
    early.end()


def learnt(weights: dict[str, Any]) -> int:
    """Bytes of the weights whose hashes are known."""
    found = 0
    for array in weights.values():
        for at in range(0, array.nbytes, chunks.CHUNK):
            nbytes = min(chunks.CHUNK, array.nbytes - at)
            chunk = KNOWN.get(array.ctypes.data + at, nbytes)
            found += chunk.nbytes if chunk is not None else 0
    return found


def saved(ns: dict[str, Any], store: CheckpointStore) -> dict[str, Any]:
    return save(ns, store, checkpoint="one", prove=False)


def comes_back(ns: dict[str, Any], store: CheckpointStore) -> None:
    """The values of now, also by the names of the chunks."""
    back: dict[str, Any] = {}
    assert not restore(back, store, "one", verify="full").lost
    for name, array in ns.items():
        assert np.array_equal(back[name], array)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that this process names itself, piece by piece."""
    found: list[int] = []
    update = chunks.Hashing.update

    def count(self: chunks.Hashing, piece: Any) -> None:
        found.append(len(piece))
        update(self, piece)

    monkeypatch.setattr(chunks.Hashing, "update", count)
    return found


def test_what_was_hashed_early_is_not_hashed_again_and_is_the_same(
    store: CheckpointStore, weights: dict[str, Any], hashed: list[int]
) -> None:
    made(store)
    assert learnt(weights) == WEIGHTS
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS
    assert sum(hashed) < 100_000
    comes_back(weights, store)
    names = {piece[2] for each in store.manifest("one").referenced() for piece in each.pieces}
    up = memoryview(weights["up"]).cast("B")
    assert {chunks.name_of(up[: chunks.CHUNK]), chunks.name_of(up[chunks.CHUNK :])} <= names


def test_what_was_not_done_in_time_is_hashed_as_ever(
    store: CheckpointStore, weights: dict[str, Any]
) -> None:
    begun(store).end()
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS
    comes_back(weights, store)


def test_a_checkpoint_in_the_background_takes_what_there_is(
    store: CheckpointStore, weights: dict[str, Any]
) -> None:
    with begun(store) as early:
        assert early._process is not None and early._process.wait(60) == 0
        saving = BackgroundSave(Subject(weights, "one"), store, prove="off", early=early)
        saving.capture()
        assert learnt(weights) == WEIGHTS
        weights["up"][:] = 0  # of a later moment
        assert saving.finish()["bytes"]["referenced"] == WEIGHTS
    assert not early_hashes.PIDS


def test_bytes_that_are_written_meanwhile_are_saved_as_they_are(
    store: CheckpointStore, weights: dict[str, Any]
) -> None:
    weights["down"][7] += 1
    early = begun(store)
    weights["up"][chunks.CHUNK // 4 + 5] += 1  # in its second chunk
    assert early._process is not None and early._process.wait(60) == 0
    early.end()
    assert learnt(weights) == WEIGHTS  # of the file: wrong for both, and not believed
    assert saved(weights, store)["bytes"]["referenced"] == 0
    comes_back(weights, store)


def test_so_they_are_by_an_image_which_looks_at_their_pages_once(
    store: CheckpointStore, weights: dict[str, Any]
) -> None:
    with begun(store) as early:
        assert early._process is not None and early._process.wait(60) == 0
        weights["up"][chunks.CHUNK // 4 + 5] += 1
        expected = {name: array.copy() for name, array in weights.items()}
        saving = BackgroundSave(Subject(weights, "one"), store, prove="off", early=early)
        saving.capture()
        weights["down"][7] += 1  # of a later moment
        assert saving.finish()["bytes"]["referenced"] == DOWN * 4
    comes_back(expected, store)


@pytest.mark.parametrize("says", [None, 0, 1, 2])
def test_a_system_that_tells_nothing_of_pages_is_not_believed(
    store: CheckpointStore,
    weights: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    says: int | None,
) -> None:
    def kinds(address: int, nbytes: int) -> bytes | None:
        return None if says is None else bytes([says]) * (nbytes // mmap.PAGESIZE + 2)

    weights["down"][7] += 1
    own_memory.told.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(own_memory, "_kinds", kinds)
        assert not own_memory.told()
        assert saved(weights, store)["bytes"]["referenced"] == UP * 4  # compared with the file
    own_memory.told.cache_clear()
    comes_back(weights, store)


def test_pages_that_were_written_to_are_told_from_the_others(weights: dict[str, Any]) -> None:
    if not Path("/proc/self/pagemap").exists():
        pytest.skip("this system does not tell")
    assert own_memory.told()
    up = weights["up"]
    assert own_memory.untouched(up.ctypes.data, up.nbytes)
    assert up.sum() > 0  # looked at
    assert own_memory.untouched(up.ctypes.data, up.nbytes)
    up[UP // 2] = up[UP // 2]
    assert not own_memory.untouched(up.ctypes.data, up.nbytes)
    half = up.nbytes // 2 - (1 << 16)
    assert own_memory.untouched(up.ctypes.data, half)


@pytest.mark.parametrize("seen", [True, False])
def test_a_file_that_is_changed_in_place_afterwards_is_hashed_again(
    store: CheckpointStore, file: Path, weights: dict[str, Any], seen: bool
) -> None:
    before = file.stat()
    made(store)
    at = places(file)["up"] + 12_345
    with open(file, "r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))
    if not seen:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    saved(weights, store)  # memory that was not written to shows the file as it is now
    comes_back(weights, store)


@pytest.mark.parametrize("dirty", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_a_file_that_is_changed_in_place_while_it_is_hashed_is_hashed_again(
    store: CheckpointStore, file: Path, weights: dict[str, Any], background: bool, dirty: bool
) -> None:
    before, at = file.stat(), places(file)
    with begun(store) as early:
        (pid,) = early_hashes.PIDS
        os.kill(pid, signal.SIGSTOP)  # wherever it is
        with open(file, "r+b") as opened:
            for name, array in weights.items():
                if dirty:  # one page of these is the process's own, and stays as it is
                    array[-5000] = array[-5000]
                opened.seek(at[name] + array.nbytes - 30_000)
                opened.write(b"\1" * 30_000)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.kill(pid, signal.SIGCONT)
        assert early._process is not None and early._process.wait(60) == 0
        expected = {name: array.copy() for name, array in weights.items()}
        if background:
            saving = BackgroundSave(Subject(weights, "one"), store, prove="off", early=early)
            saving.capture()
            summary = saving.finish()
        else:
            early.end()
            summary = saved(weights, store)
    # what is partly the file's, and partly as it was before, is no reference to it
    assert summary["bytes"]["referenced"] == (0 if dirty else WEIGHTS)
    comes_back(expected, store)


@pytest.mark.parametrize("background", [False, True])
def test_the_end_of_a_file_that_is_cut_off_afterwards_is_what_the_memory_shows(
    store: CheckpointStore, file: Path, weights: dict[str, Any], background: bool
) -> None:
    # within its last page, of which the rest reads as zeros: further, reading ends the process
    made(store)
    size = file.stat().st_size
    cut = min(1000, size % mmap.PAGESIZE - 1)
    assert cut > 4
    os.truncate(file, size - cut)
    expected = {name: array.copy() for name, array in weights.items()}
    assert any((expected[name] == 0).sum() > 1 for name in expected)
    if background:
        saving = BackgroundSave(Subject(weights, "one"), store, prove="off")
        saving.capture()
        saving.finish()
    else:
        saved(weights, store)
    comes_back(expected, store)


@pytest.mark.parametrize("row", [0, UP // 1000 // 2, UP // 1000 - 1])
def test_one_row_of_a_tensor_that_is_changed_afterwards_is_saved_as_it_is(
    store: CheckpointStore, weights: dict[str, Any], row: int
) -> None:
    with begun(store) as early:
        assert early._process is not None and early._process.wait(60) == 0
        weights["up"].reshape(-1, 1000)[row] *= -1
        weights["up"][0] = -1  # the first of row 0 is zero
        expected = {name: array.copy() for name, array in weights.items()}
        saving = BackgroundSave(Subject(weights, "one"), store, early=early)
        saving.capture()
        assert learnt(weights) == WEIGHTS  # of the file
        summary = saving.finish()
    assert summary["bytes"]["referenced"] == DOWN * 4
    assert summary["proved"] and not summary["counts"]["lost"]
    comes_back(expected, store)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_is_replaced_says_nothing_of_the_memory(
    store: CheckpointStore, file: Path, weights: dict[str, Any], when: str
) -> None:
    if when == "after":
        made(store)
    os.replace(write(file.with_name("other"), 1), file)
    if when == "before":
        early = begun(store)
        assert early._process is None
        early.end()
        assert learnt(weights) == 0
    assert saved(weights, store)["bytes"]["referenced"] == 0
    comes_back(weights, store)


def test_a_file_that_is_replaced_or_cut_while_it_is_read_gives_no_hash(
    tmp_path: Path, file: Path
) -> None:
    size = file.stat().st_size
    other = write(tmp_path / "other", 1)
    parts = [[0, 1000], [size - 1000, 1001], [1000, 3 << 20]]
    results = in_the_process(
        [[str(file), file.stat().st_ino, parts], [str(other), file.stat().st_ino, parts]]
    )
    assert [record[0] for record in results] == [1, 0, 1, 0, 0, 0]
    data = file.read_bytes()[1000 : 1000 + (3 << 20)]
    chunk = chunks.chunk_of(data)
    assert (f"blake3-{results[2][1].hex()}", results[2][2].hex()) == (chunk.name, chunk.quick)
    assert chunk.name == chunks.name_of(data) and chunk.quick == chunks.quick_of(data)


def test_it_does_nothing_for_a_kernel_that_is_gone(file: Path) -> None:
    parts = [[0, 1000]]
    files = [[str(file), file.stat().st_ino, parts]]
    assert [record[0] for record in in_the_process(files, kernel=1 << 30)] == [0]


def in_the_process(files: list[Any], kernel: int | None = None) -> list[tuple[int, bytes, bytes]]:
    order = {
        "kernel": kernel or os.getpid(),
        "paths": chunks.where_installed(),
        "threads": 3,
        "files": files,
    }
    given, results = os.memfd_create("order"), os.memfd_create("results")
    os.write(given, json.dumps(order).encode())
    script = file_hashing.__file__
    command = [sys.executable, "-I", "-S", script, str(given), str(results)]
    try:
        done = subprocess.run(command, pass_fds=(given, results), capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        size = file_hashing.RECORD.size
        records = os.pread(results, 1 << 20, 0).ljust(
            size * sum(len(parts) for _, _, parts in files), b"\0"
        )
    finally:
        os.close(given)
        os.close(results)
    return [
        file_hashing.RECORD.unpack(records[at : at + size]) for at in range(0, len(records), size)
    ]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_hangs_costs_only_its_hashes(
    store: CheckpointStore, weights: dict[str, Any], how: signal.Signals
) -> None:
    early = begun(store)
    (pid,) = early_hashes.PIDS
    os.kill(pid, how)
    began = time.monotonic()
    early.end()
    assert time.monotonic() - began < 30
    assert not psutil.pid_exists(pid)
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS
    comes_back(weights, store)


def test_one_that_does_not_end_is_not_waited_for_but_ended_later(
    store: CheckpointStore, weights: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    early = begun(store)
    (pid,) = early_hashes.PIDS
    os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:  # what the system makes of it when its disk is away
        patch.setattr(early_hashes, "END_S", 0.01)
        patch.setattr(early._process, "kill", lambda: None)
        early.end()
    assert psutil.pid_exists(pid) and learnt(weights) == 0
    assert {pid} == early_hashes.PIDS  # not the user's, whatever has become of it
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS
    early.end()
    assert not psutil.pid_exists(pid)


def test_one_that_cannot_be_started_is_no_error(
    store: CheckpointStore, weights: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/there/is/no/python")
        begun(store).end()
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS


def test_one_that_may_not_be_started_is_no_error(
    store: CheckpointStore, weights: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise RuntimeError("no process here")  # as an audit hook of the user's may

    with monkeypatch.context() as patch:
        patch.setattr(early_hashes.subprocess, "Popen", refuse)
        begun(store).end()
    assert saved(weights, store)["bytes"]["referenced"] == WEIGHTS


def test_the_start_of_a_kernel_imports_nothing_of_it() -> None:
    code = (
        "import sys\n"
        "import jupyter_gkews.kernel.session, jupyter_gkews.kernel.magics\n"
        "from jupyter_gkews.kernel.checkpoint import start_state, zygote\n"
        "ours = 'jupyter_gkews.kernel.checkpoint.early_hashes'\n"
        "heavy = 'blake3', 'xxhash', 'cloudpickle', ours\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_a_cancel_ends_it(store: CheckpointStore, weights: dict[str, Any]) -> None:
    with pytest.raises(GkewsError) as caught, begun(store) as early:
        (pid,) = early_hashes.PIDS
        BackgroundSave(
            Subject(weights, "one"), store, cancelled=lambda: True, early=early
        ).capture()
    assert caught.value.reason == "cancelled"
    assert not psutil.pid_exists(pid)


def test_it_is_no_child_process_of_the_users(
    store: CheckpointStore, weights: dict[str, Any]
) -> None:
    with begun(store):
        (pid,) = early_hashes.PIDS
        os.kill(pid, signal.SIGSTOP)  # it is there
        assert not [name for name in child_processes() if f"({pid})" in name]


@pytest.mark.parametrize("why", ["nothing mapped", "known", "little", "one core", "no hash"])
def test_it_is_not_started_for_nothing(
    store: CheckpointStore, file: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why != "nothing mapped":
        kept = mapped(file)
        assert kept
    else:
        safetensors_files.note(file)
    if why == "known":
        made(store)
    if why == "little":
        monkeypatch.setattr(early_hashes, "LEAST", WEIGHTS + 1)
    if why == "one core":
        monkeypatch.setattr(chunks, "cores", lambda: 1)
    if why == "no hash":
        monkeypatch.setattr(chunks, "_blake3", None)
    started: list[Any] = []
    monkeypatch.setattr(early_hashes.subprocess, "Popen", lambda *a, **k: started.append(a))
    early = begun(store)
    assert not started
    early.end()


def test_files_that_will_not_stay_are_not_hashed(
    store: CheckpointStore, weights: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_files, "durable", lambda file, store: False)
    early = begun(store)
    assert early._process is None
    early.end()
