"""The objects of the fake server, each change with a number: what etcd and the watch cache do.

A change is one entry of the history. Watches read the history; what was compacted away can only be
listed again. Checks nothing: server.py does.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass

from .status import Json

Key = tuple[str, str, str]
"""(resource, namespace, name): `workspaces.kubeflow.org`, '' for what is in no namespace."""


@dataclass(frozen=True)
class Change:
    """One entry of the history; `before` and `after` as they were, None where there was none."""

    version: int
    key: Key
    before: Json | None
    after: Json | None


class Store:
    """Take `lock` around a read that decides a write; `changed` is notified of every change."""

    def __init__(self, keep: int = 10_000) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.version = 1000
        self.compacted = self.version
        self._keep = keep
        self._objects: dict[Key, Json] = {}
        self._base: dict[Key, Json] = {}  # as of `compacted`
        self._history: list[Change] = []

    def get(self, key: Key) -> Json | None:
        with self.lock:
            return copy.deepcopy(self._objects.get(key))

    def put(self, key: Key, found: Json) -> Json:
        """Write; the object with its new resourceVersion. The same object again is no change."""
        with self.lock:
            before = self._objects.get(key)
            if before is not None and _alike(before, found):
                return copy.deepcopy(before)
            self.version += 1
            found = copy.deepcopy(found)
            found["metadata"]["resourceVersion"] = str(self.version)
            self._objects[key] = found
            self._note(Change(self.version, key, before, found))
            return copy.deepcopy(found)

    def remove(self, key: Key) -> Json:
        """The object as it was, with the number of its removal."""
        with self.lock:
            before = self._objects.pop(key)
            self.version += 1
            self._note(Change(self.version, key, before, None))
            last = copy.deepcopy(before)
            last["metadata"]["resourceVersion"] = str(self.version)
            return last

    def list(self, resource: str, namespace: str, at: int | None = None) -> list[Json]:
        """In the order of their names; `at`: as of that version (ValueError if compacted away)."""
        with self.lock:
            objects = self._objects if at is None else self._as_of(at)
            keys = sorted(k for k in objects if k[0] == resource and namespace in ("", k[1]))
            return [copy.deepcopy(objects[key]) for key in keys]

    def since(self, version: int, resource: str, namespace: str) -> list[Change]:
        """Changes after `version`; ValueError if they are no longer known."""
        with self.lock:
            if version < self.compacted:
                raise ValueError(version)
            start = len(self._history) - (self.version - version)
            return [
                change
                for change in self._history[max(start, 0) :]
                if change.key[0] == resource and namespace in ("", change.key[1])
            ]

    def compact(self) -> None:
        """Forget the history up to now: an older watch must be started again from a list."""
        with self.lock:
            self._forget(len(self._history))
            self.changed.notify_all()

    def _as_of(self, version: int) -> dict[Key, Json]:
        if version < self.compacted:
            raise ValueError(version)
        objects = dict(self._base)
        for change in self._history:
            if change.version > version:
                break
            _apply(objects, change)
        return objects

    def _note(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > 2 * self._keep:
            self._forget(len(self._history) - self._keep)
        self.changed.notify_all()

    def _forget(self, count: int) -> None:
        for change in self._history[:count]:
            _apply(self._base, change)
            self.compacted = change.version
        del self._history[:count]


def _apply(objects: dict[Key, Json], change: Change) -> None:
    if change.after is None:
        objects.pop(change.key, None)
    else:
        objects[change.key] = change.after


def _alike(one: Json, other: Json) -> bool:
    def plain(found: Json) -> Json:
        return {**found, "metadata": {**found["metadata"], "resourceVersion": ""}}

    return plain(one) == plain(other)
