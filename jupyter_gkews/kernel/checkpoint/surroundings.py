"""What surrounds a load: imports by the recorded files, and no change of the user's files.

It says afterwards what was not as it was, or was held back. It loads nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import file_guard, guarded_calls, own_imports

if TYPE_CHECKING:
    from .manifest import Manifest


@dataclass
class Surroundings:
    """Of one load. `guard` is None in a scratch process, which has one for all that it does."""

    guard: file_guard.FileGuard | None
    notes: dict[str, str] = field(default_factory=dict)
    held: list[file_guard.Attempt] = field(default_factory=list)

    def imports_done(self) -> None:
        """From here on, what libraries do for objects of the checkpoint is held back as well."""
        if self.guard is not None:
            self.guard.importing = False

    def told(self) -> list[dict[str, Any]]:
        """Rows {"name", "reason", "cell"} of what came back otherwise than it was."""
        whose = {f"module {name}": note for name, note in self.notes.items()}
        for subject, text in file_guard.told(self.held).items():
            whose[subject] = f"{whose[subject]}; {text}" if subject in whose else text
        return [{"name": name, "reason": text, "cell": None} for name, text in whose.items()]


@contextmanager
def surrounded(manifest: Manifest, *, dry: bool) -> Iterator[Surroundings]:
    """For the whole of a load, up to the last thing that it puts into its place."""
    found = Surroundings(None if dry else file_guard.FileGuard(making=True, importing=True))
    recorded = manifest.state.get("modules", {})
    try:
        with ExitStack() as stack:
            if found.guard is not None:
                stack.enter_context(guarded_calls.in_force(found.guard))
            held = manifest.state.get("held_imports", ())
            found.notes = stack.enter_context(own_imports.found_again(recorded, held))
            yield found
    finally:
        if found.guard is not None:
            found.held = found.guard.settle()
