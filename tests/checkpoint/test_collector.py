"""The garbage collector waits while a load imports libraries, and is afterwards as it was."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gkews.kernel.checkpoint import own_imports

_COUNTED = """
import gc
before = sum(each["collections"] for each in gc.get_stats())
made = [[] for _ in range(50_000)]
collections = sum(each["collections"] for each in gc.get_stats()) - before
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On sys.path; the collector and the modules are put back afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    was, known = (gc.isenabled(), gc.get_threshold()), set(sys.modules)
    gc.enable()
    gc.set_threshold(700, 10, 10)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("gkews_try_"):
            del sys.modules[name]
    (gc.enable if was[0] else gc.disable)()
    gc.set_threshold(*was[1])


def test_a_library_is_imported_without_a_collection(folder: Path) -> None:
    (folder / "gkews_try_library.py").write_text(_COUNTED)
    assert own_imports.import_modules(["gkews_try_library"]) == {}
    assert sys.modules["gkews_try_library"].collections == 0
    assert gc.isenabled()
    assert gc.get_threshold() == (700, 10, 10)


def test_the_users_own_module_may_leave_much_to_collect(folder: Path) -> None:
    path = folder / "gkews_try_own.py"
    path.write_text(_COUNTED)
    recorded = {"gkews_try_own": {"file": str(path), "package": None}}
    with own_imports.found_again(recorded):
        assert own_imports.import_modules(["gkews_try_own"]) == {}
    assert sys.modules["gkews_try_own"].collections > 10


def test_what_an_import_sets_up_stays(folder: Path) -> None:
    (folder / "gkews_try_sets.py").write_text("import gc; gc.set_threshold(901, 12, 13)")
    (folder / "gkews_try_ends.py").write_text("import gc; gc.disable()")
    assert own_imports.import_modules(["gkews_try_sets", "gkews_try_ends"]) == {}
    assert not gc.isenabled()
    assert gc.get_threshold() == (901, 12, 13)


def test_an_import_that_fails_leaves_it_as_it_was(folder: Path) -> None:
    (folder / "gkews_try_fails.py").write_text("raise RuntimeError('no')")
    assert list(own_imports.import_modules(["gkews_try_fails"])) == ["gkews_try_fails"]
    assert gc.get_threshold() == (700, 10, 10)


def test_what_was_imported_is_not_looked_through_again(folder: Path) -> None:
    if gc.get_freeze_count():
        pytest.skip("this Python has begun with frozen objects")
    (folder / "gkews_try_many.py").write_text("made = [[] for _ in range(50_000)]")
    assert own_imports.import_modules(["gkews_try_many"]) == {}
    assert len(gc.get_objects(generation=0)) < 5_000
    assert gc.get_freeze_count() == 0
