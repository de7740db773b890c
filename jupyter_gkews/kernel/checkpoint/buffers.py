"""The memory that leaves the pickle: ranges of bytes, merged where they overlap, in blocks.

While the graph is pickled, arrays and storages register the ranges they stand on. Ranges that
overlap belong to one memory (a view and its base, `torch.from_numpy`), so they are merged and
come back as one. It never copies or reads the memory itself.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: A block of its own from this size on; smaller ranges are packed together, so that thousands
#: of small arrays are not thousands of files. Bytes.
BIG = 1 << 20
#: Ranges in a pack start at multiples of this: what SIMD code and numpy's own allocator expect.
ALIGN = 64
#: One pack: small, so that one changed number costs little to write again. Bytes.
PACK = 4 << 20


@dataclass
class View:
    """One use of a range of memory, `space` being "" for host memory, else the device."""

    space: str
    address: int
    nbytes: int


@dataclass
class Piece:
    """A merged range, `offset` bytes from the start of its block."""

    space: str
    address: int
    nbytes: int
    offset: int
    owner: Any


@dataclass
class Block:
    """What is restored as one contiguous region of memory: one big range, or many small."""

    pieces: list[Piece] = field(default_factory=list)
    nbytes: int = 0


@dataclass(frozen=True)
class Extent:
    """Merged views: `nbytes` bytes at `address`, used by the variables `names`. `owner`: the torch
    storage, for device memory."""

    number: int
    space: str
    address: int
    nbytes: int
    owner: Any
    names: tuple[str, ...]


@dataclass
class Layout:
    """Blocks to write, and for each view (block, offset, nbytes, alone). A block of -1 - r is
    reference r, which is not written.

    `alone`: 1 where the range is small and nothing else looks at it, so that the reader may give
    it memory of its own (which can be resized, as the original could).
    """

    blocks: list[Block]
    views: list[tuple[int, int, int, int]]
    #: (reference, offset in it, space, address, nbytes) of what is not written
    elsewhere: list[tuple[int, int, str, int, int]] = field(default_factory=list)
    #: (block, offset) of ranges that only objects look at which copy their bytes at a load: they
    #: do not stand where these are read from
    copied: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class _Group:
    """Views that share memory: from `start` to `end`, by index in `members`."""

    space: str
    start: int
    end: int
    members: list[int]

    def takes(self, view: View) -> bool:
        if view.space != self.space:
            return False
        if self.space:  # a device storage is read through its own handle: never merged
            return (view.address, view.address + view.nbytes) == (self.start, self.end)
        return view.address < self.end


class Buffers:
    """The ranges met while pickling one namespace. Keeps their owners alive until dropped."""

    def __init__(self) -> None:
        self._views: list[View] = []
        self._owners: list[Any] = []
        self._index: dict[tuple[str, int, int, str, bool], int] = {}
        self._copied: set[int] = set()  # views that are copied at a load
        self._shared: set[int] = set()  # views that several objects have: none has it alone
        self._unclaimed: set[int] = set()  # views of what was written and taken back
        self._names: dict[int, dict[str, None]] = {}  # of the variables that use a view
        self._groups: list[_Group] | None = None
        self.name = ""  # of the variable that is being written
        self._first: dict[tuple[str, int], int] = {}  # the first view that starts at a place

    def __len__(self) -> int:
        return len(self._views)

    def add(
        self,
        address: int,
        nbytes: int,
        owner: Any,
        consumer: str,
        space: str = "",
        *,
        copied: bool = False,
    ) -> int:
        """Register `nbytes` bytes at `address` and return the index of the view.

        `owner` is kept alive, so that the memory cannot be handed out again meanwhile; for
        device memory it is the torch storage that is read. `copied`: what looks at it takes a copy
        of the bytes at a load.
        """
        key = (space, address, nbytes, consumer, copied)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._views)
            self._first.setdefault((space, address), index)
            self._views.append(View(space, address, nbytes))
            self._owners.append(owner)
            if copied:
                self._copied.add(index)
            self._groups = None
        elif index not in self._unclaimed:
            self._shared.add(index)
        self._unclaimed.discard(index)
        self.use(index)
        return index

    def again(self, start: int) -> None:
        """What registered the views from index `start` on is not written after all, or again."""
        taken_back = set(range(start, len(self)))
        self._shared -= taken_back
        self._unclaimed |= taken_back

    def use(self, index: int) -> None:
        """The variable that is being written looks at this view."""
        if index >= 0:
            self._names.setdefault(index, {}).setdefault(self.name)

    def nbytes(self, start: int = 0) -> int:
        """Bytes of the views from index `start` on that start where no earlier view does."""
        total = 0
        for index, view in enumerate(self._views[start:], start):
            if self._first[view.space, view.address] == index:
                total += view.nbytes
        return total

    def devices(self) -> dict[str, str]:
        """The device of each view that is not host memory, by the view's index as a text."""
        return {str(i): view.space for i, view in enumerate(self._views) if view.space}

    def ranges(self) -> list[tuple[int, int]]:
        """(address, bytes) of every view of host memory."""
        return [(view.address, view.nbytes) for view in self._views if not view.space]

    def extents(self) -> list[Extent]:
        """The ranges, merged where they overlap, in the order of first registration."""
        found = []
        for number, group in enumerate(self._merged()):
            names: dict[str, None] = {}
            for member in group.members:
                names.update(self._names[member])
            owner = self._owners[group.members[0]]
            nbytes = group.end - group.start
            found.append(Extent(number, group.space, group.start, nbytes, owner, tuple(names)))
        return found

    def layout(
        self,
        elsewhere: Mapping[int, tuple[int, int]] | None = None,
        *,
        in_place: bool = False,
    ) -> Layout:
        """Lay the extents out in blocks; those in `elsewhere`, by number, are the part of a
        reference: (reference, offset). With `in_place` a big range of host memory begins in its
        block where it begins in its page, after zeros, so that its pages are those of the files."""
        return self._place(self._merged(), elsewhere or {}, in_place)

    def _merged(self) -> list[_Group]:
        if self._groups is not None:
            return self._groups
        order = sorted(
            range(len(self._views)),
            key=lambda i: (self._views[i].space, self._views[i].address, -self._views[i].nbytes),
        )
        groups: list[_Group] = []
        for i in order:
            view = self._views[i]
            end = view.address + view.nbytes
            last = groups[-1] if groups else None
            if last is not None and last.takes(view):
                last.end = max(last.end, end)
                last.members.append(i)
            else:
                groups.append(_Group(view.space, view.address, end, [i]))
        groups.sort(key=lambda group: min(group.members))
        self._groups = groups
        return groups

    def _place(
        self,
        groups: list[_Group],
        elsewhere: Mapping[int, tuple[int, int]],
        in_place: bool,
    ) -> Layout:
        blocks: list[Block] = []
        views: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)] * len(self._views)
        referenced: list[tuple[int, int, str, int, int]] = []
        copied: set[tuple[int, int]] = set()
        packs: dict[str, int] = {}  # the one that is being filled, by space
        for place, group in enumerate(groups):
            if place in elsewhere:
                reference, start = elsewhere[place]
                nbytes = group.end - group.start
                referenced.append((reference, start, group.space, group.start, nbytes))
                for i in group.members:
                    view = self._views[i]
                    at = start + view.address - group.start
                    views[i] = (-1 - reference, at, view.nbytes, 0)
                continue
            nbytes = group.end - group.start
            if nbytes >= BIG:
                number = len(blocks)
                offset = group.start % mmap.PAGESIZE if in_place and not group.space else 0
                blocks.append(Block())
            else:
                pack = packs.get(group.space, -1)
                if pack < 0 or blocks[pack].nbytes + nbytes > PACK:
                    pack = packs[group.space] = len(blocks)
                    blocks.append(Block())
                number = pack
                offset = -(-blocks[pack].nbytes // ALIGN) * ALIGN
            block = blocks[number]
            owner = self._owners[group.members[0]]
            block.pieces.append(Piece(group.space, group.start, nbytes, offset, owner))
            block.nbytes = offset + nbytes
            if self._copied.issuperset(group.members):
                copied.add((number, offset))
            alone = len(group.members) == 1 and nbytes < BIG and not group.space
            alone = alone and group.members[0] not in self._shared
            for i in group.members:
                view = self._views[i]
                views[i] = (number, offset + view.address - group.start, view.nbytes, int(alone))
        return Layout(blocks, views, referenced, copied)


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer: the only way to the address of a read-only buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def address_of(buffer: Any) -> int:
    """The address of a buffer's first element."""
    view = _PyBuffer()
    strided = 0x18  # PyBUF_STRIDES: also one with gaps
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), strided)
    address = view.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address
