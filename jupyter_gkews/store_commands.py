"""The commands of `jupyter gkews` that work on a store, with a running server or without.

Where a server has the store, what removes goes through it: it knows what its kernels need and
what they load just now. Never unpickles anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from . import kernel_environment
from .engines.registry import engines_of
from .errors import GkewsError
from .journal.pauses import WorkspacePauses
from .kernel.checkpoint import transfer
from .kernel.checkpoint import trust as trusting
from .kernel.checkpoint.store import CheckpointStore
from .lifecycle.records import PausedRecords
from .lifecycle.shelf import needed
from .lifecycle.snapshots import SnapshotShelf
from .lifecycle.upkeep import collect_all, compared
from .server_client import Server, UnreachableError, find_kernel
from .tables import local_time, print_json, size, table

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_to(add: Callable[..., Any]) -> None:
    """Add the commands to the command line; `add(name, command, help, *parents)`."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--store",
        type=Path,
        help="the store's folder; default: the server's, or as configured",
    )
    command = add("gc", gc, "remove from the store what no checkpoint needs", where)
    command.add_argument("--dry-run", action="store_true", help="only tell what would go")
    command.add_argument(
        "--older-than",
        type=_age,
        metavar="AGE",
        help="remove also checkpoints without a name that are older: 12h, 30d, 4w",
    )
    command.add_argument(
        "--keep",
        type=_count,
        metavar="N",
        help="remove also checkpoints without a name but the newest N of each kernel",
    )
    command.set_defaults(without_server=True)
    command = add("show", show, "show a checkpoint and what differs here, or a snapshot", where)
    command.add_argument("checkpoint", help="its id")
    command.add_argument("--kernel", help="compare with this kernel: its id, or its notebook")
    command.set_defaults(without_server=True)
    command = add("trust", trust, "sign a checkpoint of other origin, to load it", where)
    command.add_argument("checkpoint", help="its id in the store, or what `export` wrote elsewhere")
    command.add_argument("--yes", "-y", action="store_true", help="do not ask")
    command.add_argument(
        "--altered", action="store_true", help="also if it was changed after it was signed"
    )
    command.set_defaults(without_server=True)
    command = add("export", export, "write a checkpoint to a folder or a .tar file", where)
    command.add_argument("checkpoint", help="its id")
    command.add_argument("path", type=Path, help="the new folder, or file that ends in .tar")
    command.set_defaults(without_server=True)
    command = add("import", import_, "take an exported checkpoint into the store", where)
    command.add_argument("path", type=Path, help="the folder or tar file")
    command.set_defaults(without_server=True)


def gc(options: argparse.Namespace, among: list[Server]) -> None:
    """Print what goes, or would go."""
    rules = {"older_than_s": options.older_than, "keep": options.keep, "dry_run": options.dry_run}
    reports = []
    for root, server in stores(options, among).items():
        if server is not None:
            report = server.ask("POST", "gc", rules)
        else:
            store = CheckpointStore(root)
            pauses = WorkspacePauses(store.root)
            protected = frozenset(needed(PausedRecords(store.root), pauses, store.summaries()))
            images = SnapshotShelf(engines_of(store.root, _no_kernel), PausedRecords(store.root))
            report = collect_all(
                images,
                partial(store.collect, **rules, protected=protected),
                dry_run=rules["dry_run"],
            )
        reports.append({"path": str(root), **report})
    if options.json:
        print_json({"stores": reports})
        return
    for report in reports:
        _print_collected(report)


def _no_kernel(_: str) -> None:
    """Where no server runs, there are no kernels: images can be looked at and removed."""


def _print_collected(report: dict[str, Any]) -> None:
    would = "would be " if report["dry_run"] else ""
    removed = "Would be removed" if report["dry_run"] else "Removed"
    held = report["store"]
    print(f"{report['path']}: {held['checkpoints']} checkpoints, "
          f"{held['snapshots']} process snapshots, {size(held['bytes'])}.")  # fmt: skip
    if report["checkpoints"]:
        rows = [
            (c["id"], local_time(c["created"]), size(c["bytes"]), c["notebook"] or "")
            for c in report["checkpoints"]
        ]
        print(table(("checkpoint", "created", "own size", "notebook"), rows))
        print()
    if report["snapshots"]["removed"]:
        images = [(s["id"], size(s["bytes"]), s["why"]) for s in report["snapshots"]["removed"]]
        print(table(("snapshot", "size", "why nobody needs it"), images))
        print()
    parts = [
        f"{len(report['checkpoints'])} checkpoints",
        f"{report['snapshots']['count']} process snapshots ({size(report['snapshots']['bytes'])})",
        f"{report['chunks']['count']} pieces of memory ({size(report['chunks']['bytes'])})",
        f"{report['leftovers']['count']} leftovers of what died half way "
        f"({size(report['leftovers']['bytes'])})",
    ]
    print(f"{removed}: {', '.join(parts)}.")
    print(f"{size(report['bytes_freed'])} {would}freed.")
    if report["stays"]:
        print(report["stays"])


