"""The workspace of this server's own pod, for the event loop: found, followed, paused.

All that blocks runs in two threads of its own, so that an API server that is away cannot take the
loop's threads. Nothing is asked before the first question. Writes no checkpoint.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ...errors import GkewsError
from ..base import Ability, Objection
from .cluster import Cluster
from .connection import InPod
from .identity import Identity, find_identity
from .observing import WorkspaceObserver
from .pausing import Pauses, deadline_s
from .preflight import Facts, costs_memory, refuses, risks
from .problems import ClusterError
from .state import WorkspaceState

T = TypeVar("T")
#: Seconds that a first look at the workspace may take.
FIRST_LOOK_S = 15.0
#: Seconds that the end of a server may wait for the threads of watches.
ENDS_S = 2.0


class WorkspacesEngine:
    """`base_url`: the server's, which may tell the workspace. `facts()`: GPU memory and resident
    bytes of the pod, as they are when a pause is judged."""

    id = "workspaces"

    def __init__(
        self, base_url: str = "", pod: InPod | None = None, facts: Callable[[], Facts] = Facts
    ) -> None:
        self._base_url, self._pod, self._facts = base_url, pod or InPod(), facts
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

    async def ability(self) -> Ability:
        """Asks the cluster only in a pod."""
        why_not = self._pod.why_not()
        if why_not is not None:
            return Ability(False, why_not)

        def ask() -> Ability:
            found = self._find()
            if found.why_not is not None:
                return Ability(False, found.why_not)
            judged = Pauses(self._following(), self._facts()).preflight()
            stopping = refuses(judged)
            return Ability(not stopping, stopping[0].message if stopping else None)

        try:
            return await self._run(ask)
        except GkewsError as error:
            return Ability(False, error.message)

    async def identity(self) -> Identity:
        """Where this server lives. Raises GkewsError."""
        return await self._run(self._find)

    async def objections(self) -> list[Objection]:
        """What fails, the gravest first."""

        def ask() -> list[Objection]:
            judged = Pauses(self._following(), self._facts()).preflight()
            failed = [*refuses(judged), *costs_memory(judged), *risks(judged)]
            return [Objection(one.id, one.message, one.hint) for one in failed]

        return await self._run(ask)

    async def state(self) -> dict[str, Any]:
        """As it is known now; the first time it is read."""
        return await self._run(lambda: self._following().state().to_json())

    async def pause(self, *, stateless: bool = False) -> dict[str, Any]:
        """Ask, and follow to the end."""

        def ask() -> dict[str, Any]:
            facts = self._facts()
            pauses = Pauses(self._following(), facts)
            requested = pauses.request(stateless=stateless)
            return pauses.wait_paused(requested, deadline_s(facts.resident)).to_json()

        return await self._run(ask)

    async def abort(self) -> str:
        """Call off what runs."""
        return await self._run(lambda: Pauses(self._following()).abort().message)

    def woke_up(self) -> None:
        """New connections, the token as it is now, rights and identity asked anew."""
        self._cluster.close()
        with self._lock:
            self._identity = None
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
            raise GkewsError("no_workspace", found.why_not, "Pause the kernels one by one.")
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
