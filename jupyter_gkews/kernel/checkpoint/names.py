"""What is learned about one name of a namespace while it is written, and how its writing may fail.

Facts only; it writes and reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .placeholders import Loss

#: How many pickles at the start of a stream are not names (GraphWriter._announce).
ANNOUNCED = 2


@dataclass
class NameRecord:
    """What was learned about one name while it was written. Sizes in bytes."""

    name: str
    losses: list[tuple[Any, Loss]] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    graph_bytes: int = 0
    buffer_bytes: int = 0
    #: pickles before it that are no names (GraphWriter._announce)
    announced: int = 0


class NameFailedError(Exception):
    """The pickler could not write a name at all; `reason` is a clause for its loss."""

    def __init__(self, name: str, reason: str, announced: int = 0) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason
        self.announced = announced
