"""One kind of object, followed: list, watch, go on where it broke off, list again when told to.

One daemon thread a watch. Never polls: between two changes nothing is sent but the watch itself,
which the server ends every 50 s. A failing server is asked again after 1 s, then ever more rarely.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from ...errors import GkewsError
from .cluster import WATCH_S, Cluster
from .problems import ClusterError
from .words import Json, Resource, name_of

Changed = Callable[[str, "Json | None"], None]
"""Called in the watch's thread with the name and the object; None: it is gone."""


@dataclass(frozen=True)
class Pace:
    """Seconds between two tries: the first, the longest; and when a right or the API is missing."""

    first: float = 1.0
    longest: float = 15.0
    refused: float = 120.0


class ObjectWatch:
    """Follows what matches in one namespace. `trouble` says why it is blind just now, else None."""

    def __init__(
        self, cluster: Cluster, resource: Resource, namespace: str, changed: Changed, *,
        labels: str = "", fields: str = "", pace: Pace | None = None,
        listed: Callable[[], None] | None = None,
        troubled: Callable[[ClusterError | None], None] | None = None,
        seconds: int = WATCH_S,
    ) -> None:  # fmt: skip
        self._cluster, self._resource, self._namespace = cluster, resource, namespace
        self._changed, self._labels, self._fields = changed, labels, fields
        self._pace = pace or Pace()
        self._listed, self._troubled = listed, troubled
        self._seconds = seconds
        self._known: dict[str, str] = {}  # name -> resourceVersion, of what was told
        self._version = ""
        self._failures = 0
        self._stopped = threading.Event()
        self._hurry = threading.Event()
        self._lock = threading.Lock()
        self._cut: Callable[[], None] | None = None
        self.trouble: ClusterError | None = None
        self.lists = 0
        """How often it had to list: once, unless the server forgot where we were."""
        self._thread = threading.Thread(
            target=self._run, name=f"gkews watch {resource}", daemon=True
        )

    def start(self) -> ObjectWatch:
        """Begin; the first list is made in the thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End it; does not wait for a request that is just being made."""
        self._stopped.set()
        self.restart()

    def restart(self) -> None:
        """Break the connection off and go on at once: after a wake-up it is dead, silently."""
        self._hurry.set()
        with self._lock:
            cut, self._cut = self._cut, None
        if cut is not None:
            cut()

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # -- in its thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._hurry.clear()
            try:
                if not self._version:
                    self._list()
                self._follow()
            except ClusterError as error:
                self._failed(error)
            except GkewsError as error:  # no connection can be made: no token, no package
                self._failed(ClusterError(0, error.reason, error.message, str(self._resource)))

    def _list(self) -> None:
        found, version = self._cluster.list(
            self._resource, self._namespace, self._labels, self._fields
        )
        self.lists += 1
        names = {name_of(one) for one in found}
        for name in [name for name in self._known if name not in names]:
            del self._known[name]
            self._tell(name, None)
        for one in found:
            self._note(one)
        self._version = version
        self._well()
        if self._listed is not None:
            self._listed()

    def _follow(self) -> None:
        began, before = time.monotonic(), self._version

        def opened(cut: Callable[[], None]) -> None:
            with self._lock:
                self._cut = cut
            if self._stopped.is_set() or self._hurry.is_set():
                cut()  # broken off before there was anything to break
            else:
                self._well()

        events = self._cluster.watch(
            self._resource, self._namespace, self._version, labels=self._labels,
            fields=self._fields, opened=opened, seconds=self._seconds,
        )  # fmt: skip
        # closed here: an error of whoever is told keeps this frame, and so the connection, for as
        # long as the garbage collector likes
        with closing(events):
            for event in events:
                found = event["object"]
                version = str((found.get("metadata") or {}).get("resourceVersion") or "")
                if event["type"] == "DELETED":
                    self._known.pop(name_of(found), None)
                    self._tell(name_of(found), None)
                elif event["type"] != "BOOKMARK":
                    self._note(found)
                if version:
                    self._version = version
                self._failures = 0
                if self._stopped.is_set():
                    return
        if self._version == before and time.monotonic() - began < self._pace.first:
            # something between us and the server ends watches at once: do not hammer it
            raise ClusterError(0, "", "the watch was ended at once", str(self._resource))

    def _note(self, found: Json) -> None:
        name, version = name_of(found), str(found["metadata"].get("resourceVersion") or "")
        if not version or self._known.get(name) != version:
            self._known[name] = version
            self._tell(name, found)

    def _tell(self, name: str, found: Json | None) -> None:
        if not self._stopped.is_set():
            self._changed(name, found)

    def _well(self) -> None:
        self._set_trouble(None)

    def _failed(self, error: ClusterError) -> None:
        if self._stopped.is_set() or self._hurry.is_set():
            return  # we broke it off ourselves
        if error.gone:
            self._version = ""
            if self._failures == 0:  # at once, but not in a circle
                self._failures = 1
                return
        elif not error.unreachable:
            self._version = ""  # a right or the API itself is missing: begin anew when it is there
        self._set_trouble(error)
        refused = not error.unreachable and not error.gone
        bound = min(self._pace.first * 2**self._failures, self._pace.longest)
        self._failures = min(self._failures + 1, 10)
        # all that lost the server at the same moment must not come back at the same moment
        pause = self._pace.refused if refused else bound
        self._hurry.wait(pause * random.uniform(0.5, 1.0))

    def _set_trouble(self, error: ClusterError | None) -> None:
        before, self.trouble = self.trouble, error
        if self._troubled is not None and (before is None) != (error is None):
            self._troubled(error)


__all__ = ["Changed", "ObjectWatch", "Pace"]
