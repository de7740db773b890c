"""`jupyter gkews workspace`: a GKE or Kubeflow workspace from outside, with a kubeconfig.

Asks the cluster, never a Jupyter server: it works while the workspace is paused. Inside a pod
without a kubeconfig it speaks as the pod's service account.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .cluster_connection import cluster_options, connected
from .errors import GkewsError
from .server_client import Server
from .tables import local_time, parse_seconds, print_json, table

if TYPE_CHECKING:
    from .engines.workspaces.cluster import Cluster
    from .engines.workspaces.observing import WorkspaceObserver
    from .engines.workspaces.pausing import Pauses
    from .engines.workspaces.state import WorkspaceState

#: Seconds that a resume is waited for: a node with a GPU may have to be made first.
RESUME_S = 1800.0
#: Seconds for a request that is being made when a command ends.
ENDS_S = 15.0


def add_to(add: Callable[..., Any]) -> None:
    """Add the command to the command line; `add(name, command, help, *parents)`."""
    command = add("workspace", _nothing, "pause or resume a whole GKE or Kubeflow workspace")
    command.set_defaults(alone=True, goes_on_in="cluster")
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")

    where = argparse.ArgumentParser(add_help=False, parents=[cluster_options()])
    where.add_argument("place", nargs="?", metavar="NAMESPACE/NAME", help="in a pod: its own")
    waiting = argparse.ArgumentParser(add_help=False)
    waiting.add_argument(
        "--timeout", type=parse_seconds, metavar="SECONDS", help="how long to wait"
    )
    not_waiting = argparse.ArgumentParser(add_help=False)
    not_waiting.add_argument("--no-wait", action="store_true", help="do not wait for the end")

    def add_action(name: str, run: Callable[..., None], help_: str, *parents: Any) -> Any:
        action = actions.add_parser(name, parents=[where, *parents], help=help_, description=help_)
        action.set_defaults(command=run)
        return action

    add_action("status", status, "show its state, and what a pause would keep")
    pausing = add_action("pause", pause, "have it snapshotted and stopped", waiting, not_waiting)
    pausing.add_argument(
        "--no-snapshot",
        action="store_true",
        help="also if its memory cannot be kept: kernels come back from their checkpoints",
    )
    pausing.add_argument(
        "--no-abort",
        action="store_true",
        help="leave a snapshot that fails or hangs as it is, instead of calling the pause off",
    )
    add_action("resume", resume, "have it started again", waiting, not_waiting)
    add_action("abort", abort, "call off a pause whose snapshot hangs or failed")
    add_action("wait", wait, "wait until it is paused, or runs", waiting).add_argument(
        "--for", dest="wanted", choices=("running", "paused"), default="running"
    )


def _nothing(options: argparse.Namespace, among: list[Server]) -> None:
    raise AssertionError("an action is required")


# -- actions ---------------------------------------------------------------------------------


def status(options: argparse.Namespace, among: list[Server]) -> None:
    """Print the state once."""
    del among
    with _cluster(options) as (cluster, namespace, name):
        from .engines.workspaces.access import AccessReviews
        from .engines.workspaces.observing import WorkspaceObserver, look, no_such_workspace
        from .engines.workspaces.pausing import Pauses
        from .engines.workspaces.state import read

        seen = look(cluster, namespace, name)
        state = read(seen)
        if state.reason == "no_workspace":
            raise no_such_workspace(cluster, namespace, name)
        access = AccessReviews(cluster, namespace, name)
        missing = access.missing()
        checks = Pauses(WorkspaceObserver(cluster, namespace, name, access=access)).judge(seen)
    if options.json:
        print_json(
            {
                "namespace": namespace,
                "name": name,
                **state.to_json(),
                "checks": [one.to_json() for one in checks],
                "missing": [
                    {"id": one.id, "verbs": list(one.verbs), "resource": str(one.resource),
                     "without": one.without}
                    for one in missing
                ],
            }
        )  # fmt: skip
        return
    _print_state(state, namespace, name)
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
    for one in missing:
        print(f"Not allowed: {', '.join(one.verbs)} {one.resource}: {one.without}.")


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Ask for a pause; wait for its end."""
    del among
    with _followed(options) as (observer, pauses):
        from .engines.workspaces.pausing import deadline_s

        requested = pauses.request(stateless=options.no_snapshot)
        for one in requested.checks:
            if one.passed is False and not options.json:
                print(f"warning: {one.message} {one.hint}".rstrip(), file=sys.stderr)
        if options.no_wait:
            observer.catch_up(requested.version, 10)
            _print_end(options, observer.state(), observer, how=requested.how)
            return
        seconds = deadline_s(None) if options.timeout is None else options.timeout
        state = pauses.wait_paused(
            requested, seconds, _telling(options), abort=not options.no_abort
        )
        _print_end(options, state, observer, how=requested.how)


def resume(options: argparse.Namespace, among: list[Server]) -> None:
    """Ask for the start; wait until it runs, and until it is known whether it was restored."""
    del among
    with _followed(options) as (observer, pauses):
        from .engines.workspaces.pausing import TOLD_S

        requested = pauses.request_resume()
        if options.no_wait:
            observer.catch_up(requested.version, 10)
            _print_end(options, observer.state(), observer, how=requested.how)
            return
        seconds = RESUME_S if options.timeout is None else options.timeout
        end = time.monotonic() + seconds
        state = pauses.wait_running(requested, seconds, _telling(options))
        left = max(0.0, min(TOLD_S, end - time.monotonic()))
        state = _or_where_it_is_told(pauses.wait_told(state, left, _telling(options)), observer)
        _print_end(options, state, observer, how=requested.how)


