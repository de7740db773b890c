"""References: weights that a checkpoint does not hold but finds in a safetensors file.

Says what is missing before anything is loaded, and gives the memory back, checked against the
hashes that the save noted. It never writes to such a file and hands out no byte that differs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

from ...errors import GkewsError
from . import casts, chunks, mapping, safetensors_files
from .chunks import Chunk
from .safetensors_files import Identity

#: Maps begin at multiples of this: of every page size there is. Bytes.
GRAIN = 1 << 16


class ReferenceLostError(Exception):
    """Memory was asked for whose file is gone; the message is a clause for its loss."""


@dataclass
class Reference:
    """One region of memory that comes from a file.

    `start`, `nbytes`: where in the file the region lies (`start` a multiple of GRAIN where `how`
    is "map"). `how`: "map" maps the file privately, so that the weights cost no memory of the
    process; "read" reads it, to an address that is `align` bytes past a multiple of 64, as it was
    when it was saved; with `cast` ([from, to]) it is read and cast. `pieces`: [offset from `start`,
    bytes, name, xxh3-128] of what is used of the file; `results`: for a cast the same of what the
    process held. `names`: variables that use it.
    """

    path: str
    real: str
    identity: list[int]
    start: int
    nbytes: int
    how: str = "map"
    align: int = 0
    cast: list[str] | None = None
    pieces: list[list[Any]] = field(default_factory=list)
    results: list[list[Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Reference:
        """What `to_json` wrote, also by a later version that says more."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})

    @property
    def used(self) -> int:
        """Bytes that the process holds of it."""
        return sum(int(piece[1]) for piece in self.results or self.pieces)

    @property
    def size(self) -> int:
        """Bytes of the region as the process has it."""
        if self.cast is None:
            return self.nbytes
        source, target = (casts.FLOATS[dtype][0] for dtype in self.cast)
        return self.nbytes // source * target


@dataclass
class Problem:
    """Why a file cannot be used, with what depends on it: for the user."""

    path: str
    reason: str
    names: list[str]
    nbytes: int

    def to_json(self) -> dict[str, Any]:
        """For REST."""
        return {
            "path": self.path,
            "reason": self.reason,
            "names": self.names,
            "bytes": self.nbytes,
            "hint": how_to_get(self.path),
        }


def how_to_get(path: str) -> str:
    """What brings a file back."""
    source = safetensors_files.source_of(path)
    if source is None:
        return f"Bring {path} back as it was, from a backup say."
    repository, revision, name = source
    return f"Download it again: hf download {repository} {name} --revision {revision}"


# ---- before anything is loaded ----


def files_of(references: Iterable[Reference]) -> list[dict[str, Any]]:
    """The files that a checkpoint refers to, each once: [{"path", "bytes", "names", "problem"}].
    `problem`: what is wrong with it, as far as can be told without reading it, or None."""
    references = list(references)
    wrong = {problem.path: problem.reason for problem in problems(references, look=False)}
    found: dict[str, dict[str, Any]] = {}
    for each in references:
        row = found.setdefault(each.path, {"path": each.path, "bytes": 0, "names": []})
        row["problem"] = wrong.get(each.path)
        row["bytes"] += each.used
        row["names"] += [name for name in each.names if name not in row["names"]]
    return list(found.values())


def problems(
    references: Iterable[Reference], stop: Callable[[], bool] = lambda: False, look: bool = True
) -> list[Problem]:
    """What is wrong with the files now; a file that is the same by its identity counts as good.

    With `look` one that was touched or moved is read and its hashes compared; without, only what
    can be told without reading it. `stop()` ends that early.
    """
    by_file: dict[str, list[Reference]] = {}
    for each in references:
        by_file.setdefault(each.path, []).append(each)
    found = []
    for path, group in by_file.items():
        reason = _problem(group, look, stop)
        if reason is not None:
            names = list(dict.fromkeys(name for each in group for name in each.names))
            found.append(Problem(path, reason, names, sum(each.used for each in group)))
    return found


