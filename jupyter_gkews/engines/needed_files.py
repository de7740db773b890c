"""The files that an image needs besides its own: those that its processes have mapped.

Noted when the image is taken, compared before it is restored: a process that came back on other
bytes would go on with wrong values, or crash. Chunks of the store are kept by its collections as
long as the note is there. Changes no file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import GkewsError
from ..kernel.checkpoint import chunks
from ..kernel.checkpoint.sweep import NEEDED_FILE

Noted = dict[str, list[list[Any]]]
_INSTEAD = "Bring it back as it was and resume again."


def note(store: Path, mapped: Iterable[str]) -> Noted:
    """What to compare later: {"chunks": [[name, inode, bytes, mtime in ns, ctime in ns]], "files":
    [[path, bytes, mtime in ns]]}. Raises GkewsError (`snapshot_failed`) if a chunk is gone."""
    noted: Noted = {"chunks": [], "files": []}
    folder = os.path.join(os.path.realpath(store), "chunks", "")
    for path in sorted(set(mapped)):
        try:
            found = os.stat(path)
        except OSError:
            if path.startswith(folder):
                raise GkewsError(
                    "snapshot_failed",
                    f"The kernel has {path} mapped, which is gone.",
                    "The kernel runs on; its checkpoint is there.",
                ) from None
            continue  # a name that means nothing outside the sandbox
        if path.startswith(folder):
            name = os.path.basename(path)
            noted["chunks"].append([name, *_identity(found)])
        else:
            noted["files"].append([path, found.st_size, found.st_mtime_ns])
    return noted


def write(image_folder: Path, noted: Noted) -> None:
    """Durable, so that no collection after a crash overlooks it. Raises OSError."""
    data = json.dumps(noted, separators=(",", ":")).encode()
    chunks.write_file(image_folder / NEEDED_FILE, [data])


def check(store: Path, image_folder: Path) -> None:
    """Compare. Raises GkewsError (`snapshot_incompatible`) if a file is gone or has other bytes."""
    noted = _read(image_folder)
    for name, *identity in noted.get("chunks", []):
        path = store / chunks.relative_path(name)
        if (problem := _problem(path, name, identity)) is not None:
            raise GkewsError(
                "snapshot_incompatible",
                f"The snapshot needs {path} of the checkpoint store, which {problem}: arrays of "
                "the process stand in it.",
                f"{_INSTEAD} Without it, the checkpoint loses what needs it, by name.",
            )
    for path, nbytes, changed in noted.get("files", []):
        try:
            found = os.stat(path)
        except OSError:
            raise _other(path, "is gone") from None
        if (found.st_size, found.st_mtime_ns) != (nbytes, changed):
            raise _other(path, "was changed since")


def _read(image_folder: Path) -> Noted:
    try:
        return dict(json.loads((image_folder / NEEDED_FILE).read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise GkewsError(
            "snapshot_incompatible",
            f"What the snapshot needs is not known: {image_folder / NEEDED_FILE}: {error}.",
            _INSTEAD,
        ) from None


def _problem(path: Path, name: str, identity: list[int]) -> str | None:
    try:
        found = os.stat(path)
    except OSError:
        return "is gone"
    if _identity(found)[: len(identity)] == identity:  # older notes have no ctime
        return None
    # brought back from a backup, say, or written over by what sets the old time: its bytes count
    with contextlib.suppress(OSError, LookupError):
        if chunks.name_of_file(path, name.split("-", 1)[0]) == name:
            return None
    return "has other bytes than it had"


def _identity(found: os.stat_result) -> list[int]:
    """What changes with the bytes: nobody can set the ctime back."""
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _other(path: str, problem: str) -> GkewsError:
    return GkewsError(
        "snapshot_incompatible",
        f"The process has {path} in its memory, and that file {problem}.",
        _INSTEAD,
    )
