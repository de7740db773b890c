"""Many bad objects at once, and bad ones of several kinds: all are named, the pause succeeds."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.paths import PATHS
from jupyter_gkews.kernel.checkpoint.placeholders import Lost
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

GOOD = "good = [1, {'k': (2, 3)}]\nalso = good"
KILLER = "import os\nclass Killer:\n    def __reduce__(self): return os._exit, (7,)"
FAILING = "class Failing:\n    def __reduce__(self): return int, ('zz',)"
BROKEN = "class Broken:\n    def __reduce__(self): raise ValueError('not today')"


def reasons(summary: dict[str, Any]) -> dict[str, str]:
    """The reason of each loss, by its name."""
    return {loss["name"]: loss["reason"] for loss in summary["lost"]}


@pytest.mark.parametrize(
    "cell", ["failing = Failing()\nkiller = Killer()", "killer = Killer()\nfailing = Failing()"]
)
def test_the_name_that_ends_the_test_load_is_the_one_that_is_refused(
    store: CheckpointStore, namespace: Make, cell: str
) -> None:
    live = namespace(GOOD, KILLER, FAILING, cell, "after = {'good': good}")
    told = reasons(save(live, store, checkpoint="one"))
    assert told.keys() == {"killer", "failing"}
    assert "ends the process" in told["killer"] and "'zz'" in told["failing"]
    target = namespace()
    restore(target, store, "one")
    assert target["after"]["good"] is target["good"] is target["also"]
    assert type(target["killer"]) is Lost and type(target["failing"]) is Lost


def test_any_number_of_names_may_end_the_test_load(store: CheckpointStore, namespace: Make) -> None:
    live = namespace(GOOD, KILLER, *[f"k{i} = [Killer()]" for i in range(7)])
    told = reasons(save(live, store, checkpoint="one"))
    assert told.keys() == {f"k{i}" for i in range(7)}
    target = namespace()
    restore(target, store, "one")
    assert target["good"] == [1, {"k": (2, 3)}]


def test_names_that_share_what_ends_the_test_load_are_refused_at_once(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(GOOD, KILLER, "k = Killer()", *[f"n{i} = [{{'k': k}}]" for i in range(4)])
    passes: list[str] = []
    summary = save(
        live,
        store,
        checkpoint="one",
        progress=lambda step, done, _total: None if done else passes.append(step),
    )
    assert reasons(summary).keys() == {"k", "n0", "n1", "n2", "n3"}
    assert passes.count("graph") == 2


def test_a_save_that_starts_again_and_again_can_be_cancelled(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(GOOD, KILLER, *[f"k{i} = [Killer()]" for i in range(20)])
    passes: list[str] = []
    with pytest.raises(GkewsError) as caught:
        save(
            live,
            store,
            checkpoint="one",
            progress=lambda step, _done, _total: passes.append(step),
            cancelled=lambda: passes.count("graph") >= 3,
        )
    assert caught.value.reason == "cancelled" and store.summaries() == []


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "KeyboardInterrupt('mine')"])
def test_an_interrupt_that_an_object_raises_itself_loses_only_the_object(
    store: CheckpointStore, namespace: Make, raised: str
) -> None:
    bad = f"class Bad:\n    def __reduce__(self): raise {raised}"
    live = namespace(GOOD, bad, "bad = [Bad(), good]")
    rows = {row["name"]: row["fate"] for row in survives(live, store)["variables"]}
    assert rows == {"good": "kept", "also": "kept", "Bad": "kept", "bad": "rebuilt"}
    told = reasons(save(live, store, checkpoint="one"))
    assert told.keys() == {"bad[0]"} and "a Bad: it could not be kept" in told["bad[0]"]


@pytest.mark.parametrize("then", ["raise", "raise ValueError('no')", "pass"])
def test_a_real_interrupt_inside_an_objects_code_ends_the_save(
    store: CheckpointStore, namespace: Make, then: str
) -> None:
    live = namespace(
        GOOD,
        "import time\nclass Slow:\n    def __reduce__(self):\n        started.set()\n"
        f"        try: time.sleep(10)\n        except KeyboardInterrupt: {then}\n"
        "        return str, ('made',)",
        "slow = [Slow()]",
    )
    live["started"] = started = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        started.wait(20)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        save(live, store, checkpoint="one", prove=False)
    helper.join()
    assert store.summaries() == [] and not list(store.root.glob("checkpoints/.*"))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("when", ["save", "load"])
def test_a_thousand_lost_parts_are_told_in_short_and_each_costs_no_new_pass(
    store: CheckpointStore, namespace: Make, when: str
) -> None:
    cls = "Broken" if when == "save" else "Failing"
    live = namespace(
        GOOD,
        BROKEN if when == "save" else FAILING,
        f"many = [[{cls}() if i % 100 == 0 else [i]] for i in range(100_000)]",
    )
    good = namespace("many = [[[i]] if i % 100 == 0 else [i] for i in range(100_000)]")
    started = time.process_time()  # this process's own work, whatever else the machine does
    save(good, store, checkpoint="good")
    without = time.process_time() - started
    started = time.process_time()
    summary = save(live, store, checkpoint="one")
    assert time.process_time() - started < 25 * without
    names = [loss["name"] for loss in summary["lost"]]
    assert names == [f"many[{i * 100}][0]" for i in range(PATHS)] + ["many (990 more parts)"]
    target = namespace()
    report = restore(target, store, "one")
    assert report.lost == summary["lost"]
    assert all(type(target["many"][i][0]) is Lost for i in range(0, 100_000, 100))
    assert target["many"][99_999] == [[99_999]]


def test_a_variable_that_is_the_namespace_does_not_repeat_its_losses(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(GOOD, BROKEN, FAILING, "g = globals()\nbox = [g, Broken(), Failing()]")
    told = reasons(save(live, store, checkpoint="one"))
    assert told.keys() == {"box[1]", "box[2]"}
    target = namespace()
    report = restore(target, store, "one")
    assert target["g"] is target and {loss["name"] for loss in report.lost} == told.keys()
