"""A checkpoint is proved before it counts, as cheaply as can be, and says truly how."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import headroom, proof, proved, zygote
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def no_scratch_process_is_left() -> Iterator[None]:
    zygote.end()
    yield
    zygote.end()


def test_what_was_proved_is_not_loaded_again_and_the_checkpoint_says_by_which_one(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("import numpy as np\nbig = np.arange(1_000_000)\nwords = ['a', 'b']")
    first = save(live, store, checkpoint="first")["proved"]
    second = save(live, store, checkpoint="second")["proved"]
    assert (first["how"], first["by"], first["why"]) == ("scratch", "first", None)
    assert (second["how"], second["by"], second["when"]) == ("scratch", "first", first["when"])
    assert "nothing it depends on has changed" in second["why"]
    assert store.manifest("second").proved == second
    live["words"].append("c")
    assert save(live, store, checkpoint="third")["proved"]["by"] == "third"
    live["words"].pop()
    assert save(live, store, checkpoint="fourth")["proved"]["by"] == "first"


def test_a_thread_that_has_ended_since_takes_no_verdict_away(
    store: CheckpointStore, namespace: Make
) -> None:
    live, goes_on = namespace("n = 1"), threading.Event()
    beside = threading.Thread(target=goes_on.wait, name="beside")
    beside.start()
    try:
        save(live, store, checkpoint="a")
    finally:
        goes_on.set()
        beside.join()
    assert save(live, store, checkpoint="b")["proved"]["by"] == "a"
    told = [[row["what"] for row in store.manifest(each).process] for each in ("a", "b")]
    assert "running threads" in told[0]
    assert "running threads" not in told[1]


def test_a_verdict_does_not_outlive_a_change_of_what_the_load_depends_on(
    store: CheckpointStore,
    namespace: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = tmp_path / "gkews_shapes.py"
    module.write_text("class Square:\n    side = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    live = namespace("import gkews_shapes\ns = gkews_shapes.Square()")
    try:
        save(live, store, checkpoint="a")
        assert save(live, store, checkpoint="b")["proved"]["by"] == "a"
        monkeypatch.setenv("GKEWS_TEST_OTHER", "1")
        assert save(live, store, checkpoint="c")["proved"]["by"] == "c"
        # The class is gone from the file: the scratch process, which has it, must not say "kept".
        module.write_text("class Circle:\n    radius = 2\n")
        summary = save(live, store, checkpoint="d")
        assert summary["proved"]["by"] == "d"
        assert [row["name"] for row in summary["lost"]] == ["s"]
    finally:
        sys.modules.pop("gkews_shapes", None)


def test_a_damaged_chunk_is_not_trusted_by_a_verdict(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("import numpy as np\nbig = np.arange(1_000_000)")
    save(live, store, checkpoint="a")
    (name, _, _), *_ = store.manifest("a").chunks
    path = store.chunk_path(name)
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    save(live, store, checkpoint="b")
    target: dict[str, Any] = {}
    restore(target, store, "b", verify="full")
    assert target["big"][5] == 5


def test_the_scratch_process_is_kept_for_the_next_save_and_loads_each_in_a_fork(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("n = 1")
    save(live, store, checkpoint="a")
    pid = zygote.kept_pid()
    assert pid is not None
    live["n"] = 2
    assert save(live, store, checkpoint="b")["proved"]["by"] == "b"
    assert zygote.kept_pid() == pid
    os.kill(pid, 9)  # as the system may
    live["n"] = 3
    assert save(live, store, checkpoint="c")["proved"]["by"] == "c"
    assert zygote.kept_pid() not in (None, pid)


def test_it_is_kept_where_a_library_starts_a_thread_when_it_is_imported(
    store: CheckpointStore, namespace: Make
) -> None:
    pytest.importorskip("pyarrow")
    live = namespace("import pyarrow\nn = 1")
    save(live, store, checkpoint="a")
    pid = zygote.kept_pid()
    assert pid is not None
    live["n"] = 2
    assert save(live, store, checkpoint="b")["proved"]["by"] == "b"
    assert zygote.kept_pid() == pid


def test_what_a_load_needs_is_imported_once_for_all_loads(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[list[str]] = []
    answers = zygote.Zygote.answers

    def noting(self: zygote.Zygote, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
        for answer in answers(self, check):
            if "imported" in answer:
                imported.append(answer["imported"])
            yield answer

    monkeypatch.setattr(zygote.Zygote, "answers", noting)
    live = namespace("words = ['a']")
    save(live, store, checkpoint="a")
    live["words"].append("b")
    save(live, store, checkpoint="b")
    first, second = imported
    assert "jupyter_gkews.kernel.checkpoint.restore" not in first
    assert [name for name in second if name.startswith("jupyter_gkews")] == []


def test_the_scratch_process_ends_when_nothing_is_asked_and_when_the_kernel_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zygote, "IDLE_S", 0.0)
    process = zygote.Zygote([])
    deadline = time.monotonic() + 30
    while process.good() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process.good() and process._process.returncode == 0
    process.close()
    monkeypatch.setattr(zygote, "IDLE_S", 300.0)
    other = zygote.Zygote([])
    os.close(other._out)  # all that it sees of a kernel that was killed
    assert other._process.wait(30) == 0
    other._out = os.open(os.devnull, os.O_WRONLY)
    other.close()


def test_the_scratch_process_is_no_child_of_the_users(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("n = 1")
    save(live, store, checkpoint="a")
    scratch = zygote.kept_pid()
    live["n"] = 2
    users = subprocess.Popen(["sleep", "600"])
    try:
        save(live, store, checkpoint="b")
    finally:
        users.kill()
        users.wait()
    assert scratch is not None and zygote.kept_pid() == scratch
    # This process may have others: of whatever tests ran in it before.
    told = {name: str(store.manifest(name).process) for name in ("a", "b")}
    assert f"sleep ({users.pid})" in told["b"]
    assert f"({scratch})" not in told["a"] + told["b"]


def test_read_back_finds_what_the_disk_has_changed(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = namespace("import numpy as np\nbig = np.arange(1_000_000)")
    told = save(live, store, checkpoint="good", prove="read-back")["proved"]
    assert (told["how"], told["by"], told["why"]) == ("read-back", None, "it was asked for")
    live["big"] = live["big"] + 1
    staged: list[Path] = []

    def damage(step: str, _done: int, _total: int) -> None:
        if step == "verifying" and not staged:
            for folder in (store.root / "checkpoints").glob(".saving-*"):
                staged.extend(sorted((folder / "chunks").iterdir()))
            staged[0].write_bytes(b"x" * staged[0].stat().st_size)

    with pytest.raises(GkewsError) as caught:
        save(live, store, checkpoint="bad", prove="read-back", progress=damage)
    assert caught.value.reason == "verification_failed" and staged[0].name in caught.value.message
    assert [summary["id"] for summary in store.summaries()] == ["good"]


def test_off_is_off_and_said_so(store: CheckpointStore, namespace: Make) -> None:
    told = save(namespace("n = 1"), store, checkpoint="a", prove="off")["proved"]
    assert (told["how"], told["when"]) == ("off", None)
    assert zygote.kept_pid() is None
    with pytest.raises(GkewsError) as caught:
        save(namespace("n = 1"), store, checkpoint="b", prove="maybe")
    assert caught.value.reason == "bad_request"


def test_where_memory_is_short_it_is_read_back_and_said_why(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "SPARE", 1 << 60)  # more than any machine has to spare
    told = save(namespace("n = 1"), store, checkpoint="a")["proved"]
    assert told["how"] == "read-back" and "memory is short" in told["why"]
    assert zygote.kept_pid() is None
    # found only after the graph was written: what was started is ended
    monkeypatch.setattr(proof, "SPARE", 0)
    monkeypatch.setattr(proof, "_GROWTH", 1 << 60)
    told = save(namespace("n = 2"), store, checkpoint="b")["proved"]
    assert told["how"] == "read-back" and zygote.kept_pid() is None


def test_the_tightest_limit_counts(tmp_path: Path) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: 600 kB\n")
    (proc / "vmstat").write_text("nr_free_pages 9\noom_kill 3\n")
    assert headroom.memory(proc, cgroups) == headroom.Memory(600 << 10, 1000 << 10)
    assert headroom.killed_for_memory(proc) == 3
    (proc / "self" / "cgroup").write_text("0::/user/kernel\n")
    folder = cgroups / "user" / "kernel"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("max\n")
    (folder / "memory.current").write_text("77\n")
    assert headroom.memory(proc, cgroups).free == 600 << 10  # type: ignore[union-attr]
    (folder.parent / "memory.max").write_text(f"{400 << 10}\n")
    (folder.parent / "memory.current").write_text(f"{300 << 10}\n")
    (folder.parent / "memory.stat").write_text(f"anon 5\ninactive_file {100 << 10}\n")
    assert headroom.memory(proc, cgroups) == headroom.Memory(200 << 10, 400 << 10)
    (proc / "self" / "cgroup").write_text("4:cpu:/\n5:memory:/pod\n")
    (cgroups / "memory" / "pod").mkdir(parents=True)
    (cgroups / "memory" / "pod" / "memory.limit_in_bytes").write_text("5000")
    (cgroups / "memory" / "pod" / "memory.usage_in_bytes").write_text("4000")
    assert headroom.memory(proc, cgroups) == headroom.Memory(1000, 5000)
    assert headroom.memory(tmp_path / "none", tmp_path / "none") is None


def test_a_bound_that_was_met_is_said(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_gkews.kernel.checkpoint import save as saving

    live = namespace("many = [[i] for i in range(5000)]\nfew = [1, 2]")
    assert save(live, store, checkpoint="whole")["proved"]["partly"] == []
    live["few"].append(3)
    monkeypatch.setattr(saving, "LOOK_S", -1.0)
    summary = save(live, store, checkpoint="part")
    assert summary["proved"]["partly"] == ["many"] and summary["counts"]["lost"] == 0


def test_nothing_is_carried_over_that_depends_on_a_file(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    live = namespace(f"file = open({str(tmp_path / 'notes.txt')!r})")
    save(live, store, checkpoint="a")
    assert save(live, store, checkpoint="b")["proved"]["by"] == "b"
    live["file"].close()


def test_verdicts_are_forgotten_in_the_end(store: CheckpointStore, namespace: Make) -> None:
    proved._remembered.clear()
    live = namespace("n = 0")
    for n in range(12):
        live["n"] = n
        save(live, store, checkpoint=f"c{n}")
    assert len(proved._remembered) == 8


# ---- what is compared ----


def compared(
    live: dict[str, Any], store: CheckpointStore, change: Callable[..., None]
) -> list[str]:
    """The names that look different once `change` was made to what was loaded in their place."""
    from jupyter_gkews.kernel.checkpoint.buffers import Buffers
    from jupyter_gkews.kernel.checkpoint.fingerprint import Fingerprints, differing
    from jupyter_gkews.kernel.checkpoint.places import of_layout

    laid_out: list[Any] = []
    layout = Buffers.layout

    def note(self: Buffers, *placed: Any, **how: Any) -> Any:
        laid_out.append(layout(self, *placed, **how))
        return laid_out[-1]

    Buffers.layout = note  # type: ignore[method-assign]
    try:
        summary = save(live, store, checkpoint="c")
    finally:
        Buffers.layout = layout  # type: ignore[method-assign]
    assert summary["counts"]["lost"] == 0
    loaded: dict[str, Any] = {}
    report = restore(loaded, store, "c", dry=True)
    change(loaded)
    names = [e["name"] for e in store.manifest("c").names if e["kind"] == "variable"]
    here = Fingerprints(live, places=of_layout(laid_out[-1]))
    there = Fingerprints(loaded, places=report.places(set()))
    expected = [here.of(live[name]) for name in names]
    found = [there.of(loaded[name]) for name in names]
    return [names[i] for i in differing(expected, found)]


ARRAYS = """
import numpy as np
base = np.arange(600_000, dtype='i8')
view = base[100:200]
turned = base[:600].reshape(20, 30).T
small = np.arange(10)
twin = small[:]
frozen = np.zeros(4)
frozen.flags.writeable = False
"""

WRONG = {
    "a view at another place": ("view", lambda ns: ns["base"][101:201]),
    "a copy instead of a view": ("view", lambda ns: ns["view"].copy()),
    "other strides on the same bytes": ("turned", lambda ns: ns["base"][:600].reshape(30, 20)),
    "another type of the same bytes": ("view", lambda ns: ns["view"].view("u8")),
    "two that should be one memory": ("twin", lambda ns: ns["twin"].copy()),
    "one that may be written to": ("frozen", lambda ns: np_zeros(4)),
    "another array of equal size": ("base", lambda ns: ns["base"].copy()),
}


def np_zeros(n: int) -> Any:
    import numpy

    return numpy.zeros(n)


@pytest.mark.parametrize("what", WRONG)
def test_an_array_that_came_back_wrong_is_seen_whatever_its_values(
    what: str, store: CheckpointStore, namespace: Make
) -> None:
    name, wrong = WRONG[what]
    live = namespace(ARRAYS)
    assert name in compared(live, store, lambda ns: ns.update({name: wrong(ns)}))


OBJECTS = """
import collections, enum
class Node:
    def __init__(self, value): self.value, self.next = value, None
