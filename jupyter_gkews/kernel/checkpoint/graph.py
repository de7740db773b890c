"""The object graph of a namespace as a stream of pickles, one a name, with one memo for all.

What cannot be written becomes a placeholder at that leaf; big memory is registered in Buffers
and leaves the stream. Writing changes nothing in the objects. Reading is in reading.py.
"""

from __future__ import annotations

import builtins
import mmap
import pickle
import time
import types
from sys import getrefcount
from typing import Any, Callable

from ...errors import GkewsError
from . import (
    classes,
    identities,
    kinds,
    nans,
    rebuild,
    rebuilders,
    reduction,
    tensors,
    user_modules,
)
from .buffers import Buffers, address_of
from .cell_made import cell_sources
from .deep import DeepPickler, Memo, bounded_recursion
from .foreign_memory import Owners
from .names import NameFailedError, NameRecord
from .nans import ExactPickler
from .placeholders import Loss, Lost
from .process_maps import Region
from .rebuilders.duplicates import Descriptors
from .reduction import ALONE, reduce_sharing
from .singletons import found_again
from .watch import Hung, interrupted

Reduced = tuple[Any, ...]

#: A buffer that an object offers out-of-band (PEP 574) leaves the stream from this size on.
OUT_OF_BAND = 4096
#: How often (in seconds) a cancel is looked for where objects have code of their own.
_LOOK_S = 0.02
#: After so many names that the C pickler could not write (by the same reason), it is not tried
#: again: handing the memo over and back costs more than the slow way.
_HANDOVERS = 4


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
        self.regions: dict[int, tuple[Any, Region | None]] = {}  # of maps, by the map's id
        self.descriptors: Descriptors = {}
        self.handlers: dict[type, classes.Handler | None] = {}
        self.base_handlers: list[tuple[type, classes.Handler]] = []
        self.record = NameRecord("")
        self.losses: dict[int, Loss] = {}
        self.held_maps: dict[int, bool] = {}  # arrays.reduce_shared
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
        #: who writes, and has the memo: this one, or one that is slower and knows more
        self._pickler: Any = self
        self._handovers = {ExactPickler: 0, DeepPickler: 0}
        self._nans = nans.Nans()
        self.announced: set[int] = set()  # ids of namespaces
        self.singletons = found_again()
        self.left_out: dict[Any, Any] = {}
        self.singleton_types = {type(obj) for obj, _ in self.singletons.values()}
        own = user_modules.own_modules()
        self.dictionaries_named = identities.dictionaries_named(cell_sources(), own)
        classes.register(self)
        self._announce([(user_ns, (rebuild.namespace, ()))])
        known: list[tuple[Any, Reduced]] = [
            (vars(builtins), (rebuild.module_dict, ("builtins",))),
            # the pickler asks nobody about those
            *(each for each in self.singletons.values() if type(each[0]) in (dict, list)),
            *identities.constants(own),
        ]
        self._announce(known)

    # ---- what save.py drives ----

    def write(self, name: str, value: Any) -> NameRecord:
        """Write one name. Raises NameFailedError if not even a placeholder inside it helped: the
        stream is then as it was before."""
        self.record = NameRecord(name)
        self._top = value
        self.buffers.name = name
        # Each name stands in a list of its own: where that is in the memo, the name begins.
        holder = [value]
        start = self._file.mark()
        views, buffers = len(self.buffers), len(self.pickle_buffers)
        storages = len(self.storage_tokens)

        def back() -> Memo:
            self._file.back_to(start)
            del self.pickle_buffers[buffers:]
            self.buffers.again(views)
            for key in list(self.storage_tokens)[storages:]:
                del self.storage_tokens[key]  # each is looked at again, and told
            self.keep(self.record)  # losses are known by their ids
            self.record = NameRecord(name, announced=self.record.announced)
            return self._memo_before(holder)

        try:
            while True:
                self._file.nan_met = False
                try:
                    with bounded_recursion():
                        self._pickler.dump(holder)
                    if self._pickler is not self or not self._file.nan_met:
                        break
                    self._hand_to(ExactPickler, back())
                except RecursionError:
                    if type(self._pickler) is DeepPickler:
                        raise
                    self._hand_to(DeepPickler, back())
                except identities.NamespaceMetError as met:
                    self._pickler.memo = back()
                    self.uses_module(met.name)
                    token = (rebuild.module_dict, (met.name,))
                    self._announce([(met.namespace, token)])
                    self.record.announced += 1
                    start = self._file.mark()
            self._take_back()
        except (GkewsError, MemoryError):
            raise
        except BaseException as error:
            if interrupted():
                raise KeyboardInterrupt from error
            self._pickler.memo = back()
            self._take_back()
            reason = f"it could not be kept: {reduction.one_line(error)}"
            hung = isinstance(error, Hung)
            announced = self.record.announced
            raise NameFailedError(name, str(error) if hung else reason, announced) from error
        record = self.record
        record.graph_bytes = self._file.tell() - start.position
        record.buffer_bytes = self.buffers.nbytes(views)
        return record

    def _memo_before(self, holder: list[Any]) -> Memo:
        """The memo without what was written since `holder` was begun."""
        memo: Memo = self._memo()
        known = memo.get(id(holder))
        if known is None:
            return memo
        return {key: entry for key, entry in memo.items() if entry[0] < known[0]}

    def _memo(self) -> Memo:
        memo = self._pickler.memo
        found: Memo = memo if type(memo) is dict else memo.copy()
        return found

    def _hand_to(self, kind: type[ExactPickler] | type[DeepPickler], memo: Memo) -> None:
        """From here on write without recursion, or NaNs by identity: by a pickler that can."""
        self._handovers[kind] += 1
        self.clear_memo()  # it counts as somebody who holds the dictionary of an instance
        if kind is ExactPickler:
            self._pickler = ExactPickler(
                self._file,
                memo,
                nans=self._nans,
                describe=self.reducer_override,
                buffer_callback=self._buffer,
            )
            return
        self._pickler = DeepPickler(
            self._file,
            memo,
            describe=self.reducer_override,
            buffer_callback=self._buffer,
            persistent=self._nans.persistent,
            check=self._check,
        )

    def _take_back(self) -> None:
        """Back to the C pickler, while that is worth it."""
        pickler = self._pickler
        if pickler is not self and self._handovers[type(pickler)] < _HANDOVERS:
            self.memo, self._pickler = pickler.memo, self

    def lose(self, name: str, value: Any, loss: Loss) -> NameRecord:
        """Write a placeholder for the whole of `name`."""
        self.record = record = NameRecord(name)
        self._top = value
        full = self._note_loss(value, loss)
        self._pickler.dump([Lost(full)])
        return record

    def done(self) -> None:
        """Nothing more is written: hold none of the objects any longer."""
        self._pickler.clear_memo()
        self.clear_memo()

    def foreign_owners(self) -> Owners:
        """Objects in this graph on whose memory storages stand."""
        if not self.foreign:
            return Owners()
        return Owners(obj for _, obj in self._memo().values()).among(self.foreign)

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
            return classes.own_reduce(self, obj)
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
        if isinstance(error, RecursionError) and type(self._pickler) is not DeepPickler:
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
            handler = self.handlers[cls] = classes.handler_of(self, cls, obj)
        if handler is None:
            return NotImplemented
        if handler is reduce_sharing and getrefcount(obj.__dict__) <= ALONE:
            return NotImplemented
        single = self.singletons.get(id(obj))
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

    def _buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """buffer_callback: False takes the buffer out of the stream."""
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < OUT_OF_BAND:
            return True
        copied = isinstance(raw.obj, mmap.mmap)  # by anonymous_map
        where = address_of(raw), raw.nbytes
        added = self.buffers.add(*where, (buffer, raw), "buffer", copied=copied)
        self.pickle_buffers.append(added)
        return False

    def _announce(self, known: list[tuple[Any, Reduced]]) -> None:
        """Make each of `known` (a dictionary that must not be walked, a string that is found by
        identity) a back reference.

        Its token is written first; then the object takes the token's place in the memo: wherever
        the pickler meets it, it writes what the token stands for. This costs nothing a object,
        as persistent ids would.
        """
        tokens = [_Token(*reduced) for _, reduced in known]
        self._pickler.dump(tokens)
        memo = self._memo()
        for token, (obj, _) in zip(tokens, known):
            if id(obj) not in memo:  # else it was written as it is, and stays so
                memo[id(obj)] = (memo.pop(id(token))[0], obj)
        self._pickler.memo = memo
        self.keep(tokens)
        self.announced.update(id(obj) for obj, _ in known)
