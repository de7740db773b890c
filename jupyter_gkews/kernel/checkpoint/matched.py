"""What was found to stand in files, as references: which extents share a region, and its bounds.

Opens no file and compares nothing: matching.py has done that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import safetensors_files
from .buffers import Extent
from .candidates import Candidate, in_file
from .references import GRAIN, Reference, unchanged


@dataclass
class Matches:
    """What was found: references, for each extent (reference, offset in it), hashes just made."""

    references: list[Reference] = field(default_factory=list)
    placed: dict[int, tuple[int, int]] = field(default_factory=dict)
    checked: set[str] = field(default_factory=set)

    @property
    def nbytes(self) -> int:
        """Bytes that need not be written."""
        return sum(reference.used for reference in self.references)


def matched(extents: list[Extent], found: dict[int, Candidate]) -> Matches:
    """The references to what was `found` equal, by the extent's number. A file that changed
    meanwhile is not one of them."""
    matches = Matches()
    by_key: dict[Any, int] = {}
    for number in sorted(found):
        candidate, extent = found[number], extents[number]
        file = candidate.file
        now = safetensors_files.identity_of(file.real)
        if now is None or not unchanged(now, list(file.identity)):
            continue
        key, how, align = _place(candidate, extent)
        at = by_key.get(key)
        if at is None:
            at = by_key[key] = len(matches.references)
            matches.references.append(
                Reference(file.path, file.real, list(file.identity), 0, 0, how, align)
            )
        reference = matches.references[at]
        if candidate.cast is not None:
            reference.cast = list(candidate.cast)
        reference.names += [name for name in extent.names if name not in reference.names]
        matches.placed[number] = (at, candidate.offset)
        for offset, chunk in sorted(candidate.pieces.items()):
            where = candidate.offset + in_file(candidate, offset)
            reference.pieces.append([where, chunk.nbytes, chunk.name, chunk.quick])
            matches.checked.add(chunk.name)
        for offset, chunk in sorted(candidate.results.items()):
            reference.results.append([offset, chunk.nbytes, chunk.name, chunk.quick])
    for reference in matches.references:
        _trim(reference)
    for number, (at, offset) in list(matches.placed.items()):
        reference = matches.references[at]
        matches.placed[number] = (at, offset - reference.start)
    return matches


def _place(candidate: Candidate, extent: Extent) -> tuple[Any, str, int]:
    """(what shares one region, how, align): memory that was one map, and memory that goes on
    to a device anyway, is one region a file; everything else is its own."""
    if candidate.cast is not None:
        return extent.number, "read", extent.address % 64
    if candidate.mapped:
        return (candidate.mapped, candidate.file.real), "map", 0
    if extent.space:
        return ("", candidate.file.real), "map", 0
    # The last digits of a sum may depend on the alignment: it must stay what it was.
    if extent.address % 64 == candidate.offset % 64:
        return extent.number, "map", 0
    return extent.number, "read", extent.address % 64


def _trim(reference: Reference) -> None:
    """The region is no larger than what is used of the file."""
    first = min(piece[0] for piece in reference.pieces)
    end = max(piece[0] + piece[1] for piece in reference.pieces)
    reference.start = first // GRAIN * GRAIN if reference.how == "map" else first
    reference.nbytes = end - reference.start
    reference.pieces = [[at - reference.start, *rest] for at, *rest in sorted(reference.pieces)]
