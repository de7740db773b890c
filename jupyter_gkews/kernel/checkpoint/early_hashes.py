"""Hashes of weights in files, made by a process of its own while the graph keeps one core busy.

What comes of it is a guess of what memory holds (known.py): whoever uses it compares the memory by
its quick hash first. It looks at no memory and starts no thread in the kernel; a process that
fails, hangs or is slow costs nothing but its hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import plain_json as json
from . import chunks, running, safetensors_files
from .chunks import CHUNK, Chunk
from .file_hashing import RECORD
from .known import KNOWN
from .process_maps import Region, Regions, regions

#: Bytes of weights from which on it pays to start a process.
LEAST = 1 << 29
#: Threads that hash, where there are so many cores.
MOST_THREADS = 8
#: Seconds that its end is waited for.
END_S = 0.2
#: Those that are at work now, by process id: they are not child processes of the user's.
PIDS: set[int] = set()
running.OURS.append(PIDS)

#: Address in this process, place in the file, bytes.
_Part = tuple[int, int, int]


class EarlyHashes:
    """Those of one save: `begin`, and `end` once the kernel has a use for the other cores. As a
    context manager it ends when it is left, at the latest."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._results = -1
        self._parts: list[_Part] = []
        self._lock = threading.Lock()

    def __enter__(self) -> EarlyHashes:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.end()

    def begin(self, store: Path) -> None:
        """Start to hash the files that this process maps, if they are large and their hashes not
        known yet. `store`: its folder. Never raises: then there is nothing of it."""
        try:
            self._begin(store)
        except Exception:  # as many processes as there may be; an audit hook of the user's
            self.end()

    def _begin(self, store: Path) -> None:
        spare = chunks.cores() - 1
        if spare < 1 or not _can():
            return
        found = [(file, parts) for file, parts in _mapped(store) if parts]
        if sum(nbytes for _, parts in found for _, _, nbytes in parts) < LEAST:
            return
        order = {
            "kernel": os.getpid(),
            "paths": chunks.where_installed(),
            "threads": min(spare, MOST_THREADS),
            "files": [
                [file.real, file.identity.inode, [part[1:] for part in parts]]
                for file, parts in found
            ],
        }
        self._parts = [part for _, parts in found for part in parts]
        self._start(json.dumps(order).encode())

    def _start(self, order: bytes) -> None:
        """Files in memory take the order and the answers: neither side ever waits for the other."""
        self._results = os.memfd_create("gkews-hashes")
        with os.fdopen(os.memfd_create("gkews-order"), "wb", buffering=0) as file:
            os.pwrite(file.fileno(), order, 0)
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(Path(__file__).with_name("file_hashing.py"))),
                    *(str(file.fileno()), str(self._results)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(file.fileno(), self._results),
                start_new_session=True,  # an interrupt of the kernel is not for it
            )
        PIDS.add(self._process.pid)

    def end(self) -> None:
        """End the process, whatever it does, and learn what it has found. May be called again, from
        any thread, as long as it has not ended: it may be in the hands of a disk."""
        with self._lock:
            if self._process is not None:
                try:
                    self._process.kill()
                    self._process.wait(END_S)
                except subprocess.TimeoutExpired:
                    return
                PIDS.discard(self._process.pid)
                self._process = None
                self._learn()
            if self._results >= 0:
                os.close(self._results)
                self._results = -1

    def _learn(self) -> None:
        try:
            records = os.pread(self._results, RECORD.size * len(self._parts), 0)
        except OSError:
            return
        for number, (address, _, nbytes) in enumerate(self._parts):
            record = records[number * RECORD.size : (number + 1) * RECORD.size]
            if len(record) < RECORD.size:
                return
            there, digest, quick = RECORD.unpack(record)
            if there and KNOWN.get(address, nbytes) is None:
                chunk = Chunk(f"{chunks.ALGORITHM}-{digest.hex()}", nbytes, quick.hex())
                KNOWN.remember(address, chunk)


def _can() -> bool:
    """Whether there may be weights at all, and a process for them that is started without a fork:
    what forks (before Python 3.10) needs care for the pools of libraries, see blas_pools.py."""
    return (
        bool(safetensors_files.opened())
        and sys.platform.startswith("linux")
        and sys.version_info >= (3, 10)
        and bool(sys.executable)
        and bool(chunks.where_installed())
    )


def _mapped(store: Path) -> Iterator[tuple[Any, list[_Part]]]:
    """Each file of weights that will stay and is mapped privately, with those parts of its tensors
    whose hashes are not known."""
    opened = set(safetensors_files.opened())
    maps = regions()
    origins: dict[tuple[str, int], Region] = {}
    for region in maps.all:
        if region.path in opened and region.private and "x" not in region.rights:
            origins.setdefault((region.path, region.start - region.offset), region)
    for (path, origin), region in origins.items():
        file = safetensors_files.read(path)
        if file is None or file.identity.inode != region.inode:
            continue  # another file has taken its place since
        if safetensors_files.durable(file, store):
            yield file, list(_unknown(file, origin, maps))


def _unknown(file: Any, origin: int, maps: Regions) -> Iterator[_Part]:
    for place in file.tensors:
        region = maps.at(origin + place.offset)
        if region is None or region.path != file.real:
            continue
        if origin + place.offset + place.nbytes > region.end:
            continue
        for at in range(place.offset, place.offset + place.nbytes, CHUNK):
            nbytes = min(CHUNK, place.offset + place.nbytes - at)
            if KNOWN.get(origin + at, nbytes) is None:
                yield origin + at, at, nbytes
