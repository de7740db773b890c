"""How numpy arrays and torch tensors go into a graph: as descriptions of shared memory.

The bytes themselves are registered in Buffers and leave the pickle. Only looked at if the
process has imported numpy or torch; never imports them, never copies or moves data.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import arrays, foreign_memory, layouts, rebuild, shared_storages

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


class StorageToken:
    """Stands in the graph for one torch storage, so that it is described once."""

    __slots__ = ("args", "make", "view")

    def __init__(self, make: Any, *args: Any) -> None:
        self.make = make
        self.args = args
        self.view = -1  # of its memory; -1: it has none that is written

    def __reduce__(self) -> Reduced:
        return self.make, self.args


# ---- numpy ----


def reduce_array(writer: GraphWriter, array: Any) -> Any:
    """An exact numpy.ndarray: on memory of its own, or on that of another object; empty ones and
    those that own their objects as numpy does."""
    shared = arrays.reduce_shared(array, writer.held_maps)
    if shared is not None:
        return shared
    if array.dtype.hasobject or array.size == 0:
        return NotImplemented
    writer.uses_module("numpy")
    low, high = arrays.bounds(array)
    index = writer.buffers.add(low, high - low, array, "numpy")
    offset = array.__array_interface__["data"][0] - low
    usual = array.flags.c_contiguous and 1 not in array.shape
    strides = None if usual else array.strides
    writeable = bool(array.flags.writeable)
    return rebuild.array, (index, array.dtype, array.shape, strides, offset, writeable)


def reduce_array_subclass(writer: GraphWriter, array: Any) -> Any:
    """matrix, recarray and the like: the plain array seen as its class, plus attributes."""
    numpy = sys.modules["numpy"]
    cls = type(array)
    if cls.__reduce_ex__ is not numpy.ndarray.__reduce_ex__:
        return NotImplemented
    own = (cls.__reduce__, cls.__setstate__)
    of_numpy = (numpy.ndarray.__reduce__, numpy.ndarray.__setstate__)
    if own != of_numpy and not arrays.is_masked(cls):
        return NotImplemented
    attributes = getattr(array, "__dict__", None) or None
    setter = rebuild.update_attributes if attributes else None
    plain = array.view(numpy.ndarray)
    return rebuild.array_view, (plain, cls), attributes, None, None, setter


# ---- torch ----


#: Devices whose tensors have no storage with bytes that can be read.
_WITHOUT_BYTES = ("meta", "xla", "lazy", "vulkan", "opengl")


def reduce_tensor(writer: GraphWriter, tensor: Any) -> Any:
    """A strided tensor on a real storage, or what stands on such; others go as torch does, their
    storages out-of-band."""
    torch = sys.modules["torch"]
    cls = type(tensor)
    writer.uses_device(str(tensor.device))
    if layouts.is_uninitialised(cls):
        return layouts.reduce_uninitialised(tensor)
    if not tensor.is_leaf:
        writer.note_rebuilt("its autograd graph is lost; the values are kept", tensor)
    own = (
        cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        or cls.__reduce_ex__ not in (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__)
        or tensor.device.type in _WITHOUT_BYTES
        or tensor.is_quantized
        or tensor.is_nested
    )
    state = _state(tensor)
    wants_grad = tensor.requires_grad and tensor.is_leaf
    parts = None if own else layouts.parts_of(writer, tensor)
    if parts is not None:
        make, args = parts
        plain = writer.keep(_Described(make, args))
        args = (cls, plain, wants_grad)
        return layouts.as_class, args, state or None, None, None, _setter(state)
    if own or tensor.layout is not torch.strided:
        if not tensor.is_leaf:
            tensor = writer.keep(tensor.detach())
        return writer.guarded(tensor)
    token = storage_token(writer, tensor.untyped_storage())
    args = (
        cls,
        token,
        tensor.dtype,
        tuple(tensor.size()),
        tensor.stride(),
        tensor.storage_offset(),
        wants_grad,
    )
    make = rebuild.inference_tensor if tensor.is_inference() else rebuild.tensor
    return make, args, state or None, None, None, _setter(state)


class _Described:
    """What the graph makes of parts, without an object of its own here."""

    __slots__ = ("reduced",)

    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Reduced:
        return self.reduced


def _state(tensor: Any) -> dict[str, Any]:
    state: dict[str, Any] = {}
    if tensor.__dict__:
        state["attributes"] = tensor.__dict__
    # A tensor inside a graph has a gradient only if it was told to retain it; asking others warns.
    if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        state["grad"] = tensor.grad
    if tensor.is_leaf and tensor._backward_hooks:
        state["hooks"] = tensor._backward_hooks
    if tensor.is_leaf and getattr(tensor, "_post_accumulate_grad_hooks", None):
        state["accumulated"] = tensor._post_accumulate_grad_hooks
    return state


def _setter(state: dict[str, Any]) -> Any:
    return rebuild.set_tensor if state else None


def storage_token(writer: GraphWriter, storage: Any) -> StorageToken:
    """The one token of a storage."""
    key = storage._cdata
    token = writer.storage_tokens.get(key)
    if token is None:
        writer.uses_module("torch")
        device = "cpu" if storage.device.type == "cpu" else str(storage.device)  # not cpu:0
        space = "" if device == "cpu" else device
        kind = shared_storages.kind_of(storage) if not space and storage.nbytes() else ""
        foreign = not space and bool(storage.nbytes()) and foreign_memory.may_be_foreign(storage)
        owned = None
        if foreign:
            writer.foreign.append((storage.data_ptr(), storage.nbytes()))
            owned = writer.owners.of(*writer.foreign[-1])
        if owned is not None:
            token = StorageToken(foreign_memory.storage_on, *owned, storage.nbytes())
        elif kind.startswith("file:"):
            path = kind[len("file:") :]
            writer.note_rebuilt(f"the file {path} is mapped again", storage)
            token = StorageToken(shared_storages.mapped_file, path, storage.nbytes())
        else:
            address, nbytes = storage.data_ptr(), storage.nbytes()
            index = -1  # nothing to write
            if nbytes:
                index = writer.buffers.add(address, nbytes, storage, "torch", space)
            token = StorageToken(rebuild.storage, index, device)
            if kind:
                token = StorageToken(shared_storages.placed, token, kind)
            token.view = index
        writer.storage_tokens[key] = token
        writer.keep(storage)
    writer.buffers.use(token.view)
    return token


def reduce_storage(writer: GraphWriter, storage: Any) -> Any:
    """A storage met by itself, or inside the reduce of a sparse or quantised tensor."""
    torch = sys.modules["torch"]
    if isinstance(storage, torch.storage.TypedStorage):
        if storage.device.type == "meta":
            return NotImplemented
        return rebuild.typed_storage, (storage._untyped_storage, storage.dtype)
    if storage.device.type == "meta":
        return NotImplemented
    return storage_token(writer, storage).__reduce__()


def reduce_torch_constant(writer: GraphWriter, value: Any) -> Any:
    """torch.float32, torch.strided ...: by name, without a search through all modules."""
    torch = sys.modules["torch"]
    name = str(value).rsplit(".", 1)[-1]
    if getattr(torch, name, None) is value:
        return rebuild.attribute, (torch, name)
    return NotImplemented


def reduce_limits(writer: GraphWriter, limits: Any) -> Reduced:
    """torch.finfo and torch.iinfo of a dtype."""
    torch = sys.modules["torch"]
    return type(limits), (getattr(torch, str(limits.dtype).rsplit(".", 1)[-1]),)


def reduce_generator(writer: GraphWriter, generator: Any) -> Any:
    """A torch.Generator with its state; the default one of a device is the process's own."""
    torch = sys.modules["torch"]
    if generator is torch.default_generator:
        return rebuild.attribute, (torch, "default_generator")
    device = str(generator.device)
    writer.uses_device(device)
    return rebuild.generator, (device, generator.get_state())


