"""The engines of this server by their id, each made when it is first asked for.

Imports no engine before: a server without sandboxed kernels starts without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .base import SnapshotEngine

Factory = Callable[[], SnapshotEngine]


class Engines(Mapping[str, SnapshotEngine]):
    """A read-only mapping, filled as it is used."""

    def __init__(self, factories: Mapping[str, Factory], images: Path | None = None) -> None:
        self._factories = dict(factories)
        self._images = images
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
        try:
            if self._images is None or not any(self._images.iterdir()):
                return []
        except OSError:
            return []
        return list(self.values())

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

    return Engines({"gvisor": gvisor}, images=store / "snapshots")
