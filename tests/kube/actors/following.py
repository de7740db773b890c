"""What all actors are: a thread that looks at everything again when something has changed.

An actor acts on what it finds, never on what it remembers; `again` makes it look once more.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ..admin import Admin, Answered

Some = TypeVar("Some", bound="Actors")


class Actor:
    """Subclasses have `reconcile()`; it may be called at any time, in the actor's thread."""

    #: Collections in the namespace whose changes make it look.
    follows: tuple[str, ...] = ()

    def __init__(self, admin: Admin, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace
        self.faults: list[str] = []
        """What went wrong in the script itself: none, in a test that passes."""
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._due = float("inf")
        self._connections: set[http.client.HTTPSConnection] = set()
        self._threads: list[threading.Thread] = []

    def path(self, collection: str) -> str:
        """`apis/kubeflow.org/v1beta1 workspaces` -> the path of that in our namespace."""
        group, _, plural = collection.partition(" ")
        return f"{group}/namespaces/{self.namespace}/{plural}"

    def reconcile(self) -> None:
        raise NotImplementedError

    def again(self, seconds: float) -> None:
        self._due = min(self._due, time.monotonic() + seconds)

    def poke(self) -> None:
        """A knob was turned: look."""
        self._wake.set()

    def start(self) -> None:
        for collection in self.follows:
            self._thread(lambda c=collection: self._follow(c))  # type: ignore[misc]
        self._thread(self._act)

    def stop(self) -> None:
        self._ended.set()
        self._wake.set()
        for connection in list(self._connections):
            _cut(connection)
        for thread in self._threads:
            thread.join(10)

    def _thread(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=type(self).__name__, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _note_opened(self, connection: http.client.HTTPSConnection) -> None:
        self._connections.add(connection)
        if self._ended.is_set():  # `stop` came before there was anything to cut
            _cut(connection)

    def _follow(self, collection: str) -> None:
        while not self._ended.is_set():
            try:
                events = self.admin.watch(
                    self.path(collection), opened=self._note_opened, timeoutSeconds=60
                )
                for _ in events:
                    self._wake.set()
                    if self._ended.is_set():
                        return
            except (OSError, http.client.HTTPException, ValueError, AttributeError):
                self._ended.wait(0.1)  # the server is away, or its answer was cut
            except Answered as answered:
                if answered.code != 503:
                    self._note(answered)
                self._ended.wait(0.1)

    def _act(self) -> None:
        while not self._ended.is_set():
            left = self._due - time.monotonic()
            self._wake.wait(None if left == float("inf") else max(0.0, left))
            self._wake.clear()
            if time.monotonic() >= self._due:
                self._due = float("inf")
            if self._ended.is_set():
                return
            try:
                self.reconcile()
            except Answered as answered:
                # somebody was faster: it is seen next time; or the server is just starting
                if answered.code not in (404, 409, 503):
                    self._note(answered)
                self.again(0.05)
            except (OSError, http.client.HTTPException):
                self.again(0.1)
            except Exception as error:  # the thread goes on: it is told where all look
                self._note(error)

    def _note(self, error: Exception) -> None:
        if not self._ended.is_set():
            kind = "" if isinstance(error, Answered) else f"{type(error).__name__}: "
            self.faults.append(f"{type(self).__name__}: {kind}{error}")


class Actors:
    """Those of one namespace, who are started and ended together."""

    _actors: tuple[Actor, ...] = ()

    def start(self: Some) -> Some:
        for actor in self._actors:
            actor.start()
        return self

    def stop(self) -> None:
        for actor in self._actors:
            actor.stop()
        self.check()

    def check(self) -> None:
        """Raise what went wrong in one of them: nothing that is waited for would come."""
        faults = [fault for actor in self._actors for fault in actor.faults]
        assert not faults, faults[0]

    def poke(self) -> None:
        """After knobs were turned."""
        for actor in self._actors:
            actor.poke()


def _cut(connection: http.client.HTTPSConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
