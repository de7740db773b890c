"""`jupyter gkews sandbox`: a whole Jupyter server in a sandbox, paused and resumed from a shell.

What runs a server is a process of its own: these commands only start it and ask it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import GkewsError
from .server_client import Server
from .tables import duration, print_json, size, table

#: Seconds between two looks at a server that starts.
LOOK_S = 0.05
RUN = "run"
ACTIONS = (RUN, "list", "pause", "resume", "stop", "logs")


def arguments(argv: list[str]) -> tuple[list[str], list[str]]:
    """`sandbox [options] -- command` as argparse can read it, and the command."""
    if argv[:1] != ["sandbox"] or "--" not in argv:
        return argv, []
    cut = argv.index("--")
    head, command = argv[:cut], argv[cut + 1 :]
    if not any(word in ACTIONS for word in head[1:2]):
        head.insert(1, RUN)
    return head, command


def add_to(add: Callable[..., Any], common: argparse.ArgumentParser) -> None:
    """Add the commands to the command line."""
    sandbox = add("sandbox", None, "run a whole Jupyter server in a sandbox, pause and resume it")
    sandbox.usage = (
        "jupyter gkews sandbox [--port PORT] [--name NAME] ... -- jupyter lab ...\n"
        "       jupyter gkews sandbox list | pause ID | resume ID | stop ID | logs ID"
    )
    actions = sandbox.add_subparsers(title="actions", required=True, metavar="ACTION")

    def action(name: str, command: Callable[..., None], help_: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, parents=[common], help=help_, description=help_[0].upper() + help_[1:]
        )
        parser.set_defaults(command=command, alone=True)
        parser.add_argument(
            "--servers", type=Path, help="the folder of the servers; default: in the store"
        )
        return parser

    _add_run(action(RUN, run, "start the command after -- (the word `run` can be left out)"))
    action("list", list_, "list the sandboxed servers")
    pausing = action("pause", pause, "write it to disk and give its memory back")
    pausing.add_argument(
        "--no-checkpoint", action="store_true", help="write no checkpoints of its kernels first"
    )
    resuming = action("resume", resume, "bring the same processes back")
    resuming.add_argument("--port", type=int, help="another port than before")
    stopping = action("stop", stop, "end it, and remove its image; checkpoints are kept")
    reading = action("logs", logs, "print what it has printed")
    reading.add_argument("--follow", "-f", action="store_true", help="go on until it ends")
    for parser in (pausing, resuming, stopping, reading):
        parser.add_argument("server", help="the beginning of its id, or its name")


def _add_run(start: argparse.ArgumentParser) -> None:
    def many(flag: str, metavar: str, help_: str) -> None:
        start.add_argument(flag, action="append", default=[], metavar=metavar, help=help_)

    start.add_argument("--name", default="", help="a name for it, besides its id")
    start.add_argument("--port", type=int, default=0, help="on 127.0.0.1; default: a free one")
    many("--bind", "FOLDER", "a folder in which it works, besides your home and the present one")
    many("--place", "OUTSIDE:INSIDE", "a file or folder that it sees at another place")
    start.add_argument("--store", help="its checkpoint store; default: one of its own")
    start.add_argument(
        "--network",
        choices=("proxy", "none"),
        default="proxy",
        help="its way out: an HTTP proxy, or none",
    )
    many("--allow-host", "HOST", "a name or address of this machine that the proxy may reach")


# -- the commands ----------------------------------------------------------------------------


def run(options: argparse.Namespace, among: list[Server]) -> None:
    """Start a server and wait until it answers."""
    del among
    from .engines.gvisor.runsc import Runsc
    from .engines.gvisor.server_folder import ServerFolder
    from .engines.gvisor.server_sandbox import ServerPlan

    if not options.words:
        raise GkewsError(
            "bad_request",
            "There is nothing to run.",
            "Write the command after --: jupyter gkews sandbox -- jupyter lab",
        )
    why_not = Runsc(Path(os.devnull)).why_not()
    if why_not:
        raise GkewsError("snapshot_unavailable", why_not, "See `jupyter gkews doctor`.")
    store = str(Path(options.store).expanduser().absolute()) if options.store else None
    plan = ServerPlan(
        options.words,
        os.getcwd(),
        dict(os.environ),
        [os.path.expanduser("~"), *map(os.path.abspath, options.bind)],
        dict(_place(text) for text in options.place),
        options.network,
        options.allow_host,
        store,
    )
    folder = ServerFolder.create(_servers(options), plan, options.name, options.port)
    record = _launched(folder, "start")
    if record.state != "running":
        folder.remove()
        raise _error(record, "The server did not start.")
    if options.json:
        print_json(record.to_json())
        return
    print(f"{record.id}  {record.url}{'?token=' + record.token if record.token else ''}")
    print(f"Pause it with: jupyter gkews sandbox pause {record.name or record.id}")


def list_(options: argparse.Namespace, among: list[Server]) -> None:
    """Print all servers."""
    del among
    from .engines.gvisor.server_folder import all_servers

    found = [folder.record() for folder in all_servers(_servers(options))]
    if options.json:
        print_json({"servers": [record.to_json() for record in found]})
        return
    if not found:
        print("No sandboxed servers.")
        return
    rows = [
        (
            record.id,
            record.name,
            record.state,
            duration(_age_s(record.since)),
            record.url if record.state == "running" else "",
            size(record.image["bytes"]) if record.image else "",
            record.error["message"] if record.error else " ".join(record.command),
        )
        for record in found
    ]
    print(table(("server", "name", "state", "for", "address", "image", ""), rows))


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Pause a server."""
    del among
    folder = _find(options)
    state = folder.record().state
    if state == "paused":
        raise GkewsError("already_paused", "The server is paused already.", "Its image is kept.")
    if state != "running":
        raise GkewsError("not_pausable", f"The server is {state}.", "Nothing was changed.")
    began = time.monotonic()
    done = folder.ask("pause", None, checkpoint=not options.no_checkpoint)
    _wait_for_end(folder)
    if options.json:
        print_json({**folder.record().to_json(), **done})
        return
    print(
        f"Paused in {duration(time.monotonic() - began)}: an image of {size(done['image_bytes'])}; "
        f"given back: {size(done['released'])} memory."
    )
    for left in done["left"]:
        name = left["path"] or left["kernel"][:8]
        print(f"No checkpoint of {name}: {left['why']} It is in the image alone.")
    if done["unasked"]:
        print(f"Not asked whether they can be saved: {', '.join(done['unasked'])}.")


