"""The journal of pauses of the workspace: what stands in it after whatever has happened."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.journal.pauses import JournalledKernel, PauseEntry, WorkspacePauses

WORKSPACE = {"namespace": "team", "name": "ws"}
POD = {"name": "ws-0", "uid": "1"}
SERVER = {"root": "/home/jovyan", "base_url": "/"}
KERNEL = JournalledKernel("k1", "python3", "a.ipynb", "/home/jovyan/a.ipynb", "running", "c1")
BUSY = JournalledKernel(
    "k2", "python3", None, None, "running", None,
    {"reason": "kernel_busy", "message": "A cell is running.", "hint": ""},
)  # fmt: skip


def opened(pauses: WorkspacePauses, **changed: dict[str, str]) -> PauseEntry:
    about = {"workspace": WORKSPACE, "pod": POD, "server": SERVER, **changed}
    return pauses.open(kernels=[KERNEL, BUSY], **about)


def test_an_open_pause_names_what_can_be_brought_back(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path / "store")
    assert pauses.entries() == []
    entry = opened(pauses)
    (found,) = WorkspacePauses(tmp_path / "store").open_entries()
    assert found == entry
    assert found.kernels == [KERNEL, BUSY]
    assert found.opened.endswith("Z")
    assert not found.asked
    assert "whether it was asked is not known" in found.sentence()
    pauses.asked(entry.id, how="begun", stateless=False)
    (found,) = pauses.open_entries()
    assert found.asked
    assert "its end was not seen" in found.sentence()


def test_it_is_the_users_alone_and_only_ever_grows(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        pauses = WorkspacePauses(tmp_path / "store")
        entry = opened(pauses)
    finally:
        os.umask(before)
    path = pauses.journal.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    first = path.read_bytes()
    pauses.close(entry.id, "cancelled", reason="cancelled", message="Called off.")
    assert path.read_bytes().startswith(first)


def test_what_was_said_of_an_end_first_stands(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path)
    entry = opened(pauses)
    evidence = {"pod_uid": "2"}
    assert pauses.close(entry.id, "restored", message="The same process.", evidence=evidence)
    assert not pauses.close(entry.id, "fresh")
    assert pauses.open_entries() == []
    (found,) = pauses.entries()
    assert found.closed is not None
    assert (found.closed["outcome"], found.closed["evidence"]) == ("restored", evidence)
    assert "restored. The same process." in found.sentence()
    assert not pauses.close("nobody's", "fresh")
    with pytest.raises(ValueError, match="happily"):
        pauses.close(entry.id, "happily")


def test_a_pause_that_was_lost_sight_of_stays_open_and_says_why(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path)
    entry = opened(pauses)
    pauses.unsure(entry.id, GkewsError("cluster_unreachable", "No answer.", "Look again."))
    (found,) = pauses.open_entries()
    assert found.unsure == {
        "reason": "cluster_unreachable", "message": "No answer.", "hint": "Look again.",
    }  # fmt: skip
    assert "lost sight of: No answer." in found.sentence()


def test_a_later_pause_of_the_same_workspace_takes_the_place_of_an_open_one(
    tmp_path: Path,
) -> None:
    pauses = WorkspacePauses(tmp_path)
    first = opened(pauses)
    other = opened(pauses, workspace={"namespace": "team", "name": "another"})
    second = opened(pauses)
    assert [entry.id for entry in pauses.open_entries()] == [second.id, other.id]
    closed = {entry.id: entry.closed for entry in pauses.entries()}[first.id]
    assert closed is not None
    assert closed["outcome"] == "superseded"


def test_lines_that_cannot_be_read_hide_no_others(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path)
    first = opened(pauses)
    with pauses.journal.path.open("ab") as file:
        file.write(b'{"format": 9, "event": "pause_closed", "id": "%s"}\n' % first.id.encode())
        file.write(b'\xff\xfe\n[]\n{"format":1,"event":"pause_opened","id":"torn"}\n')
        file.write(b'{"format":1,"event":"pause_cl')  # a server that died in the middle
    second = opened(pauses, workspace={"namespace": "b", "name": "b"})
    assert [entry.id for entry in pauses.open_entries()] == [second.id, first.id]
    with pauses.journal.path.open("ab") as file:
        record = {"format": 1, "time": "", "event": "pause_opened", "id": "newer", "later": 1,
                  "workspace": WORKSPACE, "pod": POD, "stateless": False, "life": "",
                  "server": SERVER, "kernels": [{**KERNEL.__dict__, "later": 1}]}  # fmt: skip
        file.write(json.dumps(record).encode() + b"\n")
    assert pauses.open_entries()[0].kernels == [KERNEL]


def test_a_process_knows_what_it_began_itself(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path)
    entry = opened(pauses)
    assert pauses.is_mine(pauses.open_entries()[0])
    code = (
        "import sys; from pathlib import Path;"
        "from jupyter_gkews.journal.pauses import WorkspacePauses;"
        "pauses = WorkspacePauses(Path(sys.argv[1]));"
        "assert not pauses.is_mine(pauses.open_entries()[0])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert entry.life not in (None, "")


def test_a_full_disk_is_said_and_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    pauses = WorkspacePauses(tmp_path)
    opened(pauses)
    before = pauses.journal.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, limits[1]))
        with pytest.raises(GkewsError) as full:
            opened(pauses)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert full.value.reason in ("disk_full", "store_not_writable")
    assert pauses.journal.path.read_bytes() == before


def test_servers_that_share_a_store_mix_no_lines(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from jupyter_gkews.journal.records import Journal;"
        "journal = Journal(Path(sys.argv[1]));"
        "[journal.append({'who': sys.argv[2], 'n': n, 'pad': 'x' * 5000}) for n in range(20)]"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(who)]) for who in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = [(record["who"], record["n"]) for record in WorkspacePauses(tmp_path).journal]
    assert sorted(found) == sorted((str(who), n) for who in range(3) for n in range(20))
