"""`jupyter gkews`: the same things as the buttons, for a shell. Asks running servers.

What works on the store's files, with a server or without one, is in store_commands.py.
Exit codes: 0 done, 1 an error (reason and hint on stderr; with --json also as JSON on stdout),
2 a wrong command line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from . import (
    __version__,
    podsnapshot_commands,
    sandbox_commands,
    server_sandbox_commands,
    shelf_commands,
    store_commands,
    workspace_commands,
    workspace_pause_command,
)
from .errors import GkewsError
from .kernel.display import how_compressed, how_proved
from .operation_waiting import wait_for
from .server_client import Found, Server, UnreachableError, each, find_kernel, servers
from .shelf_commands import print_outlook
from .tables import duration, local_time, parse_seconds, print_json, size, table

KERNEL = "the beginning of its id (4 or more), or its notebook"


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    argv, words = server_sandbox_commands.arguments(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(argv)
    options.words = words
    options.check(options)
    among: list[Server] = []
    try:
        if not options.alone:
            among = servers(options.url, options.token, none_is_fine=options.without_server)
        command: Callable[[argparse.Namespace, list[Server]], None] = options.command
        command(options, among)
    except OperationFailedError as error:  # printed already, with all that is known of it
        return _fail(error)
    except (GkewsError, UnreachableError) as error:
        return _fail(error, as_json=options.json)
    except KeyboardInterrupt:
        hint = f"An operation that was started goes on in the {options.goes_on_in}."
        return _fail(GkewsError("cancelled", "Interrupted.", hint), as_json=options.json)
    except BrokenPipeError:  # the reader of our output had enough
        sys.stderr.close()
        return 1
    finally:
        for server in among:
            server.close()
    return 0


class OperationFailedError(GkewsError):
    """An operation ended with this error, and was itself printed as JSON."""


def _fail(error: GkewsError | UnreachableError, *, as_json: bool = False) -> int:
    if as_json:
        print_json({"reason": error.reason, "message": error.message, "hint": error.hint})
    reason = f"{error.reason}: " if isinstance(error, GkewsError) else ""
    print(f"error: {reason}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    if error.reason.startswith("snapshot_") and "resume from the" in error.hint:
        print("hint: `jupyter gkews resume --no-snapshot KERNEL` loads the checkpoint.",
              file=sys.stderr)  # fmt: skip
    return 1


# -- commands --------------------------------------------------------------------------------


def status(options: argparse.Namespace, among: list[Server]) -> None:
    """Print all kernels of all servers, or the one that is named."""
    if options.kernel is not None:
        found = find_kernel(among, options.kernel)
        if options.json:
            print_json(found.kernel)
        else:
            _print_kernel(found.kernel)
        return
    answers = each(among, lambda server: server.ask("GET", "status"))
    if options.json:
        print_json({"servers": [{"url": server.url, **answer} for server, answer in answers]})
        return
    for server, answer in answers:
        rows = [
            (
                k["id"][:8],
                k["path"] or "",
                k["state"],
                duration(k["age_s"]),
                k["provenance"] or "",
                size(k["ram"]),
                (k["why_not"] or {}).get("message") or (k["message"] if k["reason"] else ""),
            )
            for k in answer["kernels"]
        ]
        print(f"{server.url}  (checkpoints: {answer['store']['path']}, "
              f"{size(answer['store']['free'])} free)")  # fmt: skip
        if rows:
            print(
                table(("kernel", "notebook", "state", "for", "provenance", "memory", "note"), rows)
            )
        else:
            print("No kernels.")


def survives(options: argparse.Namespace, among: list[Server]) -> None:
    """Print what a pause would keep."""
    found = find_kernel(among, options.kernel)
    answer = found.server.ask("GET", f"kernels/{found.kernel['id']}/survives")
    if options.json:
        print_json(answer)
        return
    if answer["stale"]:
        print(f"As of {local_time(answer['as_of'])}: the kernel cannot be asked now.")
    rows = sorted(answer["variables"], key=lambda v: -(v["bytes"] or 0))
    print(
        table(
            ("name", "type", "size", "where", "fate", "cell", "reason"),
            [
                (
                    v["name"],
                    v["type"],
                    size(v["bytes"]),
                    v["device"] or "",
                    v["fate"],
                    "" if v["cell"] is None else f"[{v['cell']}]",
                    v["reason"] or "",
                )
                for v in rows
            ],
        )
    )
    others = [(p["what"], p["fate"], p["reason"] or "") for p in answer["process"]]
    if others:
        print()
        print(table(("process", "fate", "reason"), others))
    b = answer["bytes"]
    print(
        f"\n{size(b['kept'])} kept: {size(b['to_write'])} to write, "
        f"{size(b['already_stored'])} stored already"
        + (f", {size(b['referenced'])} in files of weights." if b.get("referenced") else ".")
    )
    for file in answer.get("files", ()):
        if file["problem"]:
            print(f"{file['path']}: {file['problem']}")
    if answer.get("snapshot"):
        print()
        print_outlook(answer["snapshot"])


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Pause a kernel."""
    body = {"when": options.when, **_given(options), **_snapshot(options)}
    if options.workspace:
        workspace_pause_command.pause(options, among, body)
        return
    _operate(options, among, "pause", body)


