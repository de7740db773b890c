"""The kernelspec `python3-pausable`: an ipykernel of one environment, in a sandbox.

Writes one directory; starts nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

NAME = "python3-pausable"
DISPLAY_NAME = "Python 3 (pausable)"
PROVISIONER = "gkews-gvisor"


def spec(python: str = sys.executable, display_name: str = DISPLAY_NAME) -> dict[str, Any]:
    """kernel.json for the environment of this `python`."""
    return {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "metadata": {"kernel_provisioner": {"provisioner_name": PROVISIONER}},
    }


def write(kernels: Path, *, name: str = NAME, **about: str) -> Path:
    """Write the kernelspec below `kernels`, a directory of kernelspecs; its own directory.

    Raises OSError.
    """
    folder = kernels / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.json").write_text(json.dumps(spec(**about), indent=1) + "\n")
    for logo in (Path(sys.prefix) / "share/jupyter/kernels/python3").glob("logo-*"):
        shutil.copy(logo, folder)
    return folder
