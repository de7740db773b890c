"""Tensors that are not one strided storage: sparse, conjugate and negative views, lazy parameters.

They go into a graph as the strided tensors that they stand on, so that what shares memory still
does. It never imports torch, and never copies what it can describe.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


def parts_of(writer: GraphWriter, tensor: Any) -> Reduced | None:
    """(constructor, arguments) of a tensor of another layout; None where torch's own way is as
    good (quantised, meta, nested) or the tensor is an ordinary one."""
    torch = sys.modules["torch"]
    plain = tensor.detach()
    members: tuple[Any, ...]
    if plain.layout is torch.sparse_coo:
        members = (plain._indices(), plain._values())
        return coo, (*map(writer.keep, members), tuple(plain.size()), plain.is_coalesced())
    if plain.layout in (torch.sparse_csr, torch.sparse_bsr):
        members = (plain.crow_indices(), plain.col_indices(), plain.values())
    elif plain.layout in (torch.sparse_csc, torch.sparse_bsc):
        members = (plain.ccol_indices(), plain.row_indices(), plain.values())
    elif str(plain.layout) == "torch._mkldnn":
        return mkldnn, (writer.keep(plain.to_dense()),)
    elif plain.layout is torch.strided and (plain.is_conj() or plain.is_neg()):
        conj, neg = plain.is_conj(), plain.is_neg()
        plain = torch._neg_view(plain) if neg else plain
        return seen_as, (writer.keep(plain.conj() if conj else plain), conj, neg)
    else:
        return None
    return compressed, (*map(writer.keep, members), tuple(plain.size()), plain.layout)


def reduce_uninitialised(tensor: Any) -> Reduced:
    """A parameter or buffer of a lazy module, which has no shape yet."""
    attributes = dict(tensor.__dict__)
    args = (type(tensor), tensor.requires_grad, str(tensor.device), tensor.data.dtype)
    return uninitialised, args, attributes or None, None, None, _set_attributes


def is_uninitialised(cls: type) -> bool:
    """Whether tensors of this class have no shape yet."""
    parameter = sys.modules.get("torch.nn.parameter")
    mixin = getattr(parameter, "UninitializedTensorMixin", None)
    return mixin is not None and issubclass(cls, mixin)


# ---- called by the graph ----


def coo(indices: Any, values: Any, size: Any, coalesced: bool) -> Any:
    """A sparse tensor of coordinates on its indices and values."""
    torch = sys.modules["torch"]
    return torch.sparse_coo_tensor(
        indices, values, size, check_invariants=False, is_coalesced=coalesced
    )


def compressed(outer: Any, inner: Any, values: Any, size: Any, layout: Any) -> Any:
    """A sparse tensor of compressed rows or columns (CSR, CSC, BSR, BSC) on its parts."""
    torch = sys.modules["torch"]
    return torch.sparse_compressed_tensor(
        outer, inner, values, size, layout=layout, check_invariants=False
    )


def mkldnn(dense: Any) -> Any:
    """A tensor in oneDNN's own layout."""
    return dense.to_mkldnn()


def seen_as(plain: Any, conj: bool, neg: bool) -> Any:
    """The conjugate or negative view of a tensor."""
    torch = sys.modules["torch"]
    made = plain.conj() if conj else plain
    return torch._neg_view(made) if neg else made


def as_class(cls: Any, made: Any, requires_grad: bool) -> Any:
    """A tensor seen as its class, with a gradient to come or without."""
    torch = sys.modules["torch"]
    if cls is torch.Tensor:
        return made.requires_grad_(True) if requires_grad else made
    return torch.Tensor._make_subclass(cls, made, requires_grad)


def uninitialised(cls: Any, requires_grad: bool, device: str, dtype: Any) -> Any:
    """A parameter or buffer without a shape, on the CPU if its device is not there."""
    try:
        return cls(requires_grad=requires_grad, device=device, dtype=dtype)
    except (RuntimeError, AssertionError):
        return cls(requires_grad=requires_grad, dtype=dtype)


def _set_attributes(target: Any, attributes: dict[str, Any]) -> None:
    target.__dict__.update(attributes)
