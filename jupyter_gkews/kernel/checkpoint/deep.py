"""A pickler without recursion, for what is nested too deeply for the C pickler.

Writes the same opcodes in the same order, so that any unpickler reads them (those never recurse).
It is slow, and what objects are written as is not decided here: graph.py tells it.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Callable, ClassVar

#: Levels that C code may recurse where the recursion limit is all that keeps it from overrunning
#: the C stack (up to Python 3.11): about 1 KiB a level, of the 8 MiB that a thread has.
_LEVELS = 2500
#: Items between two opcodes that add them to their container.
_BATCH = 1000
#: Objects between two looks for a cancel and at the size of the frame (in bytes).
_LOOK = 512
_FRAME = 1 << 16

Memo = dict[int, tuple[int, Any]]
Steps = Iterator[Any]

_Slow: Any = pickle._Pickler


def _long_get(number: int) -> bytes:
    return struct.pack("<cI", pickle.LONG_BINGET, number)


@contextmanager
def bounded_recursion() -> Iterator[None]:
    """Within this block C code that recurses raises RecursionError before the C stack ends, also
    where the user has raised the limit."""
    limit = sys.getrecursionlimit()
    if sys.version_info >= (3, 12) or limit <= _LEVELS:  # C code has a limit of its own since
        yield
        return
    depth = 0
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(min(limit, depth + _LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class DeepPickler(_Slow):  # type: ignore[misc]
    """Appends pickles to `file`, with `memo` as that of the C pickler that wrote before it.

    `describe(obj)` says what an object that is no plain builtin is written as (a reduce, or
    NotImplemented), `persistent(obj)` how a NaN is known (nans.py); `check()` is called often and
    may raise to stop.
    """

    def __init__(
        self,
        file: Any,
        memo: Memo,
        *,
        describe: Callable[[Any], Any],
        buffer_callback: Callable[[pickle.PickleBuffer], Any],
        persistent: Callable[[Any], Any],
        check: Callable[[], None],
    ) -> None:
        super().__init__(file, 5, buffer_callback=buffer_callback)
        self.memo = memo
        self._describe = describe
        self._check = check
        self._persistent = persistent
        self._count = 0
        # A frame of our own: the base class asks three methods for every opcode.
        self._file = file
        self._frame = io.BytesIO()
        self.write = self._frame.write
        self._write_large_bytes = self._unframed

    def dump(self, obj: Any) -> None:
        """Append one pickle."""
        self._frame.seek(0)
        self._frame.truncate()  # what a dump that failed has left
        self._file.write(pickle.PROTO + b"\5")
        self.save(obj)
        self.write(pickle.STOP)
        self._end_frame()

    def _end_frame(self) -> None:
        data = self._frame.getvalue()
        if data:
            self._file.write(pickle.FRAME + struct.pack("<Q", len(data)) + data)
            self._frame.seek(0)
            self._frame.truncate()

    def _unframed(self, header: bytes, payload: Any) -> None:
        """What is too big for a frame."""
        self._end_frame()
        self._file.write(header)
        self._file.write(payload)

    def memoize(self, obj: Any) -> None:
        """Note that `obj` is written."""
        self.memo[id(obj)] = len(self.memo), obj
        self.write(pickle.MEMOIZE)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write `obj` and all below it. A stack of what is half written takes the place of
        recursion."""
        steps = self._begin(obj)
        if steps is None:
            return
        stack = [steps]
        while stack:
            for part in stack[-1]:  # goes on where it stood
                steps = self._begin(part)
                if steps is not None:
                    stack.append(steps)
                    break
            else:
                stack.pop()

    def _begin(self, obj: Any) -> Steps | None:
        """Write `obj` if it has no parts; else the steps that write it, which yield its parts."""
        self._count += 1
        if not self._count % _LOOK:
            self._check()
            if self._frame.tell() > _FRAME:
                self._end_frame()
        cls = type(obj)
        if cls is float and obj != obj:
            self.dispatch[int](self, self._persistent(obj))
            self.write(pickle.BINPERSID)
            return None
        if cls in _ATOMS:
            self.dispatch[cls](self, obj)
            return None
        known = self.memo.get(id(obj))
        if known is not None:
            number = known[0]
            self.write(_long_get(number) if number > 255 else pickle.BINGET + bytes((number,)))
            return None
        if cls in _LEAVES:
            self.dispatch[cls](self, obj)
            return None
        builtin = self._builtin.get(cls)
        if builtin is not None:
            steps: Steps = builtin(self, obj)
            return steps
        reduced = self._describe(obj)
        if reduced is NotImplemented:
            if issubclass(cls, type) or cls in self.dispatch:
                self.dispatch.get(cls, _Slow.save_global)(self, obj)
                return None
            reduce = copyreg.dispatch_table.get(cls)
            reduced = reduce(obj) if reduce is not None else obj.__reduce_ex__(5)
        if isinstance(reduced, str):
            self.save_global(obj, reduced)
            return None
        return self._reduced(obj, *reduced)

    # ---- the steps of each kind; they write opcodes and yield what comes between them ----

    def _list(self, obj: list[Any]) -> Steps:
        self.write(pickle.EMPTY_LIST)
        self.memoize(obj)
        yield from self._items(obj)

    def _dict(self, obj: dict[Any, Any]) -> Steps:
        self.write(pickle.EMPTY_DICT)
        self.memoize(obj)
        yield from self._pairs(obj.items())

    def _set(self, obj: set[Any]) -> Steps:
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        members = iter(obj)
        while batch := list(islice(members, _BATCH)):
            self.write(pickle.MARK)
            yield from batch
            self.write(pickle.ADDITEMS)

    def _frozenset(self, obj: frozenset[Any]) -> Steps:
        self.write(pickle.MARK)
        yield from obj
        if id(obj) in self.memo:  # a part of it holds it, and has written it
            self.write(pickle.POP_MARK + self.get(self.memo[id(obj)][0]))
            return
        self.write(pickle.FROZENSET)
        self.memoize(obj)

    def _tuple(self, obj: tuple[Any, ...]) -> Steps:
        if not obj:
            self.write(pickle.EMPTY_TUPLE)
            return
        short = len(obj) <= 3
        if not short:
            self.write(pickle.MARK)
        yield from obj
        if id(obj) in self.memo:  # as with a frozenset
            drop = pickle.POP * len(obj) if short else pickle.POP_MARK
            self.write(drop + self.get(self.memo[id(obj)][0]))
            return
        self.write(_TUPLES[len(obj)] if short else pickle.TUPLE)
        self.memoize(obj)

    _builtin: ClassVar[dict[type, Callable[..., Steps]]] = {
        list: _list,
        dict: _dict,
        set: _set,
        frozenset: _frozenset,
        tuple: _tuple,
    }

    def _items(self, items: Iterable[Any]) -> Steps:
        rest = iter(items)
        while batch := list(islice(rest, _BATCH)):
            if len(batch) == 1:
                yield batch[0]
                self.write(pickle.APPEND)
            else:
                self.write(pickle.MARK)
                yield from batch
                self.write(pickle.APPENDS)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> Steps:
        rest = iter(pairs)
        while batch := list(islice(rest, _BATCH)):
            if len(batch) > 1:
                self.write(pickle.MARK)
            for key, value in batch:
                yield key
                yield value
            self.write(pickle.SETITEMS if len(batch) > 1 else pickle.SETITEM)

    def _reduced(
        self,
        obj: Any,
        func: Any,
        args: Any,
        state: Any = None,
        items: Any = None,
        pairs: Any = None,
        setter: Any = None,
    ) -> Steps:
        name = getattr(func, "__name__", "")
        if name == "__newobj__":
            yield args[0]
            yield args[1:]
            self.write(pickle.NEWOBJ)
        elif name == "__newobj_ex__":
            yield from args
            self.write(pickle.NEWOBJ_EX)
        else:
            yield func
            yield args
            self.write(pickle.REDUCE)
        known = self.memo.get(id(obj))
        if known is not None:  # its own arguments hold it, and have written it
            self.write(pickle.POP + self.get(known[0]))
        else:
            self.memoize(obj)
        if items is not None:
            yield from self._items(items)
        if pairs is not None:
            yield from self._pairs(pairs)
        if state is not None and setter is None:
            yield state
            self.write(pickle.BUILD)
        elif state is not None:
            yield setter
            yield obj
            yield state
            self.write(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)


_TUPLES = (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
_ATOMS = frozenset((type(None), bool, int, float))
_LEAVES = frozenset((str, bytes, bytearray, pickle.PickleBuffer))
