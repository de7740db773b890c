"""The part of a save that needs only bytes at addresses: hashed, and written where they are new.

Runs in the kernel's process while it waits, or in a forked image of it (forked.py) while the user
goes on; so it touches no object of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from .buffers import Buffers, Layout
from .commit import Staging
from .known import KNOWN
from .matched import Matches
from .matching import match
from .store import CheckpointStore, as_typed
from .writing import ChunkWriter, Placed

#: `progress(bytes_done, bytes_total)`
Progress = Callable[[int, int], None]
Meanwhile = Callable[[Layout, Callable[[], bool]], None]


@dataclass
class Stored:
    """What has become of the bytes, in values that JSON can carry; for the manifest `chunks`,
    `blocks`, `references` and `views`. `new`: chunks to install; `trusted`: those that this
    process wrote or checked; sizes in bytes; `learnt`: what KNOWN learnt meanwhile."""

    chunks: list[list[Any]] = field(default_factory=list)
    blocks: list[list[int]] = field(default_factory=list)
    references: list[dict[str, Any]] = field(default_factory=list)
    views: list[list[int]] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    bytes_total: int = 0
    bytes_written: int = 0
    bytes_referenced: int = 0
    learnt: list[list[Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """For the pipe of a forked image."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stored:
        """What `to_json` made; KNOWN of this process learns what the image learnt."""
        stored = cls(**data)
        KNOWN.learn(stored.learnt)
        return stored


def store_bytes(
    buffers: Buffers,
    store: CheckpointStore,
    staging: Staging,
    *,
    check: Callable[[], None],
    progress: Progress,
    meanwhile: Meanwhile | None = None,
    reference_files: bool = True,
    in_place: bool = False,
    placed: list[Placed] | None = None,
    still: bool = False,
) -> Stored:
    """Write the memory of `buffers`, and return what the manifest needs of it. With
    `reference_files`, what stands in files of weights is compared with them instead. `in_place`
    and `placed` as in `save`. `still`: nobody writes to the memory meanwhile.

    `check` is called often and may raise, `meanwhile(layout, done)` once, when the threads are at
    work; `done()` says whether they have ended, and calls `check`. Raises GkewsError: disk_full,
    store_not_writable; no thread is left at work then.
    """
    KNOWN.note_learning()
    matches = Matches()
    if reference_files:
        total = buffers.nbytes()
        matches = match(
            buffers.extents(),
            store.root,
            check,
            lambda done: progress(done, total),
            copies=not in_place,
            still=still,
        )
    layout = buffers.layout(matches.placed, in_place=in_place)
    writer = ChunkWriter(store, staging.chunks, layout)
    beside = matches.nbytes

    def done() -> bool:
        check()
        progress(beside + writer.bytes_done, beside + writer.bytes_total)
        return writer.wait(0)

    try:
        writer.start()
        if meanwhile is not None:
            meanwhile(layout, done)
        while not writer.wait(0.05):
            done()
    finally:
        writer.stop()
    if writer.error is not None:
        error = writer.error
        raise as_typed(error, store.root) if isinstance(error, OSError) else error
    progress(beside + writer.bytes_done, beside + writer.bytes_total)
    table, blocks = writer.tables()
    if placed is not None:
        placed[:] = writer.placed()
    return Stored(
        chunks=table,
        blocks=blocks,
        references=[reference.to_json() for reference in matches.references],
        views=[list(view) for view in layout.views],
        new=list(writer.new),
        trusted=sorted(writer.trusted | matches.checked),
        bytes_total=beside + writer.bytes_total,
        bytes_referenced=beside,
        bytes_written=writer.bytes_written,
        learnt=KNOWN.learnt(),
    )
