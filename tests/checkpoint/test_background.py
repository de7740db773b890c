"""A checkpoint holds the moment of its capture, whatever the process does while it is written."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import background, forkable, forked
from jupyter_gkews.kernel.checkpoint.background import (
    BackgroundSave,
    NotInBackgroundError,
    SaveAgainError,
)
from jupyter_gkews.kernel.checkpoint.forked import Image, ImageLostError
from jupyter_gkews.kernel.checkpoint.preparing import Subject
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]


def captured(
    store: CheckpointStore, live: dict[str, Any], checkpoint: str = "one", **kwargs: Any
) -> BackgroundSave:
    saving = BackgroundSave(Subject(live, checkpoint), store, **kwargs)
    saving.capture()
    return saving


def back(store: CheckpointStore, checkpoint: str = "one") -> dict[str, Any]:
    target: dict[str, Any] = {}
    restore(target, store, checkpoint, verify="full")
    return target


def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def only(store: CheckpointStore, *checkpoints: str) -> bool:
    """Whether these are there, and nothing of any other."""
    found = {path.name for path in (store.root / "checkpoints").iterdir()}
    return found == set(checkpoints)


@pytest.fixture(autouse=True)
def no_image_is_left() -> Iterator[None]:
    """None at work, and none that nobody has waited for."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    left_at_work = list(forked.AT_WORK)
    for pid in left_at_work:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    forked.AT_WORK.clear()
    assert not left_at_work
    left = [child for child in psutil.Process().children() if child.pid not in before]
    assert not [child for child in left if child.status() == psutil.STATUS_ZOMBIE]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The images write nothing before this file is there."""
    path = tmp_path / "gate"
    store_bytes = background.store_bytes

    def when_open(*args: Any, check: Callable[[], None], **kwargs: Any) -> Any:
        while not path.exists():
            check()
            time.sleep(0.01)
        return store_bytes(*args, check=check, **kwargs)

    monkeypatch.setattr(background, "store_bytes", when_open)
    return path


def test_it_holds_the_moment_of_the_capture(
    store: CheckpointStore, namespace: Make, gate: Path
) -> None:
    live = namespace(
        "import numpy as np\n"
        "big = np.arange(3_000_000)\nview = big[10:20]\n"
        "many = [np.full(50, i) for i in range(300)]\n"
        "words = {'a': [1, 2]}\ngone = np.ones(500_000)"
    )
    saving = captured(store, live)
    # every byte of every array, and all the rest
    live["big"] ^= -1
    for each in live["many"]:
        each += 1
    live["words"]["a"].append(3)
    del live["gone"]
    live["new"] = np.zeros(1000)
    gate.touch()
    summary = saving.finish()
    assert summary["counts"]["lost"] == 0
    got = back(store)
    assert np.array_equal(got["big"], np.arange(3_000_000))
    assert all((each == i).all() for i, each in enumerate(got["many"]))
    assert got["words"] == {"a": [1, 2]} and (got["gone"] == 1).all() and "new" not in got
    got["big"][10] = -7
    assert got["view"][0] == -7


def test_memory_shared_with_other_processes_is_of_that_moment_too(
    store: CheckpointStore, namespace: Make, gate: Path
) -> None:
    shared = mmap.mmap(-1, 3 << 20)  # MAP_SHARED: a fork sees what is written to it afterwards
    whole = np.frombuffer(shared, np.uint8)
    whole[:] = 5
    live = namespace("")
    live.update(part=whole[5000 : 2 << 20], rest=whole[-100:])
    saving = captured(store, live)
    whole[:] = 6
    gate.touch()
    saving.finish()
    got = back(store)
    assert len(got["part"]) == (2 << 20) - 5000 and (got["part"] == 5).all()
    assert (got["rest"] == 5).all() and (whole == 6).all()


def test_more_shared_memory_than_can_be_copied_at_once_is_a_reason_to_wait(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkable, "SHARED_LIMIT", 1 << 20)
    live = namespace("")
    live["shared"] = np.frombuffer(mmap.mmap(-1, 3 << 20), np.uint8)
    with pytest.raises(NotInBackgroundError, match="other processes share"):
        captured(store, live)
    assert only(store)
    assert save(live, store, checkpoint="two", prove="off")["counts"]["kept"] == 1


def test_objects_that_the_user_drops_meanwhile_are_freed_at_once(
    store: CheckpointStore, namespace: Make, gate: Path
) -> None:
    live = namespace("class Big: pass\nbig = Big()\nbig.data = bytes(2_000_000)\nbig.loop = big")
    gone = weakref.ref(live["big"])
    saving = captured(store, live)
    del live["big"]
    gc.collect()
    assert gone() is None
    gate.touch()
    saving.finish()
    assert len(back(store)["big"].data) == 2_000_000


def test_what_is_stored_already_is_not_written_again_in_either_way(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("import numpy as np\nbig = np.random.default_rng(1).random(4_000_000)")
    assert captured(store, live, "one").finish()["bytes"]["written"] > 32_000_000
    assert save(live, store, checkpoint="two")["bytes"]["written"] < 100_000
    assert captured(store, live, "three").finish()["bytes"]["written"] < 100_000
    live["big"][0] += 1
    assert captured(store, live, "four").finish()["bytes"]["written"] < 20_000_000
    for name in ("one", "two", "three", "four"):
        assert len(back(store, name)["big"]) == 4_000_000


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_image_that_dies_is_noticed_and_leaves_nothing(
    store: CheckpointStore, namespace: Make, gate: Path, how: int
) -> None:
    saving = captured(store, namespace("x = bytes(3_000_000)"))
    (pid,) = forked.AT_WORK
    os.kill(pid, how)
    with pytest.raises(SaveAgainError, match=f"it ended by signal {int(how)}"):
        saving.finish()
    assert only(store)


def test_an_image_that_hangs_is_given_up(
    store: CheckpointStore, namespace: Make, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "STALL_S", 0.5)
    with pytest.raises(SaveAgainError, match="no progress for"):
        captured(store, namespace("x = bytes(3_000_000)")).finish()
    assert only(store)


def test_a_full_disk_in_the_image_is_told_as_such(
    store: CheckpointStore, namespace: Make, gate: Path
) -> None:
    live = namespace("import numpy as np\nx = np.random.default_rng(1).random(1_000_000)")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        saving = captured(store, live)
        gate.touch()
        with pytest.raises(GkewsError) as caught:
            saving.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.reason == "disk_full"
    assert only(store)


def test_a_cancel_ends_it_although_its_image_would_never_end(
    store: CheckpointStore, namespace: Make, gate: Path
) -> None:
    asked = threading.Event()
    saving = captured(store, namespace("x = bytes(3_000_000)"), cancelled=asked.is_set)
    timer = threading.Timer(0.3, asked.set)
    timer.start()
    with pytest.raises(GkewsError) as caught:
        saving.finish()
    timer.join()
    assert caught.value.reason == "cancelled"
    assert not gate.exists() and not forked.AT_WORK
    assert only(store)


def test_a_variable_that_does_not_come_back_equal_makes_it_be_saved_again_without(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(
        "class Odd:\n"
        "    def __init__(self): self.n = 1\n"
        "    def __reduce__(self): return (make, ())\n"
        "def make():\n"
        "    return 2\n"
        "odd = Odd()\ngood = [1, 2]"
    )
    with pytest.raises(SaveAgainError) as caught:
        captured(store, live).finish()
    told = caught.value  # doubted where the test runner has a thread of its own
    assert {*told.refused, *told.doubted} == {"odd"} and "odd" in str(told)
    summary = save(live, store, checkpoint="two", refused=told.refused, doubted=told.doubted)
    assert [row["name"] for row in summary["lost"]] == ["odd"]
    assert back(store, "two")["good"] == [1, 2]


#: A thread of the user's that works on `ticks` once, just after `ticks` was written.
TICKING = """
import threading
ticks, due, done, rest = [1], threading.Event(), threading.Event(), threading.Event()
def tick():
    due.wait(); ticks.append(2); done.set()
    rest.wait()
