"""Rebuilders of notebooks and packages: registered, proved without side effects, never harmful."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import rebuilders, watch
from jupyter_gkews.kernel.checkpoint.fates import survives
from jupyter_gkews.kernel.checkpoint.placeholders import Lost
from jupyter_gkews.kernel.checkpoint.rebuilders import registry
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

Make = Callable[..., dict[str, Any]]

DEVICE = """
from jupyter_gkews.kernel import CannotKeepError, Rebuilder, register_rebuilder
class Device:
    def __init__(self, port):
        self.port, self.log = port, []
        with open(port, 'a') as file: file.write('opened\\n')
    def __reduce__(self): raise TypeError('a device')
"""
BY_CLASS = """
@register_rebuilder
class DeviceRebuilder(Rebuilder):
    kind = Device
    what = 'a device'
    def describe(self, device):
        if device.port == 'x': raise CannotKeepError('a device', 'it was unplugged')
        return {'port': device.port}
    def make(self, description): return Device(description['port'])
    def contents(self, device): return device.log
    def fill(self, made, contents): made.log = contents
    def tell(self, device): return f'the port {device.port} is opened again'
"""


@pytest.fixture(autouse=True)
def nothing_stays_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_found", {})
    monkeypatch.setattr(registry, "_looked_at", set())
    monkeypatch.setattr(registry, "_problems", {})
    yield


def test_one_from_a_cell_makes_its_objects_again_and_stays_registered(
    store: CheckpointStore, namespace: Make, tmp_path: Path
) -> None:
    port = tmp_path / "port"
    live = namespace(
        DEVICE, BY_CLASS, f"d = Device({str(port)!r})", "also = [d]; d.log.append(also)"
    )
    summary = save(live, store, checkpoint="one")
    assert port.read_text() == "opened\n", "the test load has opened the device"
    told = {row["name"]: row["reason"] for row in summary["rebuilt"]}
    assert told["d"] == f"the port {port} is opened again" and summary["lost"] == []
    registry._registered.clear()
    target = namespace()
    report = restore(target, store, "one")
    assert report.lost == [] and port.read_text() == "opened\nopened\n"
    device = target["d"]
    assert type(device) is target["Device"] and target["also"][0] is device
    assert device.log[0] is target["also"]
    again = save(target, store, checkpoint="two")
    assert again["lost"] == [] and "d" in {row["name"] for row in again["rebuilt"]}


def test_functions_for_the_name_of_a_class_are_enough(
    store: CheckpointStore, namespace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hwlib.py").write_text(
        "class Base:\n    def __reduce__(self): raise TypeError('no')\n"
        "class Port(Base):\n    def __init__(self, n): self.n = n\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    live = namespace(
        "from jupyter_gkews.kernel import register_rebuilder\nimport hwlib",
        "r = register_rebuilder('hwlib.Port', describe=lambda p: p.n, make=lambda n: hwlib.Port(n),"
        " rehearse=lambda n: hwlib.Port(n), tell='opened again')",
        "p = hwlib.Port(7)",
    )
    assert save(live, store, checkpoint="one")["lost"] == []
    target = namespace()
    report = restore(target, store, "one")
    assert report.lost == [] and target["p"].n == 7
    monkeypatch.delitem(sys.modules, "hwlib")
    (tmp_path / "hwlib.py").write_text("raise ImportError('its hardware is not here')")
    importlib.invalidate_caches()
    report = restore(third := namespace(), store, "one")
    assert type(third["p"]) is Lost and {loss["name"] for loss in report.lost} >= {"p"}


BROKEN = {
    "describe": ("its rebuilder failed: boom", {"describe": "1 / 0 if False else boom()"}),
    "tell": ("its rebuilder failed: boom", {"tell": "lambda d: boom()"}),
    "make": ("it could not be made again: boom", {"make": "lambda n: boom()"}),
    "rehearse": ("it could not be made again: boom", {"rehearse": "lambda n: boom()"}),
    "nonsense": ("its rebuilder failed", {"describe": "5"}),
    "exit": ("its rebuilder failed", {"describe": "lambda d: exit_()"}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_one_loses_its_object_and_nothing_else(
    store: CheckpointStore, namespace: Make, kind: str
) -> None:
    why, given = BROKEN[kind]
    parts = {"describe": "lambda d: 1", "make": "lambda n: Thing()", **given}
    if kind == "describe":
        parts["describe"] = "lambda d: boom()"
    arguments = ", ".join(f"{name}={value}" for name, value in parts.items())
    live = namespace(
        "from jupyter_gkews.kernel import register_rebuilder\nimport sys\n"
        "def boom(): raise ValueError('boom')\n"
        "def exit_(): sys.exit(3)\n"
        "class Thing:\n    pass",
        f"register_rebuilder(Thing, {arguments})",
        "good = [1]\nthing = Thing()\nbox = [good, thing]",
    )
    summary = save(live, store, checkpoint="one")
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1] and target["box"][0] is target["good"]
    losses = {loss["name"]: loss["reason"] for loss in report.lost}
    assert why in losses["thing"]
    assert (type(target["thing"]) is Lost) == (kind != "rehearse")
    if kind != "make":  # that one is not run in the test load
        assert "thing" in {loss["name"] for loss in summary["lost"]}


def test_one_that_never_ends_is_bounded(
    store: CheckpointStore, namespace: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LIMIT_S", 1.0)
    live = namespace(
        "from jupyter_gkews.kernel import register_rebuilder\n"
        "def spin(*_):\n    while True: pass\n"
        "class A:\n    pass\nclass B:\n    pass",
        "register_rebuilder(A, describe=spin, make=spin)",
        "register_rebuilder(B, describe=lambda b: 1, make=spin)",
        "a, b, good = A(), B(), [1]",
    )
    summary = save(live, store, checkpoint="one", prove=False)
    assert [loss["name"] for loss in summary["lost"]] == ["a"]
    target = namespace()
    report = restore(target, store, "one")
    assert target["good"] == [1]
    assert {loss["name"] for loss in report.lost} == {"a", "b"}
    assert all("did not finish within 1 s" in loss["reason"] for loss in report.lost)


def test_what_is_no_rebuilder_is_refused_at_once() -> None:
    for wrong in (int, 5, "no_module", None):
        with pytest.raises(TypeError):
            rebuilders.register_rebuilder(wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        rebuilders.register_rebuilder("nodots", describe=id, make=id)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package with rebuilders for `hwlib`: (its code, the entry point's value)."""

    def install(code: str, value: str) -> None:
        (tmp_path / "hwlib.py").write_text(
            "class Port:\n    def __init__(self, n): self.n = n\n"
            "    def __reduce__(self): raise TypeError('no')\n"
        )
        (tmp_path / "hwlib_gkews.py").write_text(code)
        info = tmp_path / "hwlib_gkews-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwlib-gkews\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\nhwlib = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        for name in ("hwlib", "hwlib_gkews"):
            monkeypatch.setitem(sys.modules, name, None)
            monkeypatch.delitem(sys.modules, name)

    return install


