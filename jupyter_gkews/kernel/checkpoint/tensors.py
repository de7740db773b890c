"""How numpy arrays and torch tensors go into a graph: as descriptions of shared memory.

The bytes themselves are registered in Buffers and leave the pickle. Only looked at if the
process has imported numpy or torch; never imports them, never copies or moves data.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import rebuild

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


class StorageToken:
    """Stands in the graph for one torch storage, so that it is described once."""

    __slots__ = ("device", "index")

    def __init__(self, index: int, device: str) -> None:
        self.index = index
        self.device = device

    def __reduce__(self) -> Reduced:
        return rebuild.storage, (self.index, self.device)


# ---- numpy ----


def reduce_array(writer: GraphWriter, array: Any) -> Any:
    """An exact numpy.ndarray without Python objects inside; anything else as numpy does."""
    if array.dtype.hasobject or array.size == 0:
        return NotImplemented
    writer.uses_module("numpy")
    low, high = _bounds(array)
    index = writer.buffers.add(low, high - low, array, "numpy")
    offset = array.__array_interface__["data"][0] - low
    strides = None if array.flags.c_contiguous else array.strides
    writeable = bool(array.flags.writeable)
    return rebuild.array, (index, array.dtype, array.shape, strides, offset, writeable)


def _bounds(array: Any) -> tuple[int, int]:
    """First and one-past-last address of what the array looks at."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def reduce_array_subclass(writer: GraphWriter, array: Any) -> Any:
    """matrix, recarray and the like: the plain array seen as its class, plus attributes."""
    numpy = sys.modules["numpy"]
    cls = type(array)
    if (
        cls.__reduce__ is not numpy.ndarray.__reduce__
        or cls.__reduce_ex__ is not numpy.ndarray.__reduce_ex__
    ):
        return NotImplemented
    if cls.__setstate__ is not numpy.ndarray.__setstate__:
        return NotImplemented
    attributes = getattr(array, "__dict__", None) or None
    setter = rebuild.update_attributes if attributes else None
    plain = array.view(numpy.ndarray)
    return rebuild.array_view, (plain, cls), attributes, None, None, setter


# ---- torch ----


def reduce_tensor(writer: GraphWriter, tensor: Any) -> Any:
    """A strided tensor on a real storage; other layouts go as torch does, storages out-of-band."""
    torch = sys.modules["torch"]
    cls = type(tensor)
    device = tensor.device.type
    writer.uses_device(str(tensor.device))
    if not tensor.is_leaf:
        writer.note_rebuilt("its autograd graph is lost; the values are kept", tensor)
    plain = (
        tensor.layout is torch.strided
        and device in ("cpu", "cuda", "xpu", "hpu", "mps")
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_nested
        and cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        and cls.__reduce_ex__ in (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__)
    )
    if not plain:
        if not tensor.is_leaf:
            tensor = writer.keep(tensor.detach())
        return writer.guarded(tensor)
    state: dict[str, Any] = {}
    if tensor.__dict__:
        state["attributes"] = tensor.__dict__
    if tensor.is_leaf and tensor.grad is not None:
        state["grad"] = tensor.grad
    if tensor.is_leaf and tensor._backward_hooks:
        state["hooks"] = tensor._backward_hooks
    token = storage_token(writer, tensor.untyped_storage())
    args = (
        cls,
        token,
        tensor.dtype,
        tuple(tensor.size()),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad and tensor.is_leaf,
    )
    return rebuild.tensor, args, state or None, None, None, rebuild.set_tensor if state else None


def storage_token(writer: GraphWriter, storage: Any) -> StorageToken:
    """The one token of a storage."""
    key = storage._cdata
    token = writer.storage_tokens.get(key)
    if token is None:
        writer.uses_module("torch")
        device = str(storage.device)
        space = "" if device == "cpu" else device
        address, nbytes = storage.data_ptr(), storage.nbytes()
        index = -1  # nothing to write
        if nbytes:
            index = writer.buffers.add(address, nbytes, storage, "torch", space)
        token = StorageToken(index, device)
        writer.storage_tokens[key] = token
        writer.keep(storage)
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


def reduce_generator(writer: GraphWriter, generator: Any) -> Any:
    """A torch.Generator with its state."""
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
        writer.base_handlers.append((numpy.ndarray, reduce_array_subclass))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "UntypedStorage"):
        writer.base_handlers.append((torch.Tensor, reduce_tensor))
        writer.handlers[torch.UntypedStorage] = reduce_storage
        writer.base_handlers.append((torch.storage.TypedStorage, reduce_storage))
        writer.handlers[torch.Generator] = reduce_generator
        for constant in (torch.float32, torch.strided, torch.contiguous_format):
            writer.handlers[type(constant)] = reduce_torch_constant