ticking = threading.Thread(target=tick)
ticking.start()
class Late:
    def __reduce__(self):
        due.set(); done.wait()
        return (int, ())
late = Late()
"""


def test_what_a_thread_changes_just_after_it_was_written_is_not_lost(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(TICKING)
    hidden = frozenset({"due", "done", "rest", "ticking", "tick", "Late"})
    try:
        saving = BackgroundSave(Subject(live, "one", hidden), store)
        saving.capture()
        assert live["ticks"] == [1, 2], "it was changed between the graph and the image"
        with pytest.raises(SaveAgainError) as caught:
            saving.finish()
        assert caught.value.doubted == {"ticks", "late"} and not caught.value.refused
        again = save(live, store, checkpoint="two", hidden=hidden, doubted=caught.value.doubted)
    finally:
        live["due"].set(), live["rest"].set()
        live["ticking"].join()
    assert [row["name"] for row in again["lost"]] == ["late"], "which is no number here"
    assert back(store, "two")["ticks"] == [1, 2]


def test_nor_is_it_where_the_kernel_waits_for_the_save(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(TICKING)
    hidden = frozenset({"due", "done", "rest", "ticking", "tick", "Late"})
    try:
        summary = save(live, store, checkpoint="one", hidden=hidden)
    finally:
        live["due"].set(), live["rest"].set()
        live["ticking"].join()
    assert [row["name"] for row in summary["lost"]] == ["late"]
    assert back(store)["ticks"] == [1, 2]


def test_an_image_holds_nothing_open_and_hears_no_signal_of_the_kernels(
    store: CheckpointStore, namespace: Make, gate: Path, tmp_path: Path
) -> None:
    with open(tmp_path / "users.txt", "w") as users, psutil.Popen(["cat"], stdin=-1) as cat:
        users.write("once\n")  # still in the buffer
        saving = captured(store, namespace("x = bytes(3_000_000)"))
        (pid,) = forked.AT_WORK
        adjusted = Path(f"/proc/{pid}/oom_score_adj")
        until(lambda: adjusted.read_text().strip() == "1000")  # the last thing that it does
        held = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        assert all(name == "/dev/null" or name.startswith("pipe:") for name in held)
        assert len([name for name in held if name.startswith("pipe:")]) == 1
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGALRM)
        cat.stdin.close()  # not held open by the image, or cat would never end
        assert cat.wait(60) == 0
        gate.touch()
        assert saving.finish()["counts"]["kept"] == 1
    assert (tmp_path / "users.txt").read_text() == "once\n"


def test_an_image_ends_with_its_process() -> None:
    code = (
        "import os, signal, time\n"
        "from jupyter_gkews.kernel.checkpoint.forked import Image\n"
        "image = Image(lambda check, progress: time.sleep(60))\n"
        "print(image.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    until(lambda: not runs(pid))


def test_no_handler_at_exit_runs_in_an_image(tmp_path: Path) -> None:
    import atexit

    def mark() -> None:
        (tmp_path / "ran").touch()

    atexit.register(mark)
    try:

        def fail(check: Any, progress: Any) -> dict[str, Any]:
            raise SystemExit(3)

        with pytest.raises(ImageLostError, match="SystemExit"):
            Image(fail).outcome(lambda: None, lambda done, total: None)
    finally:
        atexit.unregister(mark)
    assert not (tmp_path / "ran").exists()


def test_a_kernel_that_uses_a_device_waits(tmp_path: Path) -> None:
    fds = tmp_path / "self" / "fd"
    fds.mkdir(parents=True)
    (fds / "9").symlink_to("/dev/nvidia-uvm")
    assert "/dev/nvidia-uvm" in str(forkable.why_not(tmp_path))


def test_a_kernel_waits_where_memory_is_short(tmp_path: Path) -> None:
    (tmp_path / "self" / "fd").mkdir(parents=True)
    (tmp_path / "self" / "cgroup").write_text("")
    (tmp_path / "self" / "status").write_text("Name:\tpython\nRssAnon:\t 6000000 kB\n")
    for free, short in ((5_000_000, True), (7_000_000, False)):
        (tmp_path / "meminfo").write_text(f"MemTotal: 9000000 kB\nMemAvailable: {free} kB\n")
        why = forkable.why_not(tmp_path)
        assert ("memory is short" in str(why)) is short, why


def rounds_under_load(store: CheckpointStore, namespace: Make, rounds: int) -> None:
    """Fork again and again while threads allocate, compute, hash, import and start threads."""
    import hashlib
    import importlib

    import torch

    live = namespace(
        "import numpy as np\nx = np.arange(400_000)\ny = [np.ones(30) * i for i in x[:99]]"
    )
    stop = threading.Event()
    taken: list[int] = []
    products = [0, 0]

    def allocate() -> None:
        while not stop.is_set():
            [bytearray(5000 + i) for i in range(300)]

    def compute(number: int) -> None:
        a = np.random.default_rng(0).random((120, 120)) / 60  # large enough for workers
        t = torch.ones(200, 200)
        while not stop.is_set():
            a @ a
            (t @ t).sum().item()
            products[number] += 1

    def others() -> None:
        import json.tool  # a module that may be loaded anew

        while not stop.is_set():
            importlib.reload(json.tool)
            hashlib.blake2b(bytes(100_000)).digest()
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()

    work = (allocate, lambda: compute(0), lambda: compute(1), others)
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            live["x"][:] = number
            try:
                saving = captured(store, live, f"n{number}", prove="off")
            except NotInBackgroundError as why:
                assert "may be computing" in str(why)
                continue
            live["x"] -= 1000
            saving.finish()  # SaveAgainError where the image hung
            taken.append(number)
        assert taken, "no round found the threads outside of a product of matrices"
        # nor does a thread of the process wait for what the fork has ended
        before = list(products)
        until(lambda: all(now > then for now, then in zip(products, before, strict=True)), 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    for number in taken[:: max(1, rounds // 5)]:
        got = back(store, f"n{number}")
        assert (got["x"] == number).all() and (got["y"][7] == 7).all()


def test_an_image_never_waits_for_a_lock_that_a_thread_of_its_process_held(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "STALL_S", 30.0)
    rounds_under_load(store, namespace, 5)


@pytest.mark.soak
def test_an_image_never_waits_for_such_a_lock_in_many_rounds(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "STALL_S", 30.0)
    rounds_under_load(store, namespace, 100)
