"""%pause, %checkpoint, %survives and %gkews: the user's words in a cell.

They say what is true now. `%pause` asks the server, which pauses when the cell has finished; the
kernel never stops itself.
"""

from __future__ import annotations

import argparse
import shlex
import threading
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from ..errors import GkewsError
from .display import (
    Table,
    captured_table,
    fates_table,
    human_seconds,
    local_time,
    losses_table,
    summary_table,
)
from .protocol import EVENT_CHECKPOINTED, EVENT_PAUSE_REQUESTED
from .saves import Captured, Wanted

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


def _how(program: str, line: str) -> dict[str, Any]:
    """ "name", "prove" and "compress" of a line; of %pause, whether the whole "workspace"."""
    parser = _LineParser(prog=program, add_help=False)
    if program == "%pause":
        parser.add_argument("--workspace", action="store_true")
    parser.add_argument("--prove", choices=("scratch", "read-back", "off"))
    parser.add_argument("--compress", choices=("none", "zstd"))
    parser.add_argument("name", nargs="*")
    given = parser.parse_intermixed_args(_words(line))
    how = {
        "name": " ".join(given.name) or None,
        "prove": given.prove,
        "compress": given.compress,
    }
    return {**how, "workspace": True} if getattr(given, "workspace", False) else how


@magics_class
class GkewsMagics(Magics):
    """The magics of one kernel session."""

    def __init__(self, shell: Any, session: KernelSession) -> None:
        super().__init__(shell)
        self.session = session

    @line_magic
    def pause(self, line: str) -> None:
        """Pause after this cell: `%pause [--workspace] [--prove HOW] [--compress ZIP] [name]`.

        The memory (and the GPU) is given back; run any cell, or click Resume, to go on. `name`
        names the checkpoint. HOW it is proved before the process stops: `scratch` (loaded by
        another process), `read-back` (its bytes are read again) or `off`. ZIP: `zstd`
        compresses what is no array or tensor, `none` does not. See `%survives` for
        what will be kept. With `--workspace` every kernel writes its checkpoint, and the whole
        pod is paused, where this server lives in a GKE or Kubeflow workspace.
        """
        how = _how("%pause", line)
        self.session.send_event({"event": EVENT_PAUSE_REQUESTED, "when": "idle", **how})
        what = "the workspace" if how.get("workspace") else "this kernel"
        whose = "all" if how.get("workspace") else "its"
        print(f"Asked the server to pause {what} as soon as {whose} cells have finished.")

    @line_magic
    def checkpoint(self, line: str) -> Table | None:
        """Save the variables: `%checkpoint [--wait] [--prove HOW] [--compress ZIP] [name]`.

        Captures them as they are now and writes them while you go on working; what is shown here
        is brought up to date when they are safe on the disk. With `--wait`, and where it is not
        possible otherwise, the kernel waits until then. Only what has changed since the last
        checkpoint is written. HOW it is proved before it counts: `scratch` (loaded by another
        process), `read-back` (its bytes are read again) or `off`. ZIP: `zstd` compresses what
        is no array or tensor, `none` does not.
        """
        words = _words(line)
        wait = "--wait" in words
        rest = shlex.join(word for word in words if word != "--wait")
        how = _how("%checkpoint", rest)
        name = how["name"]
        wanted = Wanted(
            uuid.uuid4().hex,
            new_checkpoint_id(),
            name,
            prove=how["prove"],
            compress=how["compress"],
            by_cell=True,
        )
        saves = self.session.saves
        shown = _Shown(self.session)
        wanted.on_end = shown.ended
        try:
            outcome = saves.take(wanted) if wait else saves.begin(wanted)
        except GkewsError as error:
            raise UsageError(str(error)) from None
        if isinstance(outcome, Captured):
            shown.begun(captured_table(wanted.checkpoint, name, outcome.blocked_s))
            return None
        self.session.send_event({"event": EVENT_CHECKPOINTED, "checkpoint": outcome})
        return summary_table(outcome)

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
        resumed, summary = self.session.resumed, self.session.saves.last
        if resumed is None:
            table = Table(("name", "reason", "cell"), head=["Fresh: started with no variables."])
        else:
            table = losses_table(
                f"Recovered from checkpoint {resumed.checkpoint}: {resumed.kept} kept, "
                f"{resumed.rebuilt} rebuilt, {len(resumed.lost)} lost; "
                f"{human_seconds(sum(resumed.seconds.values()))}.",
                resumed.lost,
            )
        restored = self.session.restored
        if restored is not None:
            table.foot.append(
                f"This process was restored from a process snapshot at "
                f"{local_time(restored.resumed.isoformat())}: it goes on as it was at "
                f"{local_time(restored.paused.isoformat())}."
            )
        running = self.session.saves.running
        if running is not None:
            name = f" {running.name!r}" if running.name else ""
            table.foot.append(
                f"Checkpoint{name} ({running.checkpoint}) is being written; it was captured at "
                f"{local_time(running.began)}."
            )
        if summary is None:
            table.foot.append("No checkpoint was taken since this process started.")
        else:
            name = f" {summary['name']!r}" if summary.get("name") else ""
            table.foot.append(
                f"Last checkpoint{name}: {summary['id']}, {local_time(summary['created'])}."
            )
        return table


class _Shown:
    """What one %checkpoint shows: replaced when the checkpoint has ended, from whatever thread."""

    def __init__(self, session: KernelSession) -> None:
        self._session = session
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._last: Table | None = None
        self._parent = session.kernel.get_parent("shell")

    def begun(self, table: Table) -> None:
        """The state is captured."""
        with self._lock:
            self._send("display_data", self._last or table)  # it may have ended already

    def ended(self, outcome: dict[str, Any]) -> None:
        """It is written, or it is not."""
        if outcome["status"] == "ok":
            table = summary_table(outcome["checkpoint"])
        else:
            error = GkewsError.from_json(outcome)
            table = Table((), head=[f"The checkpoint was not written. {error}"])
        with self._lock:
            self._last = table
            self._send("update_display_data", table)

    def _send(self, kind: str, table: Table) -> None:
        kernel = self._session.kernel
        content = {
            "data": table._repr_mimebundle_(),
            "metadata": {},
            "transient": {"display_id": self._id},
        }
        kernel.session.send(
            kernel.iopub_socket,
            kind,
            content,
            parent=self._parent,
            ident=kernel._topic("display_data"),
        )


def new_checkpoint_id() -> str:
    """An id that sorts by time and is never given twice."""
    return f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
