"""A whole Jupyter server, with its kernels, in one sandbox: started, paused, resumed, stopped.

What GKE does with a pod, on one machine. One object is one sandbox on one event loop; the images
lie where the caller says. Knows nothing of who asks, and keeps no record (server_folder.py does).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from ...launching import ENV_SOCKETS
from ...process_memory import measure
from . import bundle
from .outward import Outward
from .runsc import Runsc
from .sandbox import MARGIN, Sandbox
from .wire import TO_PORT, Connection

#: Seconds until the server inside must answer after its start, and after a resume.
STARTS_S = 300.0
WAKES_S = 120.0
#: Seconds for a question to the extension inside, and for checkpoints of its kernels.
ANSWERS_S = 30.0
CHECKPOINTS_S = 600.0
#: Seconds in which the connections of clients end at a pause.
SEE_OFF_S = 2.0
#: Where the server's own files about itself and its kernels lie, inside: on tmpfs, as in a pod.
RUNTIME = "/tmp/gkews-runtime"
#: The port inside, where nothing else is, unless the command names another.
PORT = 8888

CONFIG = """# Written for a server in a sandbox (jupyter gkews sandbox); read by it alone.
c = get_config()  # noqa: F821
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True  # root inside is this user outside
c.KernelManager.transport = "ipc"
# locks of files do not reach beyond the sandbox: no database is shared with others
c.NotebookNotary.db_file = "{tmp}/nbsignatures.db"
c.BaseFileIdManager.db_path = "{tmp}/file_ids.db"
{more}"""


@dataclass(frozen=True)
class ServerPlan:
    """What runs, and what of this machine it sees.

    `command`: as in a shell; `binds`: folders that are the same inside and outside; `places`: path
    inside -> file or folder outside (a mounted token, say), see bundle.Plan.places; `store`: the
    folder of its checkpoints, which no other server may have at the same time; None: as the
    server inside is configured.
    """

    command: list[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    binds: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    network: str = "proxy"
    allow_hosts: list[str] = field(default_factory=list)
    store: str | None = None

    @property
    def port(self) -> int:
        """The port that the server will have, inside."""
        words = iter(self.command)
        for word in words:
            name, _, value = word.partition("=")
            if name in ("--port", "--ServerApp.port"):
                value = value or next(words, "")
                if value.isdecimal():
                    return int(value)
        return PORT


@dataclass
class Paused:
    """What a pause did. `left`: kernels without a checkpoint of their own, and why."""

    image_bytes: int
    released: int
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)


class ServerSandbox:
    """One sandboxed server below `folder` (made, 0700), which belongs to it alone."""

    def __init__(self, folder: Path, plan: ServerPlan) -> None:
        self.folder, self.plan = folder, plan
        self.ip, self.port = "127.0.0.1", 0
        self._sandbox: Sandbox | None = None

    # ---- what is there ----

    @property
    def running(self) -> bool:
        """Whether the sandbox lives."""
        return self._sandbox is not None and self._sandbox.running

    @property
    def exit_status(self) -> int | None:
        """The status of the command inside, once it has ended."""
        return self._sandbox.wire.exited if self._sandbox is not None else None

    def pids(self) -> set[int]:
        """runsc's processes outside, which hold all that the sandbox holds."""
        return self._sandbox.pids() if self._sandbox is not None else set()

    async def wait(self) -> int | None:
        """Until the command inside or the sandbox has ended; the command's status."""
        sandbox = self._living()
        await sandbox.wire.ended.wait()
        return sandbox.wire.exited

    async def ask(self, action: str, timeout_s: float = ANSWERS_S, **more: Any) -> dict[str, Any]:
        """Ask the extension inside (sandboxed_server.py).

        Raises its GkewsError; `snapshot_unavailable` if there is no extension that answers.
        """
        wire = self._living().wire
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(partial(Connection, wire, "server"), theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            writer.write(json.dumps({"do": action, **more}).encode() + b"\n")
            said = await asyncio.wait_for(reader.readline(), timeout_s)
        except (OSError, asyncio.TimeoutError):
            said = b""
        finally:
            writer.close()
        if not said:
            raise GkewsError(
                "snapshot_unavailable",
                "The server inside does not answer: it runs without jupyter_gkews, or hangs.",
                "It runs on. Install and enable jupyter_gkews in its environment.",
            )
        answer: dict[str, Any] = json.loads(said)
        if "error" in answer:
            raise GkewsError.from_json(answer["error"])
        return answer

    async def info(self) -> dict[str, Any]:
        """What the server says of itself: `token`, `base_url`, `root_dir` ..."""
        info: dict[str, Any] = (await self.ask("info"))["info"]
        return info

    # ---- start, pause, resume, stop ----

    async def start(self, *, ip: str = "127.0.0.1", port: int = 0) -> None:
        """Start it and wait until it answers on `port` of this machine (0: one that is free).

        Raises GkewsError: `bad_request` for a port that is taken or a path that is not there,
        `snapshot_failed` for a sandbox or a server that does not start; nothing is left then.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sandbox = self._new()
        await self._listen(ip, port)
        try:
            await sandbox.start(self._plan())
            await self._answers(STARTS_S)
        except BaseException:
            await self.stop()
            raise

    async def pause(self, image: Path, *, checkpoint: bool = True) -> Paused:
        """Write the image into `image` (a new folder) and end the sandbox: its memory is free.

        First every idle kernel writes its portable checkpoint (unless not wanted), then everything
        inside is asked for what cannot be saved, then the clients' connections end: all that the
        server had sent is delivered, and what its kernels say from then on is kept for them.
        Raises GkewsError: `snapshot_unavailable` or `snapshot_failed`; `running` says whether the
        server runs on.
        """
        sandbox = self._living()
        done = Paused(0, 0)
        if checkpoint:
            told = await self.ask("checkpoint", CHECKPOINTS_S)
            done.checkpoints, done.left = told["written"], told["left"]
        told = await self.ask("preflight")
        done.unasked = told["unasked"]
        if told["objections"]:
            first = told["objections"][0]
            raise GkewsError(
                "snapshot_failed",
                f"No snapshot can be taken: {first['what']}: {first['reason']}.",
                f"The server runs on untouched. {first['hint']}",
            )
        done.released = await self._check_disk(image)
        await self.ask("hang_up")
        if not await sandbox.wire.see_off(SEE_OFF_S):
            sandbox.wire.hang_up()
        done.image_bytes = await self._freeze(sandbox, image)
        return done

    async def freeze(self, image: Path) -> int:
        """As a node of a cluster does it: nobody inside is asked, clients are cut off; its bytes.

        Raises as `pause` does.
        """
        sandbox = self._living()
        await self._check_disk(image)
        sandbox.wire.stop_listening()
        sandbox.wire.hang_up()
        return await self._freeze(sandbox, image)

    async def resume(self, image: Path, *, ip: str = "127.0.0.1", port: int = 0) -> None:
        """Bring the same processes back; the image is kept. `port`: where clients find it.

        Raises GkewsError (`snapshot_failed`, `bad_request` for a port that is taken): nothing
        runs then, and it can be tried again.
        """
        sandbox = self._new()
        await self._listen(ip, port or self.port)
        try:
            await sandbox.restore(image, reset=True)
            with contextlib.suppress(GkewsError):  # one without us, or an older one of ours
                await self.ask("resumed", WAKES_S)
            await self._answers(WAKES_S)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End everything inside, whatever it does, and hang up. Images are not touched."""
        if self._sandbox is not None:
            await self._sandbox.end()
            await self._sandbox.wire.close()

    # ---- inside ----

    async def _freeze(self, sandbox: Sandbox, image: Path) -> int:
        """All clients have gone."""
        try:
            image_bytes = await sandbox.freeze(image)
        except BaseException:
            if self.running:
                await self._listen(self.ip, self.port)
            else:
                await self.stop()
            raise
        await sandbox.wire.close()
        return image_bytes

    def _new(self) -> Sandbox:
        out = Outward(self.plan.allow_hosts) if self.plan.network == "proxy" else None
        self._sandbox = Sandbox(Runsc(self.folder / "runsc"), self.folder, out)
        return self._sandbox

    def _living(self) -> Sandbox:
        if self._sandbox is None or not self._sandbox.running:
            raise GkewsError("not_pausable", "The server does not run.", "Nothing was changed.")
        return self._sandbox

    async def _listen(self, ip: str, port: int) -> None:
        assert self._sandbox is not None
        try:
            (self.port,) = await self._sandbox.wire.listen(ip, {port: f"{TO_PORT}{self.plan.port}"})
        except (OSError, OverflowError) as error:
            raise GkewsError(
                "bad_request",
                f"Port {port} cannot be had: {getattr(error, 'strerror', None) or error}.",
                "Nothing was started. Choose another one.",
            ) from error
        self.ip = ip

    def _plan(self) -> bundle.Plan:
        env = {name: str(value) for name, value in self.plan.env.items()}
        env.pop("JPY_PARENT_PID", None)
        config = self.folder / "config"
        config.mkdir(mode=0o700, exist_ok=True)
        more = f"c.GkewsApp.store_dir = {self.plan.store!r}\n" if self.plan.store else ""
        text = CONFIG.format(port=self.plan.port, tmp=RUNTIME, more=more)
        _write(config / "jupyter_server_config.py", text)
        own = {
            ENV_SOCKETS: bundle.SOCKETS,
            "JUPYTER_RUNTIME_DIR": RUNTIME,
            "JUPYTER_CONFIG_PATH": os.pathsep.join(
                [str(config), *filter(None, [env.get("JUPYTER_CONFIG_PATH")])]
            ),
        }
        program = shutil.which(self.plan.command[0], path=env.get("PATH"))
        if program is None:
            raise GkewsError(
                "bad_request", f"{self.plan.command[0]} is not found.", "Nothing was started."
            )
        return bundle.Plan(
            [os.path.abspath(program), *self.plan.command[1:]],
            self.plan.cwd,
            {**env, **own},
            [
                path
                for path in (self.plan.cwd, self.plan.store, *self.plan.binds)
                if path and os.path.isdir(path)
            ],
            proxy=self.plan.network == "proxy",
            places=self.plan.places,
        )

    async def _answers(self, timeout_s: float) -> None:
        """Wait until something answers HTTP inside.

        Raises GkewsError (`snapshot_failed`) with the last words of the command.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not await self._speaks_http():
            ended = self.exit_status is not None or not self.running
            if ended or asyncio.get_running_loop().time() > deadline:
                what = "ended before it answered" if ended else "does not answer"
                raise GkewsError(
                    "snapshot_failed",
                    f"The server inside {what}. {self.last_output()}",
                    "It was ended. Run the command without a sandbox to see all that it says.",
                )
            await asyncio.sleep(0.05)

    async def _speaks_http(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection(self.ip, self.port)
        except OSError:
            return False
        try:
            writer.write(b"GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return (await asyncio.wait_for(reader.read(5), ANSWERS_S)) == b"HTTP/"
        except (OSError, asyncio.TimeoutError):
            return False
        finally:
            writer.close()

    def last_output(self) -> str:
        """The last line that came from inside."""
        try:
            lines = (self.folder / "output.log").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return next((line.strip()[-400:] for line in reversed(lines) if line.strip()), "")

    async def _check_disk(self, image: Path) -> int:
        """Bytes that the sandbox holds. Raises GkewsError (`disk_full`) if an image has no room."""
        held = (await asyncio.to_thread(measure, self.pids())).ram
        image.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(image.parent).free
        if free < held + MARGIN:
            raise GkewsError(
                "disk_full",
                f"An image may need {(held + MARGIN) / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
                "free.",
                "The server runs on untouched. Free some space.",
            )
        return held


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


__all__ = ["Paused", "ServerPlan", "ServerSandbox"]
