"""Requests to the API server through the `kubernetes` package: dictionaries in, dictionaries out.

Every request has a time limit of this side; no write is ever sent twice by itself. A 401 reads the
token anew, once: such a request was not done. Safe from any thread. The package is imported when
the first session is made (0.2 s), never before.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

from ...errors import GkewsError
from .connection import Connection
from .problems import ClusterError, from_status
from .words import Json, Resource

#: Seconds to connect and to wait for an answer.
CALL_TIMEOUT = (3.0, 10.0)
#: Seconds after which the server ends a watch, and after which we give up on a silent one: a watch
#: on a dead connection would else hang for ever.
WATCH_S = 50
WATCH_TIMEOUT = (3.0, 60.0)
#: Open watches and calls at once.
CONNECTIONS = 16


class _Session:
    """One set of API objects with one token."""

    def __init__(self, kubernetes: Any, connection: Connection) -> None:
        configuration = connection.configuration(kubernetes)
        configuration.retries = False
        configuration.connection_pool_maxsize = CONNECTIONS
        self.api = kubernetes.client.ApiClient(configuration)
        self.custom = kubernetes.client.CustomObjectsApi(self.api)
        self.core = kubernetes.client.CoreV1Api(self.api)
        self.closed = False

    def close(self) -> None:
        self.closed = True
        # each by itself: clearing alone leaves their connections to the garbage collector, and
        # those in use would come back to a pool that nobody has
        pools = self.api.rest_client.pool_manager.pools
        for key in pools.keys():  # noqa: SIM118 (it is no dict)
            with suppress(KeyError):  # pushed out meanwhile by another
                pools[key].close()
        pools.clear()
        if hasattr(self.api, "close"):
            self.api.close()


class Cluster:
    """One API server as one identity."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._session_now: _Session | None = None
        self._closed = False
        self._errors: tuple[type[Exception], ...] = ()

    def close(self) -> None:
        """End all connections. Whoever asks after that, in another thread, gets a ClusterError."""
        with self._lock:
            self._closed = True
        self.renew()

    def renew(self) -> None:
        """Drop connections; the next request makes new ones with the token as it is then.

        For a process that woke up in another pod.
        """
        with self._lock:
            session, self._session_now = self._session_now, None
        if session is not None:
            session.close()

    # -- requests ----------------------------------------------------------------------------

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """One object. Raises ClusterError."""
        doing = f"read {resource} {name}"
        return self._json(lambda s: self._read(s, resource, namespace, name), doing, again=True)

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """One object; None if there is none."""
        try:
            return self.get(resource, namespace, name)
        except ClusterError as error:
            if error.missing:
                return None
            raise

    def list(
        self, resource: Resource, namespace: str, labels: str = "", fields: str = ""
    ) -> tuple[list[Json], str]:
        """All that match, and the version from which a watch goes on."""
        found: list[Json] = []
        doing = f"list {resource}"
        query = _query(labels, fields)

        def send(session: _Session) -> Any:
            return self._list(session, resource, namespace, query)

        while True:
            answer = self._json(send, doing, again=True)
            found += answer.get("items") or []
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                return found, str(metadata.get("resourceVersion") or "")
            query["_continue"] = metadata["continue"]

    def merge(self, resource: Resource, namespace: str, name: str, patch: Json) -> Json:
        """A merge patch; with `metadata.resourceVersion` in it, only onto that version (409)."""

        def send(session: _Session) -> Any:
            return session.custom.patch_namespaced_custom_object(
                resource.group, resource.version, namespace, resource.plural, name, patch,
                _request_timeout=CALL_TIMEOUT, _preload_content=False,
            )  # fmt: skip

        return self._json(send, f"change {resource} {name}")

    def create(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        """An object, of the cluster itself unless a namespace is given."""
        timeout = {"_request_timeout": CALL_TIMEOUT, "_preload_content": False}

        def send(session: _Session) -> Any:
            about = (resource.group, resource.version)
            if not resource.group:
                make = getattr(session.core, "create_" + _core_name(resource))
                return make(namespace, body, **timeout)
            if namespace:
                return session.custom.create_namespaced_custom_object(
                    *about, namespace, resource.plural, body, **timeout
                )
            return session.custom.create_cluster_custom_object(
                *about, resource.plural, body, **timeout
            )

        return self._json(send, f"create {resource}")

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> Json:
        """The object with this uid and no other of its name (409)."""
        options = {"preconditions": {"uid": uid}}
        timeout = {"_request_timeout": CALL_TIMEOUT, "_preload_content": False}

        def send(session: _Session) -> Any:
            if not resource.group:
                remove = getattr(session.core, "delete_" + _core_name(resource))
                return remove(name, namespace, body=options, **timeout)
            return session.custom.delete_namespaced_custom_object(
                resource.group, resource.version, namespace, resource.plural, name, body=options,
                **timeout,
            )  # fmt: skip

        return self._json(send, f"delete {resource} {name}")

    def watch(
        self, resource: Resource, namespace: str, version: str, *, labels: str = "",
        fields: str = "", opened: Callable[[Callable[[], None]], None] | None = None,
        seconds: int = WATCH_S,
    ) -> Generator[Json, None, None]:  # fmt: skip
        """Events since `version` until the server ends it. Raises ClusterError (`gone`: relist).

        `opened(cut)` gets a function that ends it from another thread.
        """
        doing = f"watch {resource}"
        query = {
            **_query(labels, fields),
            "watch": True,
            "resource_version": version,
            "allow_watch_bookmarks": True,
            "timeout_seconds": seconds,
        }
        response = self._send(
            lambda s: self._list(s, resource, namespace, query, WATCH_TIMEOUT), doing, again=True
        )
        try:
            if opened is not None:
                opened(lambda: _cut(response))
            yield from self._events(response, doing)
        finally:
            _cut(response)
            response.close()

    def serves(self, group: str, version: str) -> bool:
        """Whether this version of the group is there."""
        try:
            self._json(
                lambda s: s.custom.get_api_resources(
                    group, version, _request_timeout=CALL_TIMEOUT, _preload_content=False
                ),
                f"discover {group}/{version}",
                again=True,
            )
        except ClusterError as error:
            if error.missing:
                return False
            raise
        return True

    # -- inside ------------------------------------------------------------------------------

    def _read(self, session: _Session, resource: Resource, namespace: str, name: str) -> Any:
        options = {"_request_timeout": CALL_TIMEOUT, "_preload_content": False}
        if not resource.group:
            method = getattr(session.core, "read_" + _core_name(resource))
            return method(*((name, namespace) if resource.namespaced else (name,)), **options)
        about = (resource.group, resource.version)
        if resource.namespaced:
            return session.custom.get_namespaced_custom_object(
                *about, namespace, resource.plural, name, **options
            )
        return session.custom.get_cluster_custom_object(*about, resource.plural, name, **options)

    def _list(
        self, session: _Session, resource: Resource, namespace: str, query: Json,
        timeout: tuple[float, float] = CALL_TIMEOUT,
    ) -> Any:  # fmt: skip
        options = {**query, "_request_timeout": timeout, "_preload_content": False}
        if not resource.group:
            method = getattr(session.core, "list_" + _core_name(resource))
            return method(namespace, **options)
        about = (resource.group, resource.version)
        if resource.namespaced:
            return session.custom.list_namespaced_custom_object(
                *about, namespace, resource.plural, **options
            )
        return session.custom.list_cluster_custom_object(*about, resource.plural, **options)

    def _json(self, send: Callable[[_Session], Any], doing: str, *, again: bool = False) -> Json:
        response = self._send(send, doing, again=again)
        try:
            data = response.data
        except Exception as error:
            raise self._translated(error, doing, write=not again) from error
        finally:
            response.close()
        try:
            found = json.loads(data)
        except ValueError as error:
            raise ClusterError(
                0, "", "the answer is no JSON", doing, maybe_done=not again
            ) from error
        return found if isinstance(found, dict) else {}

    def _send(self, send: Callable[[_Session], Any], doing: str, *, again: bool) -> Any:
        """`again`: a read, which may be asked a second time when its connection breaks."""
        renewed = retried = False
        while True:
            session = self._session()
            try:
                response = self._sent(session, send)
                if response.status >= 400:  # some versions leave it to us when the body is raw
                    body = response.data
                    response.close()
                    raise from_status(body, response.status, doing)
                return response
            except ClusterError as error:
                failure = error
            except self._errors as error:
                failure = self._translated(error, doing, write=not again)
            try:
                if failure.code == 401 and not renewed:
                    renewed = True
                    self._drop(session)
                elif failure.code == 0 and again and not retried:
                    retried = True
                else:
                    raise failure
            finally:
                del failure  # it would hold, by its traceback, the frame that holds it

    def _sent(self, session: _Session, send: Callable[[_Session], Any]) -> Any:
        try:
            return send(session)
        finally:
            if session.closed:  # meanwhile: the connection that was just made is nobody's
                session.close()

    def _events(self, response: Any, doing: str) -> Iterator[Json]:
        rest = bytearray()
        try:
            for piece in response.stream(amt=None, decode_content=False):
                rest += piece
                while (end := rest.find(b"\n")) >= 0:
                    line = bytes(rest[:end])
                    del rest[: end + 1]
                    if not line.strip():
                        continue
                    event = json.loads(line)
                    if event.get("type") == "ERROR":
                        status = event.get("object") or {}
                        raise from_status(status, int(status.get("code") or 500), doing)
                    yield event
        except ClusterError:
            raise
        except ValueError as error:
            raise ClusterError(0, "", f"an event cannot be read: {error}", doing) from error
        except self._errors as error:
            raise self._translated(error, doing, write=False) from error
        except AttributeError as error:  # the connection was taken away while it was read
            raise ClusterError(0, "", "cut", doing) from error

    def _session(self) -> _Session:
        with self._lock:
            if self._closed:
                raise ClusterError(0, "", "this client was closed", "ask the cluster")
            if self._session_now is None:
                kubernetes = _kubernetes()
                self._errors = _failures(kubernetes)
                try:
                    self._session_now = _Session(kubernetes, self.connection)
                except OSError as error:  # a CA file that cannot be read, say
                    raise GkewsError(
                        "cluster_unreachable",
                        f"No session with {self.connection.text}: {error}",
                        "Nothing was changed.",
                    ) from error
            return self._session_now

    def _drop(self, session: _Session) -> None:
        with self._lock:
            if self._session_now is session:
                self._session_now = None
        session.close()

    def _translated(self, error: BaseException, doing: str, *, write: bool) -> ClusterError:
        status = getattr(error, "status", None)
        if isinstance(status, int) and status:
            return from_status(getattr(error, "body", None), status, doing)
        text = _innermost(error)
        never_sent = type(error).__name__ in (
            "NewConnectionError",
            "ConnectTimeoutError",
            "SSLError",
            "ClosedPoolError",
        )
        return ClusterError(0, "", text, doing, maybe_done=write and not never_sent)


def _kubernetes() -> Any:
    from importlib import import_module

    try:
        return import_module("kubernetes")
    except ImportError as error:
        raise GkewsError(
            "cluster_unreachable",
            "The Python package `kubernetes` is not installed here.",
            "pip install 'jupyter-gkews[gke]' brings it. Kernels can be paused without it.",
        ) from error


def _failures(kubernetes: Any) -> tuple[type[Exception], ...]:
    import urllib3.exceptions

    return (kubernetes.client.ApiException, urllib3.exceptions.HTTPError, OSError)


def _core_name(resource: Resource) -> str:
    names = {"pods": "namespaced_pod", "events": "namespaced_event", "nodes": "node"}
    return names[resource.plural]


def _query(labels: str, fields: str) -> Json:
    query = {"label_selector": labels, "field_selector": fields}
    return {key: value for key, value in query.items() if value}


def _cut(response: Any) -> None:
    """End a read that blocks in another thread: closing alone would not."""
    connection = getattr(response, "connection", None)
    sock = getattr(connection, "sock", None)
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _innermost(error: BaseException) -> str:
    """What errors that wrap each other come down to, without Python's addresses."""
    reason = getattr(error, "reason", None)
    for inner in (reason, *error.args):
        if isinstance(inner, BaseException) and inner is not error:
            return _innermost(inner)
    text = str(reason or error) or type(error).__name__
    return re.sub(r"^.*?[>)]: ", "", text).strip()[:300]
