"""The disk's own limit: bytes streamed past the page cache by threads, from aligned memory."""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

PIECE = 16 << 20


def direct_write(path: Path, nbytes: int, threads: int = 3) -> float:
    """Seconds to write `nbytes` bytes (rounded up to a page) to a new file, durable; it is removed
    afterwards. Raises OSError where the file system cannot write past the page cache."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT
    descriptor = os.open(path, flags, 0o600)
    offsets = iter(range(0, nbytes, PIECE))
    lock = threading.Lock()
    errors: list[OSError] = []
    memory = [mmap.mmap(-1, PIECE) for _ in range(threads)]
    for each in memory:
        each.write(os.urandom(PIECE))

    def work(source: mmap.mmap) -> None:
        view = memoryview(source)
        while not errors:
            with lock:
                offset = next(offsets, None)
            if offset is None:
                return
            size = -(-min(PIECE, nbytes - offset) // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                os.pwrite(descriptor, view[:size], offset)
            except OSError as error:
                errors.append(error)

    workers = [threading.Thread(target=work, args=(each,)) for each in memory]
    try:
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        os.fsync(descriptor)
        seconds = time.perf_counter() - started
    finally:
        os.close(descriptor)
        path.unlink()
    if errors:
        raise errors[0]
    return seconds
