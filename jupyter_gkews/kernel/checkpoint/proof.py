"""How a save is proved: by a test load in a scratch process, by reading back, or not at all.

It says how, and why so, and never says more than was done. It releases and commits nothing.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ...errors import GkewsError
from . import headroom, own_imports, proved, user_modules, zygote
from .fingerprint import Fingerprints, differing
from .places import of_layout
from .readback import read_back
from .store import CheckpointStore

if TYPE_CHECKING:
    from .buffers import Layout
    from .collect import Collected
    from .manifest import Manifest

#: The ways, from the strongest.
WAYS = ("scratch", "read-back", "off")
#: Seconds that looking at the objects may take; as long as the writing takes, anyway.
LOOK_S = 3.0
#: Bytes that a scratch process takes: by itself, and for each module that the kernel has.
_PROCESS = 48 << 20
_PER_MODULE = 100 << 10
#: Objects take more room in memory than in a graph: this many times.
_GROWTH = 8
#: Bytes that must stay free besides.
SPARE = 192 << 20

#: Seconds for a second look at what did not come back equal.
AGAIN_S = 10.0


@dataclass
class Verdict:
    """What a test load found. `differs`: positions of names that did not come back equal;
    `failed`: objects that did not load ({"name", "path", "what", "reason"}); `died_at`: position
    of the name at which the process ended, or the load (`why`); `lenient`: as in
    the manifest; `held`: [whose, what] of code that wanted to change files; `unwritable`: modules
    that cannot be imported without; `left_out`: by name, what objects left out of themselves."""

    differs: list[int] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    lenient: bool = False
    died_at: int | None = None
    held: list[list[str]] = field(default_factory=list)
    unwritable: list[str] = field(default_factory=list)
    why: str = "loading it ends the process"
    left_out: dict[str, list[str]] = field(default_factory=dict)


class Proof:
    """The proof of one save. `how` is what was asked for; it may come to less, and says so."""

    def __init__(self, how: str, store: CheckpointStore) -> None:
        if how not in WAYS:
            raise GkewsError(
                "bad_request",
                f"'prove' is {how!r}; it must be one of {', '.join(WAYS)}.",
                "Nothing was written.",
            )
        self.how = how
        self.why = "it was asked for" if how != "scratch" else ""
        self._store = store
        self._zygote: zygote.Zygote | None = None
        self._modules: list[str] = []
        self._own: dict[str, dict[str, Any]] = {}
        self._expected: list[list[Any]] = []
        self._look_again: Callable[[Callable[[], bool]], list[list[Any]]] | None = None
        self._unseen: list[int] = []
        self._own_bytes = 0
        self._by: proved.Proved | None = None
        self._partly: list[str] = []

    def start(self, modules: list[str]) -> None:
        """Get the scratch process, which begins to import what it has not yet."""
        self._modules = modules
        if self.how == "scratch" and zygote.kept_pid() is None:
            # One that is kept has its memory already.
            self._step_down(_PROCESS + _PER_MODULE * len(sys.modules))
        if self.how == "scratch":
            self._own = own_imports.record(user_modules.own_modules())
            self._zygote = zygote.take(modules, self._own)

    def _step_down(self, need: int) -> None:
        """Read back instead, if a test load would not find `need` bytes."""
        found = headroom.memory()
        if found is None or found.free >= need + SPARE:
            return
        self._less(
            f"memory is short: a test load needs about {need >> 20} MB and {SPARE >> 20} MB to "
            f"spare, and {found.free >> 20} MB are free"
        )

    def _less(self, why: str) -> None:
        self.how, self.why = "read-back", why
        self.close()
        zygote.end()

    def look(
        self, user_ns: dict[str, Any], got: Collected, layout: Layout, late: Callable[[], bool]
    ) -> None:
        """Take the fingerprints of what was written; once `late()`, of a part of each name."""
        if self.how != "scratch":
            return
        losses = frozenset(got.writer.losses)

        def take(late: Callable[[], bool]) -> list[list[Any]]:
            prints = Fingerprints(
                user_ns,
                losses,
                places=of_layout(layout),
                process=got.writer.singletons.keys(),
                late=late,
            )
            return [prints.of(value) for value in got.values]

        self._expected, self._look_again = take(late), take
        self._unseen = [
            number
            for number, block in enumerate(layout.blocks)
            if any(piece.space for piece in block.pieces)
        ]
        self._unseen += [-1 - number for number, _, space, _, _ in layout.elsewhere if space]
        self._own_bytes = sum(nbytes for _, _, nbytes, own in layout.views if own)

    def changing(self) -> frozenset[int]:
        """Positions of names that do not look any more as they did: a thread of the user's works
        on them. Only in the process that has looked."""
        until, cut_off = time.monotonic() + AGAIN_S, False

        def late() -> bool:
            nonlocal cut_off
            cut_off = time.monotonic() > until
            return cut_off

        again = self._look_again(late) if self._look_again is not None else self._expected
        # what was not looked at whole may look different for that alone
        return frozenset() if cut_off else frozenset(differing(self._expected, again))

    def seen(self) -> dict[str, Any]:
        """What `look` has found, in values that JSON can carry: a forked image may look."""
        return {
            "expected": self._expected,
            "unseen": self._unseen,
            "own_bytes": self._own_bytes,
        }

    def take_over(self, seen: dict[str, Any]) -> None:
        """As if `look` had been called here."""
        self._expected, self._unseen = seen["expected"], seen["unseen"]
        self._own_bytes = seen["own_bytes"]

    def prove(
        self,
        manifest: Manifest,
        staging: Path,
        trusted: set[str],
        *,
        write_manifest: Callable[[], None],
        check: Callable[[], None],
        progress: Callable[[int], None],
    ) -> Verdict:
        """Prove the checkpoint in `staging`. `trusted`: chunks that this process wrote or checked
        itself, and that a test load does not read. `progress(bytes)` of reading back.

        Raises verification_failed if it cannot be read or tells nothing about a single name.
        """
        self._by, self._partly = None, []
        if self.how == "off":
            return Verdict()
        if self.how == "scratch":
            seen = proved.Inputs.now(self._store.root, manifest, self._expected)
            self._by = proved.find(seen, manifest, trusted)
            if self._by is not None:
                read_back(self._store, manifest, staging, check, chunks=False)
                self._tell_partly(manifest)
                carried: Verdict = self._by.verdict
                return carried
            graph = manifest.plain_graph_bytes()
            casts = sum(each.size for each in manifest.referenced() if each.cast is not None)
            self._step_down(_GROWTH * graph + self._own_bytes + casts)
        if self.how == "scratch":
            write_manifest()
            verdict = self._test_load(manifest, staging, sorted(trusted), check)
            if verdict is not None:
                if verdict.died_at is None:
                    self._by = proved.remember(seen, manifest.id, verdict)
                    self._tell_partly(manifest)
                return verdict
        read_back(self._store, manifest, staging, check, progress=progress)
        return Verdict()

    def _tell_partly(self, manifest: Manifest) -> None:
        self._partly = [
            entry["name"] for entry, found in zip(manifest.names, self._expected) if found[3]
        ]

    def _test_load(
        self,
        manifest: Manifest,
        staging: Path,
        trusted: list[str],
        check: Callable[[], None],
        *,
        again: bool = True,
    ) -> Verdict | None:
        """The verdict of the scratch process; None if there was too little memory for it."""
        order = {
            "store": str(self._store.root),
            "checkpoint": manifest.id,
            "staging": str(staging),
            "trusted": trusted,
            "limits": [found[3] for found in self._expected],
            "unseen": self._unseen,
        }
        killed = headroom.killed_for_memory()
        process = self._zygote or zygote.take(self._modules, self._own)
        self._zygote = process
        read, answer, alone = -1, None, False
        process.say(order)
        for said in process.answers(check):
            if "stale" in said:  # what it has imported is not what a new process would import
                process.close()
                self._zygote = None
                return self._test_load(manifest, staging, trusted, check)
            alone = alone or "alone" in said
            read = int(said.get("read", read))
            if "error" in said or "fingerprints" in said:
                answer = said
                if alone:
                    break
        if answer is None:
            self._close_unless_good(process)
            if process.status == -9 and headroom.killed_for_memory() > killed:
                self._less("memory is short: the system ended the test load")
                return None
            if read >= 0:
                return Verdict(died_at=read)
            if again:  # it had ended before: while it was kept, or by someone else's hand
                process.close()
                self._zygote = None
                return self._test_load(manifest, staging, trusted, check, again=False)
            text = f"(exit status {process.status}) {process.last_words}".strip()
            raise _failed(f"The test load of the checkpoint ended {text}")
        if alone:  # it has loaded into itself: the next one is a new process
            process.close()
            self._zygote = None
        elif "imported" in answer:
            self._modules += [name for name in answer["imported"] if name not in self._modules]
            process.say({"import": answer["imported"], "own": self._own})
        if "error" in answer:
            error = GkewsError.from_json(answer["error"])
            if error.reason == "restore_failed" and read >= 0:
                problem = error.message.partition("could not be loaded: ")[2].rstrip(".")
                return Verdict(died_at=read, why=f"it could not be loaded: {problem}")
            raise _failed(f"A test load of the checkpoint failed: {error.message}")
        found = answer["fingerprints"]
        if len(found) != len(self._expected):
            raise _failed("A test load of the checkpoint found other names than were saved")
        differs = differing(self._expected, found)
        return Verdict(
            differs,
            answer["failed"],
            bool(answer["lenient"] or answer["failed"]),
            held=answer["held"],
            unwritable=answer["unwritable"],
            left_out=answer["left_out"],
        )

    def _close_unless_good(self, process: zygote.Zygote) -> None:
        if not process.good():
            process.close()
            self._zygote = None

    def told(self) -> dict[str, Any]:
        """How the checkpoint was proved, for manifest and summary.

        "how": as WAYS; "why": why not by a test load, or why not by one of its own; "by": the
        checkpoint whose test load it was; "when": of that; "partly": names of which not all
        objects were compared.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        if self.how == "off":
            return {"how": "off", "why": self.why, "by": None, "when": None, "partly": []}
        if self.how == "read-back" or self._by is None:
            return {"how": self.how, "why": self.why, "by": None, "when": now, "partly": []}
        return {
            "how": "scratch",
            "why": self._by.why,
            "by": self._by.checkpoint,
            "when": self._by.when,
            "partly": self._partly,
        }

    def done(self) -> None:
        """The save has ended well: keep the scratch process for the next one."""
        if self._zygote is not None:
            zygote.keep(self._zygote)
            self._zygote = None

    def close(self) -> None:
        """End the scratch process, if it was not given back."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


def _failed(message: str) -> GkewsError:
    return GkewsError(
        "verification_failed",
        message.rstrip(".") + ".",
        "Nothing was released: the kernel and all earlier checkpoints are as they were. "
        "`%survives` shows what a checkpoint would hold.",
    )
