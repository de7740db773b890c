"""`jupyter gkews pause --workspace`: the whole workspace through the server that lives in it.

The server writes the kernels' checkpoints and asks the cluster; this only asks the server. From
outside of the workspace it is `jupyter gkews workspace pause` (workspace_commands.py).
"""

from __future__ import annotations

import argparse
from typing import Any

from .errors import GkewsError
from .operation_waiting import wait_for
from .server_client import Server, each
from .tables import print_json, table


def add_to(pausing: argparse.ArgumentParser) -> None:
    """Add the options to `pause`."""
    pausing.add_argument(
        "--workspace",
        action="store_true",
        help="not a kernel but the whole workspace that the server lives in (GKE, Kubeflow)",
    )
    pausing.add_argument(
        "--stateless",
        action="store_true",
        help="with --workspace: also if its memory will be lost",
    )
    pausing.add_argument(
        "--without-checkpoint",
        action="store_true",
        help="with --workspace: also if kernels have no checkpoint",
    )

    def check(options: argparse.Namespace) -> None:
        """Either a kernel, or the workspace; else it is a wrong command line."""
        if options.workspace and (options.kernel is not None or options.snapshot is not None):
            pausing.error("--workspace goes neither with a kernel nor with --[no-]snapshot")
        if not options.workspace and options.kernel is None:
            pausing.error("the following arguments are required: kernel, or --workspace")
        if not options.workspace and (options.stateless or options.without_checkpoint):
            pausing.error("--stateless and --without-checkpoint go with --workspace")

    pausing.set_defaults(check=check)


def pause(options: argparse.Namespace, among: list[Server], body: dict[str, Any]) -> None:
    """Pause it, and print what became of it."""
    chosen = {"stateless": options.stateless, "without_checkpoint": options.without_checkpoint}
    server = _in_a_workspace(among)
    operation = server.ask("POST", "workspace/pause", {**body, **chosen})
    if not options.no_wait:
        operation = wait_for(server, operation)
    if options.json:
        print_json(operation)
    else:
        _print(operation)
    if operation["error"]:
        raise GkewsError.from_json(operation["error"])


def _in_a_workspace(among: list[Server]) -> Server:
    found = [
        (server, answer["workspace"])
        for server, answer in each(among, lambda server: server.ask("GET", "status"))
    ]
    inside = [server for server, workspace in found if workspace["state"] != "none"]
    if not inside:
        raise GkewsError("no_workspace", found[0][1]["message"], found[0][1]["hint"])
    if len(inside) > 1:
        raise GkewsError(
            "bad_request", "Several servers here live in a workspace.", "Name one with --url."
        )
    return inside[0]


def _print(operation: dict[str, Any]) -> None:
    rows = [
        (
            kernel["kernel"][:8],
            kernel["path"] or "",
            kernel["checkpoint"] or "",
            (kernel["why_not"] or {}).get("message") or "",
        )
        for kernel in operation["kernels"]
    ]
    if rows:
        print(table(("kernel", "notebook", "checkpoint", "why not"), rows))
    name = "{namespace}/{name}".format(**operation["workspace"])
    if operation["finished"] is None:
        print(f"Started: pause of {name}, operation {operation['id']}.")
    elif operation["error"] is None:
        restored = operation["result"]["provenance"] == "restored"
        print(f"{name} was paused" + (", and runs again: the same processes." if restored else "."))
