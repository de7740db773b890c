"""What every procedure of the lifecycle works with; built once by GkewsApp."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ..engines.base import WorkspaceEngine
from ..engines.registry import Engines
from .announcer import Announcer
from .interfaces import Kernels, Store
from .records import PausedRecords


@dataclass(frozen=True)
class Settings:
    """The traits of GkewsApp that the lifecycle obeys. Times in seconds."""

    auto_resume: bool = True
    idle_timeout_s: float | None = None
    answer_timeout_s: float = 30.0
    on_missing_gpu: str = "cpu"
    gpu_wait_s: float = 600.0
    verify: str = "fast"
    prove: str = "scratch"
    compress: str = "none"
    keep_checkpoints: int = 3
    delete_after_s: float | None = None
    checkpoint_in_background: bool = True


@dataclass(frozen=True)
class Context:
    """The collaborators, handed down instead of looked up."""

    kernels: Kernels
    store: Store
    records: PausedRecords
    settings: Settings
    announcer: Announcer
    log: logging.Logger
    engines: Engines = field(default_factory=lambda: Engines({}))
    workspace_engine: Callable[[], WorkspaceEngine | None] = lambda: None
    """Makes the engine for the whole workspace; None where this server lives in none."""
    base_url: str = "/"
