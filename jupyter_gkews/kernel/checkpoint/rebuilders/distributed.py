"""Distributed training as one process sees it: groups end with the process, models do not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import not_to_compare

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Groups, stores and the wrapper of models."""
    found: dict[type, Handler] = {}
    for module, name, handler in (
        ("torch.nn.parallel.distributed", "DistributedDataParallel", reduce_wrapper),
        ("torch.distributed.distributed_c10d", "ProcessGroup", reduce_group),
        ("torch.distributed.distributed_c10d", "Store", reduce_store),
        ("torch.distributed", "Work", reduce_work),
        ("torch.futures", "Future", reduce_future),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found[cls] = handler
    return found


def reduce_group(writer: GraphWriter, group: Any) -> Reduced:
    """Never kept."""
    reason = "a process group ends with its process: call init_process_group() again"
    raise CannotKeepError("a process group", reason)


def reduce_store(writer: GraphWriter, store: Any) -> Reduced:
    """Never kept."""
    raise CannotKeepError("a store of a process group", "its connections end with the process")


def reduce_work(writer: GraphWriter, work: Any) -> Reduced:
    """Never kept."""
    raise CannotKeepError("an operation of a process group", "it ends with its process")


def reduce_future(writer: GraphWriter, future: Any) -> Reduced:
    """A finished one keeps its value."""
    if not future.done():
        raise CannotKeepError("a future of torch", "what it waits for ends with the process")
    stands_in(writer, future)
    return finished, (future.value(),)


def reduce_wrapper(writer: GraphWriter, wrapper: Any) -> Reduced:
    """DistributedDataParallel cannot be without a group: its module in a DataParallel."""
    writer.note_rebuilt(
        "its process group is gone: it is a DataParallel around its module now; wrap the module "
        "again after init_process_group()",
        wrapper,
    )
    stands_in(writer, wrapper)
    return alone, (wrapper.module, wrapper.training)


# ---- called by the graph ----


def finished(value: Any) -> Any:
    """A future that has its value."""
    torch = sys.modules["torch"]
    made = torch.futures.Future()
    made.set_result(value)
    return not_to_compare(made)


def alone(module: Any, training: bool) -> Any:
    """A module with the attribute `module`, that needs no group."""
    torch = sys.modules["torch"]
    first = next(iter(module.parameters()), None)
    devices = [first.device] if first is not None and first.device.type == "cuda" else None
    made = torch.nn.DataParallel(module, device_ids=devices)
    made.training = training
    return not_to_compare(made)
