"""`jupyter gkews podsnapshot`: a pod of a cluster without Workspaces, by a kubeconfig.

Asks the cluster, never a Jupyter server. A pause is carried out here, step by step: if this process
is ended in the middle of it, the pod runs on.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .cluster_connection import cluster_options, connected
from .errors import GkewsError
from .server_client import Server
from .store_commands import agreed
from .tables import local_time, parse_seconds, print_json, table

if TYPE_CHECKING:
    from .engines.podsnapshot.resuming import Resumes
    from .engines.podsnapshot.targets import Target
    from .engines.workspaces.preflight import Check
    from .engines.workspaces.state import WorkspaceState

#: Seconds that a resume is waited for: a node with a GPU may have to be made first.
RESUME_S = 1800.0
#: Seconds for a request that is being made when a command ends.
ENDS_S = 15.0


def add_to(add: Callable[..., Any]) -> None:
    """Add the command to the command line; `add(name, command, help, *parents)`."""
    command = add("podsnapshot", _nothing, "pause or resume a pod where there are no Workspaces")
    command.set_defaults(alone=True, goes_on_in="cluster")
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")
    where = argparse.ArgumentParser(add_help=False, parents=[cluster_options()])
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument(
        "place", metavar="NAMESPACE/NAME", help="a pod, Deployment, StatefulSet or ReplicaSet; "
        "NAMESPACE/KIND/NAME where the name alone does not tell",
    )  # fmt: skip
    waiting = argparse.ArgumentParser(add_help=False)
    waiting.add_argument(
        "--timeout", type=parse_seconds, metavar="SECONDS", help="how long to wait"
    )

    def add_action(name: str, run: Callable[..., None], help_: str, *parents: Any) -> Any:
        action = actions.add_parser(name, parents=[where, *parents], help=help_, description=help_)
        action.set_defaults(command=run)
        return action

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
    add_action("wait", wait, "wait until it is paused, or runs", place, waiting).add_argument(
        "--for", dest="wanted", choices=("running", "paused"), default="running"
    )
    listing = add_action("list", list_all, "list the snapshots of a namespace, or of one pod")
    listing.add_argument("place", metavar="NAMESPACE[/[KIND/]NAME]")
    deleting = add_action("delete", delete, "delete a snapshot that nobody needs")
    deleting.add_argument("place", metavar="NAMESPACE/SNAPSHOT", help="as `list` shows it")
    deleting.add_argument("--yes", "-y", action="store_true", help="do not ask")


def _nothing(options: argparse.Namespace, among: list[Server]) -> None:
    raise AssertionError("an action is required")


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
    if options.json:
        print_json(
            {
                **_place(target),
                **state.to_json(),
                "checks": [one.to_json() for one in checks],
                "missing": [
                    {"id": one.id, "verbs": list(one.verbs), "resource": str(one.resource),
                     "without": one.without}
                    for one in lacking
                ],
            }
        )  # fmt: skip
        return
    _print_state(state, target)
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
    for need in lacking:
        print(f"Not allowed: {', '.join(need.verbs)} {need.resource}: {need.without}.")


def pause(options: argparse.Namespace, among: list[Server]) -> None:
    """Have the snapshot taken, then stop the pod."""
    del among
    with _found(options) as resumes:
        from .engines.workspaces.pausing import deadline_s

        seconds = deadline_s(None) if options.timeout is None else options.timeout
        try:
            requested = resumes.request(lambda checks: _warn(options, checks))
            state = resumes.wait_paused(
                requested, seconds, _telling(options), abort=not options.no_abort
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
            seconds, _telling(options), accept_fresh=options.accept_fresh
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
        told = Teller(_telling(options))

        def enough(_seen: object, state: WorkspaceState) -> bool:
            told(state)
            return state.state == str(options.wanted) or state.reason in (
                "no_workspace", "forbidden",
            )  # fmt: skip

        seconds = RESUME_S if options.timeout is None else options.timeout
        state = resumes.observer.wait(enough, seconds)
        if state is None or state.state != options.wanted:
            state = resumes.observer.state()
            raise GkewsError(
                state.reason or "restore_failed",
                f"It is not {options.wanted} yet: {state.message}",
                state.hint or "Nothing was changed.",
            )
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


# -- words -----------------------------------------------------------------------------------


def _warn(options: argparse.Namespace, checks: list[Check]) -> None:
    for one in checks:
        if one.passed is False and not options.json:
            print(f"warning: {one.message} {one.hint}".rstrip(), file=sys.stderr, flush=True)


def _telling(options: argparse.Namespace) -> Callable[[WorkspaceState], None]:
    """A line for each new state on stderr; none for programs."""

    def tell(state: WorkspaceState) -> None:
        if not options.json and state.state != "unknown":
            print(f"{_words(state)}: {state.message}", file=sys.stderr, flush=True)

    return tell


def _words(state: WorkspaceState) -> str:
    return (state.phase or state.state).replace("_", " ")


def _place(target: Target) -> dict[str, str]:
    return {"namespace": target.namespace, "kind": target.kind, "name": target.name}


def _print_end(
    options: argparse.Namespace, state: WorkspaceState, target: Target, *, how: str,
    note: str | None = None,
) -> None:  # fmt: skip
    if options.json:
        said = {} if note is None else {"note": note}
        print_json({**_place(target), "request": how, **said, **state.to_json()})
    else:
        _print_state(state, target)


def _print_state(state: WorkspaceState, target: Target) -> None:
    words = state.state if state.phase is None else f"{state.state} ({_words(state)})"
    if state.provenance:
        words += f", {state.provenance}"
    print(f"{target.text}: {words}")
    print(f"{state.message} {state.hint}".rstrip())
    if state.pod:
        print(f"Pod {state.pod}" + (f" on {state.node}" if state.node else ""))
    if state.snapshot is not None:
        about = {True: "whole", False: "not whole, or gone", None: "not to be read here"}
        line = f"Snapshot {state.snapshot.name}: {about[state.snapshot.ready]}"
        if state.snapshot.keeps_until:
            line += f", kept until {local_time(state.snapshot.keeps_until)} unless it is used"
        print(line)
