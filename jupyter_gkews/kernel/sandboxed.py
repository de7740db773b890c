"""Starts an ipykernel that can be frozen: `python sandboxed.py SOCKETS -f CONNECTION_FILE`.

SOCKETS is a directory for unix sockets. Does nothing else than ipykernel_launcher, after the
patch that gVisor needs and one that spares it work; run as a file, in the kernel's own environment.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Patch, then become the kernel."""
    folder = sys.argv.pop(1)
    # the folder of this file is no place to import from: it has modules of common names
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    _neighbour("iopub_ipc").install(folder)
    _neighbour("iopub_pid").install()
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def _neighbour(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"_gkews_{name}", os.path.join(HERE, f"{name}.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
