"""Python's cyclic garbage collector, held still while very many objects are made or described.

Nothing that a save or a restore makes is garbage before it ends, and a collector that looks
through a million new objects again and again doubles the time. The objects of imported modules
stay as well: of the time of their imports a fifth went into looking through them.
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


@contextmanager
def collector_put_off() -> Iterator[None]:
    """No automatic collection within this block, in which code may run that sets the collector up:
    what it has set is kept. What is there afterwards counts as old."""
    first, *others = gc.get_threshold()
    gc.set_threshold(0, *others)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == 0:
            gc.set_threshold(first, *gc.get_threshold()[1:])
        count_as_old()


def count_as_old() -> None:
    """Spare the next collection of new objects a look through all that is there: a full one still
    looks. Does nothing where something is frozen, which would be thawed (3.12 begins with some)."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
