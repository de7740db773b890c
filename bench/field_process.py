"""One side of one small notebook in a process of its own, for bench/field.py.

`python field_process.py save|load TOOL NOTEBOOK.json FILE` runs the setup in an IPython shell and
saves it with TOOL, or loads FILE into a fresh shell and runs the check. The last line that it
prints says how it ended; it knows nothing of jupyter-gkews.
"""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


def run_cells(shell: Any, text: str) -> str | None:
    """Run cells as a notebook does; the first error."""
    for cell in text.split("\n# %%\n"):
        error = shell.run_cell(cell, store_history=True).error_in_exec
        if error is not None:
            return f"{type(error).__name__}: {error}"
    return None


def save(tool: str, shell: Any, file: str) -> None:
    """Write the namespace as the tool's own documentation says."""
    if tool == "dill":
        import dill  # type: ignore[import-untyped]

        dill.dump_module(file)
        return
    import cloudpickle

    hidden = set(shell.user_ns_hidden)
    names = {
        name: value
        for name, value in shell.user_ns.items()
        if name not in hidden and not name.startswith("_")
    }
    with open(file, "wb") as out:
        cloudpickle.dump(names, out)


def load(tool: str, shell: Any, file: str) -> None:
    """Read it back into this namespace."""
    if tool == "dill":
        import dill

        dill.load_module(file)
        return
    import cloudpickle

    with open(file, "rb") as source:
        shell.user_ns.update(cloudpickle.load(source))


def main(what: str, tool: str, notebook: str, file: str) -> str:
    """`ok`, `refused: why`, `died: why` or `wrong: why`."""
    row: dict[str, Any] = json.loads(Path(notebook).read_text())
    # a fresh `__main__`, as in a kernel
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    shell: Any = InteractiveShell.instance(user_module=module, user_ns=vars(module))
    if what == "save":
        error = run_cells(shell, row["setup"])
        if error:
            return f"setup: {error}"
        try:
            save(tool, shell, file)
        except BaseException as failed:
            return f"refused: {type(failed).__name__}: {failed}"
        return "ok"
    try:
        load(tool, shell, file)
    except BaseException as failed:
        return f"died: {type(failed).__name__}: {failed}"
    error = run_cells(shell, row["check"])
    return f"wrong: {error}" if error else "ok"


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("agg")
    answer = main(*sys.argv[1:5])
    sys.stdout.write("\n" + json.dumps(answer[:500]) + "\n")
    sys.stdout.flush()
    os._exit(0)
