"""The kernel provisioner whose kernels live in sandboxes: `gkews-gvisor` in a kernelspec.

To jupyter_client and to the lifecycle it is a PausableProvisioner. It freezes and restores its
sandbox when the engine says so, and never decides that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from tornado import web
from traitlets import Enum, List, Unicode

from ...errors import GkewsError
from ...kernel.checkpoint import locks
from ...kernel.protocol import HELLO_FILE, read_json, write_json
from ...kernel_process import KernelProcess
from ...launching import freezable
from ...provisioning import PausableProvisioner
from . import bundle, kernel_folders
from .outward import Outward
from .runsc import Runsc
from .sandbox import CHANNELS, Sandbox

#: In the sandbox's folder: the kernel's own connection file, and what a restore must know.
CONNECTION_FILE = "connection.json"
FROZEN_FILE = "frozen.json"


class CannotStartError(web.HTTPError):
    """No kernel in a sandbox here: the sentence that JupyterLab shows when the start fails."""

    def __init__(self, why: str) -> None:
        super().__init__(503, log_message=why, reason="Kernel cannot start here")

    def __str__(self) -> str:
        return f"{self.log_message}"


class SandboxedKernel(KernelProcess):
    """A kernel whose pid means nothing outside: whether it runs, its sandbox knows."""

    def _find(self, pid: int) -> None:
        self.process = None


class SandboxProcess:
    """A sandbox in the shape that jupyter_client expects of a process."""

    stdin = stdout = stderr = None

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.pid = sandbox.pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The kernel's status once it or its sandbox has ended."""
        if self.returncode is None:
            if self._sandbox.wire.exited is not None:
                self.returncode = self._sandbox.wire.exited
            elif not self._sandbox.running:
                self.returncode = -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Its status; jupyter_client calls this only when it has ended."""
        return self.poll()

    def send_signal(self, signum: int) -> None:
        """Deliver it inside; SIGKILL ends the whole sandbox."""
        if signum == signal.SIGKILL:
            self._sandbox.ask_to_end()
        elif self.poll() is None:
            self._sandbox.send_signal(signum)

    def kill(self) -> None:
        """End the sandbox."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM to the kernel."""
        self.send_signal(signal.SIGTERM)


