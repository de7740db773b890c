"""Numbers that are not a number: found by identity, so which of them one is must come back.

The pickler writes floats before it asks anybody. So a graph is written as ever; only a name in
whose bytes a NaN seems to stand is written again by the pickler here, which asks for each object.
"""

from __future__ import annotations

import math
import pickle
import struct
import sys
from typing import Any, Callable

#: How a NaN stands in a graph: the opcode of a float, sign and exponent (the quiet ones).
_MARKS = (b"G\x7f\xf8", b"G\xff\xf8")
#: Numbers of those that are found again in a module.
_OF_MATH, _OF_NUMPY, _FIRST_OWN = 0, 1, 2
_BITS = 64
#: The pickler hands on the bytes of one big object by themselves, from 64 KiB on; smaller pieces
#: may be opcodes without a frame.
_PIECE = 1 << 16
_PROTOCOL, _FRAME = b"\x80\x05", b"\x95"
#: What may follow a frame in its piece: the opcode and the length of bytes that come by themselves.
_OPCODE = 9


def may_hold(data: Any) -> bool:
    """Whether this piece of a graph, as the pickler hands it on, may hold a NaN."""
    if type(data) is not bytes or (len(data) >= _PIECE and not _is_frame(data)):
        return False
    return any(mark in data for mark in _MARKS)


def _is_frame(data: bytes) -> bool:
    """Whether a piece is opcodes (a long int may make it big), not the bytes of one object."""
    start = len(_PROTOCOL) if data.startswith(_PROTOCOL) else 0
    length = int.from_bytes(data[start + 1 : start + 9], "little")
    rest = len(data) - start - 9 - length
    return data[start : start + 1] == _FRAME and 0 <= rest <= _OPCODE


def known() -> dict[int, int]:
    """By id, the number of each NaN that is found again in a module."""
    found = {id(math.nan): _OF_MATH}
    numpy: Any = sys.modules.get("numpy")
    if type(getattr(numpy, "nan", None)) is float:
        found[id(numpy.nan)] = _OF_NUMPY
    return found


class Nans:
    """The NaNs of one graph, as they are met: each keeps its number."""

    def __init__(self) -> None:
        self._numbers = known()
        self._kept: list[float] = []

    def persistent(self, obj: Any) -> int | None:
        """What a NaN is written as; None for all else."""
        if type(obj) is not float or obj == obj:
            return None
        number = self._numbers.get(id(obj))
        if number is None:
            number = self._numbers[id(obj)] = _FIRST_OWN + len(self._kept)
            self._kept.append(obj)
        if number < _FIRST_OWN:
            return number
        (bits,) = struct.unpack("<Q", struct.pack("<d", obj))
        return (number << _BITS) | int(bits)


class ExactPickler(pickle.Pickler):
    """Appends pickles to `file` as the GraphWriter does, but for NaNs, which it writes by which
    one they are. `describe` is what an object that is no plain builtin is written as."""

    def __init__(
        self,
        file: Any,
        memo: Any,
        *,
        nans: Nans,
        describe: Callable[[Any], Any],
        buffer_callback: Callable[[pickle.PickleBuffer], Any],
    ) -> None:
        super().__init__(file, 5, buffer_callback=buffer_callback)
        self.memo = memo
        self._nans = nans
        vars(self)["reducer_override"] = describe  # where the C pickler looks for it

    def persistent_id(self, obj: Any) -> int | None:
        """Called by the C pickler for every object."""
        if type(obj) is float and obj != obj:
            return self._nans.persistent(obj)
        return None


class Found:
    """The NaNs of one graph, as it is read: one float for each number."""

    def __init__(self) -> None:
        self._made: dict[int, float] = {}

    def load(self, number: int) -> float:
        """The NaN of a number."""
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = self._new(number)
        return made

    def _new(self, number: int) -> float:
        if number == _OF_MATH:
            return math.nan
        if number == _OF_NUMPY:
            numpy: Any = sys.modules.get("numpy")
            return numpy.nan if numpy is not None else math.nan
        made: float = struct.unpack("<d", struct.pack("<Q", number & (1 << _BITS) - 1))[0]
        return made
