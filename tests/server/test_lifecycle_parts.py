"""The parts of the lifecycle that need no kernel: records and their owners, estimates, bodies."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews import handlers, lifecycle
from jupyter_gkews.errors import REASONS, GkewsError
from jupyter_gkews.kernel.protocol import Progress
from jupyter_gkews.lifecycle.book import KEPT, OperationBook
from jupyter_gkews.lifecycle.operations import Operation
from jupyter_gkews.lifecycle.progress import RateMeter
from jupyter_gkews.lifecycle.records import PausedRecord, PausedRecords
from jupyter_gkews.lifecycle.requests import PauseRequest, WorkspacePauseRequest
from jupyter_gkews.lifecycle.run import Run
from jupyter_gkews.lifecycle.state import KernelEntry, died

RECORD = PausedRecord("k1", "python3", "c1", "2026-11-30T18:00:00.000Z", notebook="/n.ipynb")


def run_of(kind: str = "pause", phase: str = "waiting_for_idle") -> tuple[Run, list[str]]:
    told: list[str] = []
    run = Run(Operation(kind, "k", phase), lambda r: told.append(r.operation.step or "-"))
    return run, told


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    PausedRecords(tmp_path).write(RECORD)
    assert list(PausedRecords(tmp_path)) == [RECORD]
    assert PausedRecords(tmp_path).get("k1") == RECORD


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    PausedRecords(tmp_path).write(RECORD)
    assert {oct(p.stat().st_mode & 0o777) for p in (tmp_path / "paused").iterdir()} == {"0o600"}
    assert oct((tmp_path / "paused").stat().st_mode & 0o777) == "0o700"


def test_a_record_has_one_owner_until_that_gives_it_up(tmp_path: Path) -> None:
    a, b = PausedRecords(tmp_path), PausedRecords(tmp_path)
    a.write(RECORD)
    assert not b.claim("k1")
    assert b.owned_elsewhere("k1")
    assert not a.owned_elsewhere("k1")
    with pytest.raises(GkewsError) as refused:
        b.write(RECORD)
    assert refused.value.reason == "paused_elsewhere"
    a.close()
    assert not b.owned_elsewhere("k1")
    assert b.claim("k1")
    assert not a.claim("k1")
    b.remove("k1")
    assert list((tmp_path / "paused").iterdir()) == []


def test_the_records_of_a_process_that_was_killed_are_free(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from jupyter_gkews.lifecycle.records import *\n"
        f"PausedRecords(Path({str(tmp_path)!r})).write(PausedRecord('k1', 'p', 'c', 't'))\n"
        "print('written', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"written\n"
        records = PausedRecords(tmp_path)
        assert records.owned_elsewhere("k1")
        owner.kill()
    assert records.claim("k1")
    records.close()


def test_a_child_process_does_not_keep_the_record_of_a_dead_server(tmp_path: Path) -> None:
    a = PausedRecords(tmp_path)
    a.write(RECORD)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        a.close()
        b = PausedRecords(tmp_path)
        assert b.claim("k1")
        b.close()
        child.kill()


@pytest.mark.parametrize("kernel", ["../x", "a/b", "", ".", "k\0"])
def test_an_id_that_is_no_id_has_no_record(tmp_path: Path, kernel: str) -> None:
    records = PausedRecords(tmp_path)
    assert records.get(kernel) is None
    assert not records.claim(kernel)
    assert not (tmp_path / "paused").exists()


def test_a_record_in_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "paused").write_text("")
    with pytest.raises(GkewsError) as refused:
        PausedRecords(tmp_path).write(RECORD)
    assert refused.value.reason == "store_not_writable"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_leaves_the_record_that_was_there(tmp_path: Path, monkeypatch) -> None:
    records = PausedRecords(tmp_path)
    records.write(RECORD)
    full = os.open("/dev/full", os.O_WRONLY)
    # the file system says that it is full when the bytes are written out, as a full disk does
    monkeypatch.setattr(
        "tempfile.mkstemp",
        lambda prefix, dir: (os.dup(full), _touched(Path(dir) / f"{prefix}temp")),
    )
    changed = PausedRecord("k1", "python3", "c2", "t")
    with pytest.raises(GkewsError) as refused:
        records.write(changed)
    os.close(full)
    assert refused.value.reason == "disk_full"
    assert records.get("k1") == RECORD
    assert not list((tmp_path / "paused").glob(".*"))


def _touched(path: Path) -> str:
    path.touch()
    return str(path)


def test_the_time_left_follows_the_measured_rate() -> None:
    meter = RateMeter()
    assert meter.eta_s(0.0, 0, 1000) is None
    assert meter.eta_s(0.1, 50, 1000) is None, "too early to tell"
    assert meter.eta_s(1.0, 100, 1000) == 9.0
    assert meter.eta_s(2.0, 600, 1000) == pytest.approx(1.3, abs=0.05)


def test_the_time_left_forgets_what_is_long_ago() -> None:
    meter = RateMeter()
    for second in range(30):
        meter.eta_s(second, 100 * second, 100_000)
    for second in range(30, 50):  # ten times slower from here
        eta = meter.eta_s(second, 2900 + 10 * (second - 29), 100_000)
    assert eta == pytest.approx((100_000 - 3100) / 10, rel=0.05)


def test_there_is_no_estimate_while_nothing_moves_or_nothing_is_known() -> None:
    meter = RateMeter()
    for second in range(5):
        assert meter.eta_s(second, 100, 1000) is None
        assert RateMeter().eta_s(second, 100, 0) is None


def test_ended_operations_are_forgotten_beyond_a_hundred_and_running_ones_never() -> None:
    book = OperationBook()
    running, _ = run_of()
    book.add(running)
    ended = []
    for _ in range(KEPT + 20):
        run, _ = run_of()
        run.finish(None)
        book.add(run)
        ended.append(run)
    assert book.get(running.operation.id) is running
    assert book.get(ended[-1].operation.id) is ended[-1]
    with pytest.raises(GkewsError) as forgotten:
        book.get(ended[0].operation.id)
    assert forgotten.value.reason == "operation_not_found"


def test_progress_is_told_for_every_step_and_not_for_every_byte() -> None:
    run, told = run_of(phase="checkpointing")
    for step in ("graph", "writing"):
        for done in range(1000):
            run.progress(Progress(run.operation.id, step, done, 1000))
    assert told == ["graph", "writing"]
    assert run.operation.bytes_done == 999


def test_progress_that_comes_after_the_end_is_not_shown() -> None:
    run, _ = run_of(phase="checkpointing")
    run.finish(None)
    run.progress(Progress(run.operation.id, "writing", 5, 10))
    assert run.operation.bytes_done == 0


def test_work_is_given_up_when_the_operation_is_stopped() -> None:
    async def scene() -> None:
        run, _ = run_of()
        loop = asyncio.get_running_loop()
        loop.call_soon(run.stop, GkewsError("cancelled", "no"))
        loop.call_soon(run.stop, GkewsError("kernel_died", "later"))
        await run.unless_stopped(asyncio.Event().wait())

    with pytest.raises(GkewsError) as stopped:
        asyncio.run(scene())
    assert stopped.value.reason == "cancelled", "the first reason counts"


def test_work_that_ends_within_its_grace_decides_itself() -> None:
    async def scene() -> bool:
        run, _ = run_of()
        done = asyncio.Event()

        async def on_stop() -> None:
            done.set()

        asyncio.get_running_loop().call_soon(run.stop, GkewsError("cancelled", "no"))
        return await run.unless_stopped(done.wait(), on_stop=on_stop, grace_s=10)

    assert asyncio.run(scene()) is True


def test_a_dead_kernel_gets_no_grace() -> None:
    async def scene() -> None:
        run, _ = run_of()
        asyncio.get_running_loop().call_soon(run.stop, GkewsError("kernel_died", "gone"))
        await run.unless_stopped(asyncio.Event().wait(), grace_s=600)

    with pytest.raises(GkewsError) as stopped:
        asyncio.run(scene())
    assert stopped.value.reason == "kernel_died"


def test_the_extension_imports_nothing_heavy() -> None:
    code = (
        "import sys; import jupyter_server.serverapp; before = set(sys.modules)\n"
        "import jupyter_gkews.app\n"
        "heavy = ('torch', 'numpy', 'pandas', 'IPython', 'cloudpickle', 'httpx', 'ipykernel')\n"
        "print([m for m in heavy if m in set(sys.modules) - before])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"


def _errors_without_a_hint(path: Path) -> list[str]:
    """Where GkewsError is raised with no hint, or one that may be empty."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "GkewsError":
            hints = node.args[2:3]
            if hints and isinstance(hints[0], ast.IfExp):
                hints = [hints[0].body, hints[0].orelse]
            if not hints or any(isinstance(h, ast.Constant) and not h.value for h in hints):
                found.append(f"{path.name}:{node.lineno}")
    return found


