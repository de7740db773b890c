"""What runs or is open in this process and ends with it: threads, children, connections, files.

Looking only.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, Callable

from . import forked, zygote
from .cell_made import is_cell_made

AddRow = Callable[[str, str, "str | None"], None]


#: Process ids of children that are not the user's. early_hashes.py adds its own: the start of a
#: kernel has no time for its import.
OURS: list[set[int]] = [zygote.PIDS, forked.AT_WORK]
#: Files that were open before the first cell, by descriptor: the server's log, as it may be.
_at_start: dict[str, str] = {}


def note_start() -> None:
    """Remember which files the process has open now as its own."""
    _at_start.clear()
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                _at_start[number] = os.readlink(f"/proc/self/fd/{number}")


def tell(add_row: AddRow, user_ns: dict[str, Any]) -> list[str]:
    """A row for each kind of what ends with the process; returns the files that are open."""
    named = users_threads(user_ns)
    if named:
        add_row("running threads", "lost", f"threads end with the process: {', '.join(named)}")
    children = child_processes()
    if children:
        text = f"child processes end with the kernel: {', '.join(children)}"
        add_row("child processes", "lost", text)
    sockets, files = descriptors()
    if sockets:
        add_row("network connections", "lost", f"{sockets} open to the outside; they are closed")
    return files


def users_threads(user_ns: dict[str, Any]) -> list[str]:
    """The names of the threads that are the user's, without the main one."""
    main = threading.main_thread()
    return [
        thread.name
        for thread in threading.enumerate()
        if thread is not main and thread.is_alive() and _is_users_thread(thread, user_ns)
    ]


def _is_users_thread(thread: threading.Thread, user_ns: dict[str, Any]) -> bool:
    """Daemon threads are those of libraries, unless they run what a cell has made."""
    target = getattr(thread, "_target", None)
    return not thread.daemon or is_cell_made(target, user_ns) or is_cell_made(thread, user_ns)


def child_processes() -> list[str]:
    """`name (pid)` of the children that are not ours."""
    found = []
    for pid in _children():
        if any(pid in ours for ours in OURS):
            continue
        with contextlib.suppress(OSError):  # one that has just ended says nothing of others
            name = Path(f"/proc/{pid}/comm").read_text("utf-8", errors="replace")
            found.append(f"{name.strip()} ({pid})")
    return found


def _children() -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    except OSError:  # gVisor has no such file; a thread may have ended, too
        return _children_by_parent()
    return pids


def _children_by_parent() -> list[int]:
    """The slow way: all processes that we see are asked for their parent."""
    pids: list[int] = []
    parent = str(os.getpid())
    try:
        numbers = [each for each in os.listdir("/proc") if each.isdigit()]
    except OSError:
        return pids
    for number in numbers:
        with contextlib.suppress(OSError, IndexError):
            # 'pid (name) state parent ...', and the name may hold anything
            stat = Path(f"/proc/{number}/stat").read_text("utf-8", errors="replace")
            if stat.rpartition(")")[2].split()[1] == parent:
                pids.append(int(number))
    return pids


def descriptors() -> tuple[int, list[str]]:
    """(established TCP connections that leave this machine, regular files open for the user)."""
    inodes, files = set(), []
    # Where the standard streams go is the work of whoever started the kernel (the server's log).
    streams = {os.path.realpath(f"/proc/self/fd/{number}") for number in range(3)}
    try:
        for number in os.listdir("/proc/self/fd"):
            if number in ("0", "1", "2"):
                continue
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if _at_start.get(number) == target:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
            elif (
                target.startswith("/")
                and target not in streams
                and os.path.isfile(target)
                and _is_users(target)
            ):
                files.append(target)
    except OSError:
        return 0, []
    return len(inodes & _outside_connections()), sorted(set(files))


def _is_users(path: str) -> bool:
    hidden = ("/proc/", "/dev/", "/sys/", "/memfd:", "/usr/", "/lib", "/etc/")
    if path.startswith(hidden) or path.endswith((".so", ".pyc", "history.sqlite")):
        return False
    return "site-packages" not in path and "history.sqlite" not in path


def _outside_connections() -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{table}", encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            remote = fields[2].split(":")[0]
            local = (remote.endswith("7F") and len(remote) == 8) or remote.endswith("0100007F")
            if fields[3] == "01" and not local and set(remote) != {"0"}:
                found.add(fields[9])
    return found
