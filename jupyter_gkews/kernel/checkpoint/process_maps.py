"""The memory maps of a process, as Linux and gVisor tell them: where, which rights, of which file.

Only reads; a system that tells nothing has none.
"""

from __future__ import annotations

import bisect
import os
from pathlib import Path
from typing import NamedTuple


class Region(NamedTuple):
    """One line of /proc/PID/maps: addresses, rights ("rw-p"), place in the file."""

    start: int
    end: int
    rights: str
    offset: int
    device: int
    inode: int
    path: str

    @property
    def private(self) -> bool:
        """Whether what is written there is this process's alone."""
        return self.rights.endswith("p")

    @property
    def of_file(self) -> bool:
        """Whether a file stands behind it."""
        return self.path.startswith("/")

    @property
    def is_at_its_path(self) -> bool:
        """Whether its file is still the one at its path."""
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (self.device, self.inode)


class Regions:
    """The regions of a process, by address."""

    def __init__(self, regions: list[Region]) -> None:
        self.all = regions
        self._starts = [region.start for region in regions]

    def at(self, address: int) -> Region | None:
        """The one that this address is in."""
        at = bisect.bisect_right(self._starts, address) - 1
        return self.all[at] if at >= 0 and address < self.all[at].end else None

    def of(self, start: int, end: int) -> list[Region]:
        """Those on which this range stands, from end to end; none if part of it is no memory."""
        at = bisect.bisect_right(self._starts, start) - 1
        found: list[Region] = []
        if at < 0:
            return found
        reached = start
        for region in self.all[at:]:
            if region.start > reached or region.end <= reached:
                return []
            found.append(region)
            reached = region.end
            if reached >= end:
                return found
        return []


def regions(pid: int | str = "self") -> Regions:
    """Those of a process."""
    try:
        text = os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes())
    except OSError:
        return Regions([])
    found = []
    for line in text.split("\n"):
        words = line.split(None, 5)
        if len(words) < 5:
            continue
        start, end = (int(word, 16) for word in words[0].split("-"))
        major, minor = (int(word, 16) for word in words[3].split(":"))
        path = words[5].replace("\\012", "\n") if len(words) > 5 else ""
        device = os.makedev(major, minor)
        found.append(Region(start, end, words[1], int(words[2], 16), device, int(words[4]), path))
    return Regions(found)


def written_bytes() -> dict[int, int]:
    """For each region of this process, by its start: bytes of it that are no file's, because they
    were written to. Empty where the system does not tell."""
    found: dict[int, int] = {}
    start = -1
    try:
        with open("/proc/self/smaps", errors="surrogateescape") as file:
            for line in file:
                name, _, rest = line.partition(" ")
                if name in ("Anonymous:", "Swap:"):
                    found[start] = found.get(start, 0) + int(rest.split()[0]) * 1024
                elif "-" in name and not name.endswith(":"):
                    start = int(name.split("-")[0], 16)
    except (OSError, ValueError):
        return {}
    return found
