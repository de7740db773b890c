"""One bad object among good ones: it is named, all else comes back, nobody dies."""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import watch
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.placeholders import Lost, LostVariableError
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

GOOD = "good = [1, {'k': (2, 3)}]\nalso = good"

BAD = {
    "reduce_raises": (
        "class Bad:\n    def __reduce__(self): raise ValueError('not today')",
        "not today",
    ),
    "reduce_is_nonsense": (
        "class Bad:\n    def __reduce__(self): return 42",
        "no usable description",
    ),
    "reduce_is_an_empty_tuple": ("class Bad:\n    def __reduce__(self): return ()", "no usable"),
    "reduce_calls_nothing": (
        "class Bad:\n    def __reduce__(self): return (5, ())",
        "cannot be called",
    ),
    "reduce_names_nothing": (
        "class Bad:\n    def __reduce__(self): return 'nowhere_to_be_found'",
        "not found",
    ),
    "reduce_exits": ("class Bad:\n    def __reduce__(self): raise SystemExit(3)", "3"),
    "getstate_raises": (
        "class Bad:\n    def __getstate__(self): raise RuntimeError('no state')",
        "no state",
    ),
    "constructor_raises_at_resume": (
        "def make(): raise OSError('gone')\nclass Bad:\n    def __reduce__(self): return make, ()",
        "gone",
    ),
    "setstate_raises_at_resume": (
        "class Bad:\n    def __getstate__(self): return {'a': 1}\n"
        "    def __setstate__(self, state): raise KeyError('old')",
        "old",
    ),
    "setstate_exits_at_resume": (
        "class Bad:\n    def __getstate__(self): return {'a': 1}\n"
        "    def __setstate__(self, state): raise SystemExit('bye')",
        "bye",
    ),
    "loading_kills_the_process": (
        "class Bad:\n    def __getstate__(self): return {'a': 1}\n"
        "    def __setstate__(self, state):\n        import os\n        os._exit(7)",
        "ends the process",
    ),
    "unhashable_when_loaded": (
        "class Bad:\n    n = 0\n    def __hash__(self):\n        return self.h\n"
        "    def __init__(self): self.h = 1\n    def __reduce__(self): return dict, ((1, 2),)",
        "",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("within", ["alone", "in_a_list"])
def test_it_is_lost_alone(store: CheckpointStore, namespace: Make, kind: str, within: str) -> None:
    cell, why = BAD[kind]
    value = "Bad()" if within == "alone" else "[good, Bad(), 'z']"
    live = namespace(GOOD, cell, f"bad = {value}", "after = {'good': good}")
    summary = save(live, store, checkpoint="one")
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1, {"k": (2, 3)}] and target["also"] is target["good"]
    assert target["after"]["good"] is target["good"]
    (loss,) = summary["lost"]
    assert why in loss["reason"] and report.lost == summary["lost"]
    if within == "alone" or kind == "loading_kills_the_process":
        assert loss["name"] == "bad" and type(target["bad"]) is Lost
    else:
        assert loss["name"] == "bad[1]" and type(target["bad"][1]) is Lost
        assert target["bad"][0] is target["good"] and target["bad"][2] == "z"
        (row,) = (row for row in report.rebuilt_details if row["name"] == "bad")
        assert "bad[1]" in row["reason"]
    counts = summary["counts"]
    assert counts["lost"] == 1 and report.kept == counts["kept"]


@pytest.mark.parametrize("moment", ["reduce", "setstate"])
def test_one_that_never_ends_is_bounded(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(watch, "LIMIT_S", 1.0)
    spin = "while True:\n            pass"
    method = {
        "reduce": f"def __reduce__(self):\n        {spin}",
        "setstate": "def __getstate__(self): return 1\n"
        f"    def __setstate__(self, s):\n        {spin}",
    }[moment]
    live = namespace(GOOD, f"class Bad:\n    {method}", "bad = [Bad()]")
    save(live, store, checkpoint="one", prove=False)
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1, {"k": (2, 3)}]
    assert [loss["name"] for loss in report.lost] == ["bad[0]"]
    assert "did not finish within 1 s" in report.lost[0]["reason"]


def test_a_module_that_is_gone_loses_only_what_needs_it(
    store: CheckpointStore, namespace: Make, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path = tmp_path / "site-packages"  # of a package: those of the user's own are recorded
    tmp_path.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "soon_gone.py").write_text("class T:\n    pass\ndef f(): pass\n")
    live = namespace(GOOD, "import soon_gone\nt = [soon_gone.T(), good]\nf = soon_gone.f")
    assert save(live, store, checkpoint="one", prove=False)["counts"]["lost"] == 0
    (tmp_path / "soon_gone.py").unlink()
    monkeypatch.delitem(sys.modules, "soon_gone")
    importlib.invalidate_caches()
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1, {"k": (2, 3)}] and target["t"][1] is target["good"]
    assert {loss["name"] for loss in report.lost} == {"soon_gone", "t[0]", "f"}
    assert all("soon_gone" in loss["reason"] for loss in report.lost)