def _problem(group: list[Reference], look: bool, stop: Callable[[], bool]) -> str | None:
    reason = ""
    for path in candidates(group[0]):
        identity = safetensors_files.identity_of(path)
        if identity is None:
            continue
        if unchanged(identity, group[0].identity):
            return None
        if identity.size < max(_end(each) for each in group):
            reason = reason or "it is shorter than it was"
            continue
        if not look:
            return None  # whoever loads it reads it
        try:
            with open(path, "rb", buffering=0) as file:
                if all(_same(file, piece) for each in group for piece in _places(each, stop)):
                    return None
            reason = reason or "it was changed since the checkpoint was written"
        except OSError as error:
            reason = reason or f"it cannot be read ({error.strerror})"
    return reason or "it is not there any more"


def unchanged(identity: Identity, noted: list[int]) -> bool:
    """Whether a file is the one that was noted, as far as can be told without reading it. Not by
    the number of the device: that of a network disk is another one after each mount."""
    return list(identity[1:]) == list(noted[1:])


def candidates(reference: Reference) -> Iterator[str]:
    """Where the file may be, the likeliest place first."""
    yield reference.path
    if reference.real != reference.path:
        yield reference.real
    yield from safetensors_files.elsewhere(reference.path, reference.real)


def _end(reference: Reference) -> int:
    return max((reference.start + piece[0] + piece[1] for piece in reference.pieces), default=0)


def _places(reference: Reference, stop: Callable[[], bool]) -> Iterator[tuple[int, Chunk]]:
    for offset, nbytes, name, quick in reference.pieces:
        if stop():
            return
        yield reference.start + offset, Chunk(name, nbytes, quick)


def _same(file: Any, place: tuple[int, Chunk]) -> bool:
    offset, chunk = place
    data = bytearray(chunk.nbytes)
    return read_into(file, offset, data) and chunks.matches(data, chunk, full=False)


def read_into(file: Any, offset: int, buffer: Any) -> bool:
    """Fill `buffer` from an unbuffered file; False if the file ends before. Raises OSError. Never
    by a map, which ends the process if somebody shortens the file meanwhile."""
    view = memoryview(buffer).cast("B")
    if hasattr(os, "preadv"):
        while view:
            got = os.preadv(file.fileno(), [view], offset)
            if not got:
                return False
            view, offset = view[got:], offset + got
        return True
    file.seek(offset)
    while view:
        got = file.readinto(view)
        if not got:
            return False
        view = view[got:]
    return True


def missing(checkpoint: str, found: list[Problem]) -> GkewsError:
    """`weights_missing`: what a resume says before it starts."""
    files = "; ".join(
        f"{problem.path}: {problem.reason} (used by {_names(problem.names)})"
        for problem in found[:3]
    )
    if len(found) > 3:
        files += f"; and {len(found) - 3} more files"
    ways = list(dict.fromkeys(how_to_get(problem.path) for problem in found[:3]))
    return GkewsError(
        "weights_missing",
        f"Checkpoint {checkpoint} refers to weights in files that are not as they were. {files}.",
        f"Nothing was started and the checkpoint is kept. {' '.join(ways)} Then resume again; or "
        "resume without them (accept_missing): what needs them is lost, everything else comes "
        "back.",
    )


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:5]) or "no variable"
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


# ---- as memory ----


