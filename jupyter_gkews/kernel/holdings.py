"""What the processes of a sandbox hold, for the record of a snapshot: what is shown of it, and the
files and folders that must be there when it is restored.

Looks only, by /proc and the kernel's namespace; inside a sandbox /proc shows what is in it alone.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import types
from typing import Any

from .preflight import own_devices


def holdings(user_ns: dict[str, Any]) -> dict[str, Any]:
    """{"holds": what a restored process has and a recovered one has not, "needs": paths}.

    holds: {"pid", "python", "threads": [name], "generators": [name], "children": ["name (pid)"],
    "files": [path]} of the kernel's own process. needs: {"open", "folders": [absolute path]} of
    all processes of the sandbox: files that are open, and directories in which they work or that
    they have open. Paths inside the sandbox's own file systems are part of the image and left out.
    """
    from .checkpoint.running import child_processes, descriptors, users_threads

    return {
        "holds": {
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "threads": users_threads(user_ns),
            "generators": _running_generators(user_ns),
            "children": child_processes(),
            "files": sorted(descriptors()[1]),
        },
        "needs": _needs(),
    }


def _running_generators(user_ns: dict[str, Any]) -> list[str]:
    """Names of generators and coroutines that have begun or wait to, and are not used up."""
    kinds = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
    frames = ("gi_frame", "cr_frame", "ag_frame")
    return sorted(
        name
        for name, value in list(user_ns.items())
        if not name.startswith("_")
        and type(value) in kinds
        and any(getattr(value, frame, None) is not None for frame in frames)
    )


def _needs() -> dict[str, list[str]]:
    files: set[str] = set()
    folders: set[str] = set()
    own = own_devices()
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        with contextlib.suppress(OSError):  # a process that ends meanwhile
            _note(f"/proc/{pid}/cwd", files, folders, own)
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                _note(f"/proc/{pid}/fd/{fd}", files, folders, own)
    return {"open": _sorted(files), "folders": _sorted(folders)}


def _sorted(paths: set[str]) -> list[str]:
    """Without names that are no text: JSON cannot carry them."""
    return sorted(path for path in paths if path.isprintable())


def _note(link: str, files: set[str], folders: set[str], own: set[int]) -> None:
    with contextlib.suppress(OSError):
        status = os.stat(link)
        path = os.readlink(link)
        if not path.startswith("/") or status.st_dev in own:
            return
        if stat.S_ISREG(status.st_mode):
            files.add(path)
        elif stat.S_ISDIR(status.st_mode):
            folders.add(path)