GOOD_PACKAGE = """
from jupyter_gkews.kernel import Rebuilder
class Ports(Rebuilder):
    kind = 'hwlib.Port'
    derived = True
    def describe(self, port): return type(port), port.n
    def make(self, description): return description[0](description[1])
    rehearse = make
def rebuilders(): return [Ports()]
"""


@pytest.mark.parametrize("value", ["hwlib_gkews:rebuilders", "hwlib_gkews:Ports"])
def test_a_package_brings_its_own_and_is_imported_only_with_its_library(
    store: CheckpointStore, namespace: Make, package: Callable[[str, str], None], value: str
) -> None:
    package(GOOD_PACKAGE, value)
    survives(namespace("x = 1"), store)
    assert "hwlib_gkews" not in sys.modules
    live = namespace(
        "import hwlib\nclass Mine(hwlib.Port):\n    pass", "p, q = hwlib.Port(1), Mine(2)"
    )
    assert save(live, store, checkpoint="one")["lost"] == []
    registry._found.clear()
    target = namespace()
    assert restore(target, store, "one").lost == []
    assert (target["p"].n, target["q"].n, type(target["q"])) == (1, 2, target["Mine"])


@pytest.mark.parametrize("value", ["hwlib_gkews:missing", "hwlib_gkews:five", "hwlib_nowhere:x"])
def test_a_broken_package_is_told_and_breaks_nothing(
    store: CheckpointStore, namespace: Make, package: Callable[[str, str], None], value: str
) -> None:
    package("five = 5", value)
    live = namespace("import hwlib", "p, good = hwlib.Port(1), [1]")
    summary = save(live, store, checkpoint="one")
    assert [loss["name"] for loss in summary["lost"]] == ["p"]
    rows = store.manifest("one").process
    (row,) = (row for row in rows if row["what"].startswith("rebuilder "))
    assert row["fate"] == "lost" and "hwlib-gkews" in row["what"] and "not used" in row["reason"]
    assert restore(target := namespace(), store, "one") and target["good"] == [1]
