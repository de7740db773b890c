"""The folders `sandboxes/<kernel id>` of kernels, and the marks that they have in the store's lock:
removed when nothing needs them any more.

Never removes what an image needs for its restore, nor what is of a sandbox that runs or that may
run on another machine which has this store, nor the folder of a paused kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from ...kernel.checkpoint import locks
from ...kernel.checkpoint.sweep import tree_bytes
from ..base import Leftover

#: Seconds: a younger folder may be one of a kernel that another server is just starting.
YOUNG_S = 600.0
#: Seconds between two signs of life of a sandbox, and for which one on a machine whose processes
#: we cannot see is believed to live without any.
SIGN_OF_LIFE_S = 600.0
SILENT_S = 3600.0
#: In the folder: where its sandbox was started last.
PLACE_FILE = "place"
#: Beside an image that is being written: the kernel that it is of.
TAKEN_OF_FILE = "of"

_ROOT = re.compile(rb"--root=[^\0]*/sandboxes/([^/\0]+)/runsc(?=[/\0]|\Z)")


def claim(folder: Path) -> None:
    """Make the folder of a kernel that is about to start or to be restored here, or say that it
    is in use still."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / PLACE_FILE
    if _text(file) != _here():
        new = folder / f"{PLACE_FILE}.new"
        new.touch(0o600)
        new.write_text(_here())
        os.replace(new, file)
    os.utime(folder)


def note_kernel(image: Path, kernel: str) -> None:
    """Say beside an image that is about to be written which kernel it is of."""
    file = image / TAKEN_OF_FILE
    file.touch(0o600)
    file.write_text(kernel)


def forget(store: Path, kernel: str) -> bool:
    """Remove the folder of a kernel of ours that has ended; whether it was removed."""
    folder = store / "sandboxes" / kernel
    try:
        if not folder.is_dir() or kernel in _paused(store) or kernel in _living(store, [kernel]):
            return False
    except OSError:  # not known
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def tidy(store: Path, *, dry_run: bool = False) -> list[Leftover]:
    """Remove (or tell) what kernels have left that ended with their server; their folders.

    Their marks go as soon as it is certain that no process can be behind them: a checkpoint that
    they were writing when they ended would keep the store locked. Folders stay for a while.

    Raises OSError: who needs what cannot be seen, and nothing was removed.
    """
    marks = locks.marks(store)
    folders = {}
    for folder in _within(store / "sandboxes"):
        with contextlib.suppress(OSError):  # another server removes it just now
            if folder.is_dir():
                folders[folder.name] = folder.stat().st_mtime
    kernels = {*folders, *marks}
    ended = kernels - _living(store, kernels)
    # looked at last: another machine says that it restores one before it does
    ended = {kernel for kernel in ended if _seen_from_here(store / "sandboxes" / kernel)}
    if not dry_run:
        for kernel in ended & marks.keys():
            for mark in marks[kernel]:  # those alone: it may have been started again
                mark.unlink(missing_ok=True)
    old = time.time() - YOUNG_S
    found = []
    for kernel in sorted(ended - _paused(store)):
        if folders.get(kernel, old) < old:
            folder = store / "sandboxes" / kernel
            found.append(Leftover(kernel, tree_bytes(folder)))
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
    return found


def _living(store: Path, kernels: Iterable[str]) -> set[str]:
    """Those with a process that runs here or that an image holds."""
    if not kernels:
        return set()
    # looked for in this order: one that is frozen or restored meanwhile is seen all the same
    frozen = _with_images(store)
    return (frozen | _running() | _with_images(store)).intersection(kernels)


def _with_images(store: Path) -> set[str]:
    found = set()
    for image in _within(store / "snapshots"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found.add((image / TAKEN_OF_FILE).read_text())
        # one that is damaged can never be restored
        with contextlib.suppress(
            FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError
        ):
            found.add(str(json.loads((image / "snapshot.json").read_text())["kernel"]))
    return found


def _paused(store: Path) -> set[str]:
    return {file.stem for file in _within(store / "paused") if file.suffix == ".json"}


def _running() -> set[str]:
    """Kernels whose runsc runs: its command line names the folder that it works with. By what name
    this store is known there does not matter, as no two kernels have one id."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.update(_ROOT.findall((process / "cmdline").read_bytes()))
    return {os.fsdecode(kernel) for kernel in found}


def _seen_from_here(folder: Path) -> bool:
    """Whether we would see a sandbox with this folder if it ran: it was started here, or whoever
    runs it elsewhere has given no sign of life for long."""
    place = _text(folder / PLACE_FILE)
    if place and place == _here():
        return True
    try:
        return time.time() - folder.stat().st_mtime > SILENT_S
    except OSError:
        return False


def _here() -> str:
    """This boot of this machine, and the processes of it that we can see; "" if that is not known.

    A container has the boot of its host, and processes of its own.
    """
    boot = _text(Path("/proc/sys/kernel/random/boot_id"))
    try:
        return f"{boot.strip()} {os.readlink('/proc/self/ns/pid')}" if boot else ""
    except OSError:
        return ""


def _within(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it is not there. Raises OSError if that is not known."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except (OSError, ValueError):
        return None
