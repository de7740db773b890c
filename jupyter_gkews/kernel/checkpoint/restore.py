"""Brings a checkpoint back into a namespace. All or nothing, but for the objects that it names.

Nothing is unpickled before the signature, the version and the graph's hash hold; nothing stays
bound unless everything was read. It never writes to the store or to the user's files.
"""

from __future__ import annotations

import datetime
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from ...errors import GkewsError
from . import chunks, devices, own_imports, process_state, rebuild
from .collector import count_as_old
from .compression import check_codec
from .known import KNOWN
from .manifest import Manifest
from .memory import CheckpointMemory
from .paths import holders
from .placeholders import Loss, Lost
from .places import Places
from .reading import GraphReader
from .references import missing, problems
from .store import CheckpointStore
from .surroundings import surrounded

Progress = Callable[[str, int, int], None]

_LOOK_THROUGH = 3_000_000


@dataclass
class RestoreReport:
    """How a restore ended. `lost` and the details are rows {"name", "reason", "cell"}; `seconds`
    by step; `extras` the objects that were saved as extras; `values` by position in the
    manifest; `lenient` whether some object failed to load; `left_out`: by name, what objects left
    out of themselves; `unimported` modules, and why; `places`
    where the memory lies."""

    checkpoint: str
    extras: dict[str, Any] = field(default_factory=dict)
    kept: int = 0
    rebuilt: int = 0
    rebuilt_details: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    process: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    lenient: bool = False
    left_out: dict[str, list[str]] = field(default_factory=dict)
    unimported: dict[str, BaseException] = field(default_factory=dict)
    places: Callable[[set[int]], Places] = lambda _: Places()


def restore(
    user_ns: dict[str, Any],
    store: CheckpointStore,
    checkpoint: str,
    *,
    verify: str = "fast",
    on_missing_gpu: str = "cpu",
    gpu_wait_s: float = devices.WAIT_S,
    progress: Progress | None = None,
    dry: bool = False,
    trusted: frozenset[str] = frozenset(),
    accept_missing: bool = False,
) -> RestoreReport:
    """Fill `user_ns` with the variables of `checkpoint`.

    `verify`: "fast" compares each chunk's quick hash, "full" its name as well; chunks in `trusted`
    are not read for it (the test load of a save trusts what that very process has just hashed).
    `on_missing_gpu`: "cpu" moves tensors whose device is not there or has no room, "wait" waits for
    it up to `gpu_wait_s` seconds, "fail" raises. `dry`: touch no file of the user's and change
    nothing of the process but sys.path, environment and working directory, and use no device; for
    the test load. `progress(step, bytes_done, bytes_total)` with the steps "importing",
    "waiting_for_gpu" (bytes free, bytes needed), "reading", "rebuilding". `accept_missing`: weights
    in files that are gone or were changed are lost, each where it stood; without it nothing is
    loaded then.

    Raises GkewsError: checkpoint_not_found, _damaged, _unsigned, _foreign_key, _too_new,
    weights_missing, restore_failed. `user_ns` is then as it was.
    """
    clock = _Clock()
    tell = progress or (lambda step, done, total: None)
    manifest = store.manifest(checkpoint)
    graph = store.directory(checkpoint) / "graph.pkl"
    try:
        check_graph(graph, manifest)
        check_codec(manifest)
    except GkewsError as error:
        raise store.with_offer(error, checkpoint) from None
    report = RestoreReport(checkpoint)
    if not accept_missing:
        wrong = problems(manifest.referenced(), look=False)
        if wrong:
            raise missing(checkpoint, wrong)
    with surrounded(manifest, dry=dry) as around:
        with (
            store.loading(),
            CheckpointMemory(
                store, manifest, verify, trusted, strict=dry, accept_missing=accept_missing
            ) as memory,
            ExitStack() as stack,
        ):
            clock.lap(report.seconds, "opening")
            report.process += process_state.apply_paths(manifest.state)
            tell("importing", 0, memory.bytes_total)
            report.unimported = own_imports.import_modules(manifest.modules)
            around.imports_done()
            memory.imports_done()
            for filename, text in manifest.state.get("sources", {}).items():
                rebuild.source(filename, text)
            report.process += process_state.apply_before_loading(manifest.state)
            clock.lap(report.seconds, "importing")
            needed = devices.needs(manifest)
            if dry:
                placement = devices.Placement(dict.fromkeys(needed, "cpu"))
            else:
                placement = devices.place(needed, on_missing_gpu, wait_s=gpu_wait_s, tell=tell)
            clock.lap(report.seconds, devices.WAITING)
            tell("reading", memory.bytes_done, memory.bytes_total)
            uploads = stack.enter_context(devices.Uploads(memory, manifest, placement))
            reader = GraphReader(
                graph,
                manifest,
                memory,
                user_ns,
                placement=placement,
                uploads=uploads,
                dry=dry,
                when=_local(manifest.created),
            )
            try:
                found = reader.read(lambda done, total: tell("rebuilding", done, total))
                clock.lap(report.seconds, "rebuilding")
                memory.check_all()
            except (GkewsError, KeyboardInterrupt, MemoryError):
                reader.undo()
                raise
            except BaseException as error:
                reader.undo()
                raise GkewsError(
                    "restore_failed",
                    f"Checkpoint {checkpoint} could not be loaded: {error}.",
                    "Nothing was bound and the checkpoint is unchanged. Try it in a kernel with "
                    "the environment that made it (Python "
                    f"{manifest.environment.get('python')}).",
                ) from error
            if not dry:
                for address, _, chunk in memory.ranges():
                    KNOWN.remember(address, chunk)
                    KNOWN.vouch(chunk.name, memory.identities.get(chunk.name))
            clock.lap(report.seconds, "verifying")
            report.places = memory.places
        report.values = [found[str(i)] for i in range(len(manifest.names))]
        report.lenient = reader.lenient
        report.left_out = reader.left_out
        _bind(user_ns, manifest, report, dry)
    _account(manifest, reader, report, user_ns)
    report.rebuilt_details += around.told()
    report.rebuilt = len(report.rebuilt_details)
    if not dry:
        count_as_old()
    return report