def test_every_error_says_what_to_do() -> None:
    files = Path(lifecycle.__file__).parents[1].rglob("*.py")
    assert [place for path in files for place in _errors_without_a_hint(path)] == []
    for status in (400, 403, 404, 405):
        reason, hint = handlers._REASON_OF_STATUS[status]
        assert reason in REASONS and hint


def test_a_kernel_that_died_and_was_started_again_says_that_it_is_empty() -> None:
    entry = KernelEntry("k", last_error=died("pause"), last_operation=Operation("pause", "k", "x"))
    assert "died during the pause" in entry.sentence() and "fresh" not in entry.sentence()
    entry.provenance = "fresh"
    assert "variables are gone" in entry.sentence()
    assert "run the cells" in entry.hint()
    entry.checkpoint = "c1"
    assert "can be restored" in entry.hint()


@pytest.mark.parametrize(
    "body",
    [{"stateless": "yes"}, {"without_checkpoint": 1}, {"snapshot": True}, {"what": 1},
     {"when": "never"}, {"timeout_s": -1}],
)  # fmt: skip
def test_a_pause_of_the_workspace_that_is_not_understood_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(GkewsError) as refused:
        WorkspacePauseRequest.from_json(body, None)
    assert refused.value.reason == "bad_request"


def test_a_pause_of_the_workspace_is_for_its_kernels_as_one_of_a_kernel() -> None:
    body = {"when": "interrupt", "timeout_s": 3, "name": "night", "stateless": True}
    request = WorkspacePauseRequest.from_json(body, None)
    assert request.kernels == PauseRequest("interrupt", 3.0, "night")
    assert (request.stateless, request.without_checkpoint) == (True, False)
    assert WorkspacePauseRequest.from_json({}, 7.0).kernels.timeout_s == 7.0
