"""The OCI bundle of a sandbox: what of this machine its processes see.

The root file system is this machine's; directories in which the user works are bind-mounted on
top, so that edits made outside while the sandbox is frozen are seen inside. Starts nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from . import file_tools, guest, outward
from .runsc import id_mappings, namespaces

#: Where the unix sockets lie, inside: on the sandbox's own tmpfs.
SOCKETS = "/tmp/.gkews"
#: Port of the way out, on the loopback inside, where nothing else is.
PROXY_PORT = 3128
#: Where a sandbox can have files of its own; the second only if something is placed there.
TMPFS = ("/tmp", "/run")
CAPABILITIES = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"]


@dataclass
class Plan:
    """What a sandbox runs, and with what."""

    command: list[str]
    cwd: str
    env: dict[str, str]
    binds: list[str] = field(default_factory=list)
    proxy: bool = False
    """Whether programs inside have a way out, by an HTTP proxy."""
    places: dict[str, str] = field(default_factory=dict)
    """Path inside -> file or folder outside that stands there. The path is one that this machine
    has, too, or lies below one of TMPFS: nothing is made outside for it."""


def write(folder: Path, plan: Plan) -> None:
    """Write config.json and the guest's orders into `folder` (0700)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = plan.env.get("PATH", os.defpath)
    tools = file_tools.write(folder / "bin", path)
    orders = {
        "file_tools": f"{tools}{os.pathsep}{path}" if tools else "",
        "command": plan.command,
        "cwd": plan.cwd,
        "env": {**plan.env, **(outward.environment(PROXY_PORT) if plan.proxy else {})},
        "sockets": SOCKETS,
        "links": dict(_links(plan)),
        "proxy_port": PROXY_PORT if plan.proxy else 0,
    }
    _write(folder / "orders.json", orders)
    _write(folder / "config.json", _spec(folder, plan))


def mounted(folder: Path) -> list[str]:
    """The folders outside that the bundle in `folder` mounts; [] if there is none."""
    try:
        spec = json.loads((folder / "config.json").read_text())
        return [mount["source"] for mount in spec["mounts"] if mount["type"] == "bind"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(data, file)


def _spec(folder: Path, plan: Plan) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [sys.executable, "-S", "-E", guest.__file__, str(folder / "orders.json")],
            "env": ["PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"],
            "cwd": "/",
            "capabilities": {
                kind: CAPABILITIES for kind in ("bounding", "effective", "inheritable", "permitted")
            },
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 65536, "soft": 65536}],
            "noNewPrivileges": True,
        },
        "root": {"path": "/", "readonly": False},
        "hostname": os.uname().nodename,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
            *({"destination": path, "type": "tmpfs", "source": "tmpfs"} for path in _tmpfs(plan)),
            *(
                {
                    "destination": inside,
                    "type": "bind",
                    "source": outside,
                    "options": ["rbind", "rw"],
                }
                for inside, outside in _binds(folder, plan)
            ),
        ],
        "linux": {"namespaces": namespaces(), **id_mappings()},
    }
    return spec


def _links(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is placed on a tmpfs, as a symbolic link that the guest makes.

    Raises GkewsError (`bad_request`) for a path that would have to be made outside first.
    """
    for inside, outside in plan.places.items():
        if not os.path.exists(outside):
            raise GkewsError("bad_request", f"{outside} is not there.", "Nothing was started.")
        if _on_tmpfs(inside):
            yield os.path.realpath(inside), os.path.realpath(outside)
        elif not os.path.exists(inside):
            raise GkewsError(
                "bad_request",
                f"{inside} does not exist on this machine, and a sandbox makes no files there.",
                f"Nothing was started. Choose a path below {' or '.join(TMPFS)}, or make it.",
            )


def _on_tmpfs(inside: str) -> bool:
    return os.path.realpath(inside).startswith(tuple(f"{path}/" for path in TMPFS))


def _tmpfs(plan: Plan) -> list[str]:
    if any(os.path.realpath(inside).startswith("/run/") for inside in plan.places):
        return list(TMPFS)
    return ["/tmp"]


def _binds(folder: Path, plan: Plan) -> list[tuple[str, str]]:
    """(inside, outside): folders at their own place, then what stands in another's."""
    linked = [outside for inside, outside in plan.places.items() if _on_tmpfs(inside)]
    own = outermost([*plan.binds, str(folder), *linked, *_hidden_by_tmp(plan)])
    placed = [
        (os.path.realpath(inside), os.path.realpath(outside))
        for inside, outside in plan.places.items()
        if not _on_tmpfs(inside)
    ]
    return [*((path, path) for path in own), *placed]


def _hidden_by_tmp(plan: Plan) -> list[str]:
    """Environments and packages that lie in /tmp, where the sandbox has one of its own."""
    python = os.path.dirname(os.path.dirname(plan.command[0]))
    package = os.path.dirname(os.path.dirname(os.path.dirname(guest.__file__)))
    needed = [python, os.path.realpath(python), sys.prefix, sys.base_prefix, package]
    needed += plan.env.get("PYTHONPATH", "").split(os.pathsep)
    return [path for path in needed if path.startswith("/tmp/") and os.path.isdir(path)]


def outermost(paths: Iterable[str]) -> list[str]:
    """Real paths without those that lie below another one."""
    found: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths}):
        if not any(path == above or path.startswith(above.rstrip("/") + "/") for above in found):
            found.append(path)
    return found
