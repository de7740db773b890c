"""`jupyter gkews workspace`: a GKE or Kubeflow workspace from outside, with a kubeconfig.

Asks the cluster, never a Jupyter server: it works while the workspace is paused. Inside a pod
without a kubeconfig it speaks as the pod's service account.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .cluster_commands import (
    ENDS_S,
    RESUME_S,
    add_cluster_command,
    add_wait,
    not_yet,
    print_end,
    print_status,
    telling,
    waiting_options,
    warn,
)
from .cluster_connection import connected
from .errors import GkewsError
from .server_client import Server

if TYPE_CHECKING:
    from .engines.cluster.cluster import Cluster
    from .engines.workspaces.observing import WorkspaceObserver
    from .engines.workspaces.pausing import Pauses
    from .engines.workspaces.state import WorkspaceState


def add_to(add: Callable[..., Any]) -> None:
    """Add the command to the command line; `add(name, command, help, *parents)`."""
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("place", nargs="?", metavar="NAMESPACE/NAME", help="in a pod: its own")
    waiting = waiting_options()
    not_waiting = argparse.ArgumentParser(add_help=False)
    not_waiting.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    add_action = add_cluster_command(
        add, "workspace", "pause or resume a whole GKE or Kubeflow workspace", place
    )
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
    add_wait(add_action, wait, waiting)


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
    print_status(
        options, *_place(namespace, name), state, checks, missing,
        snapshot=state.state != "running",
    )  # fmt: skip


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Ask for a pause; wait for its end."""
    del among
    with _followed(options) as (observer, pauses):
        from .engines.workspaces.pausing import deadline_s

        requested = pauses.request(stateless=options.no_snapshot)
        warn(options, requested.checks)
        if options.no_wait:
            observer.catch_up(requested.version, 10)
            _print_end(options, observer.state(), observer, how=requested.how)
            return
        seconds = deadline_s(None) if options.timeout is None else options.timeout
        state = pauses.wait_paused(requested, seconds, telling(options), abort=not options.no_abort)
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
        state = pauses.wait_running(requested, seconds, telling(options))
        left = max(0.0, min(TOLD_S, end - time.monotonic()))
        state = _or_where_it_is_told(pauses.wait_told(state, left, telling(options)), observer)
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
        told = Teller(telling(options))

        def enough(_seen: object, state: WorkspaceState) -> bool:
            told(state)
            return state.state == str(options.wanted) or state.reason == "no_workspace"

        state = observer.wait(enough, RESUME_S if options.timeout is None else options.timeout)
        if state is None or state.state != options.wanted:
            raise not_yet("The workspace", options.wanted, observer.state(), observer.trouble)
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
        from .engines.cluster.words import WORKSPACES
        from .engines.workspaces.observing import WorkspaceObserver, no_such_workspace
        from .engines.workspaces.pausing import Pauses

        if cluster.find(WORKSPACES, namespace, name) is None:
            raise no_such_workspace(cluster, namespace, name)
        observer = WorkspaceObserver(cluster, namespace, name).start()
        try:
            yield observer, Pauses(observer)
        finally:
            observer.stop(ENDS_S)


def _place(namespace: str, name: str) -> tuple[dict[str, str], str]:
    """For programs, and for people."""
    return {"namespace": namespace, "name": name}, f"{namespace}/{name}"


def _print_end(
    options: argparse.Namespace, state: WorkspaceState, observer: WorkspaceObserver, *, how: str,
    note: str | None = None,
) -> None:  # fmt: skip
    place, text = _place(observer.namespace, observer.name)
    snapshot = state.state != "running"
    print_end(options, place, text, state, how=how, note=note, snapshot=snapshot)


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
