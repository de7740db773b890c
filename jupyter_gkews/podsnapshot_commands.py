"""`jupyter gkews podsnapshot`: a pod of a cluster without Workspaces, by a kubeconfig.

Asks the cluster, never a Jupyter server. A pause is carried out here, step by step: if this process
is ended in the middle of it, the pod runs on.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from .store_commands import agreed
from .tables import local_time, print_json, table

if TYPE_CHECKING:
    from .engines.podsnapshot.resuming import Resumes
    from .engines.podsnapshot.targets import Target
    from .engines.workspaces.state import WorkspaceState


def add_to(add: Callable[..., Any]) -> None:
    """Add the command to the command line; `add(name, command, help, *parents)`."""
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument(
        "place", metavar="NAMESPACE/NAME", help="a pod, Deployment, StatefulSet or ReplicaSet; "
        "NAMESPACE/KIND/NAME where the name alone does not tell",
    )  # fmt: skip
    waiting = waiting_options()
    add_action = add_cluster_command(
        add, "podsnapshot", "pause or resume a pod where there are no Workspaces"
    )
    add_action("status", status, "show its state, and what a pause would meet", place)
    pausing = add_action(
        "pause", pause, "have it snapshotted, and stop it when that is safe", place, waiting
    )
    pausing.add_argument(
        "--no-abort", action="store_true",
        help="leave a snapshot that hangs as it is, instead of calling it off",
    )  # fmt: skip
    pausing.add_argument(
        "--storage-config", default="", metavar="NAME",
        help="of the policy that is made where none selects the pod; default: the only one",
    )  # fmt: skip
    pausing.add_argument(
        "--keep", type=_interval, metavar="INTERVAL",
        help="how long that policy keeps a snapshot that nobody uses: 7d (default), 12h, 2mo",
    )  # fmt: skip
    resuming = add_action("resume", resume, "bring it back from its snapshot", place, waiting)
    resuming.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    resuming.add_argument(
        "--accept-fresh", action="store_true",
        help="also if its memory does not come back: a new pod is started",
    )  # fmt: skip
    resuming.add_argument(
        "--again", action="store_true",
        help="replace a pod that was started fresh, to have its snapshot tried once more",
    )  # fmt: skip
    add_action("abort", abort, "call off a snapshot that hangs", place)
    add_wait(add_action, wait, place, waiting)
    listing = add_action("list", list_all, "list the snapshots of a namespace, or of one pod")
    listing.add_argument("place", metavar="NAMESPACE[/[KIND/]NAME]")
    deleting = add_action("delete", delete, "delete a snapshot that nobody needs")
    deleting.add_argument("place", metavar="NAMESPACE/SNAPSHOT", help="as `list` shows it")
    deleting.add_argument("--yes", "-y", action="store_true", help="do not ask")


# -- actions ---------------------------------------------------------------------------------


def status(options: argparse.Namespace, among: list[Server]) -> None:
    """Print the state once."""
    del among
    with _found(options, follow=False) as resumes:
        from .engines.podsnapshot.rights import USEFUL, missing, to_pause
        from .engines.podsnapshot.state import read

        seen = resumes.look()
        state = read(seen)
        if state.state == "unknown" and state.reason == "no_workspace":
            raise GkewsError("no_workspace", state.message, state.hint)
        checks = resumes.judge(seen) if state.state == "running" else []
        target = resumes.target
        lacking = missing(resumes.observer.access, [*to_pause(target), *USEFUL])
    print_status(
        options, _place(target), target.text, state, checks, lacking, snapshot=True
    )  # fmt: skip


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Have the snapshot taken, then stop the pod."""
    del among
    with _found(options) as resumes:
        from .engines.workspaces.pausing import deadline_s

        seconds = deadline_s(None) if options.timeout is None else options.timeout
        try:
            requested = resumes.request(lambda checks: warn(options, checks))
            state = resumes.wait_paused(
                requested, seconds, telling(options), abort=not options.no_abort
            )
        except KeyboardInterrupt:
            raise GkewsError(
                "cancelled",
                "Interrupted. What was asked for goes on in the cluster, but nobody stops the pod "
                "when its snapshot is whole.",
                "`status` shows how far it came, `pause` joins it, `abort` calls it off.",
            ) from None
        _print_end(options, state, resumes.target, how=requested.how)


def resume(options: argparse.Namespace, among: list[Server]) -> None:
    """Ask for the pod; wait until it is known what it is."""
    del among
    with _found(options) as resumes:
        how = resumes.request_resume(accept_fresh=options.accept_fresh, again=options.again)
        if options.no_wait:
            from .engines.podsnapshot.state import read

            _print_end(options, read(resumes.look()), resumes.target, how=how)
            return
        seconds = RESUME_S if options.timeout is None else options.timeout
        state = resumes.wait_running(
            seconds, telling(options), accept_fresh=options.accept_fresh
        )  # fmt: skip
        _print_end(options, state, resumes.target, how=how)


