"""Chunks: pieces of memory in files named by the hash of their content.

Hashes, writes and checks; it never deletes or changes a chunk that is in the store, and knows
nothing of objects. Threads do the work: hashing and writing release the interpreter lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_blake3: Any = None
_xxhash: Any = None
with contextlib.suppress(ImportError):
    _blake3 = importlib.import_module("blake3")
with contextlib.suppress(ImportError):
    _xxhash = importlib.import_module("xxhash")

#: Chunk size in bytes: a multiple of every page size, so that the chunks of one block can be
#: mapped one behind the other; small enough that one changed number costs little to write.
CHUNK = 16 << 20

#: Bytes that go through both hashes at a time: what a core's own cache holds.
STEP = 1 << 20

#: The hash that names chunks written by this process.
ALGORITHM = "blake3" if _blake3 is not None else "blake2b"


@dataclass(frozen=True)
class Chunk:
    """One file of the store: name (`<algorithm>-<hex>`), size in bytes, xxh3-128 hex or None."""

    name: str
    nbytes: int
    quick: str | None

    def to_json(self) -> list[Any]:
        """For the manifest."""
        return [self.name, self.nbytes, self.quick]


def name_of(data: Any, algorithm: str | None = None, *, zeros: int = 0) -> str:
    """The name that `data` (any buffer), after so many `zeros`, has as a chunk, by `algorithm`
    (else ALGORITHM).

    Raises LookupError if this process cannot compute it.
    """
    algorithm = algorithm or ALGORITHM
    digest = hasher(algorithm)
    digest.update(bytes(zeros))
    digest.update(data)
    return f"{algorithm}-{digest.hexdigest()}"


def hasher(algorithm: str | None = None) -> Any:
    """A hash object (`update`, `hexdigest`) for data that comes in pieces; LookupError as above."""
    algorithm = algorithm or ALGORITHM
    if algorithm == "blake3":
        if _blake3 is None:
            raise LookupError("the blake3 package is not installed in this environment")
        return _blake3.blake3()
    if algorithm == "blake2b":
        return hashlib.blake2b(digest_size=32)
    raise LookupError(f"unknown hash {algorithm!r}")


def name_of_file(path: Path, algorithm: str) -> str:
    """The name that the content of a file has as a chunk, read in pieces."""
    digest = hasher(algorithm)
    with open(path, "rb") as file:
        while True:
            data = file.read(1 << 20)
            if not data:
                return f"{algorithm}-{digest.hexdigest()}"
            digest.update(data)


def quick_of(data: Any, *, zeros: int = 0) -> str | None:
    """xxh3-128 of `data`, after so many `zeros`: tells change apart at memory speed; None without
    xxhash."""
    if _xxhash is None:
        return None
    # The function that does it in one call keeps the interpreter lock, `update` lets it go.
    digest = _xxhash.xxh3_128()
    if zeros:
        digest.update(bytes(zeros))
    digest.update(data)
    return str(digest.hexdigest())


class Hashing:
    """The name and the quick hash of one chunk, of data that comes in pieces (`update`)."""

    def __init__(self) -> None:
        self._digest = hasher()
        self._quick = _xxhash.xxh3_128() if _xxhash is not None else None
        self._nbytes = 0

    def update(self, piece: Any) -> None:
        """The next bytes, any buffer; best of STEP bytes."""
        # In this order: the quick hash reads memory as fast as it comes, and BLAKE3, which jumps
        # about in what it is given, finds the piece in the core's cache. A quarter is saved so.
        if self._quick is not None:
            self._quick.update(piece)
        self._digest.update(piece)
        self._nbytes += len(piece)

    def chunk(self) -> Chunk:
        """What all of it is as a chunk."""
        name = f"{ALGORITHM}-{self._digest.hexdigest()}"
        quick = str(self._quick.hexdigest()) if self._quick is not None else None
        return Chunk(name, self._nbytes, quick)


def chunk_of(data: Any) -> Chunk:
    """What `data` (any buffer) is as a chunk."""
    hashing = Hashing()
    view = memoryview(data).cast("B")
    for at in range(0, len(view), STEP):
        hashing.update(view[at : at + STEP])
    return hashing.chunk()


def matches(data: Any, chunk: Chunk, *, full: bool, zeros: int = 0) -> bool:
    """Whether `data`, after so many `zeros`, is this chunk: by its quick hash if there is one, by
    its name if `full`.

    A chunk that this process can check in no way does not match.
    """
    if zeros + len(data) != chunk.nbytes:
        return False
    checked = False
    if chunk.quick is not None and _xxhash is not None:
        if quick_of(data, zeros=zeros) != chunk.quick:
            return False
        checked = True
    if full or not checked:
        try:
            return name_of(data, chunk.name.split("-", 1)[0], zeros=zeros) == chunk.name
        except LookupError:
            return checked
    return True


def file_matches(path: Path, chunk: Chunk) -> bool:
    """Whether the file holds this chunk, as `matches` tells; False if it cannot be read."""
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            return matches(data, chunk, full=False)
    except (OSError, ValueError):
        return False


def relative_path(name: str) -> str:
    """Where a chunk lies under the store's root: chunks/<two hex>/<name>."""
    digest = name.split("-", 1)[-1]
    if not name.replace("-", "").isalnum() or len(digest) < 32:
        raise ValueError(f"not the name of a chunk: {name!r}")
    return f"chunks/{digest[:2]}/{name}"


