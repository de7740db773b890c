"""The folders `sandboxes/<kernel id>` of kernels that have ended: removed when nothing needs them.

Never removes one that an image needs for its restore, nor one of a sandbox that runs.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import psutil

#: Seconds: a younger folder may be one of a kernel that another server is just starting.
YOUNG_S = 600.0


def forget(store: Path, kernel: str) -> bool:
    """Remove the folder of a kernel that has ended; whether it was removed."""
    folder = store / "sandboxes" / kernel
    if not folder.is_dir() or kernel in _with_images(store) or _in_use(folder):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def sweep(store: Path) -> list[str]:
    """Remove those of kernels that ended with their server; their ids."""
    try:
        folders = [path for path in (store / "sandboxes").iterdir() if path.is_dir()]
    except OSError:
        return []
    old = time.time() - YOUNG_S
    found = [path.name for path in folders if path.stat().st_mtime < old]
    return [kernel for kernel in found if forget(store, kernel)]


def _with_images(store: Path) -> set[str]:
    found = set()
    for file in (store / "snapshots").glob("*/snapshot.json"):
        try:
            found.add(str(json.loads(file.read_text())["kernel"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _in_use(folder: Path) -> bool:
    """Whether a runsc works with it: its command line names the folder."""
    mark = f"--root={folder}/"
    for process in psutil.process_iter(["cmdline"]):
        if any(part.startswith(mark) for part in process.info["cmdline"] or ()):
            return True
    return False