def abort(options: argparse.Namespace, among: list[Server]) -> None:
    """Call off a pause."""
    del among
    with _found(options) as resumes:
        done = resumes.abort()
        if options.json:
            from .engines.podsnapshot.state import read

            state = read(resumes.look())
            _print_end(options, state, resumes.target, how=done.how, note=done.message)
        else:
            print(done.message)


def wait(options: argparse.Namespace, among: list[Server]) -> None:
    """Wait for a state. After a restore, what the pause has noted is taken away."""
    del among
    with _found(options) as resumes:
        from .engines.workspaces.pausing import Teller

        trouble = None if resumes.observer.wait_until_seen(30) else resumes.observer.trouble
        if trouble is not None:
            raise trouble.explain()
        told = Teller(telling(options))

        def enough(_seen: object, state: WorkspaceState) -> bool:
            told(state)
            return state.state == str(options.wanted) or state.reason in (
                "no_workspace", "forbidden",
            )  # fmt: skip

        seconds = RESUME_S if options.timeout is None else options.timeout
        state = resumes.observer.wait(enough, seconds)
        if state is None or state.state != options.wanted:
            seen = resumes.observer
            raise not_yet("It", options.wanted, seen.state(), seen.trouble)
        if state.provenance == "restored" and state.reason is None:
            resumes.tidy()
        _print_end(options, state, resumes.target, how="waited")


def list_all(options: argparse.Namespace, among: list[Server]) -> None:
    """Print the snapshots of a namespace."""
    del among
    from .engines.podsnapshot.snapshots import listed, of_target
    from .engines.podsnapshot.targets import parse_target

    namespace, slash, _ = options.place.partition("/")
    kind, name = parse_target(options.place)[1:] if slash else ("", "")
    with connected(options) as (cluster, _):
        rows = listed(cluster, namespace)
    if name:
        rows = of_target(rows, name, kind)
    if options.json:
        print_json({"namespace": namespace, "snapshots": [one.to_json() for one in rows]})
    elif not rows:
        print("No snapshots.")
    else:
        heads = ("snapshot", "of", "created", "kept until", "", "needed")
        print(
            table(
                heads,
                [
                    (one.name, one.target or one.pod, local_time(one.created),
                     local_time(one.keeps_until), one.state,
                     one.needed_by or one.named_by or "no")
                    for one in rows
                ],
            )
        )  # fmt: skip


def delete(options: argparse.Namespace, among: list[Server]) -> None:
    """Delete one snapshot."""
    del among
    from .engines.podsnapshot import snapshots

    namespace, slash, name = options.place.partition("/")
    if not slash or not name or "/" in name:
        raise GkewsError(
            "bad_request", f"{options.place!r} is not NAMESPACE/SNAPSHOT.", "Nothing was deleted."
        )
    with connected(options) as (cluster, _):
        row = next((one for one in snapshots.listed(cluster, namespace) if one.name == name), None)
        if row is not None and row.needed_by is None and not options.yes:
            about = f" {row.named_by}." if row.named_by else ""
            if not agreed(f"Delete the snapshot {name} of {row.pod or '?'}?{about} [y/N] ",
                          "--yes deletes without asking."):  # fmt: skip
                raise GkewsError("cancelled", "Nothing was deleted.", "It is kept as it was.")
        message = snapshots.delete(cluster, namespace, name)
    if options.json:
        print_json({"namespace": namespace, "name": name, "note": message})
    else:
        print(message)


# -- the target ------------------------------------------------------------------------------


@contextmanager
def _found(options: argparse.Namespace, *, follow: bool = True) -> Iterator[Resumes]:
    from .engines.podsnapshot.observing import TargetObserver
    from .engines.podsnapshot.policies import KEEP
    from .engines.podsnapshot.resuming import Resumes
    from .engines.podsnapshot.targets import find_target, parse_target

    place = parse_target(options.place)
    with connected(options) as (cluster, _):
        observer = TargetObserver(cluster, find_target(cluster, *place))
        if follow:
            observer.start()
        storage = getattr(options, "storage_config", "")
        keep = getattr(options, "keep", None) or KEEP
        try:
            yield Resumes(observer, storage=storage, keep=keep)
        finally:
            observer.stop(ENDS_S)


def _interval(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*(y|mo|d|h|min)", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an interval such as 7d, 12h or 2mo")
    return text


def _place(target: Target) -> dict[str, str]:
    return {"namespace": target.namespace, "kind": target.kind, "name": target.name}


def _print_end(
    options: argparse.Namespace, state: WorkspaceState, target: Target, *, how: str,
    note: str | None = None,
) -> None:  # fmt: skip
    print_end(options, _place(target), target.text, state, how=how, note=note, snapshot=True)
