"""What the state machine asks of a kernel, its process, the server and the store: interfaces only.

The real ones are `provisioning.PausableProvisioner`, `kernel_client.KernelClient`,
`running.RunningKernels` and `kernel.checkpoint.store.CheckpointStore`. Imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..engines.base import Inside
from ..errors import GkewsError
from ..kernel.protocol import CheckpointOrder, Hello, Progress, Restored, RestoreOrder

OnProgress = Callable[[Progress], object]


class Stopped(Protocol):
    """What stopping a process gave back, in bytes."""

    @property
    def ram(self) -> int: ...  # noqa: D102

    @property
    def vram(self) -> int: ...  # noqa: D102


class PausableProcess(Protocol):
    """The process of one kernel: stopped for a pause, started for a resume."""

    auto_resume: bool
    engine: str | None
    """The id of the engine that can freeze this process; None for an ordinary one."""
    on_run_requested: Callable[[], object] | None
    on_pause_ended: Callable[[str], object] | None
    on_died: Callable[[], object] | None
    on_launched: Callable[[], object] | None

    @property
    def phase(self) -> str:
        """running | held | paused | resuming."""

    @property
    def launch(self) -> str:
        """The nonce of the present launch."""

    @property
    def hello(self) -> Hello | None:
        """What the kernel side said when it loaded, in the present launch."""

    @property
    def kernel_info(self) -> dict[str, Any] | None:
        """The content of the last kernel_info_reply."""

    def why_not_pausable(self) -> GkewsError | None: ...  # noqa: D102

    def end_asked(self, launch: str) -> str | None:
        """How the user had this launch ended, "restart" or "shutdown"; None: not at all."""

    def hold(self) -> None: ...  # noqa: D102

    def release(self) -> None: ...  # noqa: D102

    async def held_memory(self) -> Stopped:
        """What its processes hold now."""

    async def stop_for_pause(self) -> Stopped: ...  # noqa: D102

    async def start_for_resume(self, order: RestoreOrder) -> None: ...  # noqa: D102

    async def resumed(self) -> None: ...  # noqa: D102

    async def resume_failed(self, error: GkewsError) -> None: ...  # noqa: D102

    def end_pause(self) -> None:
        """What is paused is gone: the process is to be started again, empty."""


class KernelTalk(Protocol):
    """Speaks kernel/protocol.py to one kernel."""

    async def survives(self, timeout_s: float) -> dict[str, Any]: ...  # noqa: D102

    async def checkpoint(  # noqa: D102
        self,
        order: CheckpointOrder,
        on_progress: OnProgress,
        on_captured: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]: ...

    async def checkpointed(self, operation: str, on_progress: OnProgress) -> dict[str, Any]:
        """The summary of a checkpoint in the background, when it has ended."""

    async def cancel(self, operation: str) -> None: ...  # noqa: D102

    async def release(self, operation: str) -> None: ...  # noqa: D102

    async def preflight(self) -> Inside:
        """What a snapshot of the process cannot hold, what it would, and what it would need."""

    async def map_stored(self) -> list[str]:
        """Let a held kernel map big memory from the store, so that an image need not hold it; all
        files that its processes have mapped then. Raises GkewsError."""

    async def resumed(self, told: dict[str, Any], timeout_s: float) -> list[dict[str, Any]]:
        """Let the user's on_resume functions run; [{"name", "error": str | None, "seconds"}]."""

    async def ping(  # noqa: D102
        self, timeout_s: float = ..., *, channel: str = "control"
    ) -> dict[str, Any]: ...

    async def restored(  # noqa: D102
        self, order: RestoreOrder, launch: str, on_progress: OnProgress
    ) -> Restored: ...

    def is_idle(self) -> bool: ...  # noqa: D102

    async def wait_idle(  # noqa: D102
        self, timeout_s: float | None = None, *, then_hold: bool = False
    ) -> None: ...

    def subscribe(self, callback: Callable[[dict[str, Any]], object]) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class KernelFacts:
    """What the server knows of a kernel without asking it."""

    id: str
    name: str
    display_name: str
    language: str
    path: str | None  # the notebook, relative to the server's root; None without a session
    notebook: str | None  # the same, absolute on disk
    execution_state: str
    ram: int | None  # resident bytes of its process


class Kernels(Protocol):
    """The kernels of this server."""

    root: Path

    def ids(self) -> list[str]: ...  # noqa: D102

    def __contains__(self, kernel_id: str) -> bool: ...

    def facts(self, kernel_id: str) -> KernelFacts: ...  # noqa: D102

    def process(self, kernel_id: str) -> PausableProcess | None:
        """Its process; None where another provisioner or a gateway runs it."""

    def talk(self, kernel_id: str) -> KernelTalk: ...  # noqa: D102

    async def interrupt(self, kernel_id: str) -> None: ...  # noqa: D102

    def has_kernelspec(self, name: str) -> bool: ...  # noqa: D102

    async def environment(self, kernel_name: str, kernel_id: str | None) -> dict[str, Any] | None:
        """What the Python of a kernel, or of a kernelspec, has installed; None if it is not known.

        As kernel.checkpoint.environment.present says it."""

    def api_path(self, notebook: str) -> str | None:
        """The path of a notebook file relative to the root; None if it lies outside or is gone."""

    async def start_paused(
        self, kernel_id: str, kernel_name: str, path: str | None, kernel_info: dict[str, Any] | None
    ) -> None:
        """Register a kernel under this id whose process is not started."""

    async def give_session(self, kernel_id: str, path: str) -> str | None:
        """Make the kernel the one of this notebook; the id of the kernel it had, which runs on."""

    async def has_session(self, path: str) -> bool: ...  # noqa: D102

    async def discard(self, kernel_id: str) -> None:
        """Take a kernel without a process off the server's list again."""


class ManifestFacts(Protocol):
    """What a checkpoint's manifest says of its contents."""

    @property
    def created(self) -> str: ...  # noqa: D102

    @property
    def variables(self) -> list[dict[str, Any]]: ...  # noqa: D102

    @property
    def process(self) -> list[dict[str, Any]]: ...  # noqa: D102

    @property
    def bytes(self) -> dict[str, int]: ...  # noqa: D102

    @property
    def environment(self) -> dict[str, Any]: ...  # noqa: D102

    @property
    def modules(self) -> list[str]: ...  # noqa: D102

    def algorithms(self) -> set[str]: ...  # noqa: D102

    def files(self) -> list[dict[str, Any]]:
        """The files of weights that it refers to, each with what is wrong with it now, or None."""


class Store(Protocol):
    """The checkpoint store."""

    @property
    def root(self) -> Path: ...  # noqa: D102

    def summaries(self) -> list[dict[str, Any]]: ...  # noqa: D102

    def summary(self, checkpoint: str) -> dict[str, Any]: ...  # noqa: D102

    def manifest(self, checkpoint: str) -> ManifestFacts: ...  # noqa: D102

    def missing_files(self, checkpoint: str, stop: Callable[[], bool]) -> GkewsError | None:
        """`weights_missing` if files that the checkpoint refers to are not as they were."""

    def delete(self, checkpoint: str) -> int: ...  # noqa: D102

    def collect(
        self,
        *,
        older_than_s: float | None,
        keep: int | None,
        protected: frozenset[str],
        dry_run: bool,
    ) -> dict[str, Any]:
        """Remove (or tell) what is not needed; the report of `kernel.checkpoint.sweep.collect`."""

    def sweep(self) -> int:
        """Remove what dead saves left half written, unless a save runs; the bytes freed."""


#: Emits one event on the server's bus.
Emit = Callable[[Mapping[str, Any]], None]
