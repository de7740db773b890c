"""Objects of libraries come back, or are named; what is not installed here is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

from .rows_libraries import ROWS

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("row", list(ROWS))
def test_objects_of_a_library_work_in_another_process(
    carried: Callable[[str, dict[str, Any]], Any], row: str
) -> None:
    for name in ROWS[row]["needs"]:
        pytest.importorskip(name)
    saved, checked = carried("libraries", ROWS)
    assert "error" not in saved[row], saved[row]["error"]
    assert "error" not in checked[row], checked[row]["error"]
    lost = [loss["name"] for loss in saved[row]["summary"]["lost"]]
    assert sorted(lost) == sorted(ROWS[row].get("lost", []))
    assert checked[row]["lost"] == saved[row]["summary"]["lost"]


def test_the_password_of_a_database_is_written_nowhere(
    store: CheckpointStore, namespace: Make
) -> None:
    pytest.importorskip("sqlalchemy")
    live = namespace(
        "import sqlalchemy\n"
        "engine = sqlalchemy.create_engine('sqlite+pysqlite://', echo=False)\n"
        "engine.url = sqlalchemy.make_url('sqlite://me:hunter2@host/x.db?api_key=t0ps3cret&a=1')"
    )
    summary = save(live, store, checkpoint="one", prove="off")
    assert "password" in summary["rebuilt"][0]["reason"]
    for path in (each for each in store.root.rglob("*") if each.is_file()):
        data = path.read_bytes()
        assert b"hunter2" not in data and b"t0ps3cret" not in data, path
    target = namespace()
    report = restore(target, store, "one")  # SQLite has no hosts: it says so
    assert "sqlite://me@host/x.db?a=1" in report.lost[0]["reason"]


def test_a_file_of_hdf5_that_is_gone_is_named_and_never_made(
    store: CheckpointStore, namespace: Make, tmp_path: Any
) -> None:
    pytest.importorskip("h5py")
    path = tmp_path / "gone.h5"
    live = namespace(f"import h5py\nf = h5py.File({str(path)!r}, 'w'); f['x'] = 1; x = f['x']")
    save(live, store, checkpoint="one", prove="off")
    live["f"].close()
    path.unlink()
    target = namespace("good = 1")
    report = restore(target, store, "one")
    assert {row["name"] for row in report.lost} == {"f", "x"}
    assert all("could not be opened again" in row["reason"] for row in report.lost)
    assert not path.exists()


def test_tables_that_only_duckdb_itself_holds_are_named(
    store: CheckpointStore, namespace: Make
) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql("create table nobodys as select 1 as a")
    try:
        save(namespace("x = 1"), store, checkpoint="one", prove="off")
    finally:
        duckdb.sql("drop table nobodys")
    told = {row["what"]: row for row in store.manifest("one").process}
    assert "nobodys" in told["DuckDB's default connection"]["reason"]
