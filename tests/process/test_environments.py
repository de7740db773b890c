"""Kernels that are started in other ways or live in other environments than the server's."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from jupyter_gkews.errors import GkewsError

from .notebook import until

CACHE = Path(__file__).parents[2] / ".venv-kernel39"
PACKAGES = ["ipykernel>=6.29,<7"]


def runs(pid: int) -> bool:
    """Whether a process is more than a zombie (orphans may find nobody to reap them)."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def goes_through_a_pause(notebook) -> None:
    """The check that every kind of kernel has to pass."""
    page = await notebook.browser()
    await page.result("data = {'n': 1}\ndef bump():\n    data['n'] += 1\n    return data['n']")
    hello = notebook.provisioner.hello
    await notebook.pause()
    assert not runs(hello.pid)
    await notebook.resume()
    ran = await page.result("bump()")
    assert ran.text == "2"
    assert ran.reply["execution_count"] == 2


@pytest.mark.parametrize("exec_", ["", "exec "])
async def test_a_kernel_behind_a_shell_wrapper(open_notebook, add_kernelspec, exec_):
    command = f"true; {exec_}{sys.executable} -m ipykernel_launcher -f {{connection_file}}; true"
    notebook = await open_notebook(add_kernelspec("wrapped", ["bash", "-c", command]))
    assert (notebook.provisioner.hello.pid == notebook.provisioner.process.pid) == bool(exec_)
    await goes_through_a_pause(notebook)


@pytest.mark.skipif(not shutil.which("setsid"), reason="setsid is not installed")
async def test_a_kernel_whose_wrapper_puts_it_into_another_session(open_notebook, add_kernelspec):
    argv = ["setsid", "--wait", sys.executable, "-m", "ipykernel_launcher", "-f"]
    notebook = await open_notebook(
        add_kernelspec("setsid", ["bash", "-c", " ".join([*argv, "{connection_file}"]) + "; true"])
    )
    await goes_through_a_pause(notebook)


async def test_an_isolated_python(open_notebook, add_kernelspec):
    argv = [sys.executable, "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    await goes_through_a_pause(await open_notebook(add_kernelspec("isolated", argv)))


async def test_the_users_own_startup_file_still_runs(open_notebook, add_kernelspec, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("import os\nfrom_startup = os.environ.get('PYTHONSTARTUP')\n")
    notebook = await open_notebook(add_kernelspec("startup", env={"PYTHONSTARTUP": str(mine)}))
    page = await notebook.browser()
    assert (await page.result("from_startup")).text == repr(str(mine))
    await notebook.pause()
    await notebook.resume()
    assert (await page.result("from_startup")).text == repr(str(mine))


async def test_a_kernel_that_is_not_python_is_left_alone(open_notebook, add_kernelspec):
    name = add_kernelspec("other", language="julia", display_name="Julia")
    notebook = await open_notebook(name, ready=False)
    why = notebook.provisioner.why_not_pausable()
    assert why.reason == "not_pausable"
    assert "Julia" in why.message
    page = await notebook.browser()
    ran = await page.result("import os; os.environ.get('PYTHONSTARTUP')")
    assert ran.reply["status"] == "ok" and not ran.outputs


async def test_a_python_kernel_that_loads_no_startup_file_says_so(
    open_notebook, add_kernelspec, monkeypatch
):
    argv = [
        sys.executable,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
        "--InteractiveShellApp.exec_PYTHONSTARTUP=False",
    ]
    notebook = await open_notebook(add_kernelspec("deaf", argv), ready=False)
    assert (await (await notebook.browser()).result("1 + 1")).text == "2"
    assert notebook.provisioner.why_not_pausable().reason == "kernel_starting"
    monkeypatch.setattr("jupyter_gkews.kernel_process.HELLO_TIMEOUT_S", 0.0)
    why = notebook.provisioner.why_not_pausable()
    assert why.reason == "not_pausable"
    assert "did not load" in why.message


async def test_a_server_without_the_extension_launches_as_usual(open_notebook, pausable_app):
    del pausable_app.kernel_manager.gkews_launch
    notebook = await open_notebook(ready=False)
    assert (await (await notebook.browser()).result("1 + 1")).text == "2"
    assert notebook.provisioner.why_not_pausable().reason == "not_pausable"
    with pytest.raises(GkewsError):
        _ = notebook.provisioner.run_dir


def python39() -> str | None:
    """A Python 3.9 of this machine; the real home is looked at, tests have one of their own."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    pyenv = sorted(home.glob(".pyenv/versions/3.9.*/bin/python3.9"))
    return str(pyenv[-1]) if pyenv else shutil.which("python3.9")


@pytest.fixture(scope="module")
def old_python() -> str:
    """A Python 3.9 with ipykernel 6 and nothing of ours, kept between runs."""
    base = python39()
    if base is None:
        pytest.skip("there is no Python 3.9 on this machine")
    python, done = CACHE / "bin" / "python", CACHE / "packages.json"
    with open(Path(tempfile.gettempdir()) / "jupyter-gkews-kernel39.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or json.loads(done.read_text()) != PACKAGES:
            subprocess.run([base, "-m", "venv", "--clear", str(CACHE)], check=True)
            install = [str(python), "-m", "pip", "install", "-q", *PACKAGES]
            if subprocess.run(install, check=False).returncode:
                pytest.skip("ipykernel 6 for Python 3.9 could not be installed here")
            done.write_text(json.dumps(PACKAGES))
    return str(python)


async def test_an_old_kernel_without_any_of_our_packages(open_notebook, add_kernelspec, old_python):
    argv = [old_python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    # jp_environ names this Python's standard library in PYTHONPATH
    notebook = await open_notebook(add_kernelspec("old", argv, env={"PYTHONPATH": ""}))
    hello = notebook.provisioner.hello
    assert hello.python.startswith("3.9.")
    assert hello.ipykernel.startswith("6.")
    assert hello.hash == "blake2b"
    await goes_through_a_pause(notebook)
    page = await notebook.browser()
    await page.result("import time; ran = []")
    cells = [page.run(f"time.sleep(0.1); ran.append({n})") for n in range(4)]
    await until(lambda: notebook.provisioner.clients.outstanding)
    await notebook.pause()
    await notebook.resume()
    for cell in cells:
        assert (await page.finished(cell)).reply["status"] == "ok"
    assert (await page.result("ran")).text == "[0, 1, 2, 3]"
