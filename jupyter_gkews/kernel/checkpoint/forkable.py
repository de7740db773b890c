"""Whether a checkpoint may be written from a forked image of this process, or why not.

Only looks. Each reason is a clause that the user reads after "because".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from .headroom import memory
from .process_maps import regions

#: So much memory that is shared with other processes (bytes) is copied at once for an image.
SHARED_LIMIT = 1 << 30
#: Memory that stays free whatever happens (bytes).
MARGIN = 256 << 20
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/habanalabs", "/dev/vfio/")

Range = tuple[int, int]


def why_not(proc: Path = Path("/proc")) -> str | None:
    """Why this process cannot be forked safely; None if it can."""
    if not sys.platform.startswith("linux") or not hasattr(os, "fork"):
        return "this operating system has no safe copy of a running process"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without its global lock"
    if (device := _device(proc)) is not None:
        return f"this process uses a device ({device}), whose driver does not allow a copy of it"
    return _why_not_enough(proc)


def _device(proc: Path) -> str | None:
    """A device whose memory or driver does not go with a fork, if this process has one open."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        if cuda is not None and cuda.is_initialized():
            return "CUDA"
        for name in os.listdir(proc / "self" / "fd"):
            try:
                target = os.readlink(proc / "self" / "fd" / name)
            except OSError:
                continue
            if target.startswith(_DEVICES):
                return target
    except Exception:  # a torch that is broken, or no /proc: then nothing is known
        return "it could not be seen which"
    return None


def _why_not_enough(proc: Path) -> str | None:
    """While an image is at work, every page that the user's cells change is there twice: at worst
    all that the process holds."""
    try:
        fields = {}
        for line in (proc / "self" / "status").read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[1].isdigit():
                fields[words[0]] = int(words[1]) * 1024
    except OSError:
        return "it is not known how much memory is free"
    free = memory(proc)
    if free is None:
        return "it is not known how much memory is free"
    held = fields.get("RssAnon:", fields.get("VmRSS:", 0))
    if held + MARGIN > free.free:
        return (
            f"memory is short: cells that change their data meanwhile could need up to "
            f"{held / 1e9:.1f} GB more, and {free.free / 1e9:.1f} GB are free"
        )
    return None


def shared_ranges(ranges: Iterable[Range]) -> list[Range]:
    """The pages, as (start, end), on which `ranges` (address, bytes) stand and which are shared
    for writing with other processes or a file: a fork looks at them, not at a copy. Raises
    OSError."""
    maps = regions().all
    if not maps:
        raise OSError("the system does not tell which memory is shared")
    shared = [(each.start, each.end) for each in maps if each.rights[1] == "w" and not each.private]
    if not shared:
        return []
    page = os.sysconf("SC_PAGESIZE")
    found: list[Range] = []
    for address, nbytes in sorted(ranges):
        for start, end in shared:
            low, high = max(start, address), min(end, address + nbytes)
            if low < high:
                low, high = low // page * page, -(-high // page) * page
                if found and low < found[-1][1]:
                    low, high = found[-1][0], max(high, found[-1][1])
                    found.pop()
                found.append((low, high))
    return found
