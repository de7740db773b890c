"""The folders `sandboxes/<kernel id>` of kernels that have ended: removed when nothing needs them.

Never removes one that an image needs for its restore, nor one of a sandbox that runs, nor that of
a paused kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

#: Seconds: a younger folder may be one of a kernel that another server is just starting.
YOUNG_S = 600.0


def claim(folder: Path) -> None:
    """Make the folder of a kernel that is about to start, or say that it is in use again."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.utime(folder)


def forget(store: Path, kernel: str) -> bool:
    """Remove the folder of a kernel that has ended; whether it was removed."""
    return bool(_remove(store, [kernel]))


def sweep(store: Path) -> list[str]:
    """Remove those of kernels that ended with their server; their ids."""
    old = time.time() - YOUNG_S
    found = []
    with contextlib.suppress(OSError):
        for folder in (store / "sandboxes").iterdir():
            with contextlib.suppress(OSError):  # another server removes it just now
                if folder.is_dir() and folder.stat().st_mtime < old:
                    found.append(folder.name)
    return _remove(store, found)


def _remove(store: Path, kernels: list[str]) -> list[str]:
    if not kernels:
        return []
    needed = _with_images(store) | _paused(store)
    running = _roots()
    removed = []
    for kernel in kernels:
        folder = store / "sandboxes" / kernel
        if kernel in needed or not folder.is_dir() or f"{folder}/" in running:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(kernel)
    return removed


def _with_images(store: Path) -> set[str]:
    found = set()
    for file in (store / "snapshots").glob("*/snapshot.json"):
        try:
            found.add(str(json.loads(file.read_text())["kernel"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _paused(store: Path) -> set[str]:
    return {file.stem for file in (store / "paused").glob("*.json")}


def _roots() -> str:
    """The command lines of all processes: a runsc names the folder that it works with."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes()
            if b"--root=" in line:
                lines.append(line.decode("utf-8", "surrogateescape"))
    return "\n".join(lines)
