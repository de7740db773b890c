"""Namespaces to save and stores to save them in; real processes on both sides."""

from __future__ import annotations

import copyreg
import json
import logging
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import start_state
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

CARRY = Path(__file__).with_name("carry.py")


def in_a_process(what: str, folder: Path, rows: dict[str, Any]) -> dict[str, Any]:
    """Run carry.py; returns its results by row."""
    (folder / "rows.json").write_text(json.dumps(rows))
    out = folder / f"{what}.json"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, str(CARRY), what, str(folder / "store"), "rows.json", str(out)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(out.read_text())
    return result


@pytest.fixture(scope="session")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, dict[str, Any]], Any]:
    """Saves all rows of a family in one process and checks them in another, once a session."""
    done: dict[str, Any] = {}

    def carry(family: str, rows: dict[str, Any]) -> Any:
        if family not in done:
            folder = tmp_path_factory.mktemp(family)
            saved = in_a_process("save", folder, rows)
            done[family] = saved, in_a_process("check", folder, rows)
        return done[family]

    return carry


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """An empty store."""
    return CheckpointStore(tmp_path / "store")


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Makes a `__main__` namespace by running cells, as a kernel has it."""

    def make(*cells: str) -> dict[str, Any]:
        module = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        for cell in cells:
            exec(compile(cell, "<cell>", "exec", dont_inherit=True), vars(module))
        return vars(module)

    return make


@pytest.fixture(autouse=True, scope="module")
def nothing_of_other_tests() -> Iterator[None]:
    """What the tests of other folders have left in this process is not the work of cells."""
    start_state.note_start()
    known = logging.Logger.manager.loggerDict.values()
    loggers = [logging.getLogger(), *(each for each in known if isinstance(each, logging.Logger))]
    handlers = [list(logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.handlers.clear()
    yield
    for logger, its in zip(loggers, handlers, strict=True):
        logger.handlers[:] = its


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """A load in this process changes libraries as the saved one had changed them: undone, so that
    no later test takes it for a change of its own."""
    reducers, handlers = dict(copyreg.dispatch_table), list(logging.getLogger().handlers)
    filters, environ, path = list(warnings.filters), dict(os.environ), list(sys.path)
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(reducers)
    logging.getLogger().handlers[:] = handlers
    warnings.filters[:] = filters  # type: ignore[index]
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:] = path
