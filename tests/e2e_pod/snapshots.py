"""GKE Pod Snapshots with real images: a trigger has the node freeze the pod, as its policy says.

The objects and their conditions are those of tests/kube/actors/gke.py. `outcome` "failed": the
image is taken and its upload fails, so that the pod goes on where it was.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from kube.actors.gke import PodSnapshots

from .images import Images
from .node_agent import NodeAgent


class ImageSnapshots(PodSnapshots):
    def __init__(self, *about: Any, node: NodeAgent, images: Images) -> None:
        super().__init__(*about)
        self._node, self._images = node, images
        self._taking: dict[str, Future[None]] = {}

    def take(self, pod: str, snapshot: str) -> str | None:
        """Freeze the pod, once."""
        taking = self._taking.get(snapshot)
        if taking is None:
            fails = self.outcome == "failed"
            taking = self._node.save(pod, snapshot, then_stop=not fails)
            self._taking[snapshot] = taking
            taking.add_done_callback(lambda _: self.poke())
        if not taking.done():
            return None
        error = taking.exception()
        if error is None and self.outcome == "failed":
            self._images.remove(snapshot)
        return str(error) if error is not None else super().take(pod, snapshot)

    def forget(self, snapshot: str) -> None:
        """Its image is deleted before the object is gone."""
        self._images.remove(snapshot)

    def expire(self, snapshot: str) -> None:
        """What its retention does, at once."""
        from kube.actors.nodes import SNAPSHOTS

        self.admin.delete(self.path(SNAPSHOTS), snapshot)
