"""Operators of torch (`torch.ops.aten.add.Tensor`): found again by name, as the process's own."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import not_to_compare

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """Operators, their packets and namespaces."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Operators, their packets and namespaces, as far as this torch has them."""
    ops: Any = sys.modules.get("torch._ops")
    found: dict[type, Handler] = {}
    for name, handler in (
        ("OpOverload", reduce_overload),
        ("OpOverloadPacket", reduce_packet),
        ("_OpNamespace", reduce_namespace),
    ):
        if hasattr(ops, name):
            found[getattr(ops, name)] = handler
    definitions: Any = sys.modules.get("torch._library.custom_ops")
    if hasattr(definitions, "CustomOpDef"):
        found[definitions.CustomOpDef] = reduce_definition
    library: Any = sys.modules.get("torch.library")
    if hasattr(library, "Library"):
        found[library.Library] = reduce_library
    return found


def reduce_definition(writer: GraphWriter, definition: Any) -> Reduced:
    """An operator that torch.library.custom_op made of a function of the user's."""
    if definition._used_triton_kernels or definition._torch_dispatch_fns:
        raise CannotKeepError("a custom operator", "it was registered with more than functions")
    stands_in(writer, definition)
    writer.note_rebuilt("a custom operator is registered again", definition)
    kernels = {
        device: _plain(function) for device, function in definition._backend_fns.items() if device
    }
    args = (definition._namespace, definition._name, definition._schema, definition._init_fn)
    setup, backward = definition._setup_context_fn, definition._backward_fn
    more = (definition._abstract_fn, setup, backward, kernels)
    return define_again, (*args, *more)


def _plain(function: Any) -> Any:
    """What the user gave, under torch's wrapper."""
    return getattr(function, "__wrapped__", function)


def reduce_library(writer: GraphWriter, library: Any) -> Reduced:
    """torch.library.Library holds registrations of the running process."""
    reason = "its registrations end with the process: run its cells again"
    raise CannotKeepError("a library of operators", reason)


def reduce_overload(writer: GraphWriter, operator: Any) -> Reduced:
    """`torch.ops.<namespace>.<name>.<overload>`."""
    packet = operator._overloadpacket
    return _named(operator, f"{_path(packet)}.{operator._overloadname}")


def reduce_packet(writer: GraphWriter, packet: Any) -> Reduced:
    """`torch.ops.<namespace>.<name>`."""
    return _named(packet, _path(packet))


def reduce_namespace(writer: GraphWriter, namespace: Any) -> Reduced:
    """`torch.ops.<namespace>`."""
    return _named(namespace, namespace.name)


def _path(packet: Any) -> str:
    return str(packet._qualified_op_name).replace("::", ".")


def _named(obj: Any, path: str) -> Reduced:
    if _found(path) is not obj:
        raise CannotKeepError("an operator of torch", f"torch.ops.{path} is another one now")
    return operator_named, (path,)


def _found(path: str) -> Any:
    found: Any = sys.modules["torch"].ops
    for name in path.split("."):
        found = getattr(found, name)
    return found


# ---- called by the graph ----


def define_again(
    namespace: str,
    name: str,
    schema: str,
    function: Any,
    fake: Any,
    setup: Any,
    backward: Any,
    kernels: dict[str, Any],
) -> Any:
    """A custom operator, registered in this process with what it had."""
    library: Any = importlib.import_module("torch._library.custom_ops")
    made = library.CustomOpDef(namespace, name, schema, function)
    made.register_kernel(None)(function)
    for device, kernel in kernels.items():
        made.register_kernel(device)(kernel)
    if fake is not None:
        made.register_fake(fake)
    if backward is not None:
        made.register_autograd(backward, setup_context=setup)
    return not_to_compare(made)


def operator_named(path: str) -> Any:
    """The operator; AttributeError where the library that brings it is not loaded."""
    return _found(path)
