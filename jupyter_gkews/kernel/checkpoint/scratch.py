"""The scratch process: loads a checkpoint before the kernel that made it may end.

Run by zygote.py with the kernel's interpreter, as a file: `python scratch.py <fd in> <fd out>
<folder>`. It imports, and forks a child for each load, which answers in JSON lines. It changes no
file but in its folder, whatever it imports (landlock.py, file_guard.py), runs nothing at its end,
uses no GPU, and ends when the kernel does.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import select
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

#: Everything that was loaded, for good: no finalizer of the user's objects may run here.
_LOADED: list[Any] = []
#: Seconds between two looks at memory and parent while there is nothing to do.
_TICK_S = 5.0
#: Share of the memory that must stay free while there is nothing to do.
_SPARE = 0.08


def load_package() -> None:
    """Make this file's package importable as jupyter_gkews, installed or not, and nothing else
    of the folder it lies in."""
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location(
        "jupyter_gkews", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["jupyter_gkews"] = module
    spec.loader.exec_module(module)


def main(fd_in: int, fd_out: int, folder: str) -> None:
    """Serve orders until the other end closes, or nothing was asked for some minutes. Writes in
    `folder` alone."""
    orders = Orders(fd_in)
    say = Voice(fd_out)
    first = orders.next(None)
    if first is None:
        return
    sys.path[:] = first["sys_path"]
    load_package()
    guard = take_rights(folder)
    from jupyter_gkews.kernel import pure_python

    pure_python.install(first["pure_python"])
    from jupyter_gkews.kernel.checkpoint import own_imports, safetensors_files
    from jupyter_gkews.kernel.checkpoint.module_files import signatures

    if first["watching"]:  # what is imported shall have the very names that it has in the kernel
        safetensors_files.watch()
    with own_imports.found_again(first["own"]):
        refused = own_imports.import_modules(first["modules"])
    load_the_loader()
    seen = signatures()
    say({"ready": True})
    parent = os.getppid()
    asked = time.monotonic()
    while True:
        order = orders.next(_TICK_S)
        if order is None:
            return
        if not order:
            if _superfluous(parent, time.monotonic() - asked, first["idle_s"]):
                return
            continue
        if "import" in order:
            with own_imports.found_again(order["own"]):
                refused.update(own_imports.import_modules(order["import"]))
            seen.update({k: v for k, v in signatures().items() if k not in seen})
            continue
        changed = next((name for name, found in signatures(seen).items() if seen[name] != found), 0)
        if changed:
            say({"stale": f"{changed} has changed"})
            continue
        order["borrowed"] = first["borrowed"]
        order["guard"], order["refused"] = guard, refused
        if not _may_fork():
            say({"alone": True})
            say(answer_to(order, say))
            continue
        _in_a_child(order, orders, say)
        asked = time.monotonic()


def load_the_loader() -> None:
    """Import what `answer_to` needs, once for all children; after the modules of the kernel, so
    that none of these finds what it would not have found there."""
    from jupyter_gkews.kernel.checkpoint import fingerprint, restore, staging
    from jupyter_gkews.kernel.checkpoint.rebuilders import types_of_ours

    _LOADED.append((fingerprint, restore, staging, types_of_ours()))


def take_rights(folder: str) -> Any:
    """Leave this process no file to change but those in `folder`, its place for temporary ones.
    Returns the file_guard.FileGuard that is in force."""
    import tempfile

    from jupyter_gkews.kernel.checkpoint import file_guard, guarded_calls, landlock

    tempfile.tempdir = folder
    sys.dont_write_bytecode = True
    # /dev/shm: memory that processes share, by names of their own
    landlock.restrict([folder, "/dev/shm"], ["/dev/null"])
    guard = file_guard.FileGuard(folder)
    _LOADED.append(guarded_calls.put_in_force(guard))
    return guard


class Orders:
    """Lines of JSON from a file descriptor, waited for without a thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = b""

    def next(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next order; {} if none came in time; None if the other end has closed."""
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.fd], [], [], timeout_s)
            if not ready:
                return {}
            data = os.read(self.fd, 1 << 20)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        order = json.loads(line)
        return order if isinstance(order, dict) else {}


class Voice:
    """Answers, a line of JSON each."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, answer: dict[str, Any]) -> None:
        """Say one."""
        data = (json.dumps(answer) + "\n").encode()
        while data:
            data = data[os.write(self._fd, data) :]


def _may_fork() -> bool:
    """Whether this process has one thread: a lock that another one holds would stay locked."""
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _superfluous(parent: int, idle_s: float, limit_s: float) -> bool:
    from jupyter_gkews.kernel.checkpoint.headroom import memory

    if idle_s > limit_s or os.getppid() != parent:
        return True
    found = memory()
    return found is not None and found.free < _SPARE * found.total


def _in_a_child(order: dict[str, Any], orders: Orders, say: Voice) -> None:
    """Load one checkpoint in a fork of this process, which ends with it."""
    alive, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(alive)
            os.close(orders.fd)
            _die_with_parent()
            say(answer_to(order, say))
        except BrokenPipeError:  # the kernel has lost interest
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
            os._exit(1)
        os._exit(0)
    os.close(theirs)
    status = 0
    while True:
        # By the pipe at once; what the user's code forks may keep that open for longer.
        ready, _, _ = select.select([alive, orders.fd], [], [], 0.2)
        ended, status = os.waitpid(pid, 0 if alive in ready else os.WNOHANG)
        if ended:
            break
        if orders.fd in ready and orders.next(0) is None:  # nothing is asked meanwhile
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
    os.close(alive)
    say({"ended": os.WTERMSIG(status) * -1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)})


