"""The workspace of this server's own pod, for the event loop: found, followed, paused.

All that blocks runs in two threads of its own, so that an API server that is away cannot take the
loop's threads. Nothing is asked before the first question. Writes no checkpoint.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from ...errors import GkewsError
from ..base import Asked, Outlook
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import name_of, uid_of
from ..pod_account import InPod
from .access import NEEDS
from .identity import Identity, find_identity
from .observing import WorkspaceObserver
from .pausing import Pauses, deadline_s, not_followed
from .preflight import Facts
from .requesting import Requested, Requests, loss, refusal
from .state import WorkspaceState

T = TypeVar("T")
#: Seconds that a first look at the workspace may take.
FIRST_LOOK_S = 15.0
#: Seconds that the end of a server may wait for the threads of watches.
ENDS_S = 2.0


class WorkspacesEngine:
    """`base_url`: the server's, which may tell the workspace. `facts()`: GPU memory and resident
    bytes of the pod, as they are when a pause is judged. `timeout_s`: seconds after which a pause
    is called off; None: by what is resident."""

    id = "workspaces"

    def __init__(
        self, base_url: str = "", pod: InPod | None = None, facts: Callable[[], Facts] = Facts,
        timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self._base_url, self._pod, self._facts = base_url, pod or InPod(), facts
        self._timeout_s = timeout_s
        self._snapshot_api: bool | None = None
        self._measured: Facts | None = None
        self._cluster = Cluster(self._pod)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="gkews workspace")
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._closed = False
        self._identity: Identity | None = None
        self._observer: WorkspaceObserver | None = None
        self._told: list[Callable[[WorkspaceState], None]] = []

    def subscribe(
        self, told: Callable[[dict[str, Any]], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Be told every new state, in the loop. Follows nothing by itself: `state` begins that."""

        def pass_on(state: WorkspaceState) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(told, state.to_json())

        with self._lock:
            self._told.append(pass_on)
            if self._observer is not None:
                self._observer.subscribe(pass_on)

    async def identity(self) -> Identity:
        """Where this server lives. Raises GkewsError."""
        return await self._run(self._find)

    async def state(self) -> dict[str, Any]:
        """As it is known now; the first time it is read."""
        return await self._run(lambda: _told_of(self._following()))

    def seen(self) -> dict[str, Any] | None:
        """As it is known now; None before the first look."""
        with self._lock:
            observer = self._observer
        return None if observer is None else _told_of(observer)

    async def rights(self) -> list[dict[str, Any]]:
        """Each of access.NEEDS."""

        def ask() -> list[dict[str, Any]]:
            missing = self._following().access.missing()
            return [
                {"id": need.id, "allowed": need not in missing, "without": need.without}
                for need in NEEDS
            ]

        return await self._run(ask)

    async def outlook(self, *, measured: bool = True) -> Outlook:
        """What a pause would meet."""

        def ask() -> Outlook:
            observer = self._following()
            facts = self._measured
            if measured or facts is None:
                facts = self._measured = self._facts()
            requests = Requests(observer, replace(facts, snapshot_api=self._snapshot_api))
            seen, checks = requests.outlook()
            self._snapshot_api = requests.snapshot_api or None  # what is missing may come
            return Outlook(
                observer.namespace, observer.name, name_of(seen.pod or {}), uid_of(seen.pod),
                [one.to_json() for one in checks], refusal(checks), loss(checks),
            )  # fmt: skip

        return await self._run(ask)

    async def ask(self, *, stateless: bool, pod_uid: str) -> Requested:
        """Ask for the pause of this very pod, once."""

        def ask() -> Requested:
            # what is in memory is a risk, which was told with the outlook: it is not measured again
            requests = Requests(self._following(), Facts(self._snapshot_api))
            return requests.request(stateless=stateless, pod_uid=pod_uid)

        return await self._run(ask)

    async def follow(self, asked: Asked) -> dict[str, Any]:
        """Wait for the end of the pause, and call off one that fails or hangs."""
        assert isinstance(asked, Requested)

        def wait() -> dict[str, Any]:
            seconds = self._timeout_s
            if seconds is None:
                seconds = deadline_s(self._facts().resident)
            try:
                pauses = Pauses(self._following())
                pauses.given_up = lambda: self._closed
                return pauses.wait_paused(asked, seconds).to_json()
            except ClusterError as error:
                if self._closed:  # with it went the connection
                    raise not_followed() from error
                raise

        return await self._run(wait)

    async def abort(self) -> str:
        """Call off what runs."""
        return await self._run(lambda: Requests(self._following()).abort().message)

    def woke_up(self) -> None:
        """New connections, the token as it is now, rights and identity asked anew."""
        self._cluster.renew()
        with self._lock:
            self._identity = self._snapshot_api = self._measured = None
            observer = self._observer
        if observer is not None:
            observer.restart()

    def close(self) -> None:
        """End watches, connections and threads."""
        with self._lock:
            observer, self._observer = self._observer, None
            self._closed = True
        if observer is not None:
            observer.stop(ENDS_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cluster.close()

    # -- in its threads ----------------------------------------------------------------------

    async def _run(self, ask: Callable[[], T]) -> T:
        def explained() -> T:
            try:
                return ask()
            except ClusterError as error:
                raise error.explain() from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, explained)

    def _find(self) -> Identity:
        with self._lock:
            known = self._identity
        if known is None:
            known = find_identity(self._cluster, self._pod, self._base_url)
            with self._lock:
                self._identity = known
        return known

    def _following(self) -> WorkspaceObserver:
        found = self._find()
        if found.why_not is not None:
            raise GkewsError("no_workspace", found.why_not, "Kernels can be paused one by one.")
        with self._beginning:  # the second who asks waits until there is something to look at
            with self._lock:
                observer, told = self._observer, list(self._told)
            if observer is None:
                observer = WorkspaceObserver(self._cluster, found.namespace, found.workspace)
                for one in told:
                    observer.subscribe(one)
                observer.start()
                with self._lock:
                    for one in self._told[len(told) :]:  # who came meanwhile
                        observer.subscribe(one)
                    closed = self._closed
                    self._observer = None if closed else observer
                if closed:
                    observer.stop()
        observer.wait_until_seen(FIRST_LOOK_S)
        return observer


__all__ = ["WorkspacesEngine"]


def _told_of(observer: WorkspaceObserver) -> dict[str, Any]:
    """The state, with `trouble`: why it is only as it was last seen; None if it is seen now."""
    trouble = observer.trouble
    error = None if trouble is None else trouble.explain()
    state = observer.state()
    if not observer.knows:
        message = error.message if error else "The workspace was not looked at yet."
        state = WorkspaceState("unknown", message, reason="cluster_unreachable")
    return {**state.to_json(), "trouble": None if error is None else error.to_json()}
