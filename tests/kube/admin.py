"""Requests to an API server in plain HTTP: what tests and actors do as the cluster's admin.

Not the client under test: it knows neither `kubernetes` nor our own modules.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

Json = dict[str, Any]

KUBEFLOW = "apis/kubeflow.org/v1beta1"
SNAPSHOT = "apis/podsnapshot.gke.io/v1"
RBAC = "apis/rbac.authorization.k8s.io/v1"


class Answered(Exception):  # noqa: N818
    """An answer of 400 and above."""

    def __init__(self, code: int, body: Json) -> None:
        self.code, self.body = code, body
        super().__init__(f"{code}: {body.get('message', body)}")


class Admin:
    """One connection a request, so that it can be used from any thread."""

    def __init__(self, url: str, ca: Path, token: str) -> None:
        self.url, self.ca, self.token = url, ca, token
        self._context = ssl.create_default_context(cafile=str(ca))

    def as_(self, token: str) -> Admin:
        """The same server as somebody else."""
        return Admin(self.url, self.ca, token)

    def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json",
        timeout: float = 20.0, **query: object,
    ) -> Json:  # fmt: skip
        """The JSON of an answer; raises Answered."""
        connection, answer = self._send(method, path, body, kind, timeout, query)
        try:
            data = answer.read()
        finally:
            answer.close()
            connection.close()
        try:
            found = json.loads(data)
        except ValueError:
            found = {"message": data.decode(errors="replace")}
        if answer.status >= 400:
            raise Answered(answer.status, found)
        return found  # type: ignore[no-any-return]

    def _send(
        self, method: str, path: str, body: object, kind: str, timeout: float, query: Json
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=self._context, timeout=timeout
        )
        target = "/" + quote(path) + ("?" + urlencode(query) if query else "")
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, target, data, headers)
            return connection, connection.getresponse()
        except BaseException:  # not every error closes it by itself
            connection.close()
            raise

    # -- by place: `path` is that of the collection, e.g. api/v1/namespaces/ns/pods -----------

    def get(self, path: str, name: str) -> Json:
        return self.ask("GET", f"{path}/{name}")

    def find(self, path: str, name: str) -> Json | None:
        try:
            return self.get(path, name)
        except Answered as answered:
            if answered.code == 404:
                return None
            raise

    def list(self, path: str, **query: object) -> list[Json]:
        return self.ask("GET", path, **query)["items"]  # type: ignore[no-any-return]

    def create(self, path: str, body: Json) -> Json:
        return self.ask("POST", path, body)

    def merge(self, path: str, name: str, patch: Json, sub: str = "") -> Json:
        where = f"{path}/{name}" + (f"/{sub}" if sub else "")
        return self.ask("PATCH", where, patch, "application/merge-patch+json")

    def json_patch(self, path: str, name: str, steps: list[Json]) -> Json:
        return self.ask("PATCH", f"{path}/{name}", steps, "application/json-patch+json")

    def replace(self, path: str, name: str, body: Json, sub: str = "") -> Json:
        return self.ask("PUT", f"{path}/{name}" + (f"/{sub}" if sub else ""), body)

    def delete(self, path: str, name: str, **options: object) -> Json:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return self.ask("DELETE", f"{path}/{name}", body)

    def watch(
        self, path: str, timeout: float = 90.0,
        opened: Callable[[http.client.HTTPSConnection], object] | None = None, **query: object,
    ) -> Iterator[Json]:  # fmt: skip
        """Events until the server ends it. Raises Answered, or OSError when it is cut."""
        query = {"watch": "true", **query}
        connection, answer = self._send("GET", path, None, "application/json", timeout, query)
        try:
            if opened is not None:
                opened(connection)
            if answer.status >= 400:
                raise Answered(answer.status, json.loads(answer.read()))
            for line in iter(answer.readline, b""):
                yield json.loads(line)
        finally:
            answer.close()
            connection.close()

    # -- what most tests need ----------------------------------------------------------------

    def namespace(self, name: str) -> str:
        self.create("api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def account(
        self, namespace: str, name: str, pod: Json | None = None, seconds: int = 3600
    ) -> str:
        """A service account's token, made with it; bound to `pod` if one is given."""
        accounts = f"api/v1/namespaces/{namespace}/serviceaccounts"
        if self.find(accounts, name) is None:
            self.create(accounts, {"metadata": {"name": name}})
        spec: Json = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": seconds}
        if pod is not None:
            meta = pod["metadata"]
            spec["boundObjectRef"] = {
                "kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]
            }  # fmt: skip
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.ask("POST", f"{accounts}/{name}/token", request)["status"]["token"])

    def grant(self, namespace: str, account: str, rules: list[Json], name: str = "granted") -> None:
        """A role with these rules, bound to the account."""
        where = f"{RBAC}/namespaces/{namespace}"
        self.create(f"{where}/roles", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.create(
            f"{where}/rolebindings",
            {"metadata": {"name": name}, "subjects": [subject], "roleRef": ref},
        )
