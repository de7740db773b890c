"""The pure-Python unpickler, with a placeholder wherever an object's own code fails.

Slow, and only used where the C unpickler has failed or is known to. It decides nothing itself:
what stands for a failed object, and what is told about it, comes from the reader.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from ...errors import GkewsError
from . import rebuild
from .placeholders import Lost, loss_of

if TYPE_CHECKING:
    from .reading import GraphReader

_Slow: Any = pickle._Unpickler


class PatientUnpickler(_Slow):  # type: ignore[misc]
    """The pure-Python unpickler, with a placeholder wherever user code fails."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Slow.dispatch)

    def __init__(self, file: Any, reader: GraphReader, buffers: Iterator[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._reader = reader

    def find_class(self, module: str, name: str) -> Any:
        """A global; a placeholder if it is not there."""
        try:
            return self._reader.find_class(module, name, super().find_class)
        except (GkewsError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            return self._reader.fail(f"{module}.{name}", f"it is not there: {error}")

    def persistent_load(self, pid: Any) -> Any:
        """A NaN, by which one it is."""
        return self._reader.nans.load(pid)

    def load_reduce(self) -> None:
        """REDUCE, and the state setters that are written as one."""
        stack = self.stack
        args = stack.pop()
        func = stack[-1]
        # `setter(obj, state)` after obj: if it fails, obj is not what it was.
        setting = len(stack) > 1 and len(args) == 2 and stack[-2] is args[0]
        if setting and isinstance(args[0], Lost):
            stack[-1] = None
            return
        made = self._reader.call_leaf(func, args)
        stack[-1] = made
        if setting and isinstance(made, Lost) and func is not rebuild.lost:
            self._replace(args[0], made)
            stack[-2] = made

    def load_frozenset(self) -> None:
        """FROZENSET: its elements must be whole, in a loop they are not."""
        items = self.pop_mark()
        self.append(self._reader.call_leaf(frozenset, (items,)))

    def load_newobj(self) -> None:
        """NEWOBJ."""
        args = self.stack.pop()
        cls = self.stack.pop()
        new = cls if isinstance(cls, Lost) else getattr(cls, "__new__", cls)
        self.append(self._leaf(cls, new, (cls, *args), {}))

    def load_newobj_ex(self) -> None:
        """NEWOBJ_EX."""
        kwargs = self.stack.pop()
        args = self.stack.pop()
        cls = self.stack.pop()
        new = cls if isinstance(cls, Lost) else getattr(cls, "__new__", cls)
        self.append(self._leaf(cls, new, (cls, *args), kwargs))

    def _leaf(self, cls: Any, new: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(arg, Lost) for arg in args[:1]):
            return self._reader.fail(loss_of(cls).what, loss_of(cls).reason)
        return self._reader.call_leaf(new, args, kwargs)

    def load_build(self) -> None:
        """BUILD."""
        stack = self.stack
        state = stack.pop()
        obj = stack[-1]
        if isinstance(obj, Lost):
            return
        outcome = self._reader.call_leaf(rebuild.set_state, (obj, state))
        if isinstance(outcome, Lost):
            self._replace(obj, outcome)
            stack[-1] = outcome

    def _replace(self, obj: Any, lost: Lost) -> None:
        """An object turned out to be lost after others could refer to it."""
        for key, known in self.memo.items():
            if known is obj:
                self.memo[key] = lost

    def load(self) -> Any:
        """One pickle. What could not be hashed because its own state came later is entered now."""
        self._late: list[tuple[Any, Callable[[Any], None]]] = []
        loaded = super().load()
        for target, fill in self._late:
            outcome = self._reader.call_leaf(fill, (target,))
            if isinstance(outcome, Lost):
                self._replace(target, outcome)
        return loaded

    def _fill(self, fill: Callable[[Any], None], hashed: bool = False) -> None:
        """APPEND(S), SETITEM(S), ADDITEMS: skipped for a placeholder, bounded for the rest.

        `hashed`: it may fail only because an element, in a loop, has no state yet.
        """
        target = self.stack[-1]
        outcome = self._reader.call_leaf(fill, (target,))
        if isinstance(outcome, Lost) and hashed and type(target) in (dict, set):
            self._reader.failed.pop()
            self._late.append((target, fill))
        elif isinstance(outcome, Lost):
            self._replace(target, outcome)
            self.stack[-1] = outcome

    def load_next_buffer(self) -> None:
        """NEXT_BUFFER."""
        self.append(self._reader.next_buffer(self._buffers))

    def load_readonly_buffer(self) -> None:
        """READONLY_BUFFER."""
        if not isinstance(self.stack[-1], Lost):
            super().load_readonly_buffer()

    def load_appends(self) -> None:
        """APPENDS."""
        items = self.pop_mark()
        if not isinstance(self.stack[-1], Lost):
            self._fill(lambda target: _extend(target, items))

    def load_append(self) -> None:
        """APPEND."""
        item = self.stack.pop()
        if not isinstance(self.stack[-1], Lost):
            self._fill(lambda target: target.append(item))

    def load_setitems(self) -> None:
        """SETITEMS."""
        items = self.pop_mark()
        if not isinstance(self.stack[-1], Lost):
            self._fill(lambda target: _set_items(target, items), hashed=True)

    def load_setitem(self) -> None:
        """SETITEM."""
        value = self.stack.pop()
        key = self.stack.pop()
        if not isinstance(self.stack[-1], Lost):
            self._fill(lambda target: _set_items(target, [key, value]), hashed=True)

    def load_additems(self) -> None:
        """ADDITEMS."""
        items = self.pop_mark()
        if not isinstance(self.stack[-1], Lost):
            self._fill(lambda target: _add_items(target, items), hashed=True)

    dispatch[pickle.FROZENSET[0]] = load_frozenset
    dispatch[pickle.NEXT_BUFFER[0]] = load_next_buffer
    dispatch[pickle.READONLY_BUFFER[0]] = load_readonly_buffer
    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.APPENDS[0]] = load_appends
    dispatch[pickle.APPEND[0]] = load_append
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.ADDITEMS[0]] = load_additems


def _extend(target: Any, items: list[Any]) -> None:
    if hasattr(target, "extend"):
        target.extend(items)
    else:
        for item in items:
            target.append(item)


def _set_items(target: Any, items: list[Any]) -> None:
    for i in range(0, len(items), 2):
        target[items[i]] = items[i + 1]


def _add_items(target: Any, items: list[Any]) -> None:
    if isinstance(target, set):
        target.update(items)
    else:
        for item in items:
            target.add(item)
