"""What the server hands to a kernel's launch: settings, adopted processes, where packages lie.

Plain data; starts nothing.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .kernel.protocol import RestoreOrder


@dataclass
class PausedProcess:
    """What a kernel needs to be paused from its birth (adoption after a server restart)."""

    kernel_info: dict[str, Any]  # content of its last kernel_info_reply


@dataclass
class StoppedProcess:
    """What a stopped kernel's processes held, in bytes."""

    ram: int
    vram: int


@dataclass
class LaunchSettings:
    """How kernels are launched. GkewsApp sets one, `gkews_launch`, on the MappingKernelManager."""

    store: Path
    runtime: Path  # holds one run directory (0700) a kernel
    restore_orders: dict[str, RestoreOrder] = field(default_factory=dict)
    """kernel id -> what its next launch shall load; consumed by that launch."""
    born_paused: dict[str, PausedProcess] = field(default_factory=dict)
    """kernel id -> its launch starts no process, the kernel is paused from the start."""
    notebook_of: Callable[[str], str | None] = lambda kernel_id: None


def pure_python_path() -> list[str]:
    """Where the server's cloudpickle lies, for kernels whose environment has none."""
    spec = importlib.util.find_spec("cloudpickle")
    if spec is None or not spec.origin:
        return []
    return [os.path.dirname(os.path.dirname(spec.origin))]
