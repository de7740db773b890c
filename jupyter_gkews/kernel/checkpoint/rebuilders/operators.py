"""Operators of torch (`torch.ops.aten.add.Tensor`): found again by name, as the process's own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced

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
    return found


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


def operator_named(path: str) -> Any:
    """The operator; AttributeError where the library that brings it is not loaded."""
    return _found(path)
