"""What the commands for whole workspaces and for single pods have in common: how their actions are
added, and how states, checks and rights are said.

Asks no cluster and knows no engine: cluster_connection.py finds the cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .cluster_connection import cluster_options
from .errors import GkewsError
from .server_client import Server
from .tables import local_time, parse_seconds, print_json, table

if TYPE_CHECKING:
    from .engines.cluster.problems import ClusterError
    from .engines.workspaces.access import Need
    from .engines.workspaces.preflight import Check
    from .engines.workspaces.state import WorkspaceState

#: Seconds that a resume is waited for: a node with a GPU may have to be made first.
RESUME_S = 1800.0
#: Seconds for a request that is being made when a command ends.
ENDS_S = 15.0

Run = Callable[[argparse.Namespace, "list[Server]"], None]
AddAction = Callable[..., argparse.ArgumentParser]
"""`(name, run, help, *parents)`."""


def add_cluster_command(
    add: Callable[..., Any], name: str, help_: str, *parents: argparse.ArgumentParser
) -> AddAction:
    """Add a command that asks a cluster; returns what adds its actions, each with `parents`."""
    command = add(name, _nothing, help_)
    command.set_defaults(alone=True, goes_on_in="cluster")
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")

    def add_action(
        action: str, run: Run, words: str, *more: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = actions.add_parser(
            action,
            parents=[cluster_options(), *parents, *more],
            help=words,
            description=words,
        )
        found.set_defaults(command=run)
        return found

    return add_action


def _nothing(options: argparse.Namespace, among: list[Server]) -> None:
    raise AssertionError("an action is required")


def waiting_options() -> argparse.ArgumentParser:
    """The options of actions that wait, as a parent of theirs."""
    found = argparse.ArgumentParser(add_help=False)
    found.add_argument("--timeout", type=parse_seconds, metavar="SECONDS", help="how long to wait")
    return found


def add_wait(add_action: AddAction, run: Run, *parents: argparse.ArgumentParser) -> None:
    """Add the action that waits for a state."""
    add_action("wait", run, "wait until it is paused, or runs", *parents).add_argument(
        "--for", dest="wanted", choices=("running", "paused"), default="running"
    )


# -- words -----------------------------------------------------------------------------------


def telling(options: argparse.Namespace) -> Callable[[WorkspaceState], None]:
    """A line for each new state on stderr; none for programs."""

    def tell(state: WorkspaceState) -> None:
        if not options.json and state.state != "unknown":
            print(f"{_words(state)}: {state.message}", file=sys.stderr, flush=True)

    return tell


def warn(options: argparse.Namespace, checks: Sequence[Check]) -> None:
    """What a pause costs that is asked for, on stderr; nothing for programs."""
    for one in checks:
        if one.passed is False and not options.json:
            print(f"warning: {one.message} {one.hint}".rstrip(), file=sys.stderr, flush=True)


def not_yet(
    what: str, wanted: str, state: WorkspaceState, trouble: ClusterError | None
) -> GkewsError:
    """The end of a wait for a state that did not come. `trouble`: why nothing is seen just now."""
    if trouble is not None:
        error = trouble.explain()
        return GkewsError(
            error.reason,
            f"Whether it is {wanted} is not known: {error.message} It was last seen so: "
            f"{state.message}",
            error.hint,
        )
    other = {"running": "not_paused", "paused": "already_paused"}
    return GkewsError(
        state.reason or other.get(state.state, "operation_running"),
        f"{what} is not {wanted} yet: {state.message}",
        state.hint or "Nothing was changed.",
    )


def print_status(
    options: argparse.Namespace, place: dict[str, str], text: str, state: WorkspaceState,
    checks: Sequence[Check], missing: Sequence[Need], *, snapshot: bool,
) -> None:  # fmt: skip
    """A state, what a pause would meet, and what is not allowed. `place`: the same as `text`, for
    programs; `snapshot`: whether the one that it has is told."""
    if options.json:
        lacking = [
            {"id": one.id, "verbs": list(one.verbs), "resource": str(one.resource),
             "without": one.without}
            for one in missing
        ]  # fmt: skip
        said = {"checks": [one.to_json() for one in checks], "missing": lacking}
        print_json({**place, **state.to_json(), **said})
        return
    print_state(text, state, snapshot=snapshot)
    if state.state == "running":
        rows = [
            ("no" if one.passed is False else "?", one.message, one.hint)
            for one in checks
            if one.passed is not True
        ]
        if rows:
            print("\nBefore a pause:")
            print(table(("", "what", ""), rows))
        else:
            print("It can be paused.")
    for need in missing:
        print(f"Not allowed: {', '.join(need.verbs)} {need.resource}: {need.without}.")


def print_end(
    options: argparse.Namespace, place: dict[str, str], text: str, state: WorkspaceState, *,
    how: str, note: str | None, snapshot: bool,
) -> None:  # fmt: skip
    """The state in which a command leaves it; `how`: what came of its request."""
    if options.json:
        said = {} if note is None else {"note": note}
        print_json({**place, "request": how, **said, **state.to_json()})
    else:
        print_state(text, state, snapshot=snapshot)


def print_state(text: str, state: WorkspaceState, *, snapshot: bool) -> None:
    """For people."""
    words = state.state if state.phase is None else f"{state.state} ({_words(state)})"
    if state.provenance:
        words += f", {state.provenance}"
    print(f"{text}: {words}")
    print(f"{state.message} {state.hint}".rstrip())
    if state.pod:
        print(f"Pod {state.pod}" + (f" on {state.node}" if state.node else ""))
    if state.snapshot is not None and snapshot:
        about = {True: "whole", False: "not whole, or gone", None: "not to be read here"}
        line = f"Snapshot {state.snapshot.name}: {about[state.snapshot.ready]}"
        if state.snapshot.keeps_until:
            line += f", kept until {local_time(state.snapshot.keeps_until)} unless it is used"
        print(line)


def _words(state: WorkspaceState) -> str:
    return (state.phase or state.state).replace("_", " ")