def _die_with_parent() -> None:
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return


def answer_to(order: dict[str, Any], say: Any) -> dict[str, Any]:
    """Load one checkpoint dry; {"fingerprints", "failed", "lenient", "imported", "held",
    "unwritable"} or {"error"}. "held": [who, what] of code of the user's that wanted to change
    files; "unwritable": modules that could not be imported for it."""
    before = set(sys.modules)
    from jupyter_gkews.errors import GkewsError
    from jupyter_gkews.kernel.checkpoint.file_guard import told
    from jupyter_gkews.kernel.checkpoint.fingerprint import Fingerprints
    from jupyter_gkews.kernel.checkpoint.own_imports import refused_to_write
    from jupyter_gkews.kernel.checkpoint.restore import restore
    from jupyter_gkews.kernel.checkpoint.staging import StagedStore

    for name in order["borrowed"]:  # what is loaded shall see the kernel's environment
        os.environ.pop(name, None)
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    count = 0

    def progress(step: str, done: int, total: int) -> None:
        nonlocal count
        if step == "reading":
            say({"read": 0})
        if step == "rebuilding":
            # Each pass over the graph begins with 0; the count is the position of the next name.
            count = count + 1 if done else 0
            say({"read": count})

    try:
        report = restore(
            vars(main_module),
            StagedStore(order["store"], order["checkpoint"], order["staging"]),
            order["checkpoint"],
            trusted=frozenset(order["trusted"]),
            progress=progress,
            dry=True,
        )
    except GkewsError as error:
        return {"error": error.to_json()}
    _LOADED.append((main_module, report))
    refused = {**order["refused"], **report.unimported}
    prints = Fingerprints(vars(main_module), places=report.places(set(order["unseen"])))
    found = [prints.of(value, limit) for value, limit in zip(report.values, order["limits"])]
    return {
        "fingerprints": found,
        "failed": report.failed,
        "lenient": report.lenient,
        "left_out": report.left_out,
        "imported": [name for name in sys.modules if name not in before],
        "held": list(told(order["guard"].noted()).items()),
        "unwritable": [name for name, error in refused.items() if refused_to_write(error)],
    }


if __name__ == "__main__":
    # What imported code prints must not get between the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    except BaseException as failure:
        os.write(2, f"{type(failure).__name__}: {failure}\n".encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)  # what imported modules have registered for the end is not for this process
