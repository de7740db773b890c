"""Objects that are not data but can be made again in another process: a small registry, and one
module for each family of kinds. docs/rebuilders.md is for those who write their own.

A rebuilt object never truncates, creates or changes a file.
"""

from __future__ import annotations

from .interface import CannotKeepError, Rebuilder
from .registry import (
    capture,
    forget_rebuilder,
    not_compared,
    put_back,
    register,
    register_rebuilder,
    types_of_ours,
)

__all__ = [
    "CannotKeepError",
    "Rebuilder",
    "capture",
    "forget_rebuilder",
    "not_compared",
    "put_back",
    "register",
    "register_rebuilder",
    "types_of_ours",
]
