"""The process that hashes parts of files for a save: run by early_hashes.py, as a file.

`python -I -S file_hashing.py <fd of the order> <fd of the answers>`. It reads the files it is told
of, never by a map: what goes through both hashes are the same bytes, whoever writes to the file
meanwhile. It writes nothing but the answers, and ends with the kernel.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import struct
import sys
import threading
from typing import Any

#: One answer: whether it is there, BLAKE3, xxh3-128. They stand in the order of the parts.
RECORD = struct.Struct("<B32s16s")
#: Bytes that go through both hashes at a time: what a core's own cache holds.
_STEP = 1 << 20
_NICE = 5


def main(order_fd: int, results_fd: int) -> None:
    """Do what is ordered; see early_hashes.py for its form."""
    order = json.loads(os.pread(order_fd, os.fstat(order_fd).st_size, 0))
    os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, it is this that has to go
    sys.path += order["paths"]  # after those of Python itself: nothing else is taken from there
    import blake3
    import xxhash

    work = []
    for path, inode, parts in order["files"]:
        fd = _opened(path, inode)
        work += [(fd, offset, nbytes) for offset, nbytes in parts]
    turns = itertools.count()

    def run() -> None:
        buffer = memoryview(bytearray(_STEP))
        while (number := next(turns)) < len(work) and os.getppid() == order["kernel"]:
            fd, offset, nbytes = work[number]
            with contextlib.suppress(OSError):
                hashes = blake3.blake3(), xxhash.xxh3_128()
                if fd >= 0 and _hash(fd, offset, nbytes, buffer, hashes):
                    record = RECORD.pack(1, *(each.digest() for each in hashes))
                    os.pwrite(results_fd, record, number * RECORD.size)

    threads = [threading.Thread(target=run) for _ in range(order["threads"] - 1)]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        thread.join()


def _opened(path: str, inode: int) -> int:
    """A descriptor of that very file; -1 if another one is in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    if os.fstat(fd).st_ino == inode:
        return fd
    os.close(fd)
    return -1


def _hash(fd: int, offset: int, nbytes: int, buffer: memoryview, hashes: tuple[Any, Any]) -> bool:
    """False if the file ends before."""
    while nbytes:
        got = os.preadv(fd, [buffer[: min(nbytes, _STEP)]], offset)
        if not got:
            return False
        for each in hashes:
            each.update(buffer[:got])
        offset, nbytes = offset + got, nbytes - got
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
