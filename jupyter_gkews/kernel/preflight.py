"""What gVisor cannot save, in this process and its children: looked for before it is tried, for a
try that fails ends the sandbox.

Linux only, standard library only; changes nothing in the process.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Collection

#: Mounts that live inside the sandbox: their files are saved with it, also the deleted ones.
INSIDE = ("/tmp", "/run", "/dev", "/proc", "/sys")
#: Devices whose memory is no part of the sandbox.
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/habanalabs", "/dev/vfio/")
#: Set where a whole server lives in the sandbox: it asks all of its kernels.
WHOLE_SERVER = "JUPYTER_GKEWS_SANDBOX"

Objection = dict[str, str]


def objections(asked: Collection[int] | None = None) -> list[Objection]:
    """What stands in the way of a snapshot: {"what", "reason", "hint"}, empty if nothing does.

    `asked`: the other processes that are asked themselves. None: all others are looked at from
    here, unless a whole server does that.
    """
    fds = _open_fds()
    found = [*_deleted_files(fds), *_devices(fds), *_watched_tcp(fds)]
    if asked is None and os.environ.get(WHOLE_SERVER):
        return found
    for pid in _others(asked or ()):
        fds = _open_fds(pid)
        found += [*_deleted_files(fds, pid), *_devices(fds), *_may_watch_tcp(fds, pid)]
    return found


def _others(asked: Collection[int]) -> list[str]:
    """All other processes of the sandbox but its init, which is ours, and those that are asked."""
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if int(pid) not in (1, os.getpid(), *asked)]


def _open_fds(pid: str = "self") -> dict[int, str]:
    """fd -> what /proc says it is. Empty for a process that has ended."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # the fd of this very listing is gone again
                found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def _devices(fds: dict[int, str]) -> list[Objection]:
    """GPUs and the like: what they hold is no memory of the sandbox."""
    return [
        {
            "what": path,
            "reason": "this device is in use, and what it holds is not part of a snapshot",
            "hint": "Move to the CPU what is on it and close it, or rest on the checkpoint.",
        }
        for path in sorted(set(fds.values()))
        if path.startswith(DEVICES)
    ]


def own_devices() -> set[int]:
    """Device numbers of the file systems that live in the sandbox."""
    return {os.stat(path).st_dev for path in INSIDE if os.path.ismount(path)}


def _deleted_files(fds: dict[int, str], pid: str = "self") -> list[Objection]:
    """Open files of the host that have no name any more: nobody could open them again."""
    found = {}
    inside = own_devices()
    for fd, link in fds.items():
        with contextlib.suppress(OSError):
            status = os.stat(f"/proc/{pid}/fd/{fd}")
            path = link[: -len(" (deleted)")] if link.endswith(" (deleted)") else link
            if not stat.S_ISREG(status.st_mode) or status.st_dev in inside:
                continue
            if not path.startswith("/") or link.startswith("/memfd:"):
                continue
            if link == path and _is_at(path, status):
                continue
            if os.readlink(f"/proc/{pid}/fd/{fd}") != link or not _is_same(pid, fd, status):
                continue  # it was closed meanwhile, and another one has its number
            found[path] = {
                "what": path,
                "reason": "it is open, and was deleted or replaced: a snapshot could not open it "
                "again",
                "hint": "Close it, then pause again.",
            }
    return list(found.values())


def _is_same(pid: str, fd: int, status: os.stat_result) -> bool:
    there = os.stat(f"/proc/{pid}/fd/{fd}")
    return (there.st_ino, there.st_dev) == (status.st_ino, status.st_dev)


def _is_at(path: str, status: os.stat_result) -> bool:
    """Whether `path` is still the file of `status`."""
    try:
        there = os.stat(path)
    except OSError:
        return False
    return (there.st_ino, there.st_dev) == (status.st_ino, status.st_dev)


def _watched_tcp(fds: dict[int, str]) -> list[Objection]:
    """TCP sockets in an epoll set (of asyncio, say). The set itself answers: to add what it has
    is refused with EEXIST."""
    sets = [fd for fd, link in fds.items() if link.startswith("anon_inode:[eventpoll]")]
    found = []
    for fd, link in fds.items():
        if not link.startswith("socket:") or not _is_tcp(fd):
            continue
        if any(_has(epoll, fd) for epoll in sets):
            found.append(
                {
                    "what": _address(fd),
                    "reason": "a TCP connection that an event loop watches cannot be saved",
                    "hint": "Close the client or server that has it, then pause again.",
                }
            )
    return found


def _may_watch_tcp(fds: dict[int, str], pid: str) -> list[Objection]:
    """TCP sockets of a child that has an epoll set: whether it is watched, only the child could
    tell."""
    sets = [link for link in fds.values() if link.startswith("anon_inode:[eventpoll]")]
    tcp = _tcp_inodes() if sets else set()
    return [
        {
            "what": f"a TCP connection of the process {_name(pid)}",
            "reason": "it has an event loop, and what such a one watches cannot be saved",
            "hint": "End that process, or close its connection, then pause again.",
        }
        for link in fds.values()
        if link in tcp
    ][:1]


def _tcp_inodes() -> set[str]:
    """All TCP sockets of the sandbox, as the links of their descriptors name them."""
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            found |= {f"socket:[{line.split()[9]}]" for line in file.readlines()[1:]}
    return found


def _name(pid: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return f"{file.read().strip()} ({pid})"
    return pid


def _is_tcp(fd: int) -> bool:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
        return sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
    return False


def _address(fd: int) -> str:
    with socket.socket(fileno=os.dup(fd)) as sock:
        with contextlib.suppress(OSError):
            return f"the connection to {_text(sock.getpeername())}"
        with contextlib.suppress(OSError):
            return f"the server on {_text(sock.getsockname())}"
    return "a TCP socket"


def _text(address: tuple[object, ...]) -> str:
    return f"{address[0]}:{address[1]}"


def _has(epoll: int, fd: int) -> bool:
    """Whether the epoll set watches `fd`."""
    with select.epoll.fromfd(os.dup(epoll)) as same:
        try:
            same.register(fd, 0)
        except FileExistsError:
            return True
        except OSError:
            return False
        same.unregister(fd)
        return False