class SandboxProvisioner(PausableProvisioner):
    """Starts a kernel in a gVisor sandbox and serves its ports from outside."""

    network = Enum(
        ["proxy", "none"],
        "proxy",
        help="""Whether programs inside reach the web by an HTTP proxy on the host (`proxy`, the
        default) or nothing at all (`none`).""",
    ).tag(config=True)
    allow_hosts = List(
        Unicode(),
        help="""Names or addresses of this machine that the proxy may connect to all the same.
        Default: none.""",
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.engine = "gvisor"
        self.sandbox: Sandbox | None = None
        self._listening = False
        self._sign_of_life: asyncio.TimerHandle | None = None

    @property
    def folder(self) -> Path:
        """What a restore of this kernel's images needs besides them (0700)."""
        settings = self.settings
        if settings is None:  # a server without our extension: nothing to restore later
            return Path(tempfile.gettempdir()) / f"gkews-{os.getuid()}" / self.kernel_id
        return settings.store / "sandboxes" / self.kernel_id

    def _sandbox(self) -> Sandbox:
        if self.sandbox is None:
            kernel_folders.claim(self.folder)
            way_out = Outward(self.allow_hosts) if self.network == "proxy" else None
            self.sandbox = Sandbox(Runsc(self.folder / "runsc"), self.folder, way_out)
        return self.sandbox

    # ---- over the end of a server ----

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """As the base class; a kernel that is born paused goes on with the key that it has."""
        settings = self.settings
        if settings is not None and self.kernel_id in settings.born_paused:
            self._take_key_over()
        return await super().launch_kernel(cmd, **kwargs)

    def _take_key_over(self) -> None:
        """The frozen kernel signs with the key of its launch, not with this server's new one."""
        inside, km = read_json(self.folder / CONNECTION_FILE), self.parent
        if inside is None or km is None:
            return
        km.session.key = str(inside["key"]).encode()
        km.cleanup_connection_file()
        km.write_connection_file()
        self.connection_info = km.get_connection_info()

    def _remember(self) -> None:
        """What another server needs to know of this launch; written at a freeze."""
        hello = self.hello
        if hello is not None:
            known = {"launch": self.launch, "run_dir": str(self.run_dir), "hello": vars(hello)}
            write_json(self.folder / FROZEN_FILE, known, durable=True)

    def _recall(self) -> None:
        """Before a restore: its run directory must be there, and its hello where it is ours."""
        known = read_json(self.folder / FROZEN_FILE)
        if known is None:
            return
        run_dir = Path(known["run_dir"])
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._kernel is None:
            write_json(run_dir / HELLO_FILE, known["hello"])
            self._kernel = self.new_kernel_process(run_dir, known["launch"])

    # ---- the process, as PausableProvisioner asks for it ----

    def new_kernel_process(self, run_dir: Path, launch: str) -> KernelProcess:
        """Known by its sandbox, not by its pid."""
        return SandboxedKernel(run_dir, launch)

    def pids(self) -> set[int]:
        """runsc's own processes: the sandbox holds all of the kernel's memory."""
        return self.sandbox.pids() if self.sandbox is not None else set()

    def resident(self) -> int | None:
        """All that the processes inside hold: their pids mean nothing outside."""
        return self.sandbox.memory() if self.sandbox is not None else None

    async def start_process(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the sandbox with the kernel in it."""
        sandbox = self._sandbox()
        why_not = await asyncio.to_thread(sandbox.runsc.why_not)
        if why_not is not None:
            raise CannotStartError(why_not)
        await sandbox.end()
        kernel_folders.claim(self.folder)
        await self.hold_ports()
        cwd = str(kwargs.get("cwd") or Path.cwd())
        env = {name: str(value) for name, value in (kwargs.get("env") or os.environ).items()}
        env.pop("JPY_PARENT_PID", None)  # there is no such process inside
        env[locks.ENV_SANDBOX] = self.kernel_id
        await self._forget_locks()
        plan = bundle.Plan(
            self._command(cmd), cwd, env, self._binds(cwd), proxy=self.network == "proxy"
        )
        try:
            await sandbox.start(plan)
        except GkewsError as error:
            raise CannotStartError(error.message) from error
        self.process = cast(Any, SandboxProcess(sandbox))
        self.pid, self.pgid, self.cwd = sandbox.pid, None, cwd
        self._give_signs_of_life()
        return self.connection_info

    def _give_signs_of_life(self) -> None:
        """For other machines that have this store, and do not see our processes."""
        if self._sign_of_life is not None:
            self._sign_of_life.cancel()
        self._sign_of_life = None
        if self.sandbox is None or not self.sandbox.running:
            return
        with contextlib.suppress(OSError):  # a full disk: the next one comes early enough
            kernel_folders.claim(self.folder)
        self._sign_of_life = asyncio.get_running_loop().call_later(
            kernel_folders.SIGN_OF_LIFE_S, self._give_signs_of_life
        )

    def _command(self, cmd: list[str]) -> list[str]:
        """The kernelspec's command, through our start file and with sockets instead of ports."""
        inside = dict(self.connection_info)
        inside.update(transport="ipc", ip=f"{bundle.SOCKETS}/k")
        for number, name in enumerate(_PORTS, 1):
            inside[name] = number
        key = inside.get("key", b"")
        inside["key"] = key.decode() if isinstance(key, bytes) else key
        file = self.folder / CONNECTION_FILE
        write_json(file, inside)
        outside = getattr(self.parent, "connection_file", "")
        command = [str(file) if part == outside else part for part in cmd]
        return freezable(command, bundle.SOCKETS)

    def _binds(self, cwd: str) -> list[str]:
        settings = self.settings
        folders = [cwd, str(self.folder), os.path.expanduser("~")]
        if settings is not None:
            folders += [str(settings.store), str(self.run_dir), *settings.folders]
            self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [folder for folder in folders if os.path.isdir(folder)]

    async def send_signal(self, signum: int) -> None:
        """As the base class. A cell that was frozen in its middle is interrupted when it goes on;
        if none was, the interrupt does nothing then either."""
        frozen = self.phase == "paused" and self.sandbox is not None
        if frozen and signum == signal.SIGINT and not getattr(self.parent, "shutting_down", False):
            self._sandbox().send_signal(signum)
        await super().send_signal(signum)

    async def kill_processes(self) -> None:
        """End the sandbox and wait until its memory is free."""
        if self.sandbox is not None:
            await self.sandbox.end()
        await self._forget_locks()
        self.process = None
        self.clients.outstanding.clear()

    async def _forget_locks(self) -> None:
        """No process of the sandbox lives any more, nor is there one in an image."""
        if self.settings is not None:
            await asyncio.to_thread(locks.forget, self.settings.store, self.kernel_id)

    async def wait(self) -> int | None:
        """As the base class; a sandbox whose kernel has ended has no more use."""
        status = await super().wait()
        if self.sandbox is not None and self.phase == "running":
            await self.sandbox.end()
        return status

    async def cleanup(self, restart: bool = False) -> None:
        """End what is left, and unless a restart follows, forget the sandbox."""
        await super().cleanup(restart=restart)
        if self.sandbox is not None and not restart:
            await self.sandbox.end()
            await self.sandbox.wire.close()
            self._listening = False
            if self.settings is None:
                await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
            else:
                await self._forget_locks()
                await asyncio.to_thread(kernel_folders.forget, self.settings.store, self.kernel_id)

    # ---- ports: the wire keeps them, whatever becomes of the process ----

    async def hold_ports(self) -> None:
        """Listen, once for the life of the kernel."""
        km = self.parent
        if km is None or self._listening:
            return
        ports = {
            int(getattr(km, name)): channel for name, channel in zip(_PORTS, CHANNELS, strict=True)
        }
        await self._sandbox().wire.listen(km.ip, ports)
        self._listening = True

    async def release_ports(self) -> None:
        """The wire goes on listening."""

    async def lost_ports(self) -> list[int]:
        """None: they were never given up."""
        return []

    # ---- what the engine asks ----

    async def freeze(self, image: Path) -> int:
        """Write the image; the kernel is paused when this returns. Bytes of the image.

        Raises GkewsError: the phase is as before if the sandbox lives, else the process is gone
        and the kernel is paused on its checkpoint alone.
        """
        sandbox = self._sandbox()
        before = self.phase
        self._remember()
        self.phase = "paused"  # before anything stops: poll() must not report a death
        try:
            nbytes = await sandbox.freeze(image)
        except BaseException:
            if sandbox.running:
                self.phase = before
            else:
                self.process = None
                self.clients.outstanding.clear()
                self.clients.tell(lambda client: client.kernel_stopped())
            raise
        self.process = None
        self.clients.tell(lambda client: client.kernel_stopped())
        return nbytes

    async def thaw(self, image: Path, *, reset: bool) -> None:
        """Restore the sandbox from `image`; call `resumed` or `resume_failed` afterwards.

        Raises GkewsError (`snapshot_failed`): nothing was started, the image is kept.
        """
        if self.phase != "paused":
            raise GkewsError("not_paused", "The kernel is not paused.", "Nothing was changed.")
        self.phase = "resuming"
        self.clients.tell(lambda client: client.kernel_starting())
        sandbox = self._sandbox()
        try:
            kernel_folders.claim(self.folder)
            self._recall()
            await sandbox.restore(image, reset=reset)
        except BaseException:
            self.phase = "paused"
            raise
        self.process = cast(Any, SandboxProcess(sandbox))
        self.pid, self.pgid = sandbox.pid, None
        self._give_signs_of_life()


_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
