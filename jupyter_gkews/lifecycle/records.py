"""The server's records of paused kernels, durable, each owned by at most one live server.

A record is `paused/<kernel id>.json` in the store; its owner holds an flock on
`paused/<kernel id>.lock` for as long as it lives, so a dead server's records become free by
themselves. Never touches a checkpoint.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import GkewsError
from ..kernel.protocol import read_json, write_json

FORMAT = 1
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass
class PausedRecord:
    """One paused kernel: what is needed to show it, and to resume it under another server."""

    kernel: str
    kernel_name: str
    checkpoint: str | None  # None: none was ever written, and `snapshot` is all there is
    since: str  # when it was paused, ISO 8601 UTC
    notebook: str | None = None  # absolute path
    snapshot: str | None = None  # of an engine, beside the checkpoint
    engine: str | None = None  # that can freeze its process, if one can
    in_cell: bool = False  # paused in the middle of a cell: `checkpoint` is of an earlier state
    earlier: bool = False  # `checkpoint` was not written for the pause, but some time before
    auto_resume: bool = True
    kernel_info: dict[str, Any] | None = None
    released: dict[str, int] = field(default_factory=dict)  # {"ram", "vram"} in bytes
    format: int = FORMAT


def hold(path: Path) -> int | None:
    """The file, made if need be, locked for as long as this process lives or until the descriptor
    is closed; None if another process has it. Raises OSError."""
    while True:
        # O_CLOEXEC is Python's default: a kernel process must not inherit the lock
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        # an owner that gave up may have unlinked the file between our open and our lock
        try:
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


class PausedRecords:
    """The records in one store, and which of them this server owns. May be used by threads."""

    def __init__(self, store: Path) -> None:
        self._dir = store / "paused"
        self._locks: dict[str, int] = {}
        self._changing = threading.RLock()

    def __iter__(self) -> Iterator[PausedRecord]:
        """All readable records, whoever owns them."""
        for path in sorted(self._dir.glob("*.json")):
            if (record := self._read(path)) is not None:
                yield record

    def unreadable(self) -> set[str]:
        """Ids of paused kernels whose record cannot be read (a newer format, damaged)."""
        return {path.stem for path in self._dir.glob("*.json") if self._read(path) is None}

    def get(self, kernel: str) -> PausedRecord | None:
        """The record of a kernel, None if there is none that can be read."""
        return self._read(self._dir / f"{kernel}.json") if _ID.fullmatch(kernel) else None

    def owned(self, kernel: str) -> bool:
        """Whether this server owns the record."""
        return kernel in self._locks

    def claim(self, kernel: str) -> bool:
        """Own the record of `kernel`, if no other live server does."""
        with self._changing:
            return kernel in self._locks or (bool(_ID.fullmatch(kernel)) and self._lock(kernel))

    def _lock(self, kernel: str) -> bool:
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = hold(self._dir / f"{kernel}.lock")
        if fd is not None:
            self._locks[kernel] = fd
        return fd is not None

    def owned_elsewhere(self, kernel: str) -> bool:
        """Whether another live server owns the record."""
        with self._changing:
            if kernel in self._locks or not (self._dir / f"{kernel}.lock").exists():
                return False
            if not self.claim(kernel):
                return True
            self.give_up(kernel)
            return False

    def write(self, record: PausedRecord) -> None:
        """Write the record of a kernel and own it; durable on return.

        Raises `disk_full`, `store_not_writable`, or `paused_elsewhere` if another live server
        has a paused kernel of this id.
        """
        with self._changing:
            try:
                if not self.claim(record.kernel):
                    raise GkewsError(
                        "paused_elsewhere",
                        "Another server on this machine holds a paused kernel with the same id.",
                        "The kernel runs on untouched. Resume or shut down the other one first.",
                    )
                write_json(self._dir / f"{record.kernel}.json", record, durable=True)
                self._sync()
            except OSError as error:
                self.give_up(record.kernel)
                raise self._typed(error) from error

    def update(self, kernel: str, **changes: Any) -> None:
        """Change fields of the record that this server owns; nothing if there is none (any more).

        Raises `disk_full`, `store_not_writable`; the record is then as it was.
        """
        with self._changing:
            record = self.get(kernel) if kernel in self._locks else None
            if record is None:
                return
            try:
                write_json(self._dir / f"{kernel}.json", replace(record, **changes), durable=True)
            except OSError as error:
                raise self._typed(error) from error

    def remove(self, kernel: str) -> None:
        """Delete the record of a kernel that this server owns; its checkpoint stays."""
        with self._changing:
            if kernel not in self._locks:
                return
            (self._dir / f"{kernel}.json").unlink(missing_ok=True)
            # unlinked while still locked: whoever opened it before us sees that it is gone
            (self._dir / f"{kernel}.lock").unlink(missing_ok=True)
            os.close(self._locks.pop(kernel))

    def give_up(self, kernel: str) -> None:
        """Own the record no longer; the record itself stays for the next server."""
        with self._changing:
            if (fd := self._locks.pop(kernel, None)) is not None:
                if not (self._dir / f"{kernel}.json").exists():
                    (self._dir / f"{kernel}.lock").unlink(missing_ok=True)
                os.close(fd)

    def close(self) -> None:
        """Give up all records."""
        for kernel in list(self._locks):
            self.give_up(kernel)

    def _typed(self, error: OSError) -> GkewsError:
        from ..kernel.checkpoint.store import as_typed  # not needed for a server's start

        return as_typed(error, self._dir.parent)

    def _sync(self) -> None:
        fd = os.open(self._dir, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @staticmethod
    def _read(path: Path) -> PausedRecord | None:
        data = read_json(path)
        if data is None or data.get("format") != FORMAT:
            return None
        known = {f.name for f in fields(PausedRecord)}
        try:
            record = PausedRecord(**{k: v for k, v in data.items() if k in known})
        except TypeError:
            return None
        return record if path.stem == record.kernel and _ID.fullmatch(record.kernel) else None