def is_parametrized(cls: type) -> bool:
    """Whether torch made this class for one parametrized module (weight_norm and the like)."""
    own = vars(cls).get("__getstate__")
    return getattr(own, "__module__", None) == "torch.nn.utils.parametrize" and bool(cls.__bases__)


def reduce_parametrized(writer: GraphWriter, module: Any) -> Reduced:
    """A module with parametrizations: its class is made anew, by torch, from the class that it
    had; the original tensors and the parametrizations are parts of the module like others."""
    writer.uses_module("torch.nn.utils.parametrize")
    base = type(module).__bases__[0]
    getter = getattr(base, "__getstate__", None)
    inherited = getter is None or getter is getattr(object, "__getstate__", None)
    state = dict(vars(module)) if inherited else getter(module)  # type: ignore[misc]
    names = tuple(module.parametrizations)
    return rebuild.parametrized, (base, names), state, None, None, rebuild.set_state


def register(writer: GraphWriter) -> None:
    """Teach `writer` the types of numpy and torch, as far as they are imported."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "ndarray"):
        writer.handlers[numpy.ndarray] = reduce_array
        writer.handlers[numpy.flatiter] = arrays.reduce_flat_iterator
        writer.base_handlers.append((numpy.ndarray, reduce_array_subclass))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "UntypedStorage"):
        writer.base_handlers.append((torch.Tensor, reduce_tensor))
        writer.handlers[torch.UntypedStorage] = reduce_storage
        writer.base_handlers.append((torch.storage.TypedStorage, reduce_storage))
        writer.handlers[torch.Generator] = reduce_generator
        for constant in (torch.float32, torch.strided, torch.contiguous_format):
            writer.handlers[type(constant)] = reduce_torch_constant
        for limits in (torch.finfo, torch.iinfo):
            writer.handlers[limits] = reduce_limits