def test_a_lost_variable_says_what_it_was_when_it_is_used(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace("gen = (i for i in range(3))\nholder = {'deep': [gen]}")
    save(live, store, checkpoint="one", cell_of={"gen": 12}.get, prove=False)
    target = namespace()
    restore(target, store, "one")
    gen = target["gen"]
    assert "'gen' was a generator; it could not be kept" in repr(gen)
    assert target["holder"]["deep"][0] is gen
    uses: list[Callable[[], Any]] = [
        lambda: next(gen),
        lambda: list(gen),
        lambda: gen.send(None),
        lambda: gen(),
        lambda: gen[0],
        lambda: gen + 1,
        lambda: len(gen),
        lambda: bool(gen),
        lambda: f"{gen}",
        lambda: setattr(gen, "x", 1),
    ]
    for use in uses:
        with pytest.raises(
            LostVariableError, match=r"\(paused \d\d:\d\d\)\. Cell \[12\] made it\."
        ):
            use()
    again = save(target, store, checkpoint="two", prove=False)
    assert [loss["name"] for loss in again["lost"]] == ["gen", "holder['deep'][0]"]
    third = namespace()
    restore(third, store, "two")
    assert repr(third["gen"]) == repr(gen)


def test_an_output_that_cannot_be_kept_does_not_take_the_others_with_it(
    store: CheckpointStore, namespace: Make
) -> None:
    # it looks usable, and breaks the pickler itself
    odd = "class Odd(dict):\n    def __reduce__(self): return (dict, (), None, None, [1, 2])\n"
    live = namespace(GOOD, odd + "odd = Odd()")
    live["gen"] = (i for i in "ab")
    out = {2: live["good"], 3: live.pop("odd"), 5: live["gen"], 6: (i for i in "c")}
    out[7] = ["only here"]
    summary = save(live, store, checkpoint="one", extras={"Out": out, "n": 7, "bad": [out[3]]})
    assert [loss["name"] for loss in summary["lost"]] == ["gen", "Out[3]", "Out[6]"]
    assert [loss["cell"] for loss in summary["lost"]] == [None, 3, 6]
    target = namespace()
    report = restore(target, store, "one")
    assert report.extras["Out"][2] is target["good"] and report.extras["n"] == 7
    assert report.extras["Out"][7] == ["only here"]
    assert report.extras["Out"][5] is target["gen"]
    with pytest.raises(LostVariableError, match="was an Odd"):
        report.extras["Out"][3].clear()


def test_survives_tells_the_same_and_writes_nothing(
    store: CheckpointStore, namespace: Make
) -> None:
    live = namespace(
        "import torch\nt = torch.zeros(10)\ng = (i for i in 'x')\nbox = [g, t]",
        "import os\nr, w = os.pipe()\nf, g_ = os.fdopen(r), os.fdopen(w, 'w')",
    )
    told = survives(live, store, cell_of={"g": 3}.get)
    assert not store.root.exists()
    rows = {row["name"]: row for row in told["variables"]}
    assert rows["t"]["fate"] == "kept" and rows["t"]["type"] == "Tensor"
    assert rows["t"]["device"] == "cpu" and rows["t"]["bytes"] >= 40
    assert rows["g"]["fate"] == "lost" and rows["g"]["cell"] == 3 and rows["f"]["fate"] == "lost"
    assert rows["box"]["fate"] == "rebuilt" and "box[0]" in rows["box"]["reason"]
    assert {row["what"] for row in told["process"]} >= {"working directory", "sys.path"}
    assert (
        told["bytes"]["kept"] == told["bytes"]["to_write"] and not told["bytes"]["already_stored"]
    )
    live["f"].close(), live["g_"].close()
    summary = save(live, store, checkpoint="one")
    kept = {row["name"] for row in told["variables"] if row["fate"] == "kept"}
    assert summary["counts"]["kept"] == len(kept) + 2  # closed files are kept


def test_a_difference_that_only_a_test_load_shows_is_lost_before_the_kernel_ends(
    store: CheckpointStore, namespace: Make
) -> None:
    # Its description of itself is wrong, without any error: only comparing shows it.
    live = namespace(GOOD, "class Odd:\n    def __init__(self): self.n = 1\nodd = Odd()")
    odd = live["Odd"]
    copyreg.pickle(odd, lambda value: (odd, (), {"n": 2}))
    try:
        summary = save(live, store, checkpoint="one")
    finally:
        del copyreg.dispatch_table[odd]
    assert [loss["name"] for loss in summary["lost"]] == ["odd"]
    assert "did not come back equal in a test load" in summary["lost"][0]["reason"]
    target = namespace()
    restore(target, store, "one")
    assert target["good"] is target["also"] and type(target["odd"]) is Lost


def test_a_scratch_process_that_cannot_start_fails_the_save_and_nothing_is_kept(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(GkewsError) as caught:
        save(namespace(GOOD), store, checkpoint="one")
    assert caught.value.reason == "verification_failed"
    assert store.summaries() == [] and not list(store.root.glob("checkpoints/.*"))


def test_what_a_thread_changes_meanwhile_is_kept_as_of_then_and_said(
    store: CheckpointStore, namespace: Make
) -> None:
    made = namespace(
        "import threading\n"
        "ticks, stop = [], threading.Event()\n"
        "def tick():\n"
        "    while not stop.is_set():\n"
        "        ticks.append(len(ticks)); stop.wait(0.001)\n"
        "t = threading.Thread(target=tick, daemon=True); t.start()\n"
        "calm = [1, 2]",
    )
    try:
        summary = save(made, store, checkpoint="moving")
    finally:
        made["stop"].set()
        made["t"].join()
    assert {loss["name"] for loss in summary["lost"]} == {"t"}, summary["lost"]
    assert [each["name"] for each in summary["rebuilt"]] in (["ticks"], [])
    fresh = namespace()
    restore(fresh, store, "moving")
    assert fresh["ticks"] == list(range(len(fresh["ticks"]))) and fresh["calm"] == [1, 2]