def write_file(path: Path, pieces: list[Any], *, durable: bool = True) -> None:
    """Write buffers to a new file, 0600; its bytes are on the disk afterwards if `durable`, else
    after `fsync_file`. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        for piece in pieces:
            view = memoryview(piece).cast("B")
            while view:
                view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def write_past_cache(path: Path, aligned: Any, nbytes: int) -> bool:
    """Write the first bytes of a page-aligned buffer, whose size is a multiple of the page size,
    to a new file, 0600, without a copy in the page cache: what is written once and read tomorrow
    would only push other data out, and the disk takes it faster so. `fsync_file` makes it durable.

    False, and no file, where the file system cannot (tmpfs, some network ones). Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    direct = getattr(os, "O_DIRECT", 0)
    if not direct:
        return False
    try:
        fd = os.open(path, flags | direct, 0o600)
    except OSError as error:
        return _no_direct(path, error)
    try:
        view = memoryview(aligned)[: -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE]
        while view:
            view = view[os.write(fd, view) :]
        os.ftruncate(fd, nbytes)
    except OSError as error:
        return _no_direct(path, error)
    finally:
        os.close(fd)
    return True


def aligned_buffer() -> mmap.mmap:
    """Memory for one chunk, page-aligned."""
    return mmap.mmap(-1, CHUNK)


def read_past_cache(path: Path, aligned: mmap.mmap, nbytes: int) -> memoryview:
    """The bytes of a file of at most `nbytes` (of a chunk), from the disk itself where the file
    system can, in the buffer `aligned`; fewer if the file is shorter. Raises OSError."""
    direct = getattr(os, "O_DIRECT", 0)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    try:
        fd = os.open(path, flags | direct)
    except OSError as error:
        if not direct or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        fd = os.open(path, flags)
    try:
        view, done = memoryview(aligned), 0
        while done < nbytes:
            got = os.readv(fd, [view[done:]])
            done += got
            if got % mmap.PAGESIZE or not got:  # the end
                break
        return view[: min(done, nbytes)]
    finally:
        os.close(fd)


def _no_direct(path: Path, error: OSError) -> bool:
    """False if `error` says that the file system cannot write past the cache; else raises it."""
    if error.errno not in (errno.EINVAL, errno.ENOTSUP):
        raise error
    with contextlib.suppress(FileNotFoundError):  # some make the file before they refuse
        path.unlink()
    return False


def fsync_file(path: Path) -> None:
    """Make the bytes of a file, or the names in a directory, durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def where_installed() -> list[str]:
    """The folders on sys.path from which both hashes come; empty without one of them."""
    found = []
    for module in (_blake3, _xxhash):
        file = getattr(module, "__file__", None)
        if not file:
            return []
        found.append(os.path.dirname(os.path.dirname(os.path.abspath(file))))
    return list(dict.fromkeys(found))


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def threads() -> int:
    """How many threads hash and write: one a core, a few more than cores hide the disk."""
    return max(2, min(8, cores() + 1))
