"""%pause, %checkpoint, %survives and %gkews: the user's words in a cell.

They say what is true now. `%pause` asks the server, which pauses when the cell has finished; the
kernel never stops itself.
"""

from __future__ import annotations

import argparse
import shlex
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from ..errors import GkewsError
from .display import (
    Table,
    fates_table,
    human_seconds,
    local_time,
    losses_table,
    summary_table,
)
from .protocol import EVENT_CHECKPOINTED, EVENT_PAUSE_REQUESTED

if TYPE_CHECKING:
    from .session import KernelSession


class _LineParser(argparse.ArgumentParser):
    """argparse that raises what IPython shows in one line, instead of leaving the process."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{error}: {line}") from None


def _name_and_prove(program: str, line: str) -> tuple[str | None, str | None]:
    parser = _LineParser(prog=program, add_help=False)
    parser.add_argument("--prove", choices=("scratch", "read-back", "off"))
    parser.add_argument("name", nargs="*")
    given = parser.parse_intermixed_args(_words(line))
    return " ".join(given.name) or None, given.prove


@magics_class
class GkewsMagics(Magics):
    """The magics of one kernel session."""

    def __init__(self, shell: Any, session: KernelSession) -> None:
        super().__init__(shell)
        self.session = session

    @line_magic
    def pause(self, line: str) -> None:
        """Pause this kernel when this cell has finished: `%pause [--prove HOW] [name]`.

        The memory (and the GPU) is given back; run any cell, or click Resume, to go on. `name`
        names the checkpoint. HOW it is proved before the process stops: `scratch` (loaded by
        another process), `read-back` (its bytes are read again) or `off`. See `%survives` for
        what will be kept.
        """
        name, prove = _name_and_prove("%pause", line)
        self.session.send_event(
            {"event": EVENT_PAUSE_REQUESTED, "when": "idle", "name": name, "prove": prove}
        )
        print("Asked the server to pause this kernel as soon as its cells have finished.")

    @line_magic
    def checkpoint(self, line: str) -> Table | None:
        """Save the variables now and go on: `%checkpoint [--prove HOW] [name]`.

        Returns the summary, with what could not be kept. In a kernel that is paused later only
        what has changed since is written again. HOW it is proved before it counts: `scratch`
        (loaded by another process), `read-back` (its bytes are read again) or `off`.
        """
        name, prove = _name_and_prove("%checkpoint", line)
        try:
            summary = self.session.checkpoint(new_checkpoint_id(), name=name, prove=prove)
        except GkewsError as error:
            raise UsageError(str(error)) from None
        self.session.send_event({"event": EVENT_CHECKPOINTED, "checkpoint": summary})
        return summary_table(summary)

    @line_magic
    def survives(self, line: str) -> Table:
        """Show what a pause would keep, rebuild or lose, and why: `%survives`."""
        _LineParser(prog="%survives", add_help=False).parse_args(_words(line))
        try:
            return fates_table(self.session.survives())
        except GkewsError as error:
            raise UsageError(str(error)) from None

    @line_magic
    def gkews(self, line: str) -> Table:
        """Show how this kernel came to its variables, and its last checkpoint: `%gkews`."""
        _LineParser(prog="%gkews", add_help=False).parse_args(_words(line))
        resumed, summary = self.session.resumed, self.session.checkpointed
        if resumed is None:
            table = Table(("name", "reason", "cell"), head=["Fresh: started with no variables."])
        else:
            table = losses_table(
                f"Recovered from checkpoint {resumed.checkpoint}: {resumed.kept} kept, "
                f"{resumed.rebuilt} rebuilt, {len(resumed.lost)} lost; "
                f"{human_seconds(sum(resumed.seconds.values()))}.",
                resumed.lost,
            )
        if summary is None:
            table.foot.append("No checkpoint was taken since this process started.")
        else:
            name = f" {summary['name']!r}" if summary.get("name") else ""
            table.foot.append(
                f"Last checkpoint{name}: {summary['id']}, {local_time(summary['created'])}."
            )
        return table


def new_checkpoint_id() -> str:
    """An id that sorts by time and is never given twice."""
    return f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
