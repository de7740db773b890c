"""The memory of a checkpoint being read: blocks are opened, checked by threads, handed out.

No byte of a chunk is handed out before it was checked; checking runs beside the imports, and leaves
them a core. What stands on a damaged chunk is refused alone. The chunks are never changed.
"""

from __future__ import annotations

import contextlib
import errno
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from . import chunks, mapping
from .known import FileIdentity, identity_of
from .manifest import Manifest
from .places import Places, of_views
from .references import Problem, ReferencedMemory, ReferenceLostError, missing
from .store import CheckpointStore
from .workers import Workers

#: Errors that say nothing about the bytes: they may be there again in a minute.
_PASSING = (errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EMFILE)
#: Chunks that a disk is asked for before their turn to be checked.
_AHEAD = 4


class DamagedError(Exception):
    """The bytes that were asked for are not the ones that were saved; a clause says why."""


@dataclass(frozen=True)
class _Piece:
    """A chunk of block `index`, at `offset`; with no `number` all of a reference, or an empty
    block."""

    index: int
    number: int | None = None
    offset: int = 0


class CheckpointMemory:
    """Blocks of `manifest`, by index. `verify` ("fast", "full") and `trusted` as in `restore`.

    A chunk that is gone or has other bytes than were saved spoils the views on it: `view` raises
    DamagedError for them, and only for them; all of it raises checkpoint_damaged if `strict`. A
    chunk that merely cannot be read now (permissions, a disk that does not answer) raises in
    either case. Use as a context manager: leaving it stops the threads."""

    def __init__(
        self,
        store: CheckpointStore,
        manifest: Manifest,
        verify: str,
        trusted: frozenset[str] = frozenset(),
        *,
        strict: bool = False,
        accept_missing: bool = False,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._verify = verify
        self._trusted = trusted
        self._strict = strict
        self._bad: dict[int, str] = {}  # chunk -> a clause
        self._accept_missing = accept_missing
        self._blocks: dict[int, mapping.BlockMemory] = {}
        self._referenced = [ReferencedMemory(each) for each in manifest.referenced()]
        self._imported = threading.Event()
        self._lock = threading.Lock()
        # the blocks, then the references: what must be cast, and waits for the imports, last
        count = len(manifest.blocks) + len(self._referenced)
        self._done = [threading.Event() for _ in range(count)]
        self._pieces = [
            piece for i in sorted(range(count), key=self._casts) for piece in self._of(i)
        ]
        self._left = Counter(piece.index for piece in self._pieces)  # not yet checked, by index
        self._errors: dict[int, GkewsError | ReferenceLostError] = {}
        self._next = self._asked_for = 0
        self._stop = False
        self._workers: list[Workers] = []
        self.identities: dict[str, FileIdentity] = {}  # by chunk, from before it was read
        self.bytes_done = 0
        self.bytes_total = sum(manifest.chunk(i).nbytes for block in manifest.blocks for i in block)
        self.bytes_total += sum(memory.reference.used for memory in self._referenced)
        self._check_sizes()

    def _check_sizes(self) -> None:
        for index in range(len(self._manifest.chunks)):
            chunk = self._manifest.chunk(index)
            path = self._store.chunk_path(chunk.name)
            identity = identity_of(path)
            if identity is None:
                if self._can_open(index, path):
                    self._spoil(index, "cannot be looked at")
            elif identity[1] != chunk.nbytes:
                self._spoil(index, f"has {identity[1]} bytes of {chunk.nbytes}")
            else:
                self.identities[chunk.name] = identity

    def _spoil(self, index: int, what: str) -> None:
        if self._strict:
            raise self._damaged(f"the chunk {self._manifest.chunk(index).name} {what}")
        self._bad.setdefault(index, what)

    def _casts(self, index: int) -> bool:
        at = index - len(self._manifest.blocks)
        return at >= 0 and self._referenced[at].needs_imports

    def _of(self, index: int) -> list[_Piece]:
        """What there is to do for a block, or for a reference."""
        if index >= len(self._manifest.blocks):
            return [_Piece(index)]
        found, offset = [], 0
        for number in self._manifest.blocks[index]:
            found.append(_Piece(index, number, offset))
            offset += self._manifest.chunk(number).nbytes
        return found or [_Piece(index)]

    def imports_done(self) -> None:
        """The modules are imported: what they are needed for can begin, and all cores check."""
        self._imported.set()
        self._add_workers(None)

    def _add_workers(self, most: int | None) -> None:
        left = len(self._pieces) - self._next
        self._workers.append(Workers("verify", self._work, left, most))

    def _damaged(self, what: str) -> GkewsError:
        return GkewsError(
            "checkpoint_damaged",
            f"Checkpoint {self._manifest.id} is damaged: {what}.",
            "Nothing was loaded. Use an older checkpoint.",
        )

    def __enter__(self) -> CheckpointMemory:
        # Imports are one thread's work, and this is for the other cores. More threads hide the disk
        # where weights are read from their files, which nothing reads ahead.
        self._add_workers(None if self._referenced else max(1, chunks.threads() - 2))
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop = True
        self._imported.set()
        for workers in self._workers:
            workers.end()

    def _work(self) -> None:
        while not self._stop:
            with self._lock:
                if self._next == len(self._pieces):
                    return
                piece = self._pieces[self._next]
                self._next += 1
                asked_for = max(self._asked_for, self._next)
                self._asked_for = min(self._next + _AHEAD, len(self._pieces))
                coming = self._pieces[asked_for : self._asked_for]
            index = piece.index
            try:
                for each in coming:
                    self._read_ahead(each)
                at = index - len(self._manifest.blocks)
                if at >= 0:
                    self._load(self._referenced[at])
                elif index not in self._errors:
                    self._check(piece)
            except (GkewsError, ReferenceLostError) as error:
                self._errors[index] = error
            except OSError as error:
                self._errors[index] = self._damaged(f"a chunk cannot be read ({error.strerror})")
            except BaseException as error:
                self._errors[index] = self._damaged(f"a chunk cannot be checked ({error})")
            finally:
                with self._lock:
                    self._left[index] -= 1
                    last = not self._left[index]
                if last:
                    self._done[index].set()

    def _read_ahead(self, piece: _Piece) -> None:
        number = piece.number
        if number is None or number in self._bad:
            return
        chunk = self._manifest.chunk(number)
        if chunk.name not in self._trusted:
            # what is wrong with its block is told when it has its turn
            with contextlib.suppress(GkewsError, OSError):
                mapping.read_ahead(self._open(piece.index).address + piece.offset, chunk.nbytes)

    def _check(self, piece: _Piece) -> None:
        block, number = self._open(piece.index), piece.number
        if number is None:
            return
        chunk = self._manifest.chunk(number)
        if number not in self._bad and chunk.name not in self._trusted:
            data = memoryview(block.view(piece.offset, chunk.nbytes)).cast("B")
            if not chunks.matches(data, chunk, full=self._verify == "full"):
                self._spoil(number, "has other bytes than were saved")
        self.bytes_done += chunk.nbytes

    def _load(self, memory: ReferencedMemory) -> None:
        if memory.needs_imports:
            self._imported.wait()
        each = memory.reference
        trusted = self._trusted.issuperset(piece[2] for piece in each.pieces)
        memory.load(full=self._verify == "full", trusted=trusted, stop=lambda: self._stop)
        self.bytes_done += each.used

    def _open(self, index: int) -> mapping.BlockMemory:
        with self._lock:
            block = self._blocks.get(index)
            if block is None:
                numbers = self._manifest.blocks[index]
                parts = [self._manifest.chunk(number) for number in numbers]
                files: list[Path | None] = []
                for number, part in zip(numbers, parts):
                    path = self._store.chunk_path(part.name)
                    files.append(path if self._can_open(number, path) else None)
                try:
                    block = mapping.open_block(files, [part.nbytes for part in parts])
                except OSError as error:
                    raise self._damaged(f"a chunk cannot be read ({error})") from None
                self._blocks[index] = block
        return block

    def _can_open(self, number: int, path: Path) -> bool:
        """Whether the file of a chunk can be read; raises where it may be so again later."""
        if number in self._bad:
            return False
        try:
            with open(path, "rb"):
                return True
        except OSError as error:
            if error.errno in _PASSING:
                raise GkewsError(
                    "checkpoint_damaged",
                    f"Checkpoint {self._manifest.id} cannot be read now: {path}: {error.strerror}.",
                    "Nothing was loaded and the checkpoint is unchanged. Check the disk and the "
                    "permissions of the store, then try again.",
                ) from None
            gone = isinstance(error, FileNotFoundError)
            self._spoil(number, "is gone" if gone else f"cannot be read ({error.strerror})")
            return False

    def check_all(self) -> None:
        """Wait until everything has been checked; raises checkpoint_damaged as said above, and
        weights_missing unless that was accepted."""
        for index in range(len(self._done)):
            try:
                self._wait(index)
            except ReferenceLostError:
                continue  # accepted

    def _wait(self, index: int) -> None:
        self._done[index].wait()
        error = self._errors.get(index)
        if error is None:
            return
        if isinstance(error, GkewsError) or self._accept_missing:
            raise error
        raise missing(self._manifest.id, self._problems())

    def _problems(self) -> list[Problem]:
        """All files of weights that are not as they were, each with all names that need it."""
        found: dict[str, Problem] = {}
        blocks = len(self._manifest.blocks)
        for index, memory in enumerate(self._referenced, blocks):
            self._done[index].wait()
            error = self._errors.get(index)
            if not isinstance(error, ReferenceLostError):
                continue
            each, reason = memory.reference, str(error).split(": ", 1)[-1]
            problem = found.setdefault(each.path, Problem(each.path, reason, [], 0))
            problem.names += [name for name in each.names if name not in problem.names]
            problem.nbytes += each.used
        return list(found.values())

    def view(self, index: int) -> tuple[Any, bool]:
        """The buffer of view `index`, checked; and whether it should get memory of its own.

        Raises DamagedError if a byte of it stands on a damaged chunk, or in a file that is not as
        it was if that was accepted."""
        block, offset, nbytes, alone = self._manifest.views[index]
        if block < 0:
            reference = -1 - block
            try:
                self._wait(len(self._manifest.blocks) + reference)
            except ReferenceLostError as error:
                raise DamagedError(str(error)) from None
            return self._referenced[reference].block.view(offset, nbytes), False
        self._wait(block)
        if self._bad:
            start = 0
            for number in self._manifest.blocks[block]:
                end = start + self._manifest.chunk(number).nbytes
                if number in self._bad and start < offset + nbytes and offset < end:
                    name = self._manifest.chunk(number).name
                    raise DamagedError(f"its memory is damaged: chunk {name} {self._bad[number]}")
                start = end
        return self._open(block).view(offset, nbytes), bool(alone)

    def ranges(self) -> list[tuple[int, int, chunks.Chunk]]:
        """(address, nbytes, chunk) of what is mapped: what a later save need not write again."""
        found = []
        for index, block in self._blocks.items():
            offset = 0
            for number in self._manifest.blocks[index]:
                chunk = self._manifest.chunk(number)
                if number not in self._bad:
                    found.append((block.address + offset, chunk.nbytes, chunk))
                offset += chunk.nbytes
        for memory in self._referenced:
            found += memory.ranges()
        return found

    def places(self, unseen: set[int]) -> Places:
        """Where the memory lies now; of blocks in `unseen` the kernel has seen no bytes."""
        blocks = self._blocks
        addresses = {index: block.address for index, block in blocks.items()}
        for number, memory in enumerate(self._referenced):
            if memory.there:
                addresses[-1 - number] = memory.block.address
        return of_views(self._manifest.views, lambda block: addresses.get(block, 0), unseen)


def torch_of(buffer: Any) -> Any:
    """A torch UntypedStorage on `buffer`."""
    torch = sys.modules["torch"]
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