def check_graph(path: Path, manifest: Manifest) -> None:
    """Raise checkpoint_damaged unless graph.pkl is the one that the manifest names."""
    wanted = str(manifest.graph.get("name", ""))
    try:
        size = path.stat().st_size
        if size == manifest.graph.get("bytes") and size:
            digest = chunks.name_of_file(path, wanted.split("-", 1)[0])
            if digest == wanted:
                return
        what = "has other bytes than were saved"
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
    except LookupError as error:
        raise GkewsError(
            "restore_failed",
            f"Checkpoint {manifest.id} cannot be checked here: {error}.",
            "Nothing was loaded. Install what is named into the kernel's environment.",
        ) from None
    raise GkewsError(
        "checkpoint_damaged",
        f"Checkpoint {manifest.id} is damaged: its graph {what}.",
        "Nothing was loaded and nothing was changed.",
    )


def _bind(user_ns: dict[str, Any], manifest: Manifest, report: RestoreReport, dry: bool) -> None:
    objects = {}
    variables: dict[int, tuple[str, Any]] = {}
    for entry, value in zip(manifest.names, report.values):
        name, kind = entry["name"], entry["kind"]
        if kind == "variable":
            variables[entry.get("at", len(variables))] = (name, value)
        elif kind == "item":
            report.extras[entry["of"]][entry["key"]] = value
        elif type(value) is Lost:
            continue  # whoever asks for it finds nothing and uses what a new process has
        elif kind == "extra":
            # a dictionary is filled item by item: not the one that is being compared
            report.extras[name] = dict(value) if type(value) is dict else value
        else:
            objects[name] = value
    for _, (name, value) in sorted(variables.items()):  # in the order of their creation
        user_ns.pop(name, None)
        user_ns[name] = value
    if not dry:
        report.process += process_state.apply_objects(manifest.state, objects)


