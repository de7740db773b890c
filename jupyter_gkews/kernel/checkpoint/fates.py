"""What would survive a pause now: the fate of every variable and of the process. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import process_state
from .candidates import Candidates
from .collect import CellOf, GraphFile, collect
from .known import KNOWN
from .store import CheckpointStore


def survives(
    user_ns: dict[str, Any],
    store: CheckpointStore,
    *,
    hidden: frozenset[str] = frozenset(),
    extras: Mapping[str, Any] | None = None,
    cell_of: CellOf | None = None,
    reference_files: bool = True,
    in_place: bool = False,
) -> dict[str, Any]:
    """{"variables", "process", "bytes"} as in the wire shapes. Sizes in bytes.

    A variable's `bytes` are those that no variable before it holds: two names for one model
    count once. `already_stored` is told by the places in memory that were saved or restored
    before, without reading them: what was changed there since will be written all the same, so
    it is an upper bound (and `to_write` a lower one). `referenced`: bytes that probably stand in
    files of weights, which a save will compare. `reference_files`, `in_place` as in `save`.
    """
    captured = process_state.capture(user_ns)
    got = collect(
        user_ns,
        hidden=hidden,
        extras=extras,
        objects=captured.objects,
        cell_of=cell_of,
        file=GraphFile(),
        check=lambda: None,
        flush=False,
    )
    captured.tell(got)
    extents = got.writer.buffers.extents()
    likely: set[int] = set()
    if reference_files:
        candidates = Candidates(extents, store.root, copies=not in_place)
        candidates.look()
        likely = candidates.likely()
    referenced = sum(extents[number].nbytes for number in likely)
    layout = got.writer.buffers.layout(dict.fromkeys(likely, (0, 0)), in_place=in_place)
    total = stored = 0
    for block in layout.blocks:
        total += block.nbytes
        if len(block.pieces) == 1:
            piece = block.pieces[0]
            stored += KNOWN.stored_bytes(piece.address - piece.offset, block.nbytes, store)
    total += got.file.tell()
    return {
        "variables": got.rows,
        "process": captured.rows,
        "bytes": {
            "kept": total + referenced,
            "to_write": total - stored,
            "already_stored": stored,
            "referenced": referenced,
        },
    }