def checkpoint(options: argparse.Namespace, among: list[Server]) -> None:
    """Write a checkpoint of a kernel."""
    _operate(options, among, "checkpoint", _given(options))


def resume(options: argparse.Namespace, among: list[Server]) -> None:
    """Resume a kernel."""
    given = {"on_missing_gpu": options.on_missing_gpu, "gpu_wait_s": options.gpu_wait}
    body = {key: value for key, value in given.items() if value is not None}
    if options.accept_missing:
        body["accept_missing"] = True
    _operate(options, among, "resume", {**body, **_snapshot(options)})


def _snapshot(options: argparse.Namespace) -> dict[str, Any]:
    return {} if options.snapshot is None else {"snapshot": options.snapshot}


def _given(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "timeout_s": options.timeout,
        "name": options.name,
        "prove": options.prove,
        "compress": options.compress,
    }
    return {key: value for key, value in given.items() if value is not None}


# -- operations ------------------------------------------------------------------------------


def _operate(
    options: argparse.Namespace, among: list[Server], kind: str, body: dict[str, Any]
) -> None:
    found = find_kernel(among, options.kernel)
    operation = found.server.ask("POST", f"kernels/{found.kernel['id']}/{kind}", body)
    if not options.no_wait:
        operation = wait_for(found.server, operation)
    if options.json:
        print_json(operation)
        if operation["error"]:
            raise OperationFailedError.from_json(operation["error"])
    elif operation["error"]:
        raise GkewsError.from_json(operation["error"])
    else:
        _print_operation(found, operation)


def _print_operation(found: Found, operation: dict[str, Any]) -> None:
    what = found.kernel["path"] or found.kernel["id"][:8]
    result = operation["result"]
    if result is None:
        print(f"Started: {operation['kind']} of {what}, operation {operation['id']}.")
        return
    done = {"pause": "Paused", "resume": "Resumed", "checkpoint": "Checkpoint of"}
    counts = f"{result['kept']} kept, {result['rebuilt']} rebuilt, {len(result['lost'])} lost"
    seconds = duration(sum(result["seconds"].values()))
    line = f"{done[operation['kind']]} {what} in {seconds}: {counts}"
    if result["provenance"] == "restored":
        line = f"Resumed {what} in {seconds}: the same process goes on (restored)"
    elif operation["kind"] == "resume":
        line += f" ({result['provenance']})"
    else:
        line += f"; {size(result['bytes_written'])} written"
        if result["bytes_referenced"]:
            line += f", {size(result['bytes_referenced'])} referred to in files of weights"
        line += f", checkpoint {result['checkpoint']}"
        if result["snapshot"]:
            line += f", snapshot {result['snapshot']}"
    released = result["released"]
    if released:
        given = [f"{size(released[k])} {w}" for k, w in (("ram", "memory"), ("vram", "GPU memory"))
                 if released.get(k)]  # fmt: skip
        line += f"; given back: {', '.join(given) or 'nothing'}"
    print(line + ".")
    if result["note"]:
        print(result["note"])
    if result["proved"]:
        print(how_proved(result["proved"]))
    if result["compressed"]:
        print(how_compressed(result["compressed"]))
    if result["lost"]:
        print()
        print(
            table(
                ("lost", "reason", "cell"),
                [
                    (v["name"], v["reason"] or "", "" if v["cell"] is None else f"[{v['cell']}]")
                    for v in result["lost"]
                ],
            )
        )


