"""What a graph calls while it is loaded: each function here is named in graph.pkl.

Only small constructors; those that need the checkpoint being read (its memory, its namespace)
are answered by the reader, which puts itself behind these names (reading.GraphReader). Those of a
family of rebuilders stand in its module. Their names and arguments are part of the format: add,
never change.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import sys
import types
import typing
import weakref
from typing import Any, NoReturn

from . import bytecode, stand_ins
from .making_classes import library_owner, quiet_subclassing
from .placeholders import Loss, Lost

#: Names that older checkpoints look for here -> the module of rebuilders/ that has them now.
MOVED = {
    "open_file": "files",
    "memmap": "memory_maps",
    "lock": "synchronisation",
    "rlock": "synchronisation",
    "simple_queue": "synchronisation",
    "set_logger": "loggers",
}


def _needs_reader(name: str) -> NoReturn:
    raise RuntimeError(f"{name} has a meaning only while a checkpoint is being restored")


# ---- answered by the reader ----


def namespace() -> dict[str, Any]:
    """The live user namespace."""
    _needs_reader("namespace")


def region(index: int) -> Any:
    """The memory of view `index`: a writable buffer of bytes."""
    _needs_reader("region")


def storage(index: int, device: str) -> Any:
    """View `index` as a torch UntypedStorage, on `device` if there is one."""
    _needs_reader("storage")


def array(index: int, dtype: Any, shape: Any, strides: Any, offset: int, writeable: bool) -> Any:
    """A numpy array on view `index`."""
    _needs_reader("array")


# ---- placeholders, modules, singletons ----


def lost(
    what: str, reason: str, where: str, cell: int | None, when: str, part: bool = False
) -> Lost:
    """The placeholder of an object that could not be kept."""
    return Lost(Loss(what, reason, where, cell, when, part))


def module(name: str) -> types.ModuleType:
    """A module, imported by its full name."""
    importlib.import_module(name)
    return sys.modules[name]


_made: dict[str, types.ModuleType] = {}


def made_module(name: str, doc: str | None = None) -> types.ModuleType:
    """A module that a cell had made: made again, and put where `import` finds it."""
    found = _made.get(name)
    if found is None:
        found = _made[name] = types.ModuleType(name, doc)
    elif doc is not None:
        found.__doc__ = doc
    sys.modules[name] = found
    return found


def made_module_as(cls: Any, name: str, doc: str | None = None) -> types.ModuleType:
    """The same of a class of the user's; its `__init__` does not run."""
    found = made_module(name, doc)
    found.__class__ = cls
    return found


def made_module_dict(name: str) -> dict[str, Any]:
    """The namespace of a module that a cell had made."""
    return vars(made_module(name))


def module_dict(name: str) -> dict[str, Any]:
    """The namespace of a module: the globals of a function that only lives in it."""
    return vars(module(name))


def attribute(owner: Any, path: str) -> Any:
    """`owner.a.b` for the path "a.b"."""
    for name in path.split("."):
        owner = getattr(owner, name)
    return stand_ins.real(owner)


def of_module(owner: Any, name: str, cls: Any) -> Any:
    """The object of class `cls` that a module holds."""
    found = getattr(owner, name)
    if type(found) is not cls:
        raise TypeError(f"{owner.__name__}.{name} is no {cls.__qualname__} here")
    return found


def constant(module: str, name: str, value: Any) -> Any:
    """The very object that a module holds as a constant; `value` where it has no such one."""
    found = getattr(sys.modules.get(module), name, value)
    return found if type(found) is type(value) and found == value else value


def shell() -> Any:
    """The running InteractiveShell, or None outside IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def std_stream(name: str) -> Any:
    """sys.stdin, sys.stdout or sys.stderr of this process."""
    return getattr(sys, name)


def main_module(namespace: dict[str, Any]) -> Any:
    """The `__main__` module if `namespace` is its, else a module with these contents."""
    main = sys.modules.get("__main__")
    if main is not None and vars(main) is namespace:
        return main
    return types.SimpleNamespace(**namespace)


# ---- functions, cells, classes ----


def cell() -> Any:
    """An empty closure cell (filled when the function that uses it is)."""
    return types.CellType()


def fill_cell(target: Any, content: tuple[Any, ...]) -> None:
    """Put `content[0]` into a cell; () leaves it empty."""
    if content:
        target.cell_contents = content[0]


def code(magic: int, described: tuple[Any, ...], data: bytes) -> types.CodeType:
    """A code object, compiled again where the bytecode is another Python's (bytecode.load)."""
    return bytecode.load(magic, described, data)


