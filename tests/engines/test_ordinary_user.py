"""An ordinary user has sandboxes, too: the engine's own tests, run by a second account."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parents[2]


@dataclass
class Account:
    """A user of this machine, made for the tests."""

    name: str
    home: Path
    python: str

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command as this user, with an environment of its own."""
        packages = os.pathsep.join([str(HERE), *(p for p in sys.path if "site-packages" in p)])
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": packages}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.home)}
        who = [f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"]
        return subprocess.run(
            # setpriv itself may still have rights of root when it starts a program
            ["setpriv", *who, "sh", "-c", 'exec "$0" "$@"', *command],
            env=env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=280,
        )

    def test(self, *what: str) -> str:
        """What pytest says of tests of ours that this user runs."""
        line = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={HERE}"]
        line += ["-c", str(HERE / "pyproject.toml"), f"--basetemp={self.home}/t", *what]
        done = self.run(self.python, *line)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout.splitlines()[-1]


@pytest.fixture
def account() -> Iterator[Account]:
    """A new account; skipped, with the reason, where none can be made or used."""
    if os.geteuid():
        pytest.skip("only root makes accounts; this user's own sandboxes are tested anyway")
    missing = [n for n in ("useradd", "userdel", "setpriv", "newuidmap") if not shutil.which(n)]
    if missing:
        pytest.skip(f"{', '.join(missing)} cannot be found")
    name = f"gkews{os.getpid()}"
    # not below pytest's own folder, which is root's alone
    home = Path(tempfile.mkdtemp(prefix="gkews-account-"))
    made = subprocess.run(
        ["useradd", "--no-create-home", f"--home-dir={home}", name], capture_output=True, text=True
    )
    try:
        if made.returncode:
            pytest.skip(f"no account can be made: {made.stderr.strip()}")
        shutil.chown(home, name, name)
        found = Account(name, home, "")
        for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
            with contextlib.suppress(OSError):
                if found.run(python, "-c", "import jupyter_gkews, ipykernel").returncode == 0:
                    found.python = python
                    break
        else:
            pytest.skip("this Python, or the package, lies where other accounts cannot read it")
        yield found
    finally:
        for process in psutil.process_iter(["username"]):
            if process.info["username"] == name:
                process.kill()
        subprocess.run(["userdel", name], capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


def test_an_ordinary_user_freezes_and_restores_kernels(account: Account) -> None:
    said = account.test(f"{HERE}/tests/engines/test_sandbox.py", "-k", "what_no_checkpoint")
    assert said.startswith("1 passed"), said


@pytest.mark.soak
def test_an_ordinary_user_has_all_of_it(account: Account) -> None:
    kernels = f"{HERE}/tests/server/test_sandboxed_kernels.py"
    said = account.test(kernels, "-k", "same_process or engine_is_listed")
    assert " passed" in said and "skipped" not in said, said
    said = account.test(f"{HERE}/tests/engines/test_server_sandbox.py", "-k", "kernels_go_on")
    assert said.startswith("1 passed"), said
