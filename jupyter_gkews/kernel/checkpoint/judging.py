"""What a test load means for a checkpoint: which names must be written anew, and what is lost.

Draws the conclusions of a Verdict only; it loads and writes nothing.
"""

from __future__ import annotations

import gc
from typing import Any

from ...errors import GkewsError
from .manifest import Manifest
from .paths import holders
from .placeholders import Loss
from .proof import Verdict

#: Objects looked through for others that hold what ended a test load, in all.
_LOOK_THROUGH = 1_000_000


def judge(
    verdict: Verdict,
    manifest: Manifest,
    values: list[Any] | None = None,
    user_ns: dict[str, Any] | None = None,
    *,
    changing: frozenset[int] = frozenset(),
) -> dict[str, Loss]:
    """Take what failed to load into the fates of `manifest`; return, by name, what must not stay
    as it is: the names that differ, or those that hold what ended the test load.

    `values`: the saved objects in the order of `manifest.names`; None where they are let go, and
    only the one name is told that the test load had reached. `changing`: positions of names that
    changed while they were saved; what was written of them is kept, and said. Raises
    verification_failed where it had reached none.
    """
    entries = manifest.names
    if verdict.died_at is not None:
        if verdict.died_at >= len(entries):
            raise GkewsError(
                "verification_failed",
                "The test load of the checkpoint ended before it could be compared.",
                "Nothing was released: the kernel and all earlier checkpoints are as they were.",
            )
        loss = Loss("an object", verdict.why)
        refused = {entries[verdict.died_at]["name"]: loss}
        value = values[verdict.died_at] if values else None
        if gc.is_tracked(value):  # not None or a number, which is the same object everywhere
            # Whatever else holds this object ends it as well: one load tells of all of them.
            named = {entry["name"]: each for entry, each in zip(entries, values or ())}
            there = holders([(value, loss)], named, _LOOK_THROUGH, user_ns or {})
            refused.update(dict.fromkeys(there, loss))
        return refused
    failed = {failure["name"] for failure in verdict.failed}
    wanting = {}
    for position in verdict.differs:
        entry = entries[position]
        if entry["name"] in failed:
            continue
        if position in changing:
            _tell(manifest, entry["name"], CHANGING)
        elif entry["kind"] in ("variable", "item"):
            reason = "it did not come back equal in a test load"
            wanting[entry["name"]] = Loss("an object", reason)
        else:
            text = "it did not come back equal in a test load"
            manifest.process.append({"what": entry["name"], "fate": "rebuilt", "reason": text})
    if not wanting and verdict.lenient:
        manifest.lenient = 1
        _take_failures(manifest, verdict.failed)
    if not wanting:
        for name, texts in verdict.left_out.items():
            for text in dict.fromkeys(texts):
                _tell(manifest, name, text)
        _take_held(manifest, verdict)
    return wanting


def _take_held(manifest: Manifest, verdict: Verdict) -> None:
    """Code of the user's that changes files when it is loaded: a resume holds that back as well,
    or does not import it."""
    modules = manifest.state.get("modules", {})
    for subject, reason in verdict.held:
        if subject.startswith("module ") and subject[7:] not in modules:
            continue  # of an earlier save
        manifest.process.append({"what": subject, "fate": "rebuilt", "reason": reason})
        manifest.rebuilt.append({"name": subject, "reason": reason, "cell": None})
    own = [name for name in verdict.unwritable if name in modules]
    if own:
        manifest.state["held_imports"] = own
    for name in own:
        reason = (
            "its import changes files, and that could not be held back: a resume does not import it"
        )
        manifest.process.append({"what": f"module {name}", "fate": "lost", "reason": reason})
        manifest.lost.append({"name": f"module {name}", "reason": reason, "cell": None})


CHANGING = "it was changing while it was saved: a state of that time is kept"


def _tell(manifest: Manifest, name: str, text: str) -> None:
    """A variable that is there comes back otherwise than it was."""
    for row in manifest.variables:
        if row["name"] != name or row["fate"] == "lost" or text in (row["reason"] or ""):
            continue
        if row["fate"] == "kept":
            row.update(fate="rebuilt", reason=text)
            manifest.rebuilt.append({"name": name, "reason": text, "cell": row["cell"]})
            manifest.kept -= 1
            continue
        row["reason"] += f"; {text}"
        for told in manifest.rebuilt:
            if told["name"] == name:
                told["reason"] = row["reason"]


def _take_failures(manifest: Manifest, failed: list[dict[str, Any]]) -> None:
    """Objects that did not load in the test: lost, each with its path and reason."""
    rows = {row["name"]: row for row in manifest.variables}
    for failure in failed:
        row = rows.get(failure["name"])  # None for an item of Out
        reason = f"{failure['what']}: {failure['reason']}"
        lost = {"name": failure["path"], "reason": reason, "cell": row["cell"] if row else None}
        if row is None:
            pass
        elif failure["path"] == failure["name"]:
            row.update(fate="lost", reason=reason)
        elif row["fate"] != "lost":
            note = f"all but {failure['path']}, {reason}"
            row.update(fate="rebuilt", reason=f"{row['reason']}; {note}" if row["reason"] else note)
        if lost["name"] not in {known["name"] for known in manifest.lost}:
            manifest.lost.append(lost)
    others = [row for row in manifest.rebuilt if row["name"] not in rows]
    manifest.rebuilt = [
        {"name": row["name"], "reason": row["reason"], "cell": row["cell"]}
        for row in manifest.variables
        if row["fate"] == "rebuilt"
    ] + others
    manifest.kept = sum(row["fate"] == "kept" for row in manifest.variables)
