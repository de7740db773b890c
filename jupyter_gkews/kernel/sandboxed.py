"""Starts an ipykernel that can be frozen: `python sandboxed.py SOCKETS -f CONNECTION_FILE`.

SOCKETS is a directory for unix sockets. Does nothing else than ipykernel_launcher, after the
one patch that gVisor needs; run as a file, in the kernel's own environment.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def main() -> None:
    """Patch, then become the kernel."""
    folder = sys.argv.pop(1)
    here = os.path.dirname(os.path.abspath(__file__))
    # the folder of this file is no place to import from: it has modules of common names
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.util.spec_from_file_location(
        "_gkews_iopub_ipc", os.path.join(here, "iopub_ipc.py")
    )
    assert spec is not None and spec.loader is not None
    patch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patch)
    patch.install(folder)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()
