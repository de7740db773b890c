"""The engines of this server by their id, each made when it is first asked for.

Imports no engine before: a server without sandboxed kernels starts without them.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import GkewsError
from .base import Leftover, SnapshotEngine, WorkspaceEngine
from .pod_account import InPod

Factory = Callable[[], SnapshotEngine]


class Engines(Mapping[str, SnapshotEngine]):
    """A read-only mapping, filled as it is used."""

    def __init__(
        self,
        factories: Mapping[str, Factory],
        images: Path | None = None,
        remains: Sequence[Path] = (),
    ) -> None:
        self._factories = dict(factories)
        self._images = [] if images is None else [images]
        self._remains = remains
        self._made: dict[str, SnapshotEngine] = {}

    def __getitem__(self, engine: str) -> SnapshotEngine:
        if engine not in self._made:
            self._made[engine] = self._factories[engine]()
        return self._made[engine]

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def with_images(self) -> list[SnapshotEngine]:
        """Those that may have images: none, and none is made for this, as long as the folder of
        images is empty."""
        return list(self.values()) if _any_filled(self._images) else []

    def tidy(self, *, dry_run: bool = False) -> list[Leftover]:
        """What every engine removes (or would) of processes that ended with their server. Reads
        the disk; none is made for this where nothing of any process lies."""
        if not _any_filled(self._remains):
            return []
        return [left for engine in self.values() for left in engine.tidy(dry_run=dry_run)]

    def describe(self) -> list[dict[str, Any]]:
        """As `status` lists them. May take a second the first time: not for the event loop."""
        found = []
        for name, engine in self.items():
            ability = engine.ability()
            why_not = None
            if ability.why_not is not None:
                why_not = {
                    "reason": "snapshot_unavailable",
                    "message": ability.why_not,
                    "hint": "Kernels are paused by their checkpoint alone.",
                }
            found.append({"id": name, "available": ability.available, "why_not": why_not})
        return found


def engines_of(store: Path, find_kernel: Callable[[str], object]) -> Engines:
    """All engines that this package has. `find_kernel(id)`: a kernel's provisioner."""

    def gvisor() -> SnapshotEngine:
        from .gvisor.engine import GvisorEngine

        return GvisorEngine(store, find_kernel)

    remains = [store / "sandboxes", store / "sharing"]
    return Engines({"gvisor": gvisor}, images=store / "snapshots", remains=remains)


def _any_filled(folders: Iterable[Path]) -> bool:
    for folder in folders:
        with contextlib.suppress(OSError):
            if any(folder.iterdir()):
                return True
    return False


class Memory(Protocol):
    """What processes hold, in bytes."""

    @property
    def ram(self) -> int: ...  # noqa: D102

    @property
    def vram(self) -> int: ...  # noqa: D102


def workspace_engine(
    base_url: str, account: Path, memory: Callable[[], Memory], timeout_s: float | None
) -> WorkspaceEngine | None:
    """The engine that pauses the whole workspace; None outside of a Kubernetes pod, of which nobody
    is asked. `memory()`: of this pod; see WorkspacesEngine.

    Raises GkewsError (`no_workspace`) in a pod that cannot ask: without the token of a service
    account, or with a Python that has no `kubernetes`.
    """
    pod = InPod(account)
    if not pod.is_there:
        return None
    why_not = pod.why_not()
    if why_not is not None:
        raise GkewsError(
            "no_workspace",
            f"Whether this pod is one of a workspace is not known. {why_not}",
            "Give the pod a service account with its token. Kernels can be paused one by one.",
        )
    if importlib.util.find_spec("kubernetes") is None:
        raise GkewsError(
            "no_workspace",
            "Whether this pod is one of a workspace is not known: the Python package `kubernetes` "
            "is not installed here.",
            "pip install 'jupyter-gkews[gke]' brings it. Kernels can be paused one by one.",
        )
    from .workspaces.engine import WorkspacesEngine
    from .workspaces.preflight import Facts

    def facts() -> Facts:
        held = memory()
        return Facts(vram=held.vram or None, resident=held.ram)  # 0 also where it is not told

    return WorkspacesEngine(base_url, pod, facts, timeout_s)
