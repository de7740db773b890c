"""Carries namespaces from one process into another, through a real checkpoint.

Run as `python carry.py save|check STORE ROWS.json OUT.json`: `save` executes each row's setup in a
`__main__` of its own and saves it; `check`, in another process, restores each and runs its check.
"""

from __future__ import annotations

import linecache
import os
import sys
import traceback
import types
from json import dumps, loads
from pathlib import Path
from typing import Any

from jupyter_gkews.kernel.checkpoint import start_state, zygote
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


def run_cells(namespace: dict[str, Any], text: str, row: str) -> None:
    """Execute cells (split by `# %%`) as IPython does: each with its source in the line cache."""
    for number, cell in enumerate(text.split("# %%\n")):
        filename = f"<cell {row} {number}>"
        linecache.cache[filename] = (len(cell), None, cell.splitlines(keepends=True), filename)
        exec(compile(cell, filename, "exec", dont_inherit=True), namespace)


def fresh_main() -> dict[str, Any]:
    """A new `__main__`, as a kernel's namespace is."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    return vars(module)


def main(what: str, root: str, rows_file: str, out_file: str) -> None:
    store = CheckpointStore(root)
    rows = loads(Path(rows_file).read_text())
    results: dict[str, Any] = {}
    keep = []
    for name, row in rows.items():
        namespace = fresh_main()
        keep.append(sys.modules["__main__"])
        try:
            if what == "save":
                linecache.clearcache()  # what earlier rows did is not the work of these cells
                start_state.note_start()
                run_cells(namespace, row["setup"], name)
                results[name] = {"summary": save(namespace, store, checkpoint=name)}
            else:
                report = restore(namespace, store, name)
                namespace["report"] = report
                run_cells(namespace, row["check"], name + "-check")
                results[name] = {"lost": report.lost, "rebuilt": report.rebuilt_details}
        except BaseException:
            results[name] = {"error": traceback.format_exc()}
    Path(out_file).write_text(dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
    zygote.end()
    sys.stdout.flush()
    os._exit(0)  # as a pause does: nothing of the process has a say in it
