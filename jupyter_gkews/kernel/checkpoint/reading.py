"""Reads a graph back: name by name, first fast, and leaf by leaf where something fails.

The fast way is the C unpickler. If an object fails in it (its module is gone, its constructor
or __setstate__ raises), the graph is read again by a patient unpickler that puts a placeholder
at that object and goes on. It never reads an unverified graph: see restore.py.
"""

from __future__ import annotations

import importlib
import pickle
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable

from ...errors import GkewsError
from . import left_out, nans, rebuild, rebuilders, stand_ins
from .bytecode import OtherPythonError
from .collector import collector_held
from .compression import open_graph
from .devices import Placement, Uploads
from .manifest import Manifest
from .memory import CheckpointMemory, DamagedError, torch_of
from .names import ANNOUNCED
from .patient import PatientUnpickler
from .placeholders import Loss, Lost, loss_of
from .rebuilders.loading import begun
from .singletons import StandIn
from .watch import Hung, watched

#: Unpicklers that failed half-way, with what they had made. Kept for good: what they made may
#: have finalizers, and those delete files (tempfile) or worse, in the name of an object that the
#: patient way makes again.
_PARKED: list[Any] = []

_UNBOUND = object()

#: What stands on memory, by the method that hands it out, in the words of a loss.
_ON_MEMORY = {"array": "an array", "storage": "a tensor", "region": "data in a buffer"}


