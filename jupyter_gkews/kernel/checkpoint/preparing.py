"""The part of a save that looks at the namespace: its graph, written; its memory, laid out.

All that needs the objects is done here; what follows needs only the bytes at their addresses.
It changes nothing in the namespace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable

from . import chunks, compression, environment, functions, process_state
from .collect import CellOf, Collected, GraphFile, collect
from .commit import Staging
from .import_order import in_import_order
from .manifest import WITH_REFERENCES, Manifest
from .placeholders import Loss
from .store import CheckpointStore, as_typed
from .storing import Stored

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Subject:
    """What is saved, as `save` is told it; see there."""

    user_ns: dict[str, Any]
    checkpoint: str
    hidden: frozenset[str] = frozenset()
    extras: Mapping[str, Any] | None = None
    cell_of: CellOf | None = None
    name: str | None = None
    kernel: dict[str, Any] | None = None
    notebook: str | None = None


@dataclass
class Prepared:
    """The outcome of the graph pass: `got.writer.buffers` are to be stored; `manifest` lacks only
    what is known then. `got` keeps every saved object alive."""

    got: Collected
    manifest: Manifest


def complete(manifest: Manifest, stored: Stored, written: int) -> None:
    """Put into the manifest what storing the bytes has brought; `written`: bytes of all chunks that
    this save has written."""
    manifest.chunks, manifest.blocks, manifest.views = stored.chunks, stored.blocks, stored.views
    graph_bytes = manifest.graph["bytes"]
    manifest.references = stored.references
    if stored.references:
        manifest.format = max(manifest.format, WITH_REFERENCES)
    manifest.bytes = {
        "total": stored.bytes_total + graph_bytes,
        "written": written + graph_bytes,
        "referenced": stored.bytes_referenced,
    }


def settle_graph(
    manifest: Manifest,
    store: CheckpointStore,
    staging: Staging,
    compress: str,
    check: Callable[[], None],
) -> None:
    """Make the graph of `staging` durable; compressed first where `compress` says so.

    `check` is called often and may raise. Raises GkewsError: disk_full, store_not_writable.
    """

    def name_of(path: Path) -> str:
        return chunks.name_of_file(path, chunks.ALGORITHM)

    try:
        compression.pack(staging.graph, manifest, compress, check=check, name_of=name_of)
        chunks.fsync_file(staging.graph)
    except OSError as error:
        raise as_typed(error, store.root) from error


def prepare(
    subject: Subject,
    store: CheckpointStore,
    staging: Staging,
    *,
    progress: Progress,
    check: Callable[[], None],
    refused: Mapping[str, Loss],
) -> Prepared:
    """The graph pass, into graph.pkl of `staging`. `refused`: variables to write as placeholders.

    `check` is called often and may raise. Raises GkewsError: disk_full, store_not_writable.
    """
    captured = process_state.capture(subject.user_ns)
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    progress("graph", 0, 0)
    got = _collect(subject, store, staging, captured, progress, check, refused)
    captured.tell(got)
    state = dict(captured.state)
    state["sources"] = functions.sources(got.writer.source_files)
    state["devices"] = got.writer.buffers.devices()
    manifest = Manifest(
        id=subject.checkpoint,
        created=now.replace("+00:00", "Z"),
        name=subject.name,
        kernel=subject.kernel or {},
        notebook=subject.notebook,
        environment=environment.capture(),
        names=got.entries,
        variables=got.rows,
        process=captured.rows,
        lost=got.lost,
        rebuilt=got.rebuilt,
        kept=got.kept,
        modules=in_import_order(
            {**got.writer.modules, **dict.fromkeys(captured.modules)}, subject.user_ns
        ),
        state=state,
        graph={"name": got.file.name(), "bytes": got.file.tell()},
        pickle_buffers=got.writer.pickle_buffers,
    )
    return Prepared(got, manifest)


def _collect(
    subject: Subject,
    store: CheckpointStore,
    staging: Staging,
    captured: process_state.Captured,
    progress: Progress,
    check: Callable[[], None],
    refused: Mapping[str, Loss],
) -> Collected:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(staging.graph, flags, 0o600), "wb", buffering=1 << 20) as opened:

        def check_and_tell() -> None:
            check()
            if file.tell():
                progress("graph", file.tell(), 0)

        file = GraphFile(opened, lambda error: as_typed(error, store.root), check_and_tell)
        return collect(
            subject.user_ns,
            hidden=subject.hidden,
            extras=subject.extras,
            objects=captured.objects,
            cell_of=subject.cell_of,
            file=file,
            check=check_and_tell,
            refused=refused,
        )