def resume(options: argparse.Namespace, among: list[Server]) -> None:
    """Resume a server."""
    del among
    folder = _find(options)
    record = folder.record()
    if record.state != "paused":
        raise GkewsError("not_paused", f"The server is {record.state}.", "Nothing was changed.")
    began = time.monotonic()
    record = _launched(folder, "resume", *([] if options.port is None else [str(options.port)]))
    if record.state != "running":
        raise _error(record, "The server was not restored.")
    if options.json:
        print_json(record.to_json())
        return
    print(f"Resumed in {duration(time.monotonic() - began)}: {record.url}")


def stop(options: argparse.Namespace, among: list[Server]) -> None:
    """End a server and remove what is left of it."""
    del among
    folder = _find(options)
    if folder.record().state == "running":
        folder.ask("stop")
        _wait_for_end(folder)
    with folder.held():
        kept = folder.remove()
    if options.json:
        print_json({"id": folder.root.name, "checkpoints": kept})
    else:
        print("Stopped." + (f" Its checkpoints are kept in {kept}." if kept else ""))


def logs(options: argparse.Namespace, among: list[Server]) -> None:
    """Print the output of the command inside."""
    del among
    folder = _find(options)
    if options.json:
        text = folder.output.read_text(errors="replace") if folder.output.exists() else ""
        print_json({"path": str(folder.output), "lines": text.splitlines()})
        return
    at = 0
    while True:
        lives = folder.host_lives()
        if folder.output.exists():
            with open(folder.output, "rb") as file:
                file.seek(at)
                data = file.read()
            at += len(data)
            sys.stdout.write(data.decode(errors="replace"))
            sys.stdout.flush()
        if not (options.follow and lives):
            return
        time.sleep(LOOK_S * 4)


# -- what they share -------------------------------------------------------------------------


def _servers(options: argparse.Namespace) -> Path:
    if options.servers is not None:
        return Path(options.servers).expanduser().absolute()
    from .store_commands import configured_store

    return configured_store() / "servers"


def _find(options: argparse.Namespace) -> Any:
    from .engines.gvisor.server_folder import find

    return find(_servers(options), options.server)


def _launched(folder: Any, *how: str) -> Any:
    """Start the host process, which outlives us; the record once it runs or has given up."""
    from .engines.gvisor.server_host import ANOTHER

    log = os.open(folder.root / "host.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    module = "jupyter_gkews.engines.gvisor.server_host"
    try:
        host = subprocess.Popen(
            [sys.executable, "-m", module, str(folder.root), *how],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    while True:
        ended = host.poll()
        record = folder.record()
        if ended == ANOTHER:
            raise GkewsError(
                "operation_running",
                "Another process is at work on this server.",
                "See `jupyter gkews sandbox list`.",
            )
        if ended is not None or (record.state == "running" and record.host_pid == host.pid):
            host.returncode = host.returncode or 0  # it outlives us: nobody waits for it here
            return record
        time.sleep(LOOK_S)


def _wait_for_end(folder: Any) -> None:
    """Until the host process has let go."""
    while folder.host_lives():
        time.sleep(LOOK_S)


def _error(record: Any, otherwise: str) -> GkewsError:
    if record.error:
        return GkewsError.from_json(record.error)
    return GkewsError("snapshot_failed", otherwise, "host.log in its folder says more.")


def _place(text: str) -> tuple[str, str]:
    outside, _, inside = text.partition(":")
    if not (outside and inside.startswith("/")):
        raise GkewsError("bad_request", f"{text!r} is not OUTSIDE:INSIDE.", "Nothing was started.")
    return inside, os.path.abspath(outside)


def _age_s(since: str) -> float:
    from .lifecycle.state import age_s

    return age_s(since)
