"""Python's cyclic garbage collector, held still while very many objects are made or described.

Nothing that a save or a restore makes is garbage before it ends, and a collector that looks
through a million new objects again and again doubles the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """No automatic collection within this block; afterwards as it was."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
