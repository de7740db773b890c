"""The scratch process: loads a checkpoint before the kernel that made it may end.

Run by proof.py with the kernel's interpreter, as a file: `python scratch.py <fd in> <fd out>`.
It answers in JSON lines. It touches no file of the user's, uses no GPU, and ends when the
kernel does.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

#: Everything that was loaded, for good: no finalizer of the user's objects may run here.
_LOADED: list[Any] = []


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


def main(fd_in: int, fd_out: int) -> None:
    """Serve orders until the other end closes."""
    orders = os.fdopen(fd_in, "r", encoding="utf-8")
    answers = os.fdopen(fd_out, "w", encoding="utf-8")

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    first = json.loads(orders.readline() or "{}")
    if not first:
        return
    sys.path[:] = first["sys_path"]
    load_package()
    from jupyter_gkews.kernel import pure_python

    pure_python.install(first["pure_python"])
    from jupyter_gkews.kernel.checkpoint import restore as restoring

    waiting: list[dict[str, Any]] = []
    arrived = threading.Condition()

    def listen() -> None:
        for line in orders:
            with arrived:
                waiting.append(json.loads(line))
                arrived.notify()
        os._exit(0)  # the kernel is gone, or needs no more

    threading.Thread(target=listen, daemon=True).start()
    restoring.import_modules(first["modules"])
    say({"ready": True})
    while True:
        with arrived:
            while not waiting:
                arrived.wait()
            order = waiting.pop(0)
        say(answer_to(order, say))


def answer_to(order: dict[str, Any], say: Any) -> dict[str, Any]:
    """Load one checkpoint dry; {"fingerprints", "failed", "lenient"} or {"error"}."""
    from jupyter_gkews.errors import GkewsError
    from jupyter_gkews.kernel.checkpoint.fingerprint import Fingerprints
    from jupyter_gkews.kernel.checkpoint.restore import restore
    from jupyter_gkews.kernel.checkpoint.staging import StagedStore

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
    prints = Fingerprints(vars(main_module))
    found = [prints.of(value) for value in report.values]
    return {"fingerprints": found, "failed": report.failed, "lenient": report.lenient}


if __name__ == "__main__":
    # What imported code prints must not get between the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    main(int(sys.argv[1]), int(sys.argv[2]))
