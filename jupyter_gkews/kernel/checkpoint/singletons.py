"""Objects of the process itself: found again in the process that loads, never copied.

The running IPython shell and its parts, ipykernel's application with all that belongs to it, and
the standard streams that the process began with. In a test load, where there is no shell, a
stand-in takes its place.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from typing import Any

from . import identities, rebuild, torch_process

Reduced = tuple[Any, ...]


class StandIn:
    """Takes the place of the shell and its parts where there is none: accepts any use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> StandIn:
        """Itself again."""
        return self


def found_again() -> dict[int, tuple[Any, Reduced]]:
    """All that is found again instead of copied, by id: objects of the process, and objects of
    modules that others compare by identity."""
    return {**identities.sentinels(), **process_objects()}


def process_objects() -> dict[int, tuple[Any, Reduced]]:
    """Objects of the process itself, found again instead of copied, by id."""
    found: dict[int, tuple[Any, Reduced]] = {}
    # Those of the start: what a cell has put in their place is an object like others.
    for name, stream in (_streams_at_start or _streams()).items():
        if stream is not None:
            found.setdefault(id(stream), (stream, (rebuild.std_stream, (name,))))
    for (module, name), table in torch_process.tables().items():
        if table:  # else every dictionary of its kind would be looked at
            found[id(table)] = (table, (rebuild.attribute, (sys.modules[module], name)))
    found.update(identities.shared())
    shell = rebuild.shell()
    if shell is not None:
        found[id(shell)] = (shell, (rebuild.shell, ()))
        for name in _SHELL_PARTS:
            part = getattr(shell, name, None)
            if part is not None:
                found[id(part)] = (part, (rebuild.attribute, (shell, name)))
        for part, path in _kernel_parts(shell).values():
            found.setdefault(id(part), (part, (rebuild.attribute, (shell, path))))
    return found


def _streams() -> dict[str, Any]:
    return {name: getattr(sys, name, None) for name in _STREAMS}


_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_streams_at_start: dict[str, Any] = {}


def note_start() -> None:
    """Remember the streams that the process has now as its own. For a process whose streams only
    cells replace."""
    _streams_at_start.update(_streams())


#: What makes up a kernel: classes of these packages, threads and event loops.
_OF_KERNELS = frozenset(("ipykernel", "jupyter_client", "zmq", "tornado"))
#: Steps from the kernel to the farthest part that cells can get hold of.
_FAR = 4


def _kernel_parts(shell: Any) -> dict[int, tuple[Any, str]]:
    """The kernel, its application and what they consist of (sessions, threads, sockets, loops),
    each with its path from the shell, by id."""
    kernel = getattr(shell, "kernel", None)
    found: dict[int, tuple[Any, str]] = {}
    border = [] if kernel is None else [(kernel, "kernel")]
    for _ in range(_FAR):
        following = []
        for part, path in border:
            if id(part) in found or id(part) == id(shell):
                continue
            found[id(part)] = (part, path)
            for name, each in _attributes(part):
                if _is_of_kernels(each) and id(each) not in found:
                    following.append((each, f"{path}.{name}"))
        border = following
    return found


def _attributes(part: Any) -> list[tuple[str, Any]]:
    """By what C code and traitlets store: no property runs."""
    try:
        held = dict(object.__getattribute__(part, "__dict__"))
    except (AttributeError, TypeError):
        return []
    traits = held.pop("_trait_values", None)
    if type(traits) is dict:
        held.update(traits)
    return [(name, value) for name, value in held.items() if isinstance(name, str)]


def _is_of_kernels(value: Any) -> bool:
    cls = type(value)
    if issubclass(cls, (type, types.FunctionType, types.ModuleType)):
        return False
    root = str(cls.__module__).split(".")[0]
    return root in _OF_KERNELS or issubclass(cls, (threading.Thread, asyncio.AbstractEventLoop))


def is_kernels_own(cls: type) -> bool:
    """Whether objects of a class are parts of the process of a kernel, wherever they are held."""
    name = str(cls.__module__)
    return name.startswith("ipykernel.") and not name.startswith(
        ("ipykernel.comm", "ipykernel.pylab")
    )


_SHELL_PARTS = (
    "events",
    "history_manager",
    "display_formatter",
    "displayhook",
    "display_pub",
    "kernel",
    "magics_manager",
    "alias_manager",
    "extension_manager",
    "compile",
    "config",
    "input_transformer_manager",
)
