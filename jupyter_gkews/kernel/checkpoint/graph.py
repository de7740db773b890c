"""The object graph of a namespace as a stream of pickles, one a name, with one memo for all.

What cannot be written becomes a placeholder at that leaf; big memory is registered in Buffers
and leaves the stream. Writing changes nothing in the objects. Reading is in reading.py.
"""

from __future__ import annotations

import builtins
import functools
import pickle
import sys
import time
import types
import typing
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable

from cloudpickle import cloudpickle

from ...errors import GkewsError
from . import (
    exceptions,
    frames,
    functions,
    kinds,
    live_views,
    patches,
    rebuild,
    rebuilders,
    reduction,
    shell_magics,
    subclasses,
    tensors,
)
from .buffers import Buffers, address_of
from .deep import DeepPickler, Memo, bounded_recursion
from .foreign_memory import Owners
from .placeholders import Loss, Lost
from .singletons import is_kernels_own, process_objects
from .watch import Hung, interrupted

Reduced = tuple[Any, ...]
Handler = Callable[["GraphWriter", Any], Any]

#: A buffer that an object offers out-of-band (PEP 574) leaves the stream from this size on.
OUT_OF_BAND = 4096
#: How often (in seconds) a cancel is looked for where objects have code of their own.
_LOOK_S = 0.02
#: How many pickles at the start of a stream are not names (GraphWriter._announce).
ANNOUNCED = 2
#: After so many names that the C pickler could not write, it is not tried again: handing the memo
#: over and back costs more than the slow way.
_HANDOVERS = 4


@dataclass
class NameRecord:
    """What was learned about one name while it was written. Sizes in bytes."""

    name: str
    losses: list[tuple[Any, Loss]] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    graph_bytes: int = 0
    buffer_bytes: int = 0