def _account(
    manifest: Manifest, reader: GraphReader, report: RestoreReport, user_ns: dict[str, Any]
) -> None:
    """Fates as they came out here: those of the save, and what failed or moved now."""
    rows = {row["name"]: dict(row) for row in manifest.variables}
    report.lost = list(manifest.lost)
    known = {row["name"] for row in report.lost}
    if reader.failed:
        named = {
            entry["name"]: value
            for entry, value in zip(manifest.names, report.values)
            if entry["kind"] in ("variable", "item")
        }
        held = holders(reader.failed, named, _LOOK_THROUGH, user_ns)
        found = {id(loss) for parts in held.values() for _, loss in parts}
        for _, loss in reader.failed:
            known_there = held.get(loss.where, [])
            same = any(
                (other.what, other.reason) == (loss.what, loss.reason) for _, other in known_there
            )
            # A class that is gone is told once, by the objects that needed it.
            if id(loss) not in found and not same and loss.where in named:
                held.setdefault(loss.where, []).append((f"a part of {loss.where}", loss))
        told: set[int] = set()
        made = {id(loss): placeholder for placeholder, loss in reader.failed}
        for name in sorted(held, key=lambda name: name not in rows):  # variables before Out
            parts = held[name]
            if name not in rows and told.issuperset(id(loss) for _, loss in parts):
                continue
            told |= {id(loss) for _, loss in parts}
            cell = rows.get(name, {}).get("cell")
            for path, loss in parts:
                if path != name:  # let the placeholder say that it was only a part
                    object.__setattr__(made[id(loss)], "_loss", replace(loss, part=True))
            parts = list({path: (path, loss) for path, loss in reversed(parts)}.values())[::-1]
            for path, loss in parts:
                failure = {"name": name, "path": path, "what": loss.what, "reason": loss.reason}
                report.failed.append(failure)
            # The test load before the pause may have told the same already.
            new = [(path, loss) for path, loss in parts if path not in known]
            known |= {path for path, _ in new}
            report.lost += [
                {"name": path, "reason": loss.short(), "cell": cell} for path, loss in new
            ]
            if new and name in rows:
                _mark(rows[name], new)
        _account_process(manifest, reader, report, known)
    notes = {name: list(texts) for name, texts in reader.notes.items()}
    for name, texts in notes.items():
        if name in rows and rows[name]["fate"] != "lost":
            reason = rows[name].get("reason")
            note = "; ".join(text for text in texts if text not in (reason or ""))
            if not note:  # told at the save
                continue
            rows[name].update(fate="rebuilt", reason=f"{reason}; {note}" if reason else note)
    report.kept = sum(row["fate"] == "kept" for row in rows.values())
    report.rebuilt_details = [
        {"name": row["name"], "reason": row["reason"], "cell": row.get("cell")}
        for row in rows.values()
        if row["fate"] == "rebuilt"
    ]
    report.rebuilt = len(report.rebuilt_details)


def _account_process(
    manifest: Manifest, reader: GraphReader, report: RestoreReport, known: set[str]
) -> None:
    """What failed in objects of the process: no variable holds it, and it is lost all the same."""
    named = {
        entry["name"]: value
        for entry, value in zip(manifest.names, report.values)
        if entry["kind"] == "process"
    }
    told = {(each["what"], each["reason"]) for each in report.failed}
    for _, loss in reader.failed:
        if loss.where not in named or (loss.what, loss.reason) in told:
            continue
        told.add((loss.what, loss.reason))
        path = f"a part of {loss.where}"
        failure = {"name": loss.where, "path": path, "what": loss.what, "reason": loss.reason}
        report.failed.append(failure)
        if path not in known:
            report.lost.append({"name": path, "reason": loss.short(), "cell": None})


def _mark(row: dict[str, Any], parts: list[tuple[str, Loss]]) -> None:
    if row["fate"] == "lost":
        return
    whole = [loss for path, loss in parts if path == row["name"]]
    if whole:
        row.update(fate="lost", reason=whole[0].short())
        return
    note = "; ".join(f"all but {path}, {loss.short()}" for path, loss in parts[:3])
    row.update(fate="rebuilt", reason=f"{row['reason']}; {note}" if row.get("reason") else note)


def _local(created: str) -> str:
    """ "18:02" for the ISO time of a checkpoint."""
    try:
        moment = datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return ""
    return moment.astimezone().strftime("%H:%M")


class _Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self, seconds: dict[str, float], step: str) -> None:
        now = time.monotonic()
        seconds[step] = seconds.get(step, 0.0) + now - self._last
        self._last = now
