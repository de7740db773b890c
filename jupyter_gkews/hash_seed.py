"""The seed of a kernel's string hashes: a resumed process gets the one that the paused one had.

So hashes that objects have stored stay true. Each other launch gets a seed of its own, at random.
One that the user has set (PYTHONHASHSEED) is never replaced.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from .errors import GkewsError
from .kernel.protocol import ENV_HASH_SEED

#: PYTHONHASHSEED is at most this; 0 would turn the randomization off.
MAX = 4294967295


def give(env: dict[str, str], store: Path, checkpoint: str | None) -> None:
    """Set the seed in the environment of a launch that loads `checkpoint` (None: nothing).

    The kernel side takes it out of the process's environment again: its children are on their own.
    """
    if env.get("PYTHONHASHSEED"):
        return
    seed = _saved(store, checkpoint) if checkpoint is not None else None
    if seed is None:
        seed = 1 + secrets.randbelow(MAX)
    env["PYTHONHASHSEED"] = env[ENV_HASH_SEED] = str(seed)


def _saved(store: Path, checkpoint: str) -> int | None:
    """The seed of the process that made a checkpoint; None where it is not known."""
    from .kernel.checkpoint.store import CheckpointStore

    try:
        seed = CheckpointStore(store).manifest(checkpoint).state.get("hash_seed")
    except GkewsError:  # the kernel meets it as well, and tells
        return None
    return seed if isinstance(seed, int) and 0 < seed <= MAX else None
