"""`jupyter gkews install-kernel` and `doctor`: no server needed, nothing started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def cli(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with a data directory of its own."""
    return subprocess.run(
        [sys.executable, "-m", "jupyter_gkews.cli", *arguments],
        env={**os.environ, "JUPYTER_DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """doctor's checks by what they are of."""
    return {check["what"]: check for check in json.loads(done.stdout)["checks"]}


def test_the_pausable_kernel_is_installed_for_this_python(tmp_path: Path) -> None:
    done = cli(tmp_path, "install-kernel", "--json", "--display-name", "Mine (pausable)")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "kernels" / "python3-pausable"
    assert json.loads(done.stdout)["path"] == str(folder)
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["argv"][0] == sys.executable and spec["display_name"] == "Mine (pausable)"


def test_where_it_cannot_run_nothing_is_installed_if_so_wished(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = cli(tmp_path, "install-kernel", "--if-possible", PATH=str(empty))
    assert done.returncode == 0 and "Nothing was installed: gVisor's runsc is not" in done.stdout
    assert not (tmp_path / "kernels").exists()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file")
    done = cli(tmp_path, "install-kernel", "--json")
    assert done.returncode != 0
    error = json.loads(done.stdout or done.stderr)
    assert "store_not_writable" in json.dumps(error) and "--sys-prefix" in json.dumps(error)


def test_the_doctor_says_what_is_missing(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    check = checks(cli(tmp_path, "doctor", "--json", PATH=str(empty)))
    assert check["process snapshots (gVisor)"]["works"] is False
    assert "runsc is not installed" in check["process snapshots (gVisor)"]["why_not"]
    assert check["checkpoints"]["works"] is True


def test_the_doctor_prints_a_table(tmp_path: Path) -> None:
    done = cli(tmp_path, "doctor")
    assert done.returncode == 0 and "process snapshots (gVisor)" in done.stdout
