"""From one minor version of Python to another and back: functions come from their source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import jupyter_gkews

PYTHONS = {
    path.name.rsplit(".", 1)[0]: path / "bin" / "python"
    for path in sorted((Path("~/.pyenv/versions").expanduser()).glob("3.*"))
    if (path / "bin" / "python").exists()
} if Path("~/.pyenv/versions").expanduser().is_dir() else {}  # fmt: skip

CELLS = '''
from __future__ import annotations
import enum, functools, random
TOP = 10
def total(items, *rest, scale: int = 2, **more) -> int:
    """Adds."""
    return scale * sum([i * TOP for i in items]) + len(rest) + len(more)
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def look(): return n
    return up, look
up, look = counter()
up(); up()
pair = (lambda x: x + 1), (lambda x: x * 100)
class Base:
    made = []
    def __init__(self, v): self.v = v; Base.made.append(self)
    @property
    def twice(self): return self.v * 2
class Sub(Base):
    def __init__(self, v): super().__init__(v + 1)
    @functools.lru_cache
    def cached(self): return {k: v for k, v in [(1, self.v)]}
s = Sub(4)
class Color(enum.Enum):
    RED = 1
red = Color.RED
shared = [1, 2]
again = shared
random.seed(5)
def gen(n):
    yield from range(n)
async def slow(): return 5
'''
UNKNOWN = "exec(compile('def nowhere(a): return a * 3', '<nowhere>', 'exec'))\nkept = [1]"

CHECK = """
assert total([1, 2], 3, z=1) == 62 and total.__doc__ == 'Adds.' and total.__defaults__ is None
assert total.__kwdefaults__ == {'scale': 2}
TOP = 100
assert total([1]) == 200
assert up() == 3 and look() == 3
assert pair[0](5) == 6 and pair[1](5) == 500
assert type(s) is Sub and s.v == 5 and s.twice == 10 and s.cached() == {1: 5}
assert Base.made == [s] and Sub(1).v == 2 and len(Base.made) == 2
assert red is Color.RED and Color(1) is red
assert shared is again and list(gen(3)) == [0, 1, 2]
import asyncio; assert asyncio.run(slow()) == 5
import inspect
assert inspect.getsource(total).startswith('def total')
assert report.lost == [] , report.lost
"""

CARRY = """
import sys, types, linecache, json
root, folders, what, store, name, cells = json.loads(sys.argv[1])
import importlib.util
spec = importlib.util.spec_from_file_location(
    "jupyter_gkews", root + "/__init__.py", submodule_search_locations=[root])
package = importlib.util.module_from_spec(spec); sys.modules["jupyter_gkews"] = package
spec.loader.exec_module(package)
from jupyter_gkews.kernel import pure_python
pure_python.install(folders)
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
main = types.ModuleType("__main__"); sys.modules["__main__"] = main
ns = vars(main)
def run(text, filename):
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec", dont_inherit=True), ns)
if what == "save":
    run(cells, "<cell 1>")
    save(ns, CheckpointStore(store), checkpoint=name, prove=False)
    print(json.dumps({}))
else:
    report = restore(ns, CheckpointStore(store), name)
    again = save(ns, CheckpointStore(store), checkpoint=name + "-again", prove=False)
    ns["report"] = report
    if what == "check":
        run(cells, "<check>")
    print(json.dumps({"lost": report.lost, "names": sorted(map(str, ns))}))
"""


def carry(python: Path, what: str, store: Path, name: str, cells: str) -> Any:
    root = str(Path(jupyter_gkews.__file__).parent)
    folders = [os.path.dirname(os.path.dirname(cloudpickle.__file__))]
    order = json.dumps([root, folders, what, str(store), name, cells])
    done = subprocess.run(
        [str(python), "-I", "-c", CARRY, order], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("first", "second"),
    [("3.11", "3.12"), ("3.11", "3.13"), ("3.13", "3.11"), ("3.12", "3.9"), ("3.9", "3.13")],
)
def test_a_namespace_goes_to_another_python_and_back(
    tmp_path: Path, first: str, second: str
) -> None:
    if not {first, second} <= set(PYTHONS):
        pytest.skip("these versions of Python are not installed")
    carry(PYTHONS[first], "save", tmp_path / "store", "there", CELLS)
    assert carry(PYTHONS[second], "check", tmp_path / "store", "there", CHECK)["lost"] == []
    # and back, from what the other one wrote
    assert carry(PYTHONS[first], "check", tmp_path / "store", "there-again", CHECK)["lost"] == []


def test_code_whose_source_is_not_known_is_lost_with_that_reason(tmp_path: Path) -> None:
    others = sorted(set(PYTHONS) - {f"3.{sys.version_info[1]}"})
    if not others or f"3.{sys.version_info[1]}" not in PYTHONS:
        pytest.skip("no other Python is installed")
    here = f"3.{sys.version_info[1]}"
    carry(PYTHONS[here], "save", tmp_path / "store", "x", UNKNOWN)
    found = carry(PYTHONS[others[-1]], "look", tmp_path / "store", "x", "")
    (lost,) = found["lost"]
    assert lost["name"] == "nowhere"
    assert lost["reason"] == (
        f"a function: it was compiled by Python {here}, and its source is not known"
    )
    assert "kept" in found["names"]
