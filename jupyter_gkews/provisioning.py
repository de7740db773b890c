"""The kernel provisioner that can pause: stops a kernel's process and starts it again in place.

Under a server without `GkewsApp` it is the stock LocalProvisioner. It never writes or reads a
checkpoint, and never decides that a kernel shall be paused: `lifecycle` does.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from . import hash_seed, process_memory
from .activity_watch import ActivityWatch
from .clients import KernelClients
from .errors import GkewsError
from .kernel.protocol import Hello, RestoreOrder
from .kernel_process import KernelProcess, until_gone
from .launching import (
    LaunchSettings,
    PausedProcess,
    StoppedProcess,
    bring_kernel_side,
    freezable,
    launch_of,
    write_launch,
)
from .port_holder import PortHolder

Phase = Literal["running", "held", "paused", "resuming"]


class PausableProvisioner(LocalProvisioner):
    """A LocalProvisioner whose process can be stopped and started under the same kernel.

    `phase` is what the process does; the user's states are `lifecycle`'s.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.phase: Phase = "running"
        self.kernel_info: dict[str, Any] | None = None
        self.auto_resume = True
        self.engine: str | None = None
        self.reported_vram = 0  # bytes, by the kernel's own word at its last checkpoint
        self.clients = KernelClients()
        self.activity = ActivityWatch()
        self.launch_listeners: list[Callable[[], object]] = []
        self.on_run_requested: Callable[[], object] | None = None
        self.on_pause_ended: Callable[[str], object] | None = None  # "restart" | "shutdown"
        self.on_died: Callable[[], object] | None = None
        self.on_launched: Callable[[], object] | None = None
        self._kernel: KernelProcess | None = None  # None: not a Python kernel, or not launched
        self._ports = PortHolder()
        self._lost_ports: list[int] = []  # those that somebody took in the instant of the stop
        self.exit_status: int | None = None  # of the last process that was seen to have ended
        self._death_told = False
        self._end_asked: tuple[str, str] | None = None  # the last launch that was, and how
        self._end_untold = False  # the pause has ended, by a restart or a shutdown: not yet known
        self.runs_hooks = False  # the user's on_resume functions run: an interrupt is for them

    # -- what lifecycle asks ----------------------------------------------------------------

    @property
    def settings(self) -> LaunchSettings | None:
        """The server's settings; None without GkewsApp."""
        found = getattr(getattr(self.parent, "parent", None), "gkews_launch", None)
        return found if isinstance(found, LaunchSettings) else None

    @property
    def run_dir(self) -> Path:
        """The directory through which server and kernel exchange files. Raises without GkewsApp."""
        settings = self.settings
        if settings is None:
            raise GkewsError(
                "not_pausable",
                "This server runs without the jupyter_gkews extension.",
                "Enable it with `jupyter server extension enable jupyter_gkews`.",
            )
        return settings.runtime / self.kernel_id

    @property
    def launch(self) -> str:
        """The nonce of the present launch; empty before the first."""
        return self._kernel.launch if self._kernel else ""

    @property
    def hello(self) -> Hello | None:
        """What the kernel side said of itself in the present launch; None while it has not."""
        return self._kernel.hello if self._kernel else None

    def why_not_pausable(self) -> GkewsError | None:
        """Why Pause cannot be offered for this kernel; None if it can."""
        name = self.kernel_spec.display_name or "This kernel"
        if self.phase == "paused":
            return None
        if self.settings is None:
            return GkewsError(
                "not_pausable",
                "This server runs without jupyter_gkews.",
                "Enable it with `jupyter server extension enable jupyter_gkews`.",
            )
        if not self._is_python():
            return GkewsError(
                "not_pausable",
                f"{name} is not a Python kernel; only Python kernels can be paused.",
                "It goes on running.",
            )
        if self._kernel is None:
            return GkewsError(
                "kernel_starting", f"{name} is starting.", "Try again when it is ready."
            )
        return self._kernel.why_not_pausable(name)

    def _is_python(self) -> bool:
        return (self.kernel_spec.language or "").lower().startswith("python")

    def process_alive(self) -> bool:
        """Whether the launched process (kernel or wrapper) and the kernel itself still run."""
        if self.process is None:
            return False
        self.exit_status = self.process.poll()
        if self.exit_status is not None:
            return False
        return self._kernel is None or self._kernel.runs

    def end_asked(self, launch: str) -> str | None:
        """How the user had this launch ended, "restart" or "shutdown"; None: not at all."""
        return self._end_asked[1] if self._end_asked and self._end_asked[0] == launch else None

    def _note_end(self, restart: bool) -> None:
        self._end_asked = (self.launch, "restart" if restart else "shutdown")

    # -- launching --------------------------------------------------------------------------

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare a launch; brings the kernel side and, once, a restore order to the kernel."""
        settings, km = self.settings, self.parent
        sockets = settings.sockets if settings is not None else None
        if sockets is not None and km is not None and km.transport == "ipc":
            km.ip = f"{sockets}/{self.kernel_id}"
        kwargs = await super().pre_launch(**kwargs)
        if settings is None or self.kernel_id in settings.born_paused or not self._is_python():
            return kwargs
        run_dir = self.run_dir
        self._kernel = self.new_kernel_process(run_dir, uuid.uuid4().hex)
        order = settings.restore_orders.get(self.kernel_id)
        checkpoint = order.checkpoint if order is not None else None
        await asyncio.to_thread(hash_seed.give, kwargs["env"], settings.store, checkpoint)
        name = getattr(self.parent, "kernel_name", "")
        in_place = self.engine is not None
        write_launch(
            run_dir, launch_of(settings, self.launch, self.kernel_id, name, in_place=in_place)
        )
        bring_kernel_side(kwargs["env"], run_dir)
        return kwargs

    def new_kernel_process(self, run_dir: Path, launch: str) -> KernelProcess:
        """The process of a launch, known later by its hello."""
        return KernelProcess(run_dir, launch)

    async def start_process(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the process of a launch that was prepared."""
        settings = self.settings
        if settings is not None and settings.sockets is not None:
            cmd = freezable(cmd, str(settings.sockets), settings.history)
        return await super().launch_kernel(cmd, **kwargs)

    def pids(self) -> set[int]:
        """Processes of this machine whose trees hold the kernel's memory."""
        return {each.pid for each in (self.process, self.hello) if each is not None}

    def resident(self) -> int | None:
        """What the kernel's process holds of the machine's memory, in bytes, as it is told at once;
        None if that is not known."""
        return process_memory.resident(self.hello.pid) if self.hello is not None else None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the process; or none, for a kernel that is born paused."""
        settings = self.settings
        born = settings.born_paused.pop(self.kernel_id, None) if settings else None
        if born is not None:
            self.phase = "paused"
            self.kernel_info = born.kernel_info or None
            self.cwd = kwargs.get("cwd", Path.cwd())
            await self.hold_ports()
            return self.connection_info
        await self.release_ports()
        self.clients.outstanding.clear()
        self._death_told = False
        info = await self.start_process(cmd, **kwargs)
        for listener in list(self.launch_listeners):
            listener()
        if self.phase == "held":  # the kernel died under a checkpoint and is started fresh
            self.phase = "running"
            self.clients.tell(lambda client: client.pause_ended())
        if self.on_launched:
            self.on_launched()
        return info

    # -- the life of the process as jupyter_client sees it -------------------------------------

    @property
    def has_process(self) -> bool:
        """True also while paused: to jupyter_client a paused kernel is an idle one."""
        return self.phase in ("paused", "resuming") or super().has_process

    async def poll(self) -> int | None:
        """None while paused or resuming, so that nobody restarts or removes the kernel."""
        if self.phase in ("paused", "resuming"):
            return None
        status = await super().poll()
        if status is not None and self.process is not None:
            self.exit_status = status
        if status is not None and self.process is not None and not self._death_told:
            self._death_told = True
            # an end that was asked for (shutdown, restart) is no death
            if self.on_died and not getattr(self.parent, "shutting_down", False):
                self.on_died()
        return status

    async def send_signal(self, signum: int) -> None:
        """As the base class. An interrupt while paused or resuming ends the cells that wait, and
        the on_resume function that runs."""
        waiting = self.phase in ("paused", "resuming")
        if waiting and signum == signal.SIGINT:
            if not getattr(self.parent, "shutting_down", False):
                self.clients.tell(lambda client: client.interrupted())
            # It must not reach a process that starts: Python's start would end with it.
            if self.phase == "resuming" and self.runs_hooks:
                await super().send_signal(signum)
        elif self.phase != "paused":
            await super().send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the process or the pause; the kernel also where a wrapper hides it from signals."""
        self.end_pause()
        await super().kill(restart=restart)
        if self._kernel:
            self._kernel.kill()

    async def terminate(self, restart: bool = False) -> None:
        """End the process or the pause."""
        self.end_pause()
        await super().terminate(restart=restart)

    async def shutdown_requested(self, restart: bool = False) -> None:
        """A restart or a shutdown begins: a paused or resuming kernel has no use for politeness."""
        self._note_end(restart)
        if self.phase == "resuming":
            await self.kill(restart=restart)
        self.end_pause()
        await super().shutdown_requested(restart=restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Give the ports back and, unless a restart follows, the run directory."""
        self.end_pause()
        if not restart:
            self._ports.release()
            if self.settings is not None:
                shutil.rmtree(self.run_dir, ignore_errors=True)
        if self._end_untold:
            # Only here jupyter_client says in every case whether a restart follows.
            self._end_untold = False
            if self.on_pause_ended:
                self.on_pause_ended("restart" if restart else "shutdown")
        await super().cleanup(restart=restart)

    def end_pause(self) -> None:
        """A restart or a shutdown follows: the kernel is paused no more."""
        if self.phase in ("paused", "resuming"):
            self.phase = "running"
            self._end_untold = True
            self.clients.tell(lambda client: client.pause_ended())

    # -- pausing ----------------------------------------------------------------------------

    def hold(self) -> None:
        """Stop the websockets from passing requests on (a checkpoint for a pause begins)."""
        if self.phase == "running":
            self.phase = "held"

    def release(self) -> None:
        """No pause after all: pass on what the websockets held."""
        if self.phase == "held":
            self.phase = "running"
            if self.process_alive():
                self.clients.tell(lambda client: client.kernel_released())
            else:  # what was held was meant for variables that are gone
                self.clients.tell(lambda client: client.pause_ended())

    async def stop_for_pause(self) -> StoppedProcess:
        """Stop the kernel's processes at once; the kernel is paused when this returns.

        SIGKILL and not a polite end: finalizers would delete the user's temporary directories.
        Raises kernel_died if the process was gone already; internal if it does not end.
        """
        process, hello = self.process, self.hello
        if process is None or hello is None or not self.process_alive():
            raise GkewsError(
                "kernel_died",
                "The kernel died before it could be paused.",
                "Its checkpoint is complete and can be restored into a new kernel.",
            )
        held = await self.held_memory()
        self.phase = "paused"  # before the signal: from now on poll() must not report a death
        try:
            await self.kill_processes()
        except BaseException:
            self.phase = "running"
            self.clients.tell(lambda client: client.pause_ended())
            raise
        await self.hold_ports()
        self.clients.tell(lambda client: client.kernel_stopped())
        return held

    async def held_memory(self) -> StoppedProcess:
        """What the kernel's processes hold now, in bytes."""
        held = await asyncio.to_thread(process_memory.measure, self.pids())
        return StoppedProcess(ram=held.ram, vram=held.vram or self.reported_vram)

    async def kill_processes(self) -> None:
        """SIGKILL the process group and the kernel behind a wrapper; wait until both are gone."""
        process, kernel = self.process, self._kernel
        if process is None:
            return
        await super().send_signal(signal.SIGKILL)
        await until_gone(process, kernel)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
        self.process = None
        self.clients.outstanding.clear()

    # -- resuming ---------------------------------------------------------------------------

    async def start_for_resume(self, order: RestoreOrder) -> None:
        """Start the process again with `order`; returns when it runs, not when it has loaded.

        Raises restore_failed if it cannot be started; call `resume_failed` then.
        """
        settings, km = self.settings, self.parent
        if self.phase != "paused" or settings is None or km is None:
            raise GkewsError("not_paused", "The kernel is not paused.", "Nothing was changed.")
        taken = await self.lost_ports()
        if taken:
            raise GkewsError(
                "restore_failed",
                f"Port {taken[0]} of this kernel was taken by another program.",
                "The checkpoint is untouched: restore it into a new kernel, or end that program.",
            )
        self.phase = "resuming"
        self.clients.tell(lambda client: client.kernel_starting())
        settings.restore_orders[self.kernel_id] = order
        try:
            kwargs = await self.pre_launch(**(km._launch_args or {}))
            command = kwargs.pop("cmd")
            await self.launch_kernel(command, **kwargs)
        except Exception as error:
            raise GkewsError(
                "restore_failed",
                f"The kernel's process could not be started: {error}",
                "The kernel stays paused and its checkpoint is untouched.",
            ) from error
        finally:
            settings.restore_orders.pop(self.kernel_id, None)

    async def resumed(self) -> None:
        """The load is verified: the kernel runs. Held requests go out as their iopub delivers."""
        if self.phase != "resuming":
            raise GkewsError("not_paused", "The kernel is not resuming.", "Nothing was changed.")
        self.phase = "running"
        self.activity.begin_anew(self.parent, self.kernel_id)
        self.clients.tell(lambda client: client.kernel_released())

    async def resume_failed(self, error: GkewsError) -> None:
        """Kill what was started and be paused again; held cells are answered with `error`."""
        if self.phase == "resuming":
            await self.kill_processes()
            if self.phase == "resuming":  # else it was restarted or shut down in the meantime
                self.phase = "paused"
                await self.hold_ports()
        if self.phase == "paused":
            self.clients.tell(lambda client: client.resume_failed(error))

    # -- ports and cells ---------------------------------------------------------------------

    def request_run(self) -> None:
        """A cell was run in the paused notebook: ask lifecycle for a resume."""

        def ask() -> None:
            if self.on_run_requested:
                self.on_run_requested()

        self.clients.ask_to_run(lambda: self.phase == "paused", ask)

    async def hold_ports(self) -> None:
        """Keep this kernel's ports while it has no process."""
        km = self.parent
        if km is None or km.transport != "tcp":
            return
        self._ports.release()
        self._lost_ports = await self._ports.hold(km.ip, list(km.ports))
        if self._lost_ports:
            self.log.warning(
                "Kernel %s is paused and lost ports %s", km.kernel_id, self._lost_ports
            )

    async def release_ports(self) -> None:
        """Let a process have the ports that were held."""
        self._ports.release()
        await asyncio.sleep(0)  # one turn of the loop closes the connections of the held ports

    async def lost_ports(self) -> list[int]:
        """Ports that another program has taken, and still has."""
        km = self.parent
        return await self._ports.hold(km.ip, self._lost_ports, timeout_s=0.0) if km else []


__all__ = ["LaunchSettings", "PausableProvisioner", "PausedProcess", "StoppedProcess"]
