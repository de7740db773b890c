"""Which files the processes beside this kernel, and itself, have mapped: an image does not hold
them, and opens them again by their names.

Linux only, standard library only; only reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

from .checkpoint.process_maps import Region, regions
from .preflight import Objection, own_devices

#: How memory that processes share (`mmap.mmap(-1, ...)`) is called in /proc/PID/maps.
SHARED_ANONYMOUS = "/dev/zero"


def names() -> list[str]:
    """Paths of the files of this machine that are mapped privately: what stands in them is part of
    the processes. (What is shared is meant to change under them.)"""
    return sorted({region.path for region in _of_files() if region.private})


def gone(seen: Collection[str] = ()) -> list[Objection]:
    """Mapped files that are no longer at their paths, as objections to a snapshot. Those at the
    paths `seen` were just looked at: in a sandbox each look costs a question to another process."""
    return [
        {
            "what": path,
            "reason": "it is part of the process's memory, and was deleted or replaced: a snapshot "
            "could not open it again",
            "hint": "Pause it when no cell computes, or restart it when it suits you.",
        }
        for path in sorted(
            {each.path for each in _of_files() if each.path not in seen and not each.is_at_its_path}
        )
    ]


def _of_files() -> Iterator[Region]:
    """Regions on files, in all processes, each file once; less those that live inside."""
    inside = own_devices()
    seen = set()
    for pid in _pids():
        for region in regions(pid).all:
            if region.path.startswith(SHARED_ANONYMOUS):
                continue  # in the image, as all memory is
            key = (region.path, region.device, region.inode, region.private)
            if region.of_file and region.device not in inside and key not in seen:
                seen.add(key)
                yield region


def _pids() -> list[str]:
    with contextlib.suppress(OSError):
        return [name for name in os.listdir("/proc") if name.isdigit()]
    return []
