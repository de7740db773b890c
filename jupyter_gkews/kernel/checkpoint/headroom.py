"""How much memory this process may still take: the machine's, or what its cgroup leaves of it.

Only looks. Nothing is known where there is no /proc.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """`free`: bytes that can be taken before something is killed; `total`: bytes of which that
    is a part."""

    free: int
    total: int


def memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Memory | None:
    """The tightest of the machine and all cgroups above this process; None if it is not known."""
    found = _machine(proc)
    for limit in _limits(proc, cgroups):
        if found is None or limit.free < found.free:
            found = limit
    return found


def _machine(proc: Path) -> Memory | None:
    fields = _fields(proc / "meminfo")
    if "MemAvailable:" not in fields or "MemTotal:" not in fields:
        return None
    return Memory(fields["MemAvailable:"] * 1024, fields["MemTotal:"] * 1024)


def _limits(proc: Path, cgroups: Path) -> list[Memory]:
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":  # version 2
            files, root = ("memory.max", "memory.current", "inactive_file"), cgroups
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            files, root = names, cgroups / "memory"
        else:
            continue
        folder = root / path.strip("/")
        while True:  # a limit further up holds as well
            limit = _limit(folder, *files)
            if limit is not None:
                found.append(limit)
            if folder == root or root not in folder.parents:
                break
            folder = folder.parent
    return found


def _limit(folder: Path, maximum: str, usage: str, cache: str) -> Memory | None:
    try:
        total = int((folder / maximum).read_text())  # "max" is no number: no limit
        used = int((folder / usage).read_text())
    except (OSError, ValueError):
        return None
    used -= _fields(folder / "memory.stat").get(cache, 0)  # page cache gives way
    return Memory(max(0, total - used), total)


def killed_for_memory(proc: Path = Path("/proc")) -> int:
    """How often the system has ended some process for want of memory since it was started."""
    return _fields(proc / "vmstat").get("oom_kill", 0)


def _fields(path: Path) -> dict[str, int]:
    """Lines `name number ...` of a file; empty if there is none."""
    found = {}
    try:
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) >= 2 and words[1].isdigit():
                found[words[0]] = int(words[1])
    except OSError:
        return {}
    return found
