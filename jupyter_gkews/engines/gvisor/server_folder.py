"""The folder of one sandboxed server: what it is, who runs it, where its image lies.

One folder a server, `servers/<id>/` in the store. Its host process holds `lock` while it lives, so
that nobody takes a record of a dead one for true. Starts no process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from ...kernel.protocol import read_json, write_json
from .server_sandbox import ServerPlan

#: States that only a living host process can vouch for.
ALIVE = ("starting", "running", "pausing", "resuming")
#: Seconds for a host process to answer anything but a pause.
ANSWERS_S = 120.0


@dataclass(frozen=True)
class ServerRecord:
    """What is known of a sandboxed server. `state`: starting, running, pausing, paused, resuming,
    ended (its command did, with `exit_status`), failed (to start) or lost (its host process was
    killed while it ran, and the server with it)."""

    id: str
    name: str
    command: list[str]
    created: str
    state: str = "starting"
    since: str = ""
    port: int = 0
    url: str = ""
    token: str = ""
    host_pid: int = 0
    exit_status: int | None = None
    image: dict[str, Any] | None = None  # {"bytes", "created", "environment"}
    error: dict[str, str] | None = None
    store: str = ""  # its checkpoints

    def to_json(self) -> dict[str, Any]:
        """As it is listed."""
        return asdict(self)


def utcnow() -> str:
    """Now, as all our records have it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class ServerFolder:
    """One server's folder, `root` (0700)."""

    root: Path

    @classmethod
    def create(cls, servers: Path, plan: ServerPlan, name: str = "", port: int = 0) -> ServerFolder:
        """A new server's, not started yet. Raises GkewsError (`store_not_writable`)."""
        server_id = secrets.token_hex(6)
        found = cls(servers / server_id)
        try:
            for folder in (servers.parent, servers, found.root):
                folder.mkdir(mode=0o700, parents=True, exist_ok=folder != found.root)
        except OSError as error:
            raise GkewsError(
                "store_not_writable",
                f"{servers} cannot be written: {error.strerror}.",
                "Nothing was started. Choose another folder: --servers PATH.",
            ) from error
        if plan.store is None:
            plan = replace(plan, store=str(found.root / "store"))
        os.makedirs(str(plan.store), mode=0o700, exist_ok=True)
        write_json(found.root / "plan.json", plan)
        found.write(
            ServerRecord(server_id, name, plan.command, utcnow(), port=port, store=str(plan.store))
        )
        return found

    @property
    def plan(self) -> ServerPlan:
        """What was asked for."""
        return ServerPlan(**(read_json(self.root / "plan.json") or {}))

    @property
    def sandbox(self) -> Path:
        """The sandbox's own folder."""
        return self.root / "sandbox"

    @property
    def image(self) -> Path:
        """The image of a paused server."""
        return self.root / "image"

    @property
    def output(self) -> Path:
        """What the command inside has printed."""
        return self.sandbox / "output.log"

    # ---- the record ----

    def write(self, record: ServerRecord, **changes: Any) -> ServerRecord:
        """Write the record, durably."""
        if changes.get("state", record.state) != record.state or not record.since:
            changes["since"] = utcnow()
        changed = replace(record, **changes)
        write_json(self.root / "server.json", changed, durable=True)
        return changed

    def stored(self) -> ServerRecord:
        """As it was written last. Raises GkewsError (`no_workspace`)."""
        data = read_json(self.root / "server.json")
        if data is None:
            raise unknown(self.root.name)
        return ServerRecord(**data)

    def record(self) -> ServerRecord:
        """As it is: a record of a host process that is gone does not stand."""
        lives = self.host_lives()  # before the record: it may write its last word meanwhile
        found = self.stored()
        if found.state not in ALIVE or lives or found.host_pid == 0:
            return found
        if found.image is not None and self.image.is_dir():  # killed in a resume
            return replace(found, state="paused", host_pid=0)
        return replace(
            found,
            state="lost",
            host_pid=0,
            error=GkewsError(
                "kernel_died",
                "The process that carried its connections was killed, and the server ended.",
                f"Its checkpoints are in {found.store}.",
            ).to_json(),
        )

    # ---- one host process at a time ----

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the host process. Raises GkewsError (`operation_running`)."""
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GkewsError(
                    "operation_running",
                    "Another process is at work on this server.",
                    "See `jupyter gkews sandbox list`.",
                ) from None
            yield
        finally:
            os.close(fd)

    def host_lives(self) -> bool:
        """Whether a host process holds the lock."""
        try:
            fd = os.open(self.root / "lock", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    @contextlib.contextmanager
    def control(self) -> Iterator[str]:
        """The path of the host's control socket, short enough for any folder."""
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{fd}/control"
        finally:
            os.close(fd)

    def ask(self, action: str, timeout_s: float | None = ANSWERS_S, **more: Any) -> dict[str, Any]:
        """Ask the host process, and wait for its answer. Raises the GkewsError of its answer."""
        with socket.socket(socket.AF_UNIX) as sock, self.control() as path:
            try:
                sock.connect(path)
                sock.settimeout(timeout_s)
                sock.sendall(json.dumps({"do": action, **more}).encode() + b"\n")
                with sock.makefile("rb") as file:
                    said = file.readline()
            except OSError:
                said = b""
        if not said:
            raise GkewsError(
                "kernel_unreachable",
                "The process that runs this server does not answer.",
                "See `jupyter gkews sandbox list`, and host.log in its folder.",
            )
        answer: dict[str, Any] = json.loads(said)
        if "error" in answer:
            raise GkewsError.from_json(answer["error"])
        return answer

    # ---- the end ----

    def remove(self) -> str | None:
        """Remove everything; checkpoints that were written stay, and where they are is returned."""
        kept = any((self.root / "store" / "checkpoints").glob("[!.]*"))
        if not kept:
            shutil.rmtree(self.root, ignore_errors=True)
            return None
        for path in self.root.iterdir():
            if path.name != "store":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return str(self.root / "store")


def all_servers(servers: Path) -> list[ServerFolder]:
    """Every server below this folder, oldest first."""
    found = [ServerFolder(path.parent) for path in servers.glob("*/server.json")]
    return sorted(found, key=lambda folder: folder.stored().created)


def find(servers: Path, name: str) -> ServerFolder:
    """The one whose id begins with `name`, or whose name it is.

    Raises GkewsError: `no_workspace` if there is none, `bad_request` if there are several.
    """
    found = [
        folder
        for folder in all_servers(servers)
        if name and (folder.root.name.startswith(name) or folder.stored().name == name)
    ]
    if not found:
        raise unknown(name)
    if len(found) > 1:
        ids = ", ".join(folder.root.name for folder in found)
        raise GkewsError("bad_request", f"{name!r} means several: {ids}.", "Give more of the id.")
    return found[0]


def unknown(name: str) -> GkewsError:
    """There is no such server."""
    return GkewsError(
        "no_workspace",
        f"There is no sandboxed server {name!r}.",
        "`jupyter gkews sandbox list` lists them.",
    )


__all__ = ["ServerFolder", "ServerRecord", "all_servers", "find"]
