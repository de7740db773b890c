"""The checkpoint store: a directory of chunks and signed checkpoints that belongs to one user.

Lists, reads and deletes. Deleting only ever unlinks: what a kernel has mapped stays readable,
and what any manifest names is never removed. Imports neither numpy nor torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from . import access, chunks, locks, sweep
from .manifest import Manifest, make_key, parse, unchecked
from .references import missing, problems

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
#: Errors of a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CheckpointStore:
    """A store at `root`. Nothing is created before the first write (`prepare`)."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    # ---- reading ----

    def directory(self, checkpoint: str) -> Path:
        """The directory of a checkpoint; raises checkpoint_not_found for an impossible id."""
        if not _ID.fullmatch(checkpoint):
            raise self._not_found(checkpoint)
        return self.root / "checkpoints" / checkpoint

    def manifest(self, checkpoint: str) -> Manifest:
        """The manifest, its signature checked.

        Raises checkpoint_not_found, _damaged, _unsigned, _foreign_key or _too_new. The hint of
        checkpoint_damaged names the good one before it.
        """
        try:
            return self._manifest(checkpoint)
        except GkewsError as error:
            raise self.with_offer(error, checkpoint) from None

    def _manifest(self, checkpoint: str) -> Manifest:
        return parse(self.manifest_bytes(checkpoint), self.key(), checkpoint)

    def key(self) -> bytes | None:
        """The signing key, None if there is none that is whole. Raises checkpoint_foreign_key if
        other users can write to it."""
        return access.trusted_key(self.root)

    def manifest_bytes(self, checkpoint: str) -> bytes:
        """manifest.json as it is, not to be believed; checkpoint_not_found, checkpoint_damaged."""
        directory = self.directory(checkpoint)
        try:
            return (directory / "manifest.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if directory.is_dir():
                raise GkewsError(
                    "checkpoint_damaged",
                    f"Checkpoint {checkpoint} has no manifest any more.",
                    "Nothing was changed.",
                ) from None
            raise self._not_found(checkpoint) from None
        except OSError as error:
            raise GkewsError(
                "checkpoint_damaged",
                f"The manifest of checkpoint {checkpoint} cannot be read: {error.strerror}.",
                "Nothing was changed. Check the disk and the permissions of the store.",
            ) from error

    def with_offer(self, error: GkewsError, checkpoint: str) -> GkewsError:
        """The same error; where `checkpoint` is damaged, its hint names the one to use instead:
        the newest good one of the same kernel, else of the same notebook."""
        if error.reason != "checkpoint_damaged":
            return error
        try:
            whose = unchecked(self.manifest_bytes(checkpoint))
        except GkewsError:
            whose = {}
        said = whose.get("kernel")
        kernel = said.get("id") if isinstance(said, dict) else None
        notebook = whose.get("notebook")
        others = [
            summary
            for summary in self.summaries()
            if summary["id"] != checkpoint and not summary["error"] and self._has_graph(summary)
        ]
        same = [other for other in others if kernel and other["kernel"].get("id") == kernel]
        same = same or [other for other in others if notebook and other["notebook"] == notebook]
        if same:
            moment = str(same[0]["created"])[:19].replace("T", " ")
            offer = (
                f"The good checkpoint before it can be restored: {same[0]['id']} ({moment} UTC)."
            )
        elif others:
            offer = "Other checkpoints are there: `jupyter gkews list` shows them."
        else:
            offer = "There is no other checkpoint in this store."
        return GkewsError(error.reason, error.message, f"{error.hint} {offer}".strip())

    def _has_graph(self, summary: dict[str, Any]) -> bool:
        try:
            graph = self._manifest(summary["id"]).graph
            found = os.stat(self.directory(summary["id"]) / "graph.pkl").st_size
        except (OSError, GkewsError):
            return False
        return found == graph.get("bytes")

    def summary(self, checkpoint: str) -> dict[str, Any]:
        """The summary of one checkpoint; raises as `manifest`."""
        return self.manifest(checkpoint).summary()

    def summaries(self) -> list[dict[str, Any]]:
        """All checkpoints, newest first; one that cannot be read is listed with its error.

        Newest by the number that each got at its commit: a clock may jump.
        """
        listed: list[tuple[tuple[int, str], dict[str, Any]]] = []
        for directory in self.directories():
            try:
                manifest = self._manifest(directory.name)
                number, summary = manifest.sequence, manifest.summary()
            except GkewsError as error:
                number = self._unchecked_sequence(directory.name)
                try:
                    summary = _unreadable(directory, error)
                except FileNotFoundError:  # somebody has deleted it meanwhile
                    continue
            listed.append(((number, str(summary["created"])), summary))
        listed.sort(key=lambda pair: pair[0], reverse=True)
        return [summary for _, summary in listed]

    def _unchecked_sequence(self, checkpoint: str) -> int:
        """Good enough to say where in a list something unreadable stands."""
        try:
            number = unchecked(self.manifest_bytes(checkpoint)).get("sequence")
        except GkewsError:
            return 0
        return number if isinstance(number, int) else 0

    def next_sequence(self) -> int:
        """A number greater than that of every checkpoint in the store. Raises OSError."""
        fd = os.open(
            self.root / "sequence", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600
        )
        try:
            locks.wait_alone(fd)  # where there are no locks, two may get the same number
            text = os.read(fd, 64).strip()
            last = int(text) if text.isdigit() else 0
            if not last:  # the first one, or the file was lost
                names = [directory.name for directory in self.directories()]
                last = max(map(self._unchecked_sequence, names), default=0)
            os.pwrite(fd, f"{last + 1:020d}\n".encode(), 0)
            os.fsync(fd)
            return last + 1
        finally:
            os.close(fd)

    def missing_files(
        self, checkpoint: str, stop: Callable[[], bool] = lambda: False
    ) -> GkewsError | None:
        """`weights_missing` if files that the checkpoint refers to are gone or were changed: those
        that were touched are read, until `stop()`. Raises as `manifest`."""
        found = problems(self.manifest(checkpoint).referenced(), stop)
        return missing(checkpoint, found) if found else None

    def chunk_path(self, name: str) -> Path:
        """Where the chunk `name` lies (whether or not it is there)."""
        return self.root / chunks.relative_path(name)

    def has_chunk(self, name: str, nbytes: int) -> bool:
        """Whether the chunk is in the store, whole."""
        try:
            return os.stat(self.chunk_path(name)).st_size == nbytes
        except OSError:
            return False

    def directories(self) -> list[Path]:
        """The directories of all checkpoints, in no order."""
        try:
            entries = list((self.root / "checkpoints").iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        # A name with a dot in front is not a checkpoint (yet, or any more).
        return [entry for entry in entries if _ID.fullmatch(entry.name) and entry.is_dir()]

    def _not_found(self, checkpoint: str) -> GkewsError:
        return GkewsError(
            "checkpoint_not_found",
            f"There is no checkpoint {checkpoint[:80]!r} in this store.",
            "It may have been deleted. `jupyter gkews list` shows the ones that are there.",
        )

    # ---- writing ----

    def prepare(self, *, new_key: bool = False) -> bytes:
        """Make the directories (0700) and the key (0600) if needed; returns the signing key.

        No new key is made beside checkpoints, which could not be trusted any more, unless
        `new_key`: then one takes the place of a key that is lost. Raises store_not_writable
        (also where the store cannot be kept from others), disk_full, checkpoint_foreign_key.
        """
        with self.writing():
            for directory in (self.root, self.root / "chunks", self.root / "checkpoints"):
                if not directory.is_dir():
                    directory.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        os.mkdir(directory, 0o700)
                    except FileExistsError:
                        continue
                    chunks.fsync_file(directory.parent)
            access.make_private(self.root)
            if self.key() is None and self._has_manifests():
                # asked again: another process makes its key before its first checkpoint
                if (key := self.key()) is not None:
                    return key
                if not new_key:
                    raise GkewsError(
                        "store_not_writable",
                        f"The signing key {self.root / 'key'} is missing or damaged, and the store "
                        "holds checkpoints that were signed with it.",
                        "Nothing was written; the kernel runs on. Bring the key back, from a "
                        "backup say. Without one, `jupyter gkews trust ID` makes a new key and "
                        "signs a checkpoint that you know with it.",
                    )
                if os.path.lexists(self.root / "key"):
                    os.rename(self.root / "key", self.root / f"key.damaged-{os.urandom(4).hex()}")
            make_key(self.root)
            key = self.key()
            assert key is not None
            return key

    def _has_manifests(self) -> bool:
        return any((entry / "manifest.json").exists() for entry in self.directories())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns errors of the file system into the typed ones."""
        try:
            yield
        except OSError as error:
            raise as_typed(error, self.root) from error

    def saving(self) -> contextlib.AbstractContextManager[None]:
        """Keeps every chunk in the store, also those that no manifest names yet. Raises OSError."""
        return locks.shared(self.root)

    def loading(self) -> contextlib.AbstractContextManager[None]:
        """Keeps every chunk in the store while they are read; never refused."""
        return locks.shared(self.root, write=False)

    def delete(self, checkpoint: str) -> int:
        """Remove a checkpoint, and the chunks that only it used; returns the bytes freed.

        While a save or a load runs in this store, its chunks stay until the next collection.
        Raises checkpoint_not_found, store_not_writable.
        """
        directory = self.directory(checkpoint)
        if not directory.is_dir():
            raise self._not_found(checkpoint)
        with self.writing():
            trash = sweep.put_away(directory)
            freed = sweep.tree_bytes(trash)
            sweep.empty_tree(trash)
            return freed + self.gc()

    def collect(
        self,
        *,
        older_than_s: float | None = None,
        keep: int | None = None,
        protected: frozenset[str] = frozenset(),
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Remove what is not needed, and old checkpoints as asked: see sweep.collect."""
        return sweep.collect(
            self, older_than_s=older_than_s, keep=keep, protected=protected, dry_run=dry_run
        )

    def gc(self) -> int:
        """Remove chunks that no manifest names and what dead saves left; returns bytes freed."""
        return int(self.collect()["bytes_freed"])


def as_typed(error: OSError, root: Path) -> GkewsError:
    """disk_full or store_not_writable for an error while writing to the store."""
    if error.errno in FULL:
        return GkewsError(
            "disk_full",
            f"The disk of the checkpoint store {root} is full.",
            "The kernel and all earlier checkpoints are as they were. Free some space (delete "
            "old checkpoints) or set another store directory, then pause again.",
        )
    return GkewsError(
        "store_not_writable",
        f"The checkpoint store {root} cannot be written: {error.strerror or error}.",
        "The kernel and all earlier checkpoints are as they were. Check the permissions or set "
        "another store directory.",
    )


def _unreadable(directory: Path, error: GkewsError) -> dict[str, Any]:
    created = datetime.fromtimestamp(directory.stat().st_mtime, timezone.utc)
    return {
        "id": directory.name,
        "name": None,
        "created": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "format": None,
        "kernel": {},
        "notebook": None,
        "python": None,
        "counts": {"kept": 0, "rebuilt": 0, "lost": 0},
        "rebuilt": [],
        "lost": [],
        "bytes": {"total": sweep.tree_bytes(directory), "written": 0},
        "seconds": {},
        "environment": {},
        "proved": None,
        "compressed": None,
        "error": error.to_json(),
    }
