"""Saves a namespace as a checkpoint: written, proved, made durable, and only then visible.

Until the last rename nothing of it can be seen in the store; whatever fails or is cancelled
before leaves the namespace, the store and its checkpoints as they were.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Callable

from ...errors import GkewsError
from .buffers import Layout
from .collect import CellOf, variables
from .commit import Staging
from .compression import check_way
from .import_order import likely_modules
from .judging import judge
from .manifest import Manifest
from .placeholders import Loss
from .preparing import Prepared, Progress, Subject, complete, prepare, settle_graph
from .proof import LOOK_S, Proof
from .rebuilders.waiting import other_threads
from .store import CheckpointStore
from .storing import store_bytes
from .writing import Placed


def save(
    user_ns: dict[str, Any],
    store: CheckpointStore,
    *,
    checkpoint: str,
    name: str | None = None,
    kernel: dict[str, Any] | None = None,
    notebook: str | None = None,
    hidden: frozenset[str] = frozenset(),
    extras: Mapping[str, Any] | None = None,
    cell_of: CellOf | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    prove: str | bool = "scratch",
    reference_files: bool = True,
    compress: str = "none",
    in_place: bool = False,
    placed: list[Placed] | None = None,
    refused: Mapping[str, Loss] | None = None,
    doubted: Collection[str] = (),
) -> dict[str, Any]:
    """Save the variables of `user_ns` as `checkpoint` and return its summary.

    `hidden`: names not to save. `extras`: objects saved in the same graph, given back by
    `restore`. `cell_of(name)`: the execution count of the cell that made a name.
    `progress(step, bytes_done, bytes_total)` with the steps "graph", "writing", "verifying",
    "committing"; `cancelled()` is asked several times a second. `prove`: "scratch" loads it in a
    scratch process first, and takes what does not come back there as lost; "read-back" reads its
    bytes back; "off" does neither. The summary's `proved` says what was done (proof.py).
    `reference_files`: refer to weights that stand in safetensors files instead of copying them.
    `compress`: "zstd" compresses the graph (gzip where the environment has no zstd), "none".
    `in_place`: lay big memory out so that its pages can be replaced by maps of the chunks
    (in_place.py); memory that is a copy of a file of weights is then written as well. `placed`: is
    filled with which pages those are.
    `refused`: variables that are known not to come back, each with its loss. `doubted`: variables
    that a test load of a moment before this one did not find equal.

    Raises GkewsError: bad_request (`prove`, `compress`), cancelled, disk_full, store_not_writable,
    verification_failed, checkpoint_failed; nothing is left in the store then.
    """
    subject = Subject(user_ns, checkpoint, hidden, extras, cell_of, name, kernel, notebook)
    if isinstance(prove, bool):
        prove = "scratch" if prove else "off"
    run = _Save(subject, store, progress, cancelled, Proof(prove, store))
    run.compress, run.doubted = check_way(compress), set(doubted)
    run.reference_files, run.in_place, run.placed = reference_files, in_place, placed
    key = store.prepare()
    with store.writing(), store.saving():
        try:
            run.staging.make()
            run.proof.start(likely_modules(variables(user_ns, hidden)))
            manifest = run.write_and_prove(key, dict(refused or {}))
            run.commit(manifest, key)
        finally:
            run.clean_up()
    return manifest.summary()


class _Save:
    """One save on its way. Steps are methods, called in the order of `save`."""

    def __init__(
        self,
        subject: Subject,
        store: CheckpointStore,
        progress: Progress | None,
        cancelled: Callable[[], bool] | None,
        proof: Proof,
    ) -> None:
        self.subject = subject
        self.store = store
        self.progress = progress or (lambda step, done, total: None)
        self.cancelled = cancelled or (lambda: False)
        self.staging = Staging(store, subject.checkpoint)
        self.proof = proof
        self.compress = "none"
        self.reference_files, self.in_place = True, False
        self.placed: list[Placed] | None = None
        self.doubts: set[str] = set()
        self.doubted: set[str] = set()
        self.new: list[str] = []
        self.trusted: set[str] = set()
        self.written = 0
        self.seconds: dict[str, float] = {}
        self._mark = time.monotonic()

    def check(self) -> None:
        """Raise if the save was cancelled."""
        if self.cancelled():
            raise GkewsError(
                "cancelled",
                "The checkpoint was cancelled.",
                "The kernel and all earlier checkpoints are as they were.",
            )

    def lap(self, step: str) -> None:
        """Count the time since the last lap for `step`."""
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._mark
        self._mark = now

    # ---- steps ----

    def write_and_prove(self, key: bytes, refused: dict[str, Loss]) -> Manifest:
        """Write everything; again without what a test load shows to be wanting."""
        while True:
            self.check()
            prepared = prepare(
                self.subject,
                self.store,
                self.staging,
                progress=self.progress,
                check=self.check,
                refused=refused,
            )
            settle_graph(prepared.manifest, self.store, self.staging, self.compress, self.check)
            self.lap("graph")
            manifest = self.write(prepared)
            wanting = self.prove(prepared, manifest, key)
            self.lap("verifying")
            if not wanting:
                return manifest
            doubts = self.doubts.intersection(wanting) - self.doubted
            self.doubted |= doubts
            wanting = {name: loss for name, loss in wanting.items() if name not in doubts}
            if not doubts and refused.keys() >= wanting.keys():  # that did not help: each only once
                raise GkewsError(
                    "verification_failed",
                    f"A test load of the checkpoint kept failing (at {', '.join(wanting)}).",
                    "Nothing was released: the kernel and all earlier checkpoints are as they "
                    "were.",
                )
            refused.update(wanting)

    def write(self, prepared: Prepared) -> Manifest:
        """Write the chunks, and the manifest in memory."""

        until = time.monotonic() + LOOK_S

        def look(layout: Layout, done: Callable[[], bool]) -> None:
            user_ns = self.subject.user_ns
            self.proof.look(
                user_ns, prepared.got, layout, lambda: done() and time.monotonic() > until
            )

        stored = store_bytes(
            prepared.got.writer.buffers,
            self.store,
            self.staging,
            check=self.check,
            progress=partial(self.progress, "writing"),
            meanwhile=look,
            reference_files=self.reference_files,
            in_place=self.in_place,
            placed=self.placed,
        )
        self.new += stored.new
        self.written += stored.bytes_written
        self.trusted.update(stored.trusted)
        self.lap("writing")
        complete(prepared.manifest, stored, self.written)
        prepared.manifest.seconds = self.seconds
        return prepared.manifest

    def prove(self, prepared: Prepared, manifest: Manifest, key: bytes) -> dict[str, Loss]:
        """Let the scratch process load it; what is wanting comes back as losses by name."""
        total = manifest.bytes["total"]
        self.progress("verifying", 0, total)
        verdict = self.proof.prove(
            manifest,
            self.staging.path,
            self.trusted,
            write_manifest=lambda: self.staging.write_manifest(manifest, key),
            check=self.check,
            progress=lambda done: self.progress("verifying", done, total),
        )
        self.progress("verifying", total, total)
        changing = self.proof.changing() if verdict.differs else frozenset()
        wanting = judge(
            verdict, manifest, prepared.got.values, self.subject.user_ns, changing=changing
        )
        # a slow thread may have changed them once, between the graph and the look at them
        self.doubts = set(wanting) if verdict.died_at is None and other_threads() else set()
        return wanting

    def commit(self, manifest: Manifest, key: bytes) -> None:
        """Make it durable and visible, in this order."""
        self.check()
        self.progress("committing", manifest.bytes["total"], manifest.bytes["total"])
        self.proof.done()
        self.staging.install(self.new)
        self.lap("committing")
        manifest.proved = self.proof.told()
        self.staging.commit(manifest, key)

    def clean_up(self) -> None:
        """Whatever happened: no scratch process, no staging directory."""
        self.proof.close()
        self.staging.remove()