def show(options: argparse.Namespace, among: list[Server]) -> None:
    """Print one checkpoint and what differs here."""
    found = stores(options, among)
    answer: dict[str, Any] | None = None
    for root, server in found.items():
        try:
            if server is not None:
                query = ""
                if options.kernel is not None:
                    query = (
                        f"?kernel_id={quote(find_kernel([server], options.kernel).kernel['id'])}"
                    )
                answer = server.ask("GET", f"checkpoints/{quote(options.checkpoint, '')}{query}")
            else:
                answer = asyncio.run(_shown(CheckpointStore(root), options.checkpoint))
            break
        except GkewsError as error:
            if error.reason != "checkpoint_not_found":
                raise
            if root == list(found)[-1]:
                from .shelf_commands import show_snapshot

                if show_snapshot(options.checkpoint, among, as_json=options.json):
                    return
                raise
    assert answer is not None
    if options.json:
        print_json(answer)
        return
    counts = answer["counts"]
    print(f"Checkpoint {answer['id']}" + (f" {answer['name']!r}" if answer["name"] else ""))
    print(f"  made       {local_time(answer['created'])}, Python {answer['python']}")
    print(f"  notebook   {answer['notebook'] or '-'}")
    print(f"  size       {size(answer['bytes'].get('total'))}")
    print(f"  variables  {counts['kept']} kept, {counts['rebuilt']} rebuilt, {counts['lost']} lost")
    if answer["lost"]:
        rows = [(row["name"], row["reason"] or "") for row in answer["lost"]]
        print("\n" + table(("lost", "reason"), rows))
    differences = answer["differences"]
    if differences is None:
        print(
            "\nWhat the kernel's Python has is not known: what differs is seen when it is loaded."
        )
    elif not differences:
        print(f"\nNothing differs in {answer['compared_with']['executable']}.")
    else:
        print(f"\nDifferent in {answer['compared_with']['executable']}:")
        differing = [
            (
                row["what"],
                row["made"] or "",
                row["here"] or "nothing",
                _SEVERITY[row["severity"]],
                row["means"],
            )
            for row in differences
        ]
        print(table(("what", "made with", "here", "", "what it means"), differing))


_SEVERITY = {"loses": "loses", "may_lose": "may lose", "note": ""}


async def _shown(store: CheckpointStore, checkpoint: str) -> dict[str, Any]:
    """As the server answers, without one: compared with the kernelspec that made it."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    manifest = store.manifest(checkpoint)
    try:
        spec = KernelSpecManager().get_kernel_spec(str(manifest.kernel.get("name")))
        python = kernel_environment.interpreter(spec.argv)
        here = None if python is None else await kernel_environment.ask(python, spec.env)
    except NoSuchKernel:
        here = None
    return {**manifest.summary(), **compared(manifest, here)}


def trust(options: argparse.Namespace, among: list[Server]) -> None:
    """Say what a checkpoint is, ask, and sign it."""
    store = the_store(options, among)
    checkpoint, imported = options.checkpoint, None
    path = Path(checkpoint).expanduser()
    if path.exists() and (path.is_file() or os.sep in checkpoint or checkpoint.startswith(".")):
        if path.resolve().parent == (store.root / "checkpoints").resolve():
            checkpoint = path.resolve().name
        else:
            imported = transfer.import_(store, path)
            checkpoint = imported["id"]
    told = trusting.describe(store, checkpoint)
    if told["signature"] == "yours":
        if not options.json:
            print(f"Checkpoint {checkpoint} is signed with your key already.")
        else:
            print_json(store.summary(checkpoint))
        return
    _print_untrusted(told, sys.stderr if options.json else sys.stdout)
    if not options.yes and not agreed(
        f"Trust checkpoint {checkpoint}? [y/N] ",
        "Nothing was trusted. Say --yes if you know the checkpoint.",
    ):
        raise GkewsError(
            "cancelled",
            f"Checkpoint {checkpoint} was not trusted.",
            "It is in the store, and is not loaded." if imported else "It was not changed.",
        )
    summary = trusting.trust(store, checkpoint, altered=options.altered)
    if options.json:
        print_json(summary)
    else:
        print(f"Checkpoint {checkpoint} is whole, and signed with your key now.")


def agreed(question: str, otherwise: str) -> bool:
    """Ask on the terminal; `otherwise` is the hint of the error where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise GkewsError(
            "bad_request",
            "There is nobody to ask: this is no terminal.",
            otherwise,
        )
    return input(question).strip().lower() in ("y", "yes")