def _print_kernel(kernel: dict[str, Any]) -> None:
    print(f"{kernel['id']}  {kernel['display_name']}  {kernel['path'] or ''}".rstrip())
    print(f"{kernel['message']} For {duration(kernel['age_s'])}. {kernel['hint']}".rstrip())
    if kernel["why_not"]:
        print(f"Cannot be paused: {kernel['why_not']['message']} {kernel['why_not']['hint']}")
    if kernel["checkpoint"]:
        print(f"Checkpoint: {kernel['checkpoint']}")
    if kernel.get("snapshot"):
        print(f"Snapshot: {kernel['snapshot']}")


# -- the command line ------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", default=None, help="the server; default: those that run here")
    common.add_argument("--token", default=None, help="its token; default: as found")
    common.add_argument("--json", action="store_true", help="print JSON as the REST interface does")
    kernel = argparse.ArgumentParser(add_help=False)
    kernel.add_argument("kernel", help=KERNEL)
    wait = argparse.ArgumentParser(add_help=False)
    wait.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    how = argparse.ArgumentParser(add_help=False)
    how.add_argument("--timeout", type=parse_seconds, help="seconds to wait for a running cell")
    how.add_argument("--name", help="a name for the checkpoint, which is then kept for good")
    how.add_argument(
        "--prove",
        choices=("scratch", "read-back", "off"),
        help="load the checkpoint in another process before it counts (scratch), read its bytes "
        "again (read-back), or neither (off); default: as the server is configured",
    )
    how.add_argument(
        "--compress",
        choices=("none", "zstd"),
        help="compress what is no array or tensor; default: as the server is configured",
    )

    parser = argparse.ArgumentParser(
        prog="jupyter gkews", description="Pause and resume the kernels of a Jupyter server."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Callable[..., None], help_: str, *parents: Any) -> Any:
        added = commands.add_parser(
            name, parents=[*parents, common], help=help_, description=help_[0].upper() + help_[1:]
        )
        added.set_defaults(
            command=command,
            without_server=False,
            alone=False,
            goes_on_in="server",
            check=lambda options: None,
        )
        return added

    add("status", status, "show the kernels and their states").add_argument(
        "kernel", nargs="?", help="only this one"
    )
    pausing = add("pause", pause, "write a checkpoint and stop the kernel's process", wait, how)
    pausing.add_argument("kernel", nargs="?", help=KERNEL)
    workspace_pause_command.add_to(pausing)
    pausing.add_argument(
        "--when",
        choices=("idle", "interrupt", "now"),
        default="idle",
        help="a running cell: wait for it (idle), interrupt it, or (now) freeze the process in the "
        "middle of it; refused where no engine can",
    )
    resuming = add("resume", resume, "start a paused kernel and load its checkpoint", kernel, wait)
    resuming.add_argument(
        "--accept-missing",
        action="store_true",
        help="also if files of weights are gone or were changed: what needs them is lost",
    )
    resuming.add_argument(
        "--on-missing-gpu",
        choices=("cpu", "wait", "fail"),
        help="tensors whose GPU is not there or has no room: move them to the CPU, wait, or refuse "
        "(default: as the server is configured)",
    )
    resuming.add_argument(
        "--gpu-wait", type=parse_seconds, metavar="SECONDS", help="how long to wait for a GPU"
    )
    for command, yes, no in (
        (pausing, "demand a process snapshot", "stop the process after the checkpoint"),
        (resuming, "demand the same process", "load the checkpoint although there is a snapshot"),
    ):
        choice = command.add_mutually_exclusive_group()
        choice.add_argument(
            "--snapshot", action="store_true", default=None, dest="snapshot", help=yes
        )
        choice.add_argument("--no-snapshot", action="store_false", dest="snapshot", help=no)
    add("checkpoint", checkpoint, "write a checkpoint and go on", kernel, wait, how)
    add("survives", survives, "show what a pause would keep, rebuild and lose", kernel)
    shelf_commands.add_to(add)
    store_commands.add_to(add)
    sandbox_commands.add_to(add)
    server_sandbox_commands.add_to(add, common)
    workspace_commands.add_to(add)
    podsnapshot_commands.add_to(add)
    return parser


if __name__ == "__main__":
    sys.exit(main())
