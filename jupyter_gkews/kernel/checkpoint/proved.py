"""What this process has had proved: the same bytes, loaded the same way, need no second load.

A verdict is carried over only where everything that a test load depends on is what it was: the
graph, the memory, the process state, the environment, and the files of all imported modules. It
never carries one over from another process, nor one that depends on a file of the user's.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plain_json as json
from .module_files import signatures

if TYPE_CHECKING:
    from .manifest import Manifest

#: What of a manifest says nothing about how it loads: a load never reads the rows of `process`,
#: which also tell what runs beside (a thread or a child process that has ended since).
_OF_ITSELF = (
    "id",
    "created",
    "name",
    "kernel",
    "notebook",
    "bytes",
    "process",
    "seconds",
    "proved",
    "sequence",
)
#: How many verdicts are remembered.
_MANY = 8


@dataclass(frozen=True)
class Inputs:
    """All that a test load depends on, as one hash."""

    digest: str
    outside: bool
    """Whether it depends on files that nothing here looks at."""

    @classmethod
    def now(cls, root: Path, manifest: Manifest, expected: list[list[Any]]) -> Inputs:
        """Of this checkpoint, at this moment. `expected`: its fingerprints in the kernel."""
        content = {k: v for k, v in vars(manifest).items() if k not in _OF_ITSELF}
        process = [sys.path, sorted(os.environ.items()), str(root)]
        referred = [row["path"] for row in manifest.files()]  # weights that stand in files
        files = sorted({**signatures(), **signatures(referred)}.items())
        digest = hashlib.blake2b(digest_size=32)
        for part in (content, process, files, expected):
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
            digest.update(b"\0")
        # Whatever is re-created may be so from a file: its fate can change with the file.
        return cls(digest.hexdigest(), bool(manifest.rebuilt))


@dataclass(frozen=True)
class Proved:
    """A verdict (proof.Verdict): of which checkpoint's test load, and when."""

    checkpoint: str
    when: str
    verdict: Any
    why: str | None = None


_remembered: dict[str, Proved] = {}


def remember(inputs: Inputs, checkpoint: str, verdict: Any) -> Proved:
    """The verdict of a test load that has just ended."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    found = Proved(checkpoint, now, verdict)
    if not inputs.outside:
        _remembered.pop(inputs.digest, None)
        _remembered[inputs.digest] = found
        while len(_remembered) > _MANY:
            del _remembered[next(iter(_remembered))]
    return found


def find(inputs: Inputs, manifest: Manifest, trusted: set[str]) -> Proved | None:
    """The verdict that holds for this checkpoint as well; None if it must be loaded.

    `inputs`: of this moment; `trusted`: chunks whose files are those that this process wrote or
    checked.
    """
    if not _remembered or not all(name in trusted for name, _, _ in manifest.chunks):
        return None
    found = _remembered.get(inputs.digest)
    if found is None:
        return None
    why = "the very same had been loaded by then, and nothing it depends on has changed since"
    return replace(found, why=why)