def _print_untrusted(told: dict[str, Any], out: TextIO) -> None:
    names = told["names"]
    lines = [
        f"Checkpoint {told['id']}" + (f" {told['name']!r}" if told["name"] else ""),
        f"  signature   {told['signature']}" + (f" ({told['key']})" if told["key"] else ""),
        f"  made        {local_time(told['created'])}, Python {told['python'] or '?'}"
        f", {told['platform'] or '?'}",
        f"  notebook    {told['notebook'] or '-'}",
        f"  size        {size((told['bytes'] or {}).get('total'))}",
        f"  variables   {', '.join(names[:20])}" + (" ..." if len(names) > 20 else ""),
        f"  imports     {', '.join(told['modules'][:20])}"
        + (" ..." if len(told["modules"]) > 20 else ""),
    ]
    lines += [f"  refers to   {path}" for path in told["needs"]]
    lines.append("All this is what it says of itself. Loading it runs code that it holds.")
    print("\n".join(map(printable, lines)), file=out)


def export(options: argparse.Namespace, among: list[Server]) -> None:
    """Write a checkpoint to a folder or tar file."""
    store = the_store(options, among)
    done = transfer.export(store, options.checkpoint, options.path.expanduser().absolute())
    if options.json:
        print_json(done)
        return
    print(f"{done['path']}: {size(done['bytes'])}.")
    _print_needs(done["needs"])


def import_(options: argparse.Namespace, among: list[Server]) -> None:
    """Take a checkpoint into the store."""
    store = the_store(options, among)
    done = transfer.import_(store, options.path.expanduser().absolute())
    signature = trusting.describe(store, done["id"])["signature"]
    if options.json:
        print_json({**done, "signature": signature})
        return
    print(f"Checkpoint {done['id']}: {size(done['bytes'])}, {size(done['new'])} of it new here.")
    _print_needs(done["needs"])
    if signature != "yours":
        print(f"It is not trusted yet. If you know where it comes from: "
              f"jupyter gkews trust {done['id']}")  # fmt: skip


def _print_needs(paths: list[str]) -> None:
    for path in paths:
        print(f"It refers to {printable(path)}, which does not travel with it.")


def printable(text: str) -> str:
    """Text of unknown origin, without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


# -- which store -----------------------------------------------------------------------------


def stores(options: argparse.Namespace, among: list[Server]) -> dict[Path, Server | None]:
    """The stores that are meant, each with a server that has it: the one that is named, those of
    the servers, or the one that a server started now would have."""
    found: dict[Path, Server | None] = {}
    problems: list[UnreachableError] = []
    for server in among:
        try:
            path = Path(server.ask("GET", "status")["store"]["path"])
        except UnreachableError as problem:
            if options.url is not None:
                raise
            problems.append(problem)  # one without our extension, say
            continue
        found.setdefault(path, server)
    if options.store is not None:
        wanted = options.store.expanduser().absolute()
        for path, owner in found.items():
            if path.resolve() == wanted.resolve():
                return {path: owner}
        return {wanted: None}
    return found or {configured_store(): None}


def the_store(options: argparse.Namespace, among: list[Server]) -> CheckpointStore:
    """The one store that is meant, by its files. Raises GkewsError `bad_request`."""
    if any(not server.local for server in among) and options.store is None:
        raise GkewsError(
            "bad_request",
            "This command works on the files of a store, and the server that is named may be "
            "on another machine.",
            "Run it where the store is, or name its folder: --store PATH.",
        )
    found = stores(options, among)
    if len(found) > 1:
        paths = ", ".join(map(str, found))
        raise GkewsError(
            "bad_request",
            f"The servers that run here have different stores: {paths}.",
            "Say which one is meant: --store PATH.",
        )
    return CheckpointStore(next(iter(found)))


def configured_store() -> Path:
    """The store of a server that would be started now: as its configuration says."""
    from jupyter_core.application import JupyterApp

    from .app import GkewsApp

    config = JupyterApp()
    for name in ("jupyter_server_config", "jupyter_gkews_config"):
        config.config_file_name = name
        config.load_config_file()
    said = config.config.get("GkewsApp", {}).get("store_dir")
    if not isinstance(said, str):
        said = GkewsApp().store_dir
    return Path(said).expanduser().absolute()


# -- words -----------------------------------------------------------------------------------


def _age(text: str) -> float:
    """Seconds in "90s", "30min", "12h", "30d", "4w"."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if parts is None or parts[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 12h, 30d or 4w")
    return float(parts[1]) * _UNITS[parts[2]]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)