class NameFailedError(Exception):
    """The pickler could not write a name at all; `reason` is a clause for its loss."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason


class _Token:
    """Takes the place of a known dictionary in the memo (see GraphWriter._announce)."""

    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Reduced:
        return self.reduced


class GraphWriter(pickle.Pickler):
    """Writes names one by one to `file`.

    `complete(loss, name, part)` adds to a loss where, when and by which cell; `check()` is
    called often and may raise to stop.
    """

    def __init__(
        self,
        file: Any,
        user_ns: dict[str, Any],
        *,
        complete: Callable[[Loss, str, bool], Loss],
        check: Callable[[], None],
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._buffer)
        self.user_ns = user_ns
        self.buffers = Buffers()
        self.pickle_buffers: list[int] = []
        self.bare_cells: set[int] = set()
        self.storage_tokens: dict[int, tensors.StorageToken] = {}
        self.modules: dict[str, None] = {}
        self.source_files: set[str] = set()
        self.reopened: set[str] = set()  # real paths of files that come back open
        self.handlers: dict[type, Handler | None] = {}
        self.base_handlers: list[tuple[type, Handler]] = []
        self.record = NameRecord("")
        self.losses: dict[int, Loss] = {}
        self.flush_files = True
        self.owners = Owners()  # those of memory on which tensors stand
        self.foreign: list[tuple[int, int]] = []  # memory of storages that torch did not allocate
        self._file = file
        self._complete = complete
        self._check = check
        self._kept: list[Any] = []
        self._looked = 0.0
        self._top: Any = None
        self._namespaces: dict[str, _Token] = {}
        self._deep: DeepPickler | None = None  # where it writes, and has the memo
        self._handovers = 0
        self._singletons = process_objects()
        self._singleton_types = {type(obj) for obj, _ in self._singletons.values()}
        self._register()
        self._announce(_Token(rebuild.namespace, ()), user_ns)
        self._announce(_Token(rebuild.module_dict, ("builtins",)), vars(builtins))

    def _register(self) -> None:
        self.handlers.update(
            {
                types.FunctionType: functions.reduce_function,
                types.CellType: functions.reduce_cell,
                types.CodeType: functions.reduce_code,
                types.ModuleType: functions.reduce_module,
                functools.partialmethod: functions.reduce_partial_method,
                weakref.ref: reduction.reduce_weakref,
                weakref.ProxyType: reduction.reduce_weakproxy,
                weakref.CallableProxyType: reduction.reduce_weakproxy,
                weakref.WeakValueDictionary: reduction.reduce_weak_dict,
                weakref.WeakKeyDictionary: reduction.reduce_weak_dict,
                weakref.WeakSet: reduction.reduce_weak_set,
                Lost: reduction.reduce_lost,
                memoryview: reduction.reduce_memoryview,
            }
        )
        if isinstance(typing.NewType, type):  # a function up to Python 3.9
            self.handlers[typing.NewType] = reduction.reduce_new_type
        tensors.register(self)
        frames.register(self)
        exceptions.register(self)
        live_views.register(self)
        reduction.register(self)
        rebuilders.register(self)
        shell_magics.register(self)

    # ---- what save.py drives ----

    def write(self, name: str, value: Any) -> NameRecord:
        """Write one name. Raises NameFailedError if not even a placeholder inside it helped: the
        stream is then as it was before."""
        self.record = record = NameRecord(name)
        self._top = value
        self.buffers.name = name
        # Each name stands in a list of its own: where that is in the memo, the name begins.
        holder = [value]
        start = self._file.mark()
        views, buffers = len(self.buffers), len(self.pickle_buffers)

        def back() -> Memo:
            self._file.back_to(start)
            del self.pickle_buffers[buffers:]
            self.keep(self.record)  # losses are known by their ids
            return self._memo_before(holder)

        try:
            if self._deep is None:
                try:
                    with bounded_recursion():
                        self.dump(holder)
                except RecursionError:
                    self._go_deep(back())
                    self.record = record = NameRecord(name)
            if self._deep is not None:
                self._deep.dump(holder)
                self._come_up()
        except (GkewsError, MemoryError):
            raise
        except BaseException as error:
            if interrupted():
                raise KeyboardInterrupt from error
            memo = back()
            if self._deep is None:
                self.memo = memo
            else:
                self._deep.memo = memo
                self._come_up()
            reason = f"it could not be kept: {reduction.one_line(error)}"
            hung = isinstance(error, Hung)
            raise NameFailedError(name, str(error) if hung else reason) from error
        record.graph_bytes = self._file.tell() - start.position
        record.buffer_bytes = self.buffers.nbytes(views)
        return record

    def _memo_before(self, holder: list[Any]) -> Memo:
        """The memo without what was written since `holder` was begun."""
        memo: Memo = self._deep.memo if self._deep is not None else self.memo.copy()
        known = memo.get(id(holder))
        if known is None:
            return memo
        return {key: entry for key, entry in memo.items() if entry[0] < known[0]}

    def _go_deep(self, memo: Memo) -> None:
        """From here on write without recursion."""
        self._handovers += 1
        self._deep = DeepPickler(
            self._file,
            memo,
            describe=self.reducer_override,
            buffer_callback=self._buffer,
            check=self._check,
        )

    def _come_up(self) -> None:
        """Back to the C pickler, while that is worth it."""
        if self._deep is not None and self._handovers < _HANDOVERS:
            self.memo = self._deep.memo
            self._deep = None

    def lose(self, name: str, value: Any, loss: Loss) -> NameRecord:
        """Write a placeholder for the whole of `name`."""
        self.record = record = NameRecord(name)
        self._top = value
        full = self._note_loss(value, loss)
        (self._deep or self).dump([Lost(full)])
        return record

    def foreign_owners(self) -> Owners:
        """Objects in this graph on whose memory storages stand."""
        if not self.foreign:
            return Owners()
        memo: Memo = self._deep.memo if self._deep is not None else self.memo.copy()
        return Owners(obj for _, obj in memo.values()).among(self.foreign)

    # ---- what the reducers use ----

    def keep(self, obj: Any) -> Any:
        """Keep a temporary alive to the end, so that its id and memory stay its own."""
        self._kept.append(obj)
        return obj

    def uses_module(self, name: str | None) -> None:
        """Note that loading needs this module."""
        if name and name != "__main__":
            self.modules.setdefault(name)

    def uses_source(self, filename: str) -> None:
        """Note a file name of code that travels by value."""
        self.source_files.add(filename)

    def uses_device(self, device: str) -> None:
        """Note where memory of the present name lives."""
        self.record.devices.add(device)

    def note_rebuilt(self, reason: str, obj: Any) -> None:
        """Note that something in the present name comes back re-created."""
        if reason not in self.record.rebuilt:
            self.record.rebuilt.append(reason)

    def module_namespace(self, name: str, namespace: dict[str, Any]) -> Any:
        """The token of a module's dictionary."""
        self.uses_module(name)
        token = self._namespaces.get(name)
        if token is None:
            token = self._namespaces[name] = _Token(rebuild.module_dict, (name,))
        return token

    def made_namespace(self, name: str) -> Any:
        """The token of the dictionary of a module that a cell has made."""
        token = self._namespaces.get(name)
        if token is None:
            token = self._namespaces[name] = _Token(rebuild.made_module_dict, (name,))
        return token

    def guarded(self, obj: Any) -> Any:
        """The object's own reduce, or a placeholder if it fails or makes no sense."""
        try:
            return self._own_reduce(obj)
        except Hung as hung:
            return self.lost_leaf(obj, Loss(kinds.loss_for(obj).what, str(hung)))
        except MemoryError:
            raise
        except BaseException as error:
            if interrupted():  # whatever the object's code made of it, the user wants an end
                raise KeyboardInterrupt from error
            self._too_deep(error)
            return self.lost_leaf(obj, kinds.loss_for(obj, reduction.one_line(error)))

    def _too_deep(self, error: BaseException) -> None:
        """Raise `error` if it may come from how deep the C pickler stands, not from the object."""
        if isinstance(error, RecursionError) and self._deep is None:
            raise error

    def lost_leaf(self, obj: Any, loss: Loss) -> Reduced:
        """Note that `obj` is lost, and the reduce of its placeholder."""
        full = self._note_loss(obj, loss)
        return rebuild.lost, full.arguments()

    def _note_loss(self, obj: Any, loss: Loss) -> Loss:
        full = self._complete(loss, self.record.name, obj is not self._top)
        self.losses[id(obj)] = full
        self.record.losses.append((obj, full))
        return full

    # ---- pickling ----

    def reducer_override(self, obj: Any) -> Any:
        """Called by the C pickler for everything but plain builtins: a million times, so that a
        cancel is looked for elsewhere (GraphFile.write) where nothing else is to do."""
        cls = type(obj)
        try:
            handler = self.handlers[cls]
        except KeyError:
            handler = self.handlers[cls] = self._classify(cls, obj)
        if handler is None:
            return NotImplemented
        single = self._singletons.get(id(obj))
        if single is not None:
            return single[1]
        now = time.monotonic()
        if now - self._looked > _LOOK_S:  # such objects may take long
            self._looked = now
            self._check()  # outside the try: a cancel is no loss
        try:
            rv = handler(self, obj)
        except Hung as hung:
            return self.lost_leaf(obj, Loss(kinds.loss_for(obj).what, str(hung)))
        except rebuilders.CannotKeepError as refusal:
            return self.lost_leaf(obj, refusal.loss)
        except (Exception, KeyboardInterrupt) as error:
            if interrupted():
                raise KeyboardInterrupt from error
            self._too_deep(error)
            return self.lost_leaf(obj, kinds.loss_for(obj, reduction.one_line(error)))
        if rv is NotImplemented and not issubclass(cls, (type, types.FunctionType)):
            return self.guarded(obj)
        return rv

    def _classify(self, cls: type, obj: Any) -> Handler | None:
        """The handler of a class, decided once: None leaves its objects to the C pickler."""
        if issubclass(cls, type):
            return functions.reduce_class
        for base, handler in self.base_handlers:
            if issubclass(cls, base):
                return handler
        if kinds.known_kind(cls):
            return reduction.reduce_known_kind
        if is_kernels_own(cls):
            return reduction.reduce_kernels_own
        if tensors.is_parametrized(cls):
            return tensors.reduce_parametrized
        for base in (types.ModuleType, types.FunctionType):
            if issubclass(cls, base):
                return self.handlers[base]
        safe = cls in reduction.SAFE and cls not in self._singleton_types
        if safe or (reduction.is_named_tuple(cls) and subclasses.base_of(cls) is None):
            return None
        if cls not in cloudpickle.Pickler.dispatch_table and subclasses.base_of(cls) is not None:
            return subclasses.reduce
        if reduction.is_plain(cls) and cls not in self._singleton_types:
            named = reduction.named_objects(cls)
            if named:
                return functools.partial(reduction.reduce_named, named)
            try:
                obj.__reduce_ex__(5)
            except Exception:
                return reduction.reduce_guarded
            return reduction.reduce_answering if reduction.answers_all(cls) else None
        return reduction.reduce_guarded

    def _own_reduce(self, obj: Any) -> Any:
        cls = type(obj)
        reduce = cloudpickle.Pickler.dispatch_table.get(cls)
        rv = reduce(obj) if reduce is not None else obj.__reduce_ex__(5)
        if isinstance(rv, str):
            return self._global(obj, rv)
        return reduction.checked(obj, rv)

    def _global(self, obj: Any, path: str) -> Reduced:
        """An object that says it is found under `path` in a module."""
        names = [getattr(obj, "__module__", None), type(obj).__module__.split(".")[0]]
        for name in [*names, pickle.whichmodule(obj, path)]:  # type: ignore[attr-defined]
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is None or name == "__main__":
                continue
            try:
                found = rebuild.attribute(module, path)
            except AttributeError:
                continue
            if found is obj:
                return rebuild.attribute, (module, path)
        replaced = patches.original(obj, self.user_ns)
        if replaced is not None:
            return rebuild.attribute, replaced
        raise pickle.PicklingError(f"it is not found as {path!r} in its module")

    def _buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """buffer_callback: False takes the buffer out of the stream."""
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < OUT_OF_BAND:
            return True
        address = address_of(raw)
        self.pickle_buffers.append(self.buffers.add(address, raw.nbytes, (buffer, raw), "buffer"))
        return False

    def _announce(self, token: _Token, known: Any) -> None:
        """Make `known` (a dictionary that must not be walked) a back reference.

        Its token is written first; then `known` takes the token's place in the memo: wherever
        the pickler meets it, it writes what the token stands for. This costs nothing a object,
        as persistent ids would.
        """
        self.dump(token)
        memo = self.memo.copy()
        position, _ = memo.pop(id(token))
        memo[id(known)] = (position, known)
        self.memo = memo
        self.keep(token)
