"""The commands of `jupyter gkews` that list and delete what pauses have left: checkpoints, and the
process snapshots beside them. They ask a running server, which knows what its kernels need.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from .errors import GkewsError
from .server_client import Server, each
from .store_commands import agreed
from .tables import duration, local_time, print_json, size, table


def add_to(add: Callable[..., Any]) -> None:
    """Add the commands to the command line; `add(name, command, help, *parents)`."""
    add("list", list_all, "list the checkpoints and the process snapshots")
    command = add("delete", delete, "delete a checkpoint or a process snapshot")
    command.add_argument("id", help="its id, as `list` shows it")
    command.add_argument("--yes", "-y", action="store_true", help="do not ask")


def list_all(options: argparse.Namespace, among: list[Server]) -> None:
    """Print the checkpoints, and the process snapshots beside them."""
    checkpoints = _listed(among, "checkpoints")
    snapshots = _listed(among, "snapshots")
    if options.json:
        found = {"checkpoints": list(checkpoints.values()), "snapshots": list(snapshots.values())}
        print_json(found)
        return
    if not checkpoints:
        print("No checkpoints.")
    else:
        _print_checkpoints(checkpoints.values())
    if snapshots:
        print()
        _print_snapshots(snapshots.values())


def _listed(among: list[Server], what: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for _, answer in each(among, lambda server: server.ask("GET", what)):
        for one in answer[what]:  # servers of one user share the store
            found.setdefault(one["id"], one)
    return found


def _print_checkpoints(checkpoints: Collection[dict[str, Any]]) -> None:
    rows = []
    for c in checkpoints:
        counts = c.get("counts") or {}
        rows.append(
            (
                c["id"],
                c["name"] or "",
                local_time(c["created"]),
                size((c["bytes"] or {}).get("total")),
                "/".join(str(counts.get(fate, "-")) for fate in ("kept", "rebuilt", "lost")),
                "in use" if c["in_use"] else "",
                c["notebook"] or "",
            )
        )
    print(
        table(("checkpoint", "name", "created", "size", "kept/rebuilt/lost", "", "notebook"), rows)
    )
    _print_problems((c["id"], c["error"]) for c in checkpoints)


def _print_snapshots(snapshots: Collection[dict[str, Any]]) -> None:
    rows = []
    for s in snapshots:
        rows.append(
            (
                s["id"],
                local_time(s["created"]),
                _age(s["created"]),
                size(s["bytes"]),
                ", ".join(_environment(s["environment"])),
                "in use" if s["in_use"] else "not needed" if s["unneeded"] else "",
                ", ".join(holdings(s["holds"])),
                s["notebook"] or "",
            )
        )
    heads = ("snapshot", "created", "age", "size", "taken with", "", "holds", "notebook")
    print(table(heads, rows))
    _print_problems((s["id"], s["problem"]) for s in snapshots)
    for s in snapshots:
        if s["unneeded"]:
            print(f"{s['id']}: {s['unneeded']}")


def _print_problems(found: Iterable[tuple[str, dict[str, Any] | None]]) -> None:
    """Below a table: why something of it cannot be used, and what to do."""
    for name, problem in found:
        if problem is not None:
            print(f"{name}: {problem['message']} {problem['hint']}".rstrip())


def show_snapshot(name: str, among: list[Server], *, as_json: bool) -> bool:
    """Print one process snapshot, if a server knows it."""
    found = _listed(among, "snapshots").get(name)
    if found is None:
        return False
    if as_json:
        print_json(found)
        return True
    print(f"Process snapshot {found['id']}")
    print(f"  taken       {local_time(found['created'])}, with "
          f"{', '.join(_environment(found['environment']))}")  # fmt: skip
    print(f"  notebook    {found['notebook'] or '-'}")
    print(f"  size        {size(found['bytes'])}")
    in_cell = " (of an earlier state: it was taken in the middle of a cell)"
    print(f"  checkpoint  {found['checkpoint'] or '-'}{in_cell if found['in_cell'] else ''}")
    print(f"  holds       {', '.join(holdings(found['holds'])) or 'no thread, generator, child'}")
    use = "a paused kernel would be resumed from it" if found["in_use"] else found["unneeded"]
    print(f"  use         {use or '-'}")
    _print_problems([("cannot be restored here", found["problem"])])
    return True


def _age(created: str) -> str:
    then = datetime.fromisoformat(created.replace("Z", "+00:00"))
    return duration(max(0.0, (datetime.now(timezone.utc) - then).total_seconds()))


def _environment(environment: dict[str, Any]) -> list[str]:
    names = (("runsc", "runsc"), ("python", "Python"), ("machine", ""))
    return [f"{name} {environment[key]}".strip() for key, name in names if environment.get(key)]


def holdings(holds: dict[str, Any] | None) -> list[str]:
    """What a process has that goes on after a restore, counted."""
    found = []
    kinds = (
        ("threads", "thread", "threads"),
        ("generators", "generator", "generators"),
        ("children", "child process", "child processes"),
        ("files", "open file", "open files"),
    )
    for key, one, many in kinds:
        count = len((holds or {}).get(key) or ())
        if count:
            found.append(f"{count} {one if count == 1 else many}")
    return found


def print_outlook(told: dict[str, Any]) -> None:
    """What a process snapshot would have besides: the `snapshot` of `survives`."""
    estimate, objections = told["estimate"], told["objections"]
    held = "; ".join(holdings(told["holds"]))
    if told["taken"]:
        print(f"A process snapshot is there ({told['taken']}): a resume brings the same process "
              f"back{', with ' + held if held else ''}.")  # fmt: skip
        return
    if objections:
        print("No process snapshot can be taken now, and a pause would rest on the checkpoint:")
        for each_ in objections:
            print(f"  {each_['what']}: {each_['reason']}. {each_['hint']}")
        return
    print("A pause also freezes the process. After a resume there are, beyond the checkpoint:")
    for kept in told["keeps"]:
        print(f"  {kept}")
    if held:
        print(f"Now: {held}.")
    if estimate:
        print(
            f"About {size(estimate['image_bytes'])} on the disk, {duration(estimate['seconds'])} "
            f"to take and {duration(estimate['restore_seconds'])} to restore."
        )


# -- delete ----------------------------------------------------------------------------------


def delete(options: argparse.Namespace, among: list[Server]) -> None:
    """Say what goes and what remains, ask, and delete it."""
    server, kind, found = _find(among, options.id)
    lines = _what_goes_of_snapshot(found) if kind == "snapshots" else _what_goes(found)
    if not options.yes:
        if not options.json:
            print("\n".join(lines))
        if not agreed(
            f"Delete {options.id}? [y/N] ", "Nothing was deleted. Say --yes if you mean it."
        ):
            raise GkewsError("cancelled", f"{options.id} was not deleted.", "It is as it was.")
    answer = server.ask("DELETE", f"{kind}/{quote(options.id, '')}")
    if options.json:
        print_json(answer)
        return
    print(f"{options.id} is deleted, {size(answer['bytes_freed'])} freed.")
    if kind == "snapshots" and found["in_use"]:
        print(f"The kernel stays paused; it resumes from the checkpoint {found['checkpoint']}.")


def _find(among: list[Server], name: str) -> tuple[Server, str, dict[str, Any]]:
    for kind in ("snapshots", "checkpoints"):
        for server, answer in each(among, lambda server: server.ask("GET", kind)):  # noqa: B023
            for one in answer[kind]:
                if one["id"] == name:
                    return server, kind, one
    raise GkewsError(
        "checkpoint_not_found",
        f"There is no checkpoint and no snapshot {name!r}.",
        "Look at `jupyter gkews list`.",
    )


def _what_goes_of_snapshot(found: dict[str, Any]) -> list[str]:
    lines = [
        f"The process snapshot {found['id']} of {found['notebook'] or found['kernel'][:8]}, "
        f"{size(found['bytes'])}."
    ]
    held = ", ".join(holdings(found["holds"]))
    if found["in_use"]:
        goes = f"The process that is frozen in it is gone then{', with ' + held if held else ''}. "
        if found["checkpoint"] is None:
            lines.append(f"{goes}There is no checkpoint of this kernel: nothing else remains.")
            return lines
        older = ", which is of an earlier state: the running cell is lost" * found["in_cell"]
        lines.append(
            f"{goes}The checkpoint {found['checkpoint']} stays{older}. The kernel stays paused and "
            "resumes from it (recovered instead of restored)."
        )
    else:
        lines.append("No paused kernel needs it. Checkpoints stay.")
    return lines


def _what_goes(found: dict[str, Any]) -> list[str]:
    name = f" {found['name']!r}" if found["name"] else ""
    return [
        f"The checkpoint {found['id']}{name} of {found['notebook'] or 'no notebook'}, "
        f"{size((found['bytes'] or {}).get('total'))}.",
        "What it holds can then no longer be restored. The notebook and running kernels stay.",
    ]
