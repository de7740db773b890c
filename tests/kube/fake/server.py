"""HTTP of the fake API server: paths to resources, lists, watches, reviews, discovery.

One thread a connection, TLS, loopback, a port of the system's choice. Ends with `stop`.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..certificates import make
from . import selectors
from .authority import Asked, Authority, User
from .faults import Fault, Faults
from .registry import Registry
from .resources import Resource
from .status import Json, Refused, bad_request, expired, no_such_path
from .store import Change, Store

#: As Go reads a boolean: the client of 30.1 sends "True".
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class FakeCluster:
    """`url`, `ca` (a file) and `admin_token`, as of the real one."""

    def __init__(self, folder: Path) -> None:
        self.store = Store()
        self.registry = Registry(self.store)
        self.authority = Authority(self.store)
        self.faults = Faults()
        self.requests: list[tuple[str, str, str]] = []
        """(user, method, path with query) of all requests so far, watches when they begin."""
        self.failures: list[str] = []
        """Tracebacks of the fake's own faults: none, in a test that passes."""
        self.bookmark_every_s = 60.0
        self.admin_token = self.authority.new_token(User("admin", ("system:masters",)))
        made = make(folder)
        self.ca = made.certificate
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(made.certificate, made.key)
        self._port = 0
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def open_watches(self) -> int:
        return len(self._server.watches) if self._server else 0

    def start(self) -> FakeCluster:
        """Listen; after `stop` on the same port and with the same objects."""
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="fake kube-apiserver", daemon=True
        ).start()
        return self

    def stop(self) -> None:
        """Nothing listens any more and every connection is cut: the API server is away."""
        server, self._server = self._server, None
        if server is not None:
            self.faults.lift_all()
            server.away = True
            server.shutdown()
            server.take_the_waiting()
            server.server_close()
            server.cut()

    def cut_connections(self) -> None:
        """Reset what is connected now, watches too; new connections are taken."""
        if self._server is not None:
            self._server.cut()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.connections: set[socket.socket] = set()
        self.watches: set[object] = set()
        self.ended = threading.Event()
        self.away = False
        super().__init__(address, _Handler)

    def take_the_waiting(self) -> None:
        """Connections that nobody has accepted yet: `finish_request` resets them.

        Closing the listener would do that too, but before they begin with TLS; CPython before 3.13
        (ssl.SSLSocket._create) then leaves their sockets to the garbage collector, with a warning.
        """
        self.socket.setblocking(False)
        while True:
            try:
                request, address = self.get_request()
            except OSError:  # BlockingIOError: that was all
                return
            request.setblocking(True)
            self.process_request(request, address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            secured = self.cluster.context.wrap_socket(request, server_side=True)
        except OSError:  # the client does not trust us, or is gone
            return
        self.connections.add(secured)
        try:
            if self.away:
                _reset(secured)
                return
            super().finish_request(secured, client_address)
        finally:
            self.connections.discard(secured)
            secured.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no event; anything else is a fault of the fake."""
        error = sys.exc_info()[1]
        gone = isinstance(error, OSError) or "closed file" in str(error)
        if not gone:
            self.cluster.failures.append(traceback.format_exc())

    def cut(self) -> None:
        self.ended.set()
        for connection in list(self.connections):
            _reset(connection)
        self.ended = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ended = self.server.ended
        self.cluster = self.server.cluster

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    # -- one request -------------------------------------------------------------------------

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        fault = self.cluster.faults.of(self.command, self.path)
        if fault is not None and self._fail(fault):
            return
        lose = fault is not None and fault.kind == "reset_after"
        try:
            if parts.path in ("/readyz", "/healthz", "/livez"):
                self._note("")
                self._send(200, "ok")
                return
            if parts.path == "/version":
                self._note("")
                self._send(200, {"major": "1", "minor": "20", "gitVersion": "v1.20.2"})
                return
            try:
                user = self.cluster.authority.who(self.headers.get("Authorization"))
            except Refused:
                self._note("")
                raise
            self._note(user.name)
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            code, answer = self._answer(user, parts.path.strip("/").split("/"), query, raw)
        except Refused as refused:
            code, answer = refused.code, refused.to_json()
        except OSError:  # the client is gone, or we have cut it off
            self.close_connection = True
            return
        except Exception:  # a fault of the fake itself: the test must see it
            self.cluster.failures.append(traceback.format_exc())
            code, answer = 500, Refused(500, "InternalError", traceback.format_exc()).to_json()
        if lose:
            self._drop()
        elif answer is not None:
            self._send(code, answer)

    def _note(self, user: str) -> None:
        # once for each request, and whole: others are noted at the same time
        self.cluster.requests.append((user, self.command, self.path))

    def _fail(self, fault: Fault) -> bool:
        """Whether the request has ended with it."""
        if fault.kind == "black_hole":
            while not fault.lifted.wait(0.05) and not self.ended.is_set():
                pass
            self._drop()
            return True
        if fault.kind == "reset":
            self._drop()
            return True
        if fault.kind == "slow":
            fault.lifted.wait(fault.seconds)
        if fault.kind == "end_watch":
            self._send(200, "")
            return True
        if fault.answer is not None:
            self._send(fault.answer.code, fault.answer.to_json())
            return True
        return False

    def _drop(self) -> None:
        self.close_connection = True
        _reset(self.connection)

    def _send(self, code: int, answer: Json | str) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        data = text.encode()
        try:
            self.send_response(code)
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    # -- what it asks for --------------------------------------------------------------------

    def _answer(
        self, user: User, path: list[str], query: dict[str, str], raw: bytes
    ) -> tuple[int, Json | None]:
        registry, authority = self.cluster.registry, self.cluster.authority
        if path[0] == "api" and len(path) > 1:
            group, version, rest = "", path[1], path[2:]
        elif path[0] == "apis" and len(path) > 2:
            group, version, rest = path[1], path[2], path[3:]
        else:
            return 200, self._groups(path)
        if not rest:
            return 200, self._resources(group, version)
        if group == "authorization.k8s.io" and self.command == "POST":
            body = _json(raw)
            if rest == ["selfsubjectaccessreviews"]:
                return 201, authority.review(user, body)
            if rest == ["selfsubjectrulesreviews"]:
                return 201, authority.rules_review(user, body)
            raise no_such_path()
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = registry.resource(group, version, rest[0])
        name = rest[1] if len(rest) > 1 else ""
        sub = rest[2] if len(rest) > 2 else ""
        served = sub in ("", "status" if resource.status else "")
        token = resource.plural == "serviceaccounts" and sub == "token"
        binding = resource.plural == "pods" and sub == "binding" and self.command == "POST"
        if (
            not (served or token or binding)
            or len(rest) > 3
            or (namespace and not resource.namespaced)
        ):
            raise no_such_path()
        watching = query.get("watch") in _TRUE
        verb = _METHODS.get(self.command) or ("get" if name else "watch" if watching else "list")
        selected = selectors.name_in(query.get("fieldSelector", "")) if not name else None
        full = f"{resource.plural}/{sub}" if sub else resource.plural
        authority.require(user, Asked(verb, group, full, namespace, name or selected or ""))
        if token and self.command == "POST":
            registry.get(resource, namespace, name)
            return 201, authority.account_token(namespace, name, _json(raw))
        if binding:
            node = (_json(raw).get("target") or {}).get("name", "")
            registry.bind(namespace, name, node)
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        if verb == "get":
            return 200, registry.get(resource, namespace, name)
        if verb == "list":
            return 200, self._list(resource, namespace, query)
        if verb == "watch":
            self._watch(resource, namespace, query)
            return 200, None
        return self._change(user.name, resource, namespace, name, sub, raw)

    def _change(
        self, user: str, resource: Resource, namespace: str, name: str, sub: str, raw: bytes
    ) -> tuple[int, Json]:
        registry = self.cluster.registry
        if self.command == "POST":
            if name or (resource.namespaced and not namespace):
                raise _not_allowed()  # fmt: skip
            return 201, registry.create(resource, namespace, _json(raw), user)
        if not name:
            raise _not_allowed()  # fmt: skip
        if self.command == "PUT":
            return 200, registry.replace(resource, namespace, name, sub, _json(raw), user)
        if self.command == "PATCH":
            kind = (self.headers.get("Content-Type") or "").split(";")[0]
            try:
                body = json.loads(raw)
            except ValueError as error:
                raise bad_request(f"error decoding patch: {error}") from error
            return 200, registry.patch(resource, namespace, name, sub, kind, body, user)
        options = _json(raw) if raw else {}
        query = parse_qs(urlsplit(self.path).query)
        if "gracePeriodSeconds" in query:
            options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"][-1])
        found, gone = registry.delete(resource, namespace, name, options, user)
        if not gone or resource.plural == "pods":
            return 200, found
        details = {
            "name": name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": found["metadata"]["uid"],
        }
        return 200, {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }

    def _list(self, resource: Resource, namespace: str, query: dict[str, str]) -> Json:
        store = self.cluster.store
        matches = _selected(resource, query)
        with store.lock:
            at, after = None, ""
            if query.get("continue"):
                at, after = json.loads(base64.urlsafe_b64decode(query["continue"]))
            elif query.get("resourceVersionMatch") == "Exact":
                at = int(query["resourceVersion"])
            try:
                found = self.cluster.registry.list(resource, namespace, at)
            except ValueError:
                raise expired(
                    "The provided continue parameter is too old."
                    if after
                    else f"The resourceVersion for the provided list is too old: {at}"
                ) from None
            version = store.version if at is None else at
        items = [f for f in found if matches(f) and _place(f) > after]
        metadata: Json = {"resourceVersion": str(version)}
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            rest = len(items) - limit
            items = items[:limit]
            token = json.dumps([version, _place(items[-1])]).encode()
            metadata["continue"] = base64.urlsafe_b64encode(token).decode()
            metadata["remainingItemCount"] = rest
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": items,
        }

    # -- watches -----------------------------------------------------------------------------

    def _watch(self, resource: Resource, namespace: str, query: dict[str, str]) -> None:
        store = self.cluster.store
        matches = _selected(resource, query)
        end = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        bookmarks = query.get("allowWatchBookmarks") in _TRUE
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        mark = object()
        self.server.watches.add(mark)
        try:
            self._stream(store, resource, namespace, query, matches, end, bookmarks)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            self.server.watches.discard(mark)

    def _stream(
        self, store: Store, resource: Resource, namespace: str, query: dict[str, str],
        matches: selectors.Matches, end: float, bookmarks: bool,
    ) -> None:  # fmt: skip
        given = query.get("resourceVersion", "0") or "0"
        with store.lock:
            version = store.version if given == "0" else int(given)
            first = self.cluster.registry.list(resource, namespace) if given == "0" else []
        for found in first:
            if matches(found):
                self._event("ADDED", found)
        next_mark = time.monotonic() + self.cluster.bookmark_every_s
        while not self.ended.is_set():
            try:
                with store.lock:
                    changes = store.since(version, resource.name, namespace)
                    if not changes:
                        until = min(end, next_mark) if bookmarks else end
                        store.changed.wait(max(0.0, min(until - time.monotonic(), 0.5)))
                        changes = store.since(version, resource.name, namespace)
                    version = store.version
            except ValueError:
                message = f"too old resource version: {version} ({store.compacted})"
                self._event("ERROR", expired(message).to_json())
                return
            for change in changes:
                self._change_event(resource, change, matches)
            now = time.monotonic()
            if bookmarks and (now >= next_mark or now >= end):
                next_mark = now + self.cluster.bookmark_every_s
                metadata = {"resourceVersion": str(version), "creationTimestamp": None}
                mark = {"kind": resource.kind, "apiVersion": resource.api_version}
                self._event("BOOKMARK", {**mark, "metadata": metadata})
            if now >= end:
                return
        raise ConnectionResetError

    def _change_event(self, resource: Resource, change: Change, matches: selectors.Matches) -> None:
        was = change.before is not None and matches(change.before)
        is_ = change.after is not None and matches(change.after)
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        if is_:
            self._event("MODIFIED" if was else "ADDED", {**change.after, **head})  # type: ignore[dict-item]
        elif was:
            last = dict(change.before or {})
            last["metadata"] = {**last["metadata"], "resourceVersion": str(change.version)}
            self._event("DELETED", {**last, **head})

    def _event(self, kind: str, found: Json) -> None:
        data = json.dumps({"type": kind, "object": found}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    # -- discovery ---------------------------------------------------------------------------

    def _groups(self, path: list[str]) -> Json:
        served = self.cluster.registry.served()
        if path == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == ["apis"]:
            names = sorted({resource.group for resource in served if resource.group})
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [self._group(n) for n in names],
            }
        if path[0] == "apis" and len(path) == 2:
            if not any(resource.group == path[1] for resource in served):
                raise no_such_path()
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(path[1])}
        raise no_such_path()

    def _group(self, name: str) -> Json:
        versions = sorted({r.version for r in self.cluster.registry.served() if r.group == name})
        # v1 before v1beta1 before v1alpha1
        versions.sort(key=lambda v: ("beta" in v or "alpha" in v, "alpha" in v))
        found = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
        return {"name": name, "versions": found, "preferredVersion": found[0]}

    def _resources(self, group: str, version: str) -> Json:
        found = [
            {
                "name": r.plural,
                "singularName": "",
                "namespaced": r.namespaced,
                "kind": r.kind,
                "verbs": r.verbs,
            }
            for r in self.cluster.registry.served()
            if (r.group, r.version) == (group, version)
        ]
        if not found:
            raise no_such_path()
        whole = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "groupVersion": whole, "resources": found}


def _not_allowed() -> Refused:
    message = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", message)


def _selected(resource: Resource, query: dict[str, str]) -> selectors.Matches:
    labels = selectors.by_labels(query.get("labelSelector", ""))
    fields = selectors.by_fields(query.get("fieldSelector", ""), resource.plural)
    return lambda found: labels(found) and fields(found)


def _place(found: Json) -> str:
    return f"{found['metadata'].get('namespace', '')}/{found['metadata']['name']}"


def _json(raw: bytes) -> Json:
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise bad_request(f"the body cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the body is not an object")
    return found


def _reset(connection: socket.socket) -> None:
    """RST instead of a goodbye, as when the other machine has vanished and come back."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
