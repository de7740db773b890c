"""A save during which the user goes on: captured at one moment, written from an image of it.

`capture` is all that the namespace is needed for; `finish` may run on any thread and touches no
object of the user's. Until its last rename the store looks as it did before.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any, Callable

from ...errors import GkewsError
from . import forkable
from .blas_pools import StillComputingError, no_pool_in_use
from .buffers import Layout
from .collect import variables
from .commit import Staging
from .compression import check_way
from .early_hashes import EarlyHashes
from .forked import Image, ImageLostError
from .import_order import likely_modules
from .judging import judge
from .manifest import Manifest
from .placeholders import Loss
from .preparing import Prepared, Progress, Subject, complete, prepare, settle_graph
from .proof import LOOK_S, Proof
from .rebuilders.waiting import other_threads
from .store import CheckpointStore
from .storing import Stored, store_bytes


class NotInBackgroundError(Exception):
    """This namespace must be saved while its kernel waits. The message is a clause: why."""


class SaveAgainError(Exception):
    """The captured moment did not become a checkpoint; the namespace must be saved again, while its
    kernel waits. The message is a clause: why; `refused` and `doubted` as in `save`."""

    def __init__(
        self,
        why: str,
        refused: dict[str, Loss] | None = None,
        doubted: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(why)
        self.refused, self.doubted = refused or {}, doubted


class BackgroundSave:
    """One such save. `capture`, then `finish` or `give_up`."""

    def __init__(
        self,
        subject: Subject,
        store: CheckpointStore,
        *,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
        prove: str = "scratch",
        reference_files: bool = True,
        compress: str = "none",
        in_place: bool = False,
        early: EarlyHashes | None = None,
    ) -> None:
        """Parameters as those of `save`; `progress` and `cancelled` are called on both threads.
        `early`: hashes that are being made, which end with the capture."""
        self._subject: Subject | None = subject
        self._store = store
        self._progress = progress or (lambda step, done, total: None)
        self._cancelled = cancelled or (lambda: False)
        self._proof = Proof(prove, store)
        self._compress = check_way(compress)
        self._reference_files, self._in_place = reference_files, in_place
        self._staging = Staging(store, subject.checkpoint)
        self._early = early
        self._open = contextlib.ExitStack()
        self._key = b""
        self._image: Image | None = None
        self._manifest: Manifest | None = None
        self._modules: list[str] = []
        self._threads: list[str] = []
        self._seconds: dict[str, float] = {}
        self.fork_s = 0.0
        """How long the fork itself took (seconds)."""

    def _check(self) -> None:
        if self._cancelled():
            raise GkewsError(
                "cancelled",
                "The checkpoint was cancelled.",
                "The kernel and all earlier checkpoints are as they were.",
            )

    # ---- while the kernel waits ----

    def capture(self) -> None:
        """Describe the namespace and fork. Nothing of it is kept alive afterwards.

        Raises NotInBackgroundError, GkewsError as `save` does; nothing is left then.
        """
        if (why := forkable.why_not()) is not None:
            raise NotInBackgroundError(why)
        subject = self._subject
        assert subject is not None
        self._subject = None
        self._threads = other_threads()
        started = time.monotonic()
        try:
            self._key = self._store.prepare()
            with self._store.writing():
                self._open.enter_context(self._store.saving())
                self._staging.make()
                prepared = prepare(
                    subject,
                    self._store,
                    self._staging,
                    progress=self._progress,
                    check=self._check,
                    refused={},
                )
            buffers = prepared.got.writer.buffers
            if devices := set(buffers.devices().values()):
                raise NotInBackgroundError(f"part of it is on {', '.join(sorted(devices))}")
            shared = forkable.shared_ranges(buffers.ranges())
            size = sum(end - start for start, end in shared)
            if size > forkable.SHARED_LIMIT:
                raise NotInBackgroundError(
                    f"{size / 1e9:.1f} GB of it are memory that other processes share, of which a "
                    "copied process keeps no state"
                )
            self._modules = likely_modules(variables(subject.user_ns, subject.hidden))
            self._manifest = prepared.manifest
            work = partial(self._in_the_image, prepared, subject.user_ns)
            self._progress("writing", 0, 0)
            if self._early is not None:  # all cores are the image's now, which knows what it found
                self._early.end()
            try:
                with no_pool_in_use():
                    self._image = Image(work, shared)
            except StillComputingError as error:
                raise NotInBackgroundError(str(error)) from error
            except OSError as error:
                raise NotInBackgroundError(f"the process could not be copied: {error}") from error
            self.fork_s = self._image.fork_s
        except BaseException:
            self.give_up()
            raise
        self._seconds["graph"] = time.monotonic() - started

    # ---- in the image ----

    def _in_the_image(
        self,
        prepared: Prepared,
        user_ns: dict[str, Any],
        check: Callable[[], None],
        progress: Callable[[int, int], None],
    ) -> dict[str, Any]:
        """Store the bytes and take the fingerprints: both only look."""

        def look(layout: Layout, done: Callable[[], bool]) -> None:
            until = time.monotonic() + LOOK_S

            def late() -> bool:
                return done() and time.monotonic() > until

            self._proof.look(user_ns, prepared.got, layout, late)

        stored = store_bytes(
            prepared.got.writer.buffers,
            self._store,
            self._staging,
            check=check,
            progress=progress,
            meanwhile=look,
            reference_files=self._reference_files,
            in_place=self._in_place,
            still=True,  # this is an image: no thread of the user's runs in it
        )
        return {"stored": stored.to_json(), "seen": self._proof.seen()}

    # ---- while the user goes on ----

    def finish(self, *, wait: bool = True) -> dict[str, Any]:
        """Write, prove, commit; returns the summary, as `save` does. Without `wait` the image may
        not be gone then, whose memory the system takes a while to take apart: `give_up` later.

        Raises SaveAgainError, GkewsError as `save` does; nothing is left in the store then.
        """
        assert self._manifest is not None and self._image is not None
        manifest = self._manifest
        manifest.seconds = self._seconds
        try:
            with self._store.writing():
                began = time.monotonic()
                self._proof.start(self._modules)
                settle_graph(manifest, self._store, self._staging, self._compress, self._check)
                writing = partial(self._progress, "writing")
                try:
                    told = self._image.outcome(self._check, writing)
                except ImageLostError as error:
                    raise SaveAgainError(f"the copied process was lost: {error}") from error
                stored = Stored.from_json(told["stored"])
                self._proof.take_over(told["seen"])
                complete(manifest, stored, stored.bytes_written)
                began = self._lap("writing", began)
                self._prove(manifest, stored)
                began = self._lap("verifying", began)
                self._check()
                total = manifest.bytes["total"]
                self._progress("committing", total, total)
                self._proof.done()
                self._staging.install(stored.new)
                self._lap("committing", began)
                manifest.proved = self._proof.told()
                self._staging.commit(manifest, self._key)
        except BaseException:
            self.give_up()
            raise
        if wait:
            self.give_up()
        else:
            self._close()
        return manifest.summary()

    def _prove(self, manifest: Manifest, stored: Stored) -> None:
        total = manifest.bytes["total"]
        self._progress("verifying", 0, total)
        verdict = self._proof.prove(
            manifest,
            self._staging.path,
            set(stored.trusted),
            write_manifest=lambda: self._staging.write_manifest(manifest, self._key),
            check=self._check,
            progress=lambda done: self._progress("verifying", done, total),
        )
        self._progress("verifying", total, total)
        wanting = judge(verdict, manifest)
        if not wanting:
            return
        why = f"a test load failed at {', '.join(wanting)}"
        if verdict.died_at is None and self._threads:
            # one may have changed them between the graph and the image: they are looked at again
            raise SaveAgainError(why, doubted=frozenset(wanting))
        raise SaveAgainError(why, wanting)

    def _lap(self, step: str, began: float) -> float:
        now = time.monotonic()
        self._seconds[step] = now - began
        return now

    def give_up(self) -> None:
        """End the image, and remove what was written; nothing after a commit. May be called
        again."""
        if self._early is not None:
            self._early.end()
        if self._image is not None:
            self._image.end()
        self._close()

    def _close(self) -> None:
        self._proof.close()
        self._staging.remove()
        self._open.close()
