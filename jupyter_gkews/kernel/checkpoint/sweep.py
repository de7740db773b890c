"""Takes out of a store what is not needed: by mark and sweep, and old checkpoints as asked.

It never removes a chunk that any manifest names or may name, a checkpoint that it was told to
leave, one with a name, or one that cannot be read. A crash at any point leaves what the next
collection finishes. It does nothing while a save or a load runs in the store.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ...errors import GkewsError
from . import chunks, locks
from .manifest import tells_its_chunks

if TYPE_CHECKING:
    from .store import CheckpointStore

#: A checkpoint that was written less than so many seconds ago is not old, whatever is asked: the
#: pause that wrote it may not have said yet that it needs it.
JUST_WRITTEN_S = 600.0
#: Beside an image of a process, in `snapshots/<id>/`: the chunks that it has mapped.
NEEDED_FILE = "needed.json"
_CHUNK_NAME = re.compile(rb"(?:blake3|blake2b)-[0-9a-f]{64}")
_CHUNK_FILE = re.compile(r"((?:blake3|blake2b)-[0-9a-f]{64})(?:\.[a-z0-9]+)?")
_BUSY = (
    "A checkpoint is being written or loaded in this store (or its file system has no locks): "
    "nothing was removed. Try again when that has ended."
)


def collect(
    store: CheckpointStore,
    *,
    older_than_s: float | None = None,
    keep: int | None = None,
    protected: frozenset[str] = frozenset(),
    dry_run: bool = False,
) -> dict[str, Any]:
    """Remove checkpoints as asked, what dead saves left, and chunks that no manifest names.

    `older_than_s`: checkpoints older than so many seconds go; `keep`: those go that are not among
    the newest so many of their kernel; with both, a checkpoint goes only if both say so; with
    neither, none goes. Never one that has a name, that is in `protected`, that cannot be read, or
    that was just written. `dry_run` only tells, and takes no lock.

    Returns {"dry_run", "bytes_freed", "checkpoints": [{"id", "name", "created", "notebook",
    "bytes"}], "chunks" and "leftovers": {"count", "bytes"}, "stays": sentence or null (why
    something that may be unused was left), "store": {"bytes", "checkpoints"} (before)}. With
    `dry_run`, what would be. Raises store_not_writable.
    """
    if not store.root.is_dir():
        return _report(dry_run)
    with store.writing():
        if dry_run:
            return _collect(store, older_than_s, keep, protected, dry_run=True)
        with locks.alone(store.root) as alone:
            if not alone:
                report = _collect(store, None, None, protected, dry_run=True)
                return {**_report(False), "store": report["store"], "stays": _BUSY}
            return _collect(store, older_than_s, keep, protected, dry_run=False)


def _report(dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "bytes_freed": 0,
        "checkpoints": [],
        "chunks": {"count": 0, "bytes": 0},
        "leftovers": {"count": 0, "bytes": 0},
        "stays": None,
        "store": {"bytes": 0, "checkpoints": 0},
    }


def _collect(
    store: CheckpointStore,
    older_than_s: float | None,
    keep: int | None,
    protected: frozenset[str],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    report = _report(dry_run)
    report["store"]["checkpoints"] = len(store.directories())
    checkpoints = store.root / "checkpoints"
    trash = [entry for entry in _entries(checkpoints) if entry.name.startswith(".")]
    trash += [
        entry  # of a process that died while it made the key; one that makes it now is quick
        for entry in _entries(store.root)
        if entry.name.startswith(".key-") and time.time() - _mtime(entry) > JUST_WRITTEN_S
    ]
    for entry in trash:
        report["leftovers"]["count"] += 1
        report["leftovers"]["bytes"] += tree_bytes(entry)
    going = set()
    if older_than_s is not None or keep is not None:
        for summary in old(store, older_than_s, keep, protected):
            directory = store.directory(summary["id"])
            nbytes = tree_bytes(directory)
            going.add(summary["id"])
            shown = {key: summary[key] for key in ("id", "name", "created", "notebook")}
            report["checkpoints"].append({**shown, "bytes": nbytes})
            if not dry_run:
                trash.append(put_away(directory))
    alive = partial(locks.still_alone, store.root) if not dry_run else lambda: True
    used, unknown, left = mark(store, going, alive)
    report["store"]["bytes"] = left + report["leftovers"]["bytes"]
    report["store"]["bytes"] += sum(row["bytes"] for row in report["checkpoints"])
    if unknown:
        report["stays"] = (
            f"What is unused is not known: {unknown[0]} cannot be read (of "
            f"{len(unknown)} such), and nothing is removed that it may need. Bring it back from a "
            "backup, or delete it."
        )
    for path in _files(store.root / "chunks"):
        if not dry_run and not locks.still_alone(store.root):
            report["stays"] = _BUSY
            break
        nbytes = path.lstat().st_size
        report["store"]["bytes"] += nbytes
        name = _CHUNK_FILE.fullmatch(path.name)
        if unknown or name is None or name[1] in used:
            continue
        report["chunks"]["count"] += 1
        report["chunks"]["bytes"] += nbytes
        if not dry_run:
            path.unlink()
    if not dry_run:
        for entry in trash:  # last: as long as one is there, another collection will come
            remove_tree(entry)
    report["bytes_freed"] = sum(
        [report["chunks"]["bytes"], report["leftovers"]["bytes"]]
        + [row["bytes"] for row in report["checkpoints"]]
    )
    return report


def mark(
    store: CheckpointStore, going: set[str], alive: Callable[[], object] = lambda: True
) -> tuple[set[str], list[str], int]:
    """(chunks that a manifest or an image of a process needs, words for those of which that cannot
    be known, bytes of the checkpoints).

    Names are read from manifests whether or not they can be trusted. Not known are the names in
    one that is missing, cut off, changed, or of a newer format.
    """
    used: set[str] = set()
    unknown: list[str] = []
    nbytes = 0
    key = store.key()
    for directory in store.directories():
        alive()
        if directory.name in going:
            continue
        nbytes += tree_bytes(directory)
        try:
            data = (directory / "manifest.json").read_bytes()
        except OSError:
            if directory.is_dir() and any(directory.iterdir()):
                unknown.append(f"checkpoint {directory.name}")
            continue
        used.update(match.decode() for match in _CHUNK_NAME.findall(data))
        if not tells_its_chunks(data, key):
            unknown.append(f"checkpoint {directory.name}")
    for image in _entries(store.root / "snapshots"):
        try:
            data = (image / NEEDED_FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue  # its processes have none mapped
        except OSError:
            unknown.append(f"what snapshot {image.name} needs")
            continue
        used.update(match.decode() for match in _CHUNK_NAME.findall(data))
    return used, unknown, nbytes


def old(
    store: CheckpointStore,
    older_than_s: float | None,
    keep: int | None,
    protected: frozenset[str],
) -> Iterator[dict[str, Any]]:
    """Summaries of the checkpoints that `collect` would remove."""
    now = time.time()
    newer: dict[str, int] = {}
    for summary in store.summaries():  # newest first
        if summary["error"] is not None or summary["name"] is not None:
            continue
        whose = str((summary["kernel"] or {}).get("id") or summary["notebook"] or "")
        newer[whose] = newer.get(whose, 0) + 1
        try:
            written = store.directory(summary["id"]).stat().st_mtime
            created = datetime.fromisoformat(str(summary["created"]).replace("Z", "+00:00"))
        except (OSError, ValueError, GkewsError):
            continue
        age_s = now - max(written, created.timestamp())  # negative if the clock was set back
        if summary["id"] in protected or age_s < JUST_WRITTEN_S:
            continue
        if keep is not None and newer[whose] <= keep:
            continue
        if older_than_s is not None and age_s <= older_than_s:
            continue
        yield summary


def put_away(directory: Path) -> Path:
    """Take a checkpoint off the list in one durable step; its new, hidden place. OSError."""
    trash = directory.with_name(f".trash-{directory.name}-{os.urandom(4).hex()}")
    os.rename(directory, trash)
    chunks.fsync_file(directory.parent)
    return trash


def remove_tree(path: Path) -> None:
    """Remove a file or folder; what cannot be removed now is left for the next time."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def empty_tree(directory: Path) -> None:
    """Remove what is in a folder; the folder stays, as the sign that a collection is due."""
    for entry in _entries(directory):
        remove_tree(entry)


def tree_bytes(path: Path) -> int:
    """Bytes of the files below (or of the file)."""
    if path.is_symlink() or not path.is_dir():
        return _size(path)
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _mtime(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(directory: Path) -> Iterator[Path]:
    for folder in _entries(directory):
        if folder.is_dir() and not folder.is_symlink():
            yield from _entries(folder)