class GraphReader:
    """Reads the names of one checkpoint into memory.

    Each variable is bound as soon as it is read: a class from a cell may need the notebook's
    modules and functions to make its instances. `undo` takes all that back.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        memory: CheckpointMemory,
        user_ns: dict[str, Any],
        *,
        placement: Placement,
        uploads: Uploads,
        dry: bool = False,
        when: str = "",
    ) -> None:
        self._path = path
        self._manifest = manifest
        self._memory = memory
        self._user_ns = user_ns
        self._placement = placement
        self._uploads = uploads
        self.dry = dry
        self._when = when
        self.nans = nans.Found()
        self._storages: dict[tuple[int, str], Any] = {}
        self.notes: dict[str, list[str]] = {}
        self.left_out: dict[str, list[str]] = {}
        self.failed: list[tuple[Any, Loss]] = []
        self.lenient = bool(manifest.lenient)
        self._name = ""
        self._afterwards: list[tuple[str, Callable[[], None]]] = []
        self._before: dict[str, Any] = {}
        self._cells = {row["name"]: row.get("cell") for row in manifest.variables}
        self.answers: dict[str, Callable[..., Any]] = {
            "namespace": lambda: self._user_ns,
            "region": self.region,
            "storage": self.storage,
            "array": self.array,
            "shell": self.shell,
            "set_described": self.set_described,
        }

    def read(self, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """All values, by position of their name in the manifest: {"0": value, ...}."""
        if not self.lenient:
            try:
                return dict(self._read(_Fast, progress))
            except GkewsError:
                raise
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException:
                # Whatever was made so far is dropped; the patient way tells which object it was.
                self.lenient = True
                self.undo()
                self._storages.clear()
                self.failed.clear()
                self.notes.clear()
                self.left_out.clear()
                self._afterwards.clear()
        return dict(self._read(PatientUnpickler, progress))

    def _read(
        self, kind: Any, progress: Callable[[int, int], None] | None
    ) -> Iterator[tuple[str, Any]]:
        with ExitStack() as stack:
            file = stack.enter_context(open_graph(self._path, self._manifest))
            for around in (begun(self), watched(), collector_held(), warnings.catch_warnings()):
                stack.enter_context(around)
            warnings.simplefilter("ignore")
            unpickler = kind(file, self, iter(map(self.region, self._manifest.pickle_buffers)))
            _PARKED.append(unpickler)
            if progress is not None:  # the patient way begins at the first name again
                progress(0, self._manifest.plain_graph_bytes())
            for _ in range(ANNOUNCED):
                load_next(unpickler)
            for number, entry in enumerate(self._manifest.names):
                self._name = entry["name"]
                for _ in range(entry.get("announced", 0)):
                    load_next(unpickler)
                (value,) = load_next(unpickler)
                if entry["kind"] == "variable":
                    self._before.setdefault(self._name, self._user_ns.get(self._name, _UNBOUND))
                    self._user_ns[self._name] = value
                if progress is not None:
                    progress(file.tell(), self._manifest.plain_graph_bytes())
                yield str(number), value
            for name, work in self._afterwards:
                self._name = name
                self._finish(work)
            _PARKED.remove(unpickler)

    def undo(self) -> None:
        """Bind the variables as they were before the reading."""
        for name, value in self._before.items():
            if value is _UNBOUND:
                self._user_ns.pop(name, None)
            else:
                self._user_ns[name] = value
        self._before.clear()

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do `work` for the present name when all names have been read."""
        self._afterwards.append((self._name, work))

    def _finish(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (GkewsError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            text = str(error).split("\n")[0][:200] or type(error).__name__
            self.note(f"a part of it was not filled again: {text}")

    # ---- failures ----

    def fail(self, what: str, problem: str) -> Lost:
        """A placeholder for what could not be made here."""
        loss = Loss(what, problem, self._name, self._cells.get(self._name), self._when)
        made = Lost(loss)
        self.failed.append((made, loss))
        return made

    def note(self, text: str) -> None:
        """Tell that the present name came back otherwise than it was."""
        told = self.notes.setdefault(self._name, [])
        if text not in told:
            told.append(text)

    def call_leaf(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        """`func(*args)`, or a placeholder if it fails."""
        if isinstance(func, Lost):
            return self.fail(loss_of(func).what, loss_of(func).reason)
        try:
            return func(*args, **(kwargs or {}))
        except (GkewsError, KeyboardInterrupt, MemoryError):
            raise
        except Hung as hung:
            return self.fail(_what(func, args), f"it could not be rebuilt: {hung}")
        except OtherPythonError as other:
            return self.fail("a function", str(other))
        except DamagedError as damage:
            return self.fail(_ON_MEMORY.get(getattr(func, "__name__", ""), "data"), str(damage))
        except BaseException as error:
            for arg in args:
                if isinstance(arg, Lost):  # what was to be made of it is lost for its reason
                    return arg
            text = str(error).split("\n")[0][:200] or type(error).__name__
            return self.fail(_what(func, args), f"it could not be rebuilt: {text}")

    def next_buffer(self, buffers: Iterator[Any]) -> Any:
        """The next out-of-band buffer, or a placeholder if its memory is damaged."""
        try:
            return next(buffers)
        except DamagedError as damage:
            return self.fail(_ON_MEMORY["region"], str(damage))

    def find_class(self, module: str, name: str, default: Callable[[str, str], Any]) -> Any:
        """A global named in the graph; our own are answered by this reader."""
        if module == rebuild.__name__:
            answer = self.answers.get(name)
            if answer is None and name in rebuild.MOVED:
                return default(f"{rebuilders.__name__}.{rebuild.MOVED[name]}", name)
            return answer if answer is not None else getattr(rebuild, name)
        return stand_ins.real(default(module, name))

    # ---- what the graph calls ----

    def region(self, index: int) -> Any:
        """The memory of a view."""
        return self._memory.view(index)[0]

    def array(
        self, index: int, dtype: Any, shape: Any, strides: Any, offset: int, writeable: bool
    ) -> Any:
        """A numpy array on a view."""
        numpy = importlib.import_module("numpy")
        buffer, alone = self._memory.view(index)
        made = numpy.ndarray(shape, dtype, buffer, offset, strides)
        if alone and made.nbytes <= memoryview(buffer).nbytes:  # not one that repeats its memory
            made = made.copy(order="K")
        if not writeable:
            made.flags.writeable = False
        return made

    def storage(self, index: int, device: str) -> Any:
        """A torch storage, one for each index."""
        torch = importlib.import_module("torch")
        if index < 0:
            target = self._device(torch, device)
            return torch.empty(0, dtype=torch.uint8, device=target).untyped_storage()
        made = self._storages.get((index, device))
        if made is None:
            self._device(torch, device)  # tells where it is now
            made = self._uploads.storage(index)
            if made is None:
                buffer, alone = self._memory.view(index)
                made = torch_of(buffer)
                if alone:
                    made = made.clone()
            self._storages[index, device] = made
        return made

    def _device(self, torch: Any, device: str) -> str:
        if device == "cpu":
            return device
        if device in self._placement.targets:
            said = self._placement.said.get(device)
            if said is not None:
                self.note(said)
            return self._placement.targets[device]
        try:  # no tensor on it has bytes: nothing was decided
            torch.empty(0, device=device)
            return device
        except (RuntimeError, AssertionError):
            self.note(f"{device} is not here: it is on the CPU now")
            return "cpu"

    def set_described(self, obj: Any, described: tuple[Any, ...]) -> None:
        """The state of an object that describes itself; what it lacks then is told."""
        rebuild.set_described(obj, described)
        _, names, method, _ = described
        names = left_out.gone(obj, names)
        if names:
            text = left_out.sentence(method, names)
            self.note(text)
            self.left_out.setdefault(self._name, []).append(text)

    def shell(self) -> Any:
        """The running InteractiveShell; a stand-in where there is none."""
        return rebuild.shell() or StandIn()


def _what(func: Any, args: Any) -> str:
    """What a call was to make or fill, in words of the user's: no name of ours is among them."""
    first = args[0] if args else None
    name = getattr(func, "__name__", "")
    ours = (getattr(func, "__module__", None) or "").split(".")[0] in _OURS
    if ours and name in _WORDS:
        return _WORDS[name].format(*args)
    if ours and name.startswith(_FILLING):
        if isinstance(first, type):
            return f"the class {first.__qualname__}"
        return f"an object of the class {type(first).__qualname__}"
    if isinstance(first, type) and (ours or name in ("__new__", "_reconstruct", "_reconstructor")):
        return f"an object of the class {first.__qualname__}"
    if ours:
        return "an object"
    return f"an object made by {getattr(func, '__qualname__', None) or type(func).__qualname__}"


_OURS = ("jupyter_gkews", "cloudpickle", "copyreg", "pickle")
#: Beginnings of the names of what gives an object its state.
_FILLING = ("set_", "fill", "update_", "_class_setstate", "<lambda>")
#: What our constructors make, by their arguments.
_WORDS = {
    "module": "the module {0}",
    "made_module": "the module {0}",
    "module_dict": "the module {0}",
    "function": "the function {2}",
    "code": "a function",
    "make_class": "the class {1}",
    "_make_skeleton_class": "the class {1}",
    "_make_skeleton_enum": "the class {1}",
    "attribute": "what was found as {1!r}",
    "subscribed": "a class",
    "array": "an array",
    "tensor": "a tensor",
}


def load_next(unpickler: Any) -> Any:
    """One pickle of the stream (a frame that watch.py knows)."""
    return unpickler.load()


class _Fast(pickle.Unpickler):
    """The C unpickler."""

    def __init__(self, file: Any, reader: GraphReader, buffers: Iterator[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._reader = reader

    def persistent_load(self, pid: Any) -> Any:
        return self._reader.nans.load(pid)

    def find_class(self, module: str, name: str) -> Any:
        return self._reader.find_class(module, name, super().find_class)