class Slotted:
    __slots__ = ('left', 'right')
Point = collections.namedtuple('Point', 'x y')
class Colour(enum.Enum):
    RED = 1
one, two = [1], [2]
both = [one, two]
swapped = {'b': two, 'a': one}
chain = Node(0)
link = chain
for number in range(3_000):
    link.next = Node(number)
    link = link.next
del link
slotted = Slotted()
slotted.left = slotted.right = one
words = {'x', 'y', ('z', 1), frozenset((2, 3))}
point = Point(1, [2])
grown = collections.defaultdict(list, a=[1])
colour = Colour.RED
def outer():
    count = [0]
    def inner(step=2): count[0] += step; return count[0]
    return inner
function = outer()
deep = []
for _ in range(2_000): deep = [deep]
"""


def end_of(chain: Any) -> Any:
    while chain.next is not None:
        chain = chain.next
    return chain


CHANGED: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "two parts in each other's place": ("both", lambda ns: ns["both"].reverse()),
    "a part that is a copy": ("both", lambda ns: ns.update(both=[[1], ns["two"]])),
    "an order of keys": (
        "swapped",
        lambda ns: ns.update(swapped=dict(sorted(ns["swapped"].items()))),
    ),
    "the far end of a chain": ("chain", lambda ns: setattr(end_of(ns["chain"]), "value", -1)),
    "one of two slots": ("slotted", lambda ns: setattr(ns["slotted"], "right", [1])),
    "an element of a set": ("words", lambda ns: ns["words"].add("more")),
    "another element of a set": (
        "words",
        lambda ns: (ns["words"].remove("x"), ns["words"].add("w")),
    ),
    "a field": ("point", lambda ns: ns["point"].y.append(3)),
    "a default factory": ("grown", lambda ns: setattr(ns["grown"], "default_factory", dict)),
    "what a closure holds": ("function", lambda ns: ns["function"]()),
    "a default of a function": (
        "function",
        lambda ns: setattr(ns["function"], "__defaults__", (3,)),
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_an_object_that_came_back_wrong_is_seen(
    what: str, store: CheckpointStore, namespace: Make
) -> None:
    name, change = CHANGED[what]
    assert name in compared(namespace(OBJECTS), store, change)


def test_what_came_back_right_looks_right(store: CheckpointStore, namespace: Make) -> None:
    assert compared(namespace(OBJECTS), store, lambda ns: None) == []
    store.delete("c")
    assert compared(namespace(ARRAYS), store, lambda ns: None) == []


def test_the_range_of_an_index_is_compared_and_not_made(
    store: CheckpointStore, namespace: Make
) -> None:
    pandas: Any = pytest.importorskip("pandas")
    live = namespace("import pandas as pd\nframe = pd.DataFrame({'a': range(9)})")
    other = pandas.RangeIndex(1, 10)
    wrong = compared(live, store, lambda ns: setattr(ns["frame"], "index", other))
    assert wrong == ["frame"]
    assert "_data" not in live["frame"].index._cache


def test_no_code_of_the_users_decides_what_is_equal(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(
        """
import random, itertools
counter = itertools.count()
class Moody:
    def __eq__(self, other): raise RuntimeError('never equal')
    def __hash__(self): return 5
    def __repr__(self): raise RuntimeError('no')
    def __len__(self): return next(counter)
class Random:
    def __reduce__(self): return (Random, (), {'drawn': random.SystemRandom().random()})
    def __setstate__(self, state): self.state = state
moody, drawn = [Moody(), Moody()], [Random(), Random()]
members = {Random(), Random()}
"""
    )
    assert save(live, store, checkpoint="c")["counts"]["lost"] == 0
