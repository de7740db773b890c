"""Pauses of the whole workspace, in the journal: opened before the cluster is asked, closed when
it is known what became of them.

An entry that is open when a server starts is a pause whose end nobody has seen: what it names is
what can be brought back. Starts, asks and restores nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import GkewsError
from .records import Journal, Record

OPENED, ASKED, UNSURE, CLOSED = "pause_opened", "pause_asked", "pause_unsure", "pause_closed"

#: How a pause was asked for of which this server has only seen that it runs.
ELSEWHERE = "elsewhere"

#: How an entry is closed: the workspace ran on; or what the next life found, and what became of it.
RAN_ON = ("failed", "cancelled", "not_asked", "superseded")
OUTCOMES = (*RAN_ON, "restored", "recovered", "fresh", "declined")

#: Known to this process's memory alone: a process that was frozen and restored still has it, one
#: that was started anew has another.
_life = secrets.token_hex(16)


def life() -> str:
    """What the journal has of this process's memory: a hash, from which it cannot be guessed."""
    return hashlib.sha256(_life.encode()).hexdigest()


@dataclass(frozen=True)
class JournalledKernel:
    """A kernel that was there when the workspace was paused."""

    kernel: str
    kernel_name: str
    path: str | None
    """Its notebook, relative to the server's root; None without a session."""
    notebook: str | None
    """The same, absolute."""
    state: str
    """running | paused (by itself, before: its own record says more)."""
    checkpoint: str | None
    why_not: dict[str, str] | None = None
    """Why there is no checkpoint of this pause; as an error in REST."""
    taken: str | None = None
    """When the checkpoint was written, if that was before the pause: what came later is not in it.
    None: it was written for this pause."""


@dataclass
class PauseEntry:
    """One pause of the workspace: all that the journal has of it."""

    id: str
    opened: str
    """When, ISO 8601 UTC."""
    workspace: dict[str, str]
    """{"namespace", "name"}."""
    pod: dict[str, str]
    """{"name", "uid"}: the one that was to be stopped."""
    stateless: bool
    """Asked for although its memory would be lost."""
    life: str
    server: dict[str, str]
    """{"root", "base_url"}."""
    kernels: list[JournalledKernel] = field(default_factory=list)
    how: str | None = None
    """begun by us | joined, as it ran already | elsewhere: others have asked for it."""
    asked: bool = False
    """The cluster has taken the request. If not, and the entry is open, the server ended before it
    knew: whether it was asked cannot be told."""
    unsure: dict[str, str] | None = None
    """The last that was heard, if the server lost sight of the pause: {"reason", "message",
    "hint"}."""
    closed: dict[str, Any] | None = None
    """{"time", "outcome", "reason", "message", "evidence"}; None while the entry is open."""

    def sentence(self) -> str:
        """What is known of it, for the user."""
        when = f"The pause of {self.opened[:16].replace('T', ' ')} UTC"
        if self.closed is not None:
            return f"{when}: {self.closed['outcome']}. {self.closed['message']}".strip()
        if self.unsure is not None:
            return f"{when} was lost sight of: {self.unsure['message']}"
        if self.how == ELSEWHERE:
            return f"{when} was asked for elsewhere; its end was not seen by the server."
        if not self.asked:
            return (
                f"{when} ended with its server before the cluster had answered: whether it was "
                "asked is not known."
            )
        return f"{when} was begun; its end was not seen by the server."


class WorkspacePauses:
    """The pauses in the journal of one store. Everything here reads or writes the disk."""

    def __init__(self, store: Path) -> None:
        self.journal = Journal(store)

    def entries(self) -> list[PauseEntry]:
        """All of them, newest first."""
        found: dict[str, PauseEntry] = {}
        for record in self.journal:
            _take_in(found, record)
        return list(found.values())[::-1]

    def open_entries(self) -> list[PauseEntry]:
        """Those whose end is not known, newest first."""
        return [entry for entry in self.entries() if entry.closed is None]

    def open(
        self, *, workspace: dict[str, str], pod: dict[str, str],
        kernels: Iterable[JournalledKernel], server: dict[str, str], stateless: bool = False,
    ) -> PauseEntry:  # fmt: skip
        """Begin an entry: durable on return, and only then may the cluster be asked.

        Older open ones of the same workspace are closed: this one names the newer checkpoints.
        Raises GkewsError: `disk_full`, `store_not_writable`.
        """
        older = [entry.id for entry in self.open_entries() if entry.workspace == workspace]
        entry = PauseEntry(
            uuid.uuid4().hex, "", workspace, pod, stateless, life(), server, list(kernels)
        )
        written = self.journal.append(
            {
                "event": OPENED,
                "id": entry.id,
                "workspace": workspace,
                "pod": pod,
                "stateless": stateless,
                "life": entry.life,
                "server": server,
                "kernels": [asdict(kernel) for kernel in entry.kernels],
            }
        )
        entry.opened = written["time"]
        for each in older:
            self.close(each, "superseded", message="A later pause was begun.")
        return entry

    def asked(self, entry: str, *, how: str, stateless: bool) -> None:
        """The cluster has taken the request. `how`: as PauseEntry has it."""
        self.journal.append({"event": ASKED, "id": entry, "how": how, "stateless": stateless})

    def unsure(self, entry: str, error: GkewsError) -> None:
        """What becomes of the pause is no longer seen: the entry stays open."""
        self.journal.append({"event": UNSURE, "id": entry, **error.to_json()})

    def close(
        self, entry: str, outcome: str, *, reason: str | None = None, message: str = "",
        evidence: dict[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        """Say what became of it: `outcome` is one of OUTCOMES. False if there is no such entry, or
        it was closed already: what was said first stands."""
        if outcome not in OUTCOMES:
            raise ValueError(f"{outcome!r} is none of {OUTCOMES}")
        if not any(found.id == entry for found in self.open_entries()):
            return False
        self.journal.append(
            {
                "event": CLOSED,
                "id": entry,
                "outcome": outcome,
                "reason": reason,
                "message": message,
                "evidence": evidence or {},
            }
        )
        return True

    @staticmethod
    def is_mine(entry: PauseEntry) -> bool:
        """Whether this very process began it. After a restore it still is; a server that was
        started anew is another."""
        return entry.life == life()


def _take_in(found: dict[str, PauseEntry], record: Record) -> None:
    """A record that lacks what it must have is passed over, as one that cannot be read."""
    event, entry = record.get("event"), found.get(str(record.get("id")))
    try:
        if event == OPENED and entry is None:
            kernels = [_kernel(each) for each in record["kernels"]]
            found[str(record["id"])] = PauseEntry(
                str(record["id"]), record["time"], dict(record["workspace"]), dict(record["pod"]),
                bool(record["stateless"]), record["life"], dict(record["server"]), kernels,
            )  # fmt: skip
        elif entry is None or entry.closed is not None:
            return
        elif event == ASKED:
            entry.asked, entry.how = True, str(record.get("how"))
            entry.stateless = entry.stateless or bool(record.get("stateless"))
        elif event == UNSURE:
            entry.unsure = {key: str(record[key]) for key in ("reason", "message", "hint")}
        elif event == CLOSED:
            keys = ("time", "outcome", "reason", "message", "evidence")
            entry.closed = {key: record[key] for key in keys}
    except (KeyError, TypeError, ValueError):
        return


def _kernel(found: Record) -> JournalledKernel:
    """Keys of a newer version are left out."""
    known = JournalledKernel.__dataclass_fields__
    return JournalledKernel(**{key: value for key, value in found.items() if key in known})