def abort(options: argparse.Namespace, among: list[Server]) -> None:
    """Call off a pause."""
    del among
    with _followed(options) as (observer, pauses):
        done = pauses.abort()
        if options.json:
            observer.wait_until_seen(10)
            _print_end(options, observer.state(), observer, how=done.how, note=done.message)
        else:
            print(done.message)


def wait(options: argparse.Namespace, among: list[Server]) -> None:
    """Wait for a state; changes nothing."""
    del among
    with _followed(options) as (observer, _):
        from .engines.workspaces.pausing import Teller

        observer.wait_until_seen(30)
        told = Teller(_telling(options))

        def enough(_seen: object, state: WorkspaceState) -> bool:
            told(state)
            return state.state == str(options.wanted) or state.reason == "no_workspace"

        state = observer.wait(enough, RESUME_S if options.timeout is None else options.timeout)
        if state is None or state.state != options.wanted:
            state = observer.state()
            raise GkewsError(
                state.reason or "restore_failed",
                f"The workspace is not {options.wanted} yet: {state.message}",
                state.hint or "Nothing was changed.",
            )
        _print_end(options, _or_where_it_is_told(state, observer), observer, how="waited")


# -- the cluster -----------------------------------------------------------------------------


@contextmanager
def _cluster(options: argparse.Namespace) -> Iterator[tuple[Cluster, str, str]]:
    from .engines.workspaces.identity import find_identity, parse_place

    with connected(options) as (cluster, pod):
        if options.place is not None:
            namespace, name = parse_place(options.place)
        elif pod is None:
            raise GkewsError(
                "bad_request",
                "Which workspace? NAMESPACE/NAME is missing.",
                "Only in the pod of a workspace it need not be named.",
            )
        else:
            found = find_identity(cluster, pod)
            if found.why_not is not None:
                raise GkewsError("no_workspace", found.why_not, "Name one: NAMESPACE/NAME.")
            namespace, name = found.namespace, found.workspace
        yield cluster, namespace, name


@contextmanager
def _followed(options: argparse.Namespace) -> Iterator[tuple[WorkspaceObserver, Pauses]]:
    with _cluster(options) as (cluster, namespace, name):
        from .engines.workspaces.observing import WorkspaceObserver, no_such_workspace
        from .engines.workspaces.pausing import Pauses
        from .engines.workspaces.words import WORKSPACES

        if cluster.find(WORKSPACES, namespace, name) is None:
            raise no_such_workspace(cluster, namespace, name)
        observer = WorkspaceObserver(cluster, namespace, name).start()
        try:
            yield observer, Pauses(observer)
        finally:
            observer.stop(ENDS_S)


# -- words -----------------------------------------------------------------------------------


def _telling(options: argparse.Namespace) -> Callable[[WorkspaceState], None]:
    """A line for each new state on stderr; none for programs."""

    def tell(state: WorkspaceState) -> None:
        if not options.json and state.state != "unknown":
            print(f"{_words(state)}: {state.message}", file=sys.stderr, flush=True)

    return tell


def _words(state: WorkspaceState) -> str:
    return (state.phase or state.state).replace("_", " ")


def _print_end(
    options: argparse.Namespace, state: WorkspaceState, observer: WorkspaceObserver, *, how: str,
    note: str | None = None,
) -> None:  # fmt: skip
    if options.json:
        place = {"namespace": observer.namespace, "name": observer.name}
        said = {} if note is None else {"note": note}
        print_json({**place, "request": how, **said, **state.to_json()})
    else:
        _print_state(state, observer.namespace, observer.name)


def _or_where_it_is_told(state: WorkspaceState, observer: WorkspaceObserver) -> WorkspaceState:
    """Where nothing says what became of the memory, with where it will be said."""
    if state.state != "running" or state.provenance is not None or state.hint:
        return state
    place = f"{observer.namespace}/{observer.name}"
    hint = (
        f"Whether its memory came back: `jupyter gkews workspace status {place}` tells what the "
        "cluster says of it, and JupyterLab in it what each kernel goes on from."
    )
    return replace(state, hint=hint)


def _print_state(state: WorkspaceState, namespace: str, name: str) -> None:
    words = state.state if state.phase is None else f"{state.state} ({_words(state)})"
    if state.provenance:
        words += f", {state.provenance}"
    print(f"{namespace}/{name}: {words}")
    print(f"{state.message} {state.hint}".rstrip())
    if state.pod:
        print(f"Pod {state.pod}" + (f" on {state.node}" if state.node else ""))
    if state.snapshot is not None and state.state != "running":
        about = {True: "whole", False: "not whole, or gone", None: "not to be read here"}
        line = f"Snapshot {state.snapshot.name}: {about[state.snapshot.ready]}"
        if state.snapshot.keeps_until:
            line += f", kept until {local_time(state.snapshot.keeps_until)} unless it is used"
        print(line)
