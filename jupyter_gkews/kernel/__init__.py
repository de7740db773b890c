"""The half that runs in the kernel's process: checkpoint, session, magics.

Imports nothing of the server; needs only the standard library and IPython, and uses cloudpickle
and blake3 where they can be imported. Python >= 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checkpoint.rebuilders import (
        CannotKeepError,
        Rebuilder,
        forget_rebuilder,
        register_rebuilder,
    )

#: For notebooks and packages that bring rebuilders of their own (docs/rebuilders.md).
__all__ = ["CannotKeepError", "Rebuilder", "forget_rebuilder", "register_rebuilder"]


def __getattr__(name: str) -> Any:
    # not imported before it is asked for: the server imports this package for its protocol alone
    if name in __all__:
        from .checkpoint import rebuilders

        return getattr(rebuilders, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
