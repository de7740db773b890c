"""The file of the journal: one JSON object a line, durable, only ever appended to.

Knows nothing of what the records mean. Whatever stands in it stays: a line that a dying server has
left half written, or that a newer version wrote, is passed over, never removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..errors import GkewsError

FORMAT = 1
#: The file in the store.
FILE = "journal.jsonl"

Record = dict[str, Any]


def iso(seconds: float) -> str:
    """A time since the epoch as records have it: ISO 8601 UTC with milliseconds and a Z."""
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Journal:
    """The journal of one store, which several servers may share. May be used by threads."""

    def __init__(self, store: Path) -> None:
        self.path = store / FILE

    def append(self, record: Record) -> Record:
        """Write one record, durable on return; the record with `format` and `time` (ISO 8601 UTC).

        Raises GkewsError: `disk_full`, `store_not_writable`; nothing counts as written then.
        """
        full = {"format": FORMAT, "time": iso(time.time()), **record}
        line = json.dumps(full, separators=(",", ":")).encode() + b"\n"
        try:
            new = not self.path.exists()
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # O_CLOEXEC is Python's default: a kernel process must not inherit the lock
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                _append(fd, line)
            finally:
                os.close(fd)
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            from ..kernel.checkpoint.store import as_typed  # not needed for a server's start

            raise as_typed(error, self.path.parent) from error
        return full

    def __iter__(self) -> Iterator[Record]:
        """All records that can be read, oldest first.

        Raises GkewsError (`store_not_writable`) if the file is there and cannot be read.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise GkewsError(
                "store_not_writable",
                f"The journal {self.path} cannot be read: {error.strerror or error}.",
                "Checkpoints are kept, and are still listed. Check the permissions.",
            ) from error
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # UnicodeDecodeError is one
                continue
            if isinstance(record, dict) and record.get("format") == FORMAT:
                yield record


def _append(fd: int, line: bytes) -> None:
    """Under the lock. What a failure leaves is cut off again, or stays a line of its own."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line  # somebody died in the middle of one
    try:
        left = memoryview(line)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, size)
        raise


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