def function(code: Any, globals_: dict[str, Any], name: str, closure: Any) -> types.FunctionType:
    """A function that lives in `globals_`; defaults and the rest come by set_function."""
    globals_.setdefault("__builtins__", __builtins__)
    return types.FunctionType(code, globals_, name, None, closure)


def set_function(func: types.FunctionType, state: dict[str, Any]) -> None:
    """Give a function what it had: cells, defaults, annotations, attributes."""
    for target, content in state.pop("cells", ()):
        fill_cell(target, content)
    attributes = state.pop("attributes", None)
    for overload in state.pop("overloads", ()):
        typing.overload(overload)
    if not hasattr(func, "__annotate__") and callable(state.get("__annotate__")):
        # written by Python 3.14, which evaluates them when they are asked for
        with contextlib.suppress(Exception):
            state["__annotations__"] = state["__annotate__"](1)
    for name in ("__annotate__", "__type_params__"):
        if name in state and not hasattr(func, name):
            del state[name]
    for name, value in state.items():
        setattr(func, name, value)
    if attributes:
        func.__dict__.update(attributes)


def make_class(metaclass: Any, name: str, bases: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An empty class, to be filled by what it had.

    What the user's own metaclass or `__init_subclass__` did when the class was first made is in
    the namespace already (a registry, say) and must not happen twice; those of libraries run.
    """
    with quiet_subclassing(bases, metaclass):
        if metaclass.__module__ == "__main__" or metaclass.__name__ == "_TypedDictMeta":
            users = metaclass.__module__ == "__main__"
            owner: Any = library_owner(metaclass, "__new__") if users else type
            return owner.__new__(metaclass, name, bases, dict(keywords))
        return types.new_class(
            name, bases, {"metaclass": metaclass}, lambda ns: ns.update(keywords)
        )


def set_class(cls: Any, state: tuple[dict[str, Any], Any]) -> None:
    """What a class had. A `__setattr__` of the user's metaclass has seen it already and does not
    run again; that of a library does."""
    attributes = dict(state[0])
    registered = attributes.pop("_abc_impl", ())
    owner = library_owner(type(cls), "__setattr__")
    for name, value in attributes.items():
        owner.__setattr__(cls, name, value)
    if "__firstlineno__" in attributes:  # 3.13 forgets it with each attribute that is set
        owner.__setattr__(cls, "__firstlineno__", attributes["__firstlineno__"])
    for each in registered:
        cls.register(each)


def subscribed(generic: Any, key: Any) -> Any:
    """`generic[key]`: a class that its library makes once and knows."""
    return generic[key]


def type_parameter(cls: Any, name: str, options: dict[str, Any]) -> Any:
    """A typing.ParamSpec or TypeVarTuple."""
    return cls(name, **options)


def array_type(item: Any, length: int) -> Any:
    """The ctypes array of `length` items."""
    return item * length


def lru_cached(func: Any, maxsize: int | None, typed: bool) -> Any:
    """A function behind an empty functools.lru_cache."""
    return functools.lru_cache(maxsize, typed)(func)


def source(filename: str, text: str) -> None:
    """Make the source of a cell known again to inspect, tracebacks and `??`."""
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)


def set_state(obj: Any, state: Any) -> None:
    """What the BUILD opcode does, for objects whose state comes later (deep structures)."""
    # of the type: an object's own __getattr__ may answer anything
    setstate = getattr(type(obj), "__setstate__", None)
    if setstate is not None:
        setstate(obj, state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        obj.__dict__.update({sys.intern(k) if type(k) is str else k: v for k, v in state.items()})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def set_described(obj: Any, described: tuple[Any, ...]) -> None:
    """The state that an object's own code has described; the reader tells what it lacks then.
    `described`: (state, attributes that it may lack, name of that code, setter of the state)."""
    state, _, _, setter = described
    if setter is not None:
        setter(obj, state)
    elif state is not None:
        set_state(obj, state)


def new_object(cls: Any, *args: Any, **keywords: Any) -> Any:
    """What NEWOBJ does, for objects that say they are of another class."""
    return cls.__new__(cls, *args, **keywords)


def set_dictionary(obj: Any, state: tuple[Any, Any]) -> None:
    """Give an instance a dictionary that others hold, too: the same one; and its slots."""
    attributes, slots = state
    obj.__dict__ = attributes
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def bare(cls: Any) -> Any:
    """An object of `cls` without a state, made without its __init__."""
    return object.__new__(cls)


# ---- small objects of the standard library ----


def memory_view(
    holder: Any, start: int, nbytes: int, form: str | None, shape: Any, readonly: bool
) -> memoryview:
    """A memoryview of `nbytes` bytes of `holder`, from byte `start` on."""
    view: Any = memoryview(holder)
    if form is not None:
        view = view.cast("B")[start : start + nbytes].cast(form, shape)
    made: memoryview = view.toreadonly() if readonly else view
    return made


def memory_view_with_gaps(
    holder: Any, form: str | None, first: int, stop: int | None, step: int, readonly: bool
) -> memoryview:
    """Every `step`-th item of `holder`, seen in the format `form`."""
    view: Any = memoryview(holder)
    if form is not None:
        view = view.cast("B").cast(form)
    made: memoryview = view[first:stop:step]
    return made.toreadonly() if readonly else made


_NONE = object()


def weak_reference(target: Any = _NONE, callback: Any = None) -> Any:
    """A weak reference to a restored object, or a dead one."""
    if target is _NONE:
        return weakref.ref(Gone())
    return weakref.ref(target, callback)


def weak_proxy(target: Any) -> Any:
    """A weak proxy of a restored object."""
    return weakref.proxy(target)


def dead_proxy() -> Any:
    """A weak proxy of what is gone."""
    return weakref.proxy(Gone())


class Gone:
    """Something to point a dead weak reference at, or a dead WeakMethod: it has a method."""

    def method(self) -> None:
        """Never called."""


def fill_weak_set(target: Any, items: list[Any]) -> None:
    """Put the members back into a WeakSet."""
    for item in items:
        target.add(item)


# ---- torch and numpy ----


def tensor(
    cls: Any, base: Any, dtype: Any, size: Any, stride: Any, offset: int, requires_grad: bool
) -> Any:
    """A strided tensor of class `cls` on the UntypedStorage `base`."""
    torch = sys.modules["torch"]
    made = torch.empty(0, dtype=dtype, device=base.device).set_(base, offset, size, stride)
    if cls is torch.Tensor:
        return made.requires_grad_(True) if requires_grad else made
    return torch.Tensor._make_subclass(cls, made, requires_grad)


def inference_tensor(*args: Any) -> Any:
    """The same, made in inference mode: autograd does not follow it."""
    with sys.modules["torch"].inference_mode():
        return tensor(*args)


def set_tensor(target: Any, state: dict[str, Any]) -> None:
    """Gradient, hooks and attributes of a tensor."""
    if "grad" in state:
        target.grad = state["grad"]
    if "hooks" in state:
        target._backward_hooks = state["hooks"]
    if "accumulated" in state:
        target._post_accumulate_grad_hooks = state["accumulated"]
    target.__dict__.update(state.get("attributes", {}))


def typed_storage(base: Any, dtype: Any) -> Any:
    """A torch TypedStorage on an UntypedStorage."""
    torch = sys.modules["torch"]
    return torch.storage.TypedStorage(wrap_storage=base, dtype=dtype, _internal=True)


def parametrized(cls: Any, names: tuple[str, ...]) -> Any:
    """An empty module of class `cls` of which torch computes the tensors `names`."""
    parametrize: Any = module("torch.nn.utils.parametrize")
    made = cls.__new__(cls)
    parametrize._inject_new_class(made)
    for name in names:
        parametrize._inject_property(made, name)
    return made


def array_view(base: Any, cls: Any) -> Any:
    """A numpy array seen as a subclass of ndarray."""
    return base.view(cls)


def update_attributes(target: Any, attributes: dict[str, Any]) -> None:
    """Set the instance dictionary of an array subclass."""
    target.__dict__.update(attributes)


def generator(device: str, state: Any) -> Any:
    """A torch.Generator in a saved state; on the CPU if its device is not there."""
    torch = sys.modules["torch"]
    try:
        made = torch.Generator(device=device)
        made.set_state(state)
    except RuntimeError:
        if device == "cpu":
            raise
        # The state of a CUDA generator means nothing to the CPU's: seed it from its seed.
        made = torch.Generator()
        made.manual_seed(int.from_bytes(bytes(state[:8].tolist()), "little"))
    return made


# ---- IPython ----


def magics(cls: Any) -> Any:
    """An object with magics, bound to the running shell; the user's `__init__` does not run."""
    base = next(b for b in cls.__mro__ if b.__module__ == "IPython.core.magic" and b is not cls)
    made = cls.__new__(cls)
    base.__init__(made, shell())
    return made


def set_magics(target: Any, state: dict[str, Any]) -> None:
    """What an object with magics held."""
    target.__dict__.update(state.get("attributes", {}))
    target._trait_values.update(state.get("traits", {}))
