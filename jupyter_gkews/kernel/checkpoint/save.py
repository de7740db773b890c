"""Saves a namespace as a checkpoint: written, proved, made durable, and only then visible.

Until the last rename nothing of it can be seen in the store; whatever fails or is cancelled
before leaves the namespace, the store and its checkpoints as they were.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
import types
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Callable

from ...errors import GkewsError
from . import chunks, functions, process_state
from .collect import CellOf, Collected, GraphFile, collect, variables
from .fingerprint import Fingerprints
from .manifest import Manifest, render
from .paths import holders
from .placeholders import Loss
from .proof import Scratch, Verdict
from .store import CheckpointStore, as_typed
from .writing import ChunkWriter, install

Progress = Callable[[str, int, int], None]

#: Objects looked through for others that hold what ended a test load, in all.
_LOOK_THROUGH = 1_000_000


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
    prove: bool = True,
) -> dict[str, Any]:
    """Save the variables of `user_ns` as `checkpoint` and return its summary.

    `hidden`: names not to save. `extras`: objects saved in the same graph, given back by
    `restore`. `cell_of(name)`: the execution count of the cell that made a name.
    `progress(step, bytes_done, bytes_total)` with the steps "graph", "writing", "verifying",
    "committing"; `cancelled()` is asked several times a second. `prove`: load it in a scratch
    process first, and take what does not come back there as lost.

    Raises GkewsError: cancelled, disk_full, store_not_writable, verification_failed,
    checkpoint_failed; nothing is left in the store then.
    """
    run = _Save(user_ns, store, checkpoint, hidden, extras, cell_of, progress, cancelled)
    key = store.prepare()
    with store.writing(), store.locked(shared=True, wait=True):
        try:
            if prove:
                run.start_scratch()
            run.make_staging()
            manifest = run.write_and_prove()
            manifest.name, manifest.kernel, manifest.notebook = name, kernel or {}, notebook
            run.commit(manifest, key)
        finally:
            run.clean_up()
    return manifest.summary()


class _Save:
    """One save on its way. Steps are methods, called in the order of `save`."""

    def __init__(
        self,
        user_ns: dict[str, Any],
        store: CheckpointStore,
        checkpoint: str,
        hidden: frozenset[str],
        extras: Mapping[str, Any] | None,
        cell_of: CellOf | None,
        progress: Progress | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self.user_ns = user_ns
        self.store = store
        self.checkpoint = checkpoint
        self.hidden = hidden
        self.extras = extras
        self.cell_of = cell_of
        self.progress = progress or (lambda step, done, total: None)
        self.cancelled = cancelled or (lambda: False)
        self.staging = store.directory(checkpoint).with_name(
            f".saving-{checkpoint}-{os.urandom(4).hex()}"
        )
        self.scratch: Scratch | None = None
        self.writer: ChunkWriter | None = None
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

    def start_scratch(self) -> None:
        """Start the scratch process; it imports while this process writes."""
        self.scratch = Scratch(_likely_modules(variables(self.user_ns, self.hidden)))

    def make_staging(self) -> None:
        """A directory of our own in the store, that is not listed."""
        if self.store.directory(self.checkpoint).exists():
            raise GkewsError(
                "checkpoint_failed",
                f"There is a checkpoint {self.checkpoint} already.",
                "It was not touched. Checkpoints are never overwritten.",
            )
        os.mkdir(self.staging, 0o700)
        os.mkdir(self.staging / "chunks", 0o700)

    def write_and_prove(self) -> Manifest:
        """Write everything; again without what a test load shows to be wanting."""
        refused: dict[str, Loss] = {}
        while True:
            self.check()
            captured = process_state.capture()
            got = self.collect(captured, refused)
            captured.tell_open_files(got.writer.reopened)
            self.lap("graph")
            manifest = self.write(got, captured)
            if self.scratch is None:
                return manifest
            wanting = self.prove(got, manifest)
            self.lap("verifying")
            if not wanting:
                return manifest
            if refused.keys() >= wanting.keys():  # refusing them did not help: each only once
                raise GkewsError(
                    "verification_failed",
                    f"A test load of the checkpoint kept failing (at {', '.join(wanting)}).",
                    "Nothing was released: the kernel and all earlier checkpoints are as they "
                    "were.",
                )
            refused.update(wanting)

    def collect(self, captured: process_state.Captured, refused: dict[str, Loss]) -> Collected:
        """The graph pass, into graph.pkl."""
        path = self.staging / "graph.pkl"
        self.progress("graph", 0, 0)
        opened: list[Any] = []

        def open_graph() -> GraphFile:
            for file in opened:
                file.close()
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            opened[:] = [os.fdopen(os.open(path, flags, 0o600), "wb", buffering=1 << 20)]
            return GraphFile(opened[0], lambda error: as_typed(error, self.store.root))

        try:
            got = collect(
                self.user_ns,
                hidden=self.hidden,
                extras=self.extras,
                objects=captured.objects,
                cell_of=self.cell_of,
                open_graph=open_graph,
                check=self.check,
                refused=refused,
            )
            opened[0].flush()
            os.fsync(opened[0].fileno())
        finally:
            for file in opened:
                file.close()
        return got

    def write(self, got: Collected, captured: process_state.Captured) -> Manifest:
        """Write the chunks, and the manifest in memory."""
        layout = got.writer.buffers.layout()
        self.writer = writer = ChunkWriter(self.store, self.staging / "chunks", layout)
        writer.start()
        prints = Fingerprints(self.user_ns, frozenset(got.writer.losses))
        self.expected = [prints.of(value) for value in got.values] if self.scratch else []
        while not writer.wait(0.05):
            self.check()
            self.progress("writing", writer.bytes_done, writer.bytes_total)
        if writer.error is not None:
            error = writer.error
            raise as_typed(error, self.store.root) if isinstance(error, OSError) else error
        self.progress("writing", writer.bytes_done, writer.bytes_total)
        self.new += writer.new
        self.written += writer.bytes_written
        self.trusted |= writer.trusted
        self.lap("writing")
        table, blocks = writer.tables()
        graph_bytes = got.file.tell()
        state = dict(captured.state)
        state["sources"] = functions.sources(got.writer.source_files)
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return Manifest(
            id=self.checkpoint,
            created=now.replace("+00:00", "Z"),
            environment=process_state.environment(),
            names=got.entries,
            variables=got.rows,
            process=captured.rows,
            lost=got.lost,
            rebuilt=got.rebuilt,
            kept=got.kept,
            modules=_in_import_order(got.writer.modules, self.user_ns),
            state=state,
            graph={"name": got.file.name(), "bytes": graph_bytes},
            chunks=table,
            blocks=blocks,
            views=[list(view) for view in layout.views],
            pickle_buffers=got.writer.pickle_buffers,
            bytes={
                "total": writer.bytes_total + graph_bytes,
                "written": self.written + graph_bytes,
            },
            seconds=self.seconds,
        )

    def prove(self, got: Collected, manifest: Manifest) -> dict[str, Loss]:
        """Let the scratch process load it; what is wanting comes back as losses by name."""
        assert self.scratch is not None
        total = manifest.bytes["total"]
        self.progress("verifying", 0, total)
        self.write_manifest(manifest, self.store.prepare())
        verdict = self.scratch.prove(
            self.store.root,
            self.checkpoint,
            self.staging,
            sorted(self.trusted),
            self.expected,
            self.check,
        )
        self.progress("verifying", total, total)
        return self.judge(got, manifest, verdict)

    def judge(self, got: Collected, manifest: Manifest, verdict: Verdict) -> dict[str, Loss]:
        """Take what failed to load into the fates; what differs must not stay as it is."""
        entries = got.entries
        if verdict.died_at is not None:
            if verdict.died_at >= len(entries):
                raise GkewsError(
                    "verification_failed",
                    "The test load of the checkpoint ended before it could be compared.",
                    "Nothing was released: the kernel and all earlier checkpoints are as they "
                    "were.",
                )
            self.scratch_again()
            name, value = entries[verdict.died_at]["name"], got.values[verdict.died_at]
            loss = Loss("an object", "loading it ends the process")
            refused = {name: loss}
            if gc.is_tracked(value):  # not None or a number, which is the same object everywhere
                # Whatever else holds this object ends it as well: one load tells of all of them.
                named = {entry["name"]: each for entry, each in zip(entries, got.values)}
                there = holders([(value, loss)], named, _LOOK_THROUGH, self.user_ns)
                refused.update(dict.fromkeys(there, loss))
            return refused
        failed = {failure["name"] for failure in verdict.failed}
        wanting = {}
        for position in verdict.differs:
            entry = entries[position]
            if entry["name"] in failed:
                continue
            if entry["kind"] in ("variable", "item"):
                reason = "it did not come back equal in a test load"
                wanting[entry["name"]] = Loss("an object", reason)
            else:
                text = "it did not come back equal in a test load"
                manifest.process.append({"what": entry["name"], "fate": "rebuilt", "reason": text})
        if not wanting and verdict.lenient:
            manifest.lenient = 1
            _take_failures(manifest, verdict.failed)
        return wanting

    def scratch_again(self) -> None:
        """A new scratch process for the one that ended."""
        if self.scratch is not None:
            self.scratch.close()
        self.start_scratch()

    def write_manifest(self, manifest: Manifest, key: bytes) -> None:
        """manifest.json in the staging directory, durable."""
        path = self.staging / "manifest.json"
        if path.exists():
            path.unlink()
        chunks.write_file(path, [render(manifest, key)])

    def commit(self, manifest: Manifest, key: bytes) -> None:
        """Make it durable and visible, in this order."""
        self.check()
        self.progress("committing", manifest.bytes["total"], manifest.bytes["total"])
        if self.scratch is not None:
            self.scratch.close()
            self.scratch = None
        install(self.store, self.staging / "chunks", self.new)
        os.rmdir(self.staging / "chunks")
        self.lap("committing")
        manifest.sequence = self.store.next_sequence()
        self.write_manifest(manifest, key)
        chunks.fsync_file(self.staging)
        final = self.store.directory(self.checkpoint)
        os.rename(self.staging, final)
        chunks.fsync_file(final.parent)

    def clean_up(self) -> None:
        """Whatever happened: no threads, no scratch process, no staging directory."""
        if self.writer is not None:
            self.writer.stop()
        if self.scratch is not None:
            self.scratch.close()
        shutil.rmtree(self.staging, ignore_errors=True)


def _take_failures(manifest: Manifest, failed: list[dict[str, Any]]) -> None:
    """Objects that did not load in the test: lost, each with its path and reason."""
    rows = {row["name"]: row for row in manifest.variables}
    for failure in failed:
        row = rows.get(failure["name"])  # None for an item of Out
        reason = f"{failure['what']}: {failure['reason']}"
        lost = {"name": failure["path"], "reason": reason, "cell": row["cell"] if row else None}
        if row is None:
            pass
        elif failure["path"] == failure["name"]:
            row.update(fate="lost", reason=reason)
        elif row["fate"] != "lost":
            note = f"all but {failure['path']}, {reason}"
            row.update(fate="rebuilt", reason=f"{row['reason']}; {note}" if row["reason"] else note)
        if lost["name"] not in {known["name"] for known in manifest.lost}:
            manifest.lost.append(lost)
    manifest.rebuilt = [
        {"name": row["name"], "reason": row["reason"], "cell": row["cell"]}
        for row in manifest.variables
        if row["fate"] == "rebuilt"
    ]
    manifest.kept = sum(row["fate"] == "kept" for row in manifest.variables)


def _likely_modules(names: Mapping[str, Any]) -> list[str]:
    """Modules that a test load will need, guessed from the values' types: in import order."""
    wanted: dict[str, None] = {}
    for value in names.values():
        # By the real type: isinstance would run the user's code (a property `__class__`).
        wanted.setdefault(_module_name(value) or str(type(value).__module__))
    return _in_import_order(wanted, {})


def _in_import_order(wanted: Mapping[str, Any], user_ns: Mapping[str, Any]) -> list[str]:
    """The modules of `wanted`, and the submodules of those bound in `user_ns`, as they were
    imported. `import a.b.c` binds only `a`, but a cell may go on to use `a.b.c`."""
    bound = {name for name in map(_module_name, list(user_ns.values())) if name}
    prefixes = tuple(f"{name}." for name in bound)
    found = []
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "builtins", "sys") or module is None:
            continue
        below = name.startswith(prefixes) and not any(p.startswith("_") for p in name.split("."))
        if name in wanted or name in bound or (below and getattr(module, "__spec__", None)):
            found.append(name)
    return found


def _module_name(value: Any) -> str | None:
    """The name under which a module is imported; None for anything else."""
    if not issubclass(type(value), types.ModuleType):
        return None
    name = str(value.__name__)
    return name if sys.modules.get(name) is value else None