class ReferencedMemory:
    """The memory of one reference. `open` it, hand out no `view` before `check` has returned."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.path = reference.path
        self._block: mapping.BlockMemory | None = None

    @property
    def needs_imports(self) -> bool:
        """Whether it is cast, which a library does that must have been imported."""
        return self.reference.cast is not None

    @property
    def there(self) -> bool:
        """Whether it was loaded."""
        return self._block is not None

    def load(self, *, full: bool, trusted: bool, stop: Callable[[], bool]) -> None:
        """Open the file where it is and check it, by the quick hashes or with `full` by the names;
        with `trusted` a file that is the noted one is not read for it.

        Raises ReferenceLostError; nothing may be handed out then.
        """
        reason = ""
        for path in candidates(self.reference):
            identity = safetensors_files.identity_of(path)
            if identity is None:
                continue
            if identity.size < _end(self.reference):
                reason = reason or "it is shorter than it was"
                continue
            same = unchanged(identity, self.reference.identity)
            try:
                wrong = self._open(path, full, trusted and same, stop)
            except (OSError, mapping.CannotMapError) as error:
                wrong = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
            except LookupError as error:
                wrong = str(error)
            if wrong is None:
                self.path = path
                safetensors_files.note(path)
                return
            self._block = None
            reason = reason or wrong
        reason = reason or "it is not there any more"
        raise ReferenceLostError(f"its weights are in {self.reference.path}: {reason}")

    def _open(self, path: str, full: bool, trusted: bool, stop: Callable[[], bool]) -> str | None:
        """None, or what is wrong with the file."""
        each = self.reference
        if each.how == "map":
            self._block = mapping.map_range(path, each.start, each.nbytes)
        elif trusted and each.cast is None:
            # A test load computes nothing with it: no memory is worth its alignment.
            shift = each.start % GRAIN
            mapped = mapping.map_range(path, each.start - shift, each.nbytes + shift)
            self._block = mapping.BlockMemory(mapped.address + shift, each.nbytes, 0, mapped)
            return None
        else:
            self._block = _anonymous(each.size, each.align)
        with open(path, "rb", buffering=0) as file:
            for number, (offset, nbytes, name, quick) in enumerate(each.pieces):
                if stop():
                    raise ReferenceLostError("the load was ended")
                chunk = Chunk(name, nbytes, quick)
                if each.how == "map":
                    data = self._view(offset, nbytes)
                elif each.cast is None:
                    data = self._view(offset, nbytes)
                    if not read_into(file, each.start + offset, data):
                        return "it is shorter than it was"
                else:
                    data = memoryview(bytearray(nbytes))
                    if not read_into(file, each.start + offset, data):
                        return "it is shorter than it was"
                if not trusted and not chunks.matches(data, chunk, full=full):
                    return "it was changed since the checkpoint was written"
                if each.cast is not None and not self._cast(data, number, full):
                    return f"a cast from {each.cast[0]} to {each.cast[1]} gives other numbers here"
        return None

    def _cast(self, data: Any, number: int, full: bool) -> bool:
        assert self.reference.cast is not None
        source, target = self.reference.cast
        offset, nbytes, name, quick = self.reference.results[number]
        result = casts.cast(data, source, target)
        if not chunks.matches(result, Chunk(name, nbytes, quick), full=full):
            return False
        self._view(offset, nbytes)[:] = result
        return True

    def _view(self, offset: int, nbytes: int) -> memoryview:
        return memoryview(self.block.view(offset, nbytes)).cast("B")

    @property
    def block(self) -> mapping.BlockMemory:
        """The memory, once it was loaded."""
        if self._block is None:
            raise ReferenceLostError(f"its weights are in {self.reference.path}")
        return self._block

    def ranges(self) -> Iterator[tuple[int, int, Chunk]]:
        """(address, nbytes, chunk) of what is there, for a later save."""
        if self._block is not None:
            for offset, nbytes, name, quick in self.reference.results or self.reference.pieces:
                yield self._block.address + offset, nbytes, Chunk(name, nbytes, quick)


def _anonymous(nbytes: int, align: int) -> mapping.BlockMemory:
    data = mmap.mmap(-1, max(1, nbytes + align))
    anchor = (ctypes.c_char * (nbytes + align)).from_buffer(data)
    return mapping.BlockMemory(ctypes.addressof(anchor) + align, nbytes, 0, anchor)
