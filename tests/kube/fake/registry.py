"""What creating, changing and deleting an object means: metadata, status subresource, conflicts,
finalizers, admission. Knows nothing of HTTP; who may do it has been asked before.
"""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from . import patches
from .resources import Resource, of_definition, of_kubernetes
from .schemas import admit
from .status import (
    Json,
    Refused,
    bad_request,
    conflict,
    exists_already,
    invalid,
    no_such_path,
    not_found,
)
from .store import Key, Store

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
#: Rewriting them is silently undone, as on the real server.
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


@dataclass(frozen=True)
class Admission:
    """What an admission webhook is told. `operation`: CREATE, UPDATE or DELETE."""

    operation: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    old: Json | None
    new: Json | None


Hook = Callable[[Admission], "Json | None"]
"""Returns the changed object, or None to let it pass; raises Refused."""


class Registry:
    """`admission`: hooks in the order in which they are asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.admission: list[Hook] = []
        self._resources: dict[tuple[str, str, str], Resource] = {}
        for resource in of_kubernetes():
            self._resources[resource.group, resource.version, resource.plural] = resource
        for name in ("default", "kube-system"):
            self.create(self.resource("", "v1", "namespaces"), "", {"metadata": {"name": name}}, "")

    def resource(self, group: str, version: str, plural: str) -> Resource:
        """Raises Refused (404) as for a path that is not served."""
        try:
            return self._resources[group, version, plural]
        except KeyError:
            raise no_such_path() from None

    def served(self) -> list[Resource]:
        return list(self._resources.values())

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self.store.get(_key(resource, namespace, name))
        if found is None:
            raise not_found(resource.name, name)
        return _shown(resource, found)

    def list(self, resource: Resource, namespace: str, at: int | None = None) -> list[Json]:
        return [_shown(resource, f) for f in self.store.list(resource.name, namespace, at)]

    def create(self, resource: Resource, namespace: str, body: Json, user: str) -> Json:
        new = copy.deepcopy(body)
        self._check_kind(resource, new)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + secrets.token_hex(3)[:5]
        name = metadata.get("name") or ""
        if not name:
            raise invalid(
                resource.kind,
                "",
                ["metadata.name: Required value: name or generateName is required"],
            )
        if not _NAME.fullmatch(name) and resource.group != "rbac.authorization.k8s.io":
            why = "a DNS-1123 subdomain must consist of lower case alphanumeric characters"
            raise invalid(resource.kind, name, [f'metadata.name: Invalid value: "{name}": {why}'])
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
            metadata["namespace"] = namespace
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced and self.store.get(("namespaces", "", namespace)) is None:
            raise not_found("namespaces", namespace)
        if resource.status:
            new.pop("status", None)
        new = self._admitted("CREATE", resource, "", namespace, name, user, None, new)
        self._validate(resource, new)
        metadata = new["metadata"]
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = _now()
        metadata.pop("deletionTimestamp", None)
        if resource.counted:
            metadata["generation"] = 1
        if resource.plural == "pods":
            new.setdefault("status", {}).setdefault("phase", "Pending")
        key = _key(resource, namespace, name)
        with self.store.lock:
            if self.store.get(key) is not None:
                raise exists_already(resource.name, name)
            found = self.store.put(key, new)
            if resource.plural == "customresourcedefinitions":
                found = self._define(key, found)
            return _shown(resource, found)

    def replace(
        self, resource: Resource, namespace: str, name: str, sub: str, body: Json, user: str
    ) -> Json:
        old = self.get(resource, namespace, name)
        new = copy.deepcopy(body)
        given = (new.get("metadata") or {}).get("resourceVersion")
        if not given and resource.custom:
            cause = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
            raise invalid(resource.kind, name, [cause])
        found = self._write(resource, namespace, name, sub, old, new, user)
        if found is None:
            raise conflict(resource.name, name)
        return found

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        sub: str,
        kind: str,
        body: object,
        user: str,
    ) -> Json:
        for _ in range(5):
            old = self.get(resource, namespace, name)
            if kind == "application/merge-patch+json":
                if not isinstance(body, dict):
                    raise bad_request("the merge patch is not an object")
                new = patches.merge(old, body)
            elif kind == "application/json-patch+json":
                new = patches.json_patch(old, body)
            else:
                raise Refused(
                    415,
                    "UnsupportedMediaType",
                    "the body of the request was in an unknown format - accepted media types "
                    "include: application/json-patch+json, application/merge-patch+json",
                )
            found = self._write(resource, namespace, name, sub, old, new, user)
            if found is not None:
                return found
        raise conflict(resource.name, name)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Json, user: str
    ) -> tuple[Json, bool]:
        """(the object as it was, whether it is gone now)."""
        old = self.get(resource, namespace, name)
        self._admitted("DELETE", resource, "", namespace, name, user, old, None)
        with self.store.lock:
            old = self.get(resource, namespace, name)
            wanted = options.get("preconditions") or {}
            for key in ("uid", "resourceVersion"):
                if wanted.get(key) and wanted[key] != old["metadata"][key]:
                    why = (
                        f"Precondition failed: {key} in precondition: {wanted[key]}, in object "
                        f"meta: {old['metadata'][key]}"
                    )
                    raise conflict(resource.name, name, why)
            grace = options.get("gracePeriodSeconds")
            if resource.plural == "pods" and (old.get("spec") or {}).get("nodeName") and grace != 0:
                return self._mark(
                    resource, namespace, name, old, 30 if grace is None else grace
                ), False
            if old["metadata"].get("finalizers"):
                return self._mark(resource, namespace, name, old, 0), False
            found = self.store.remove(_key(resource, namespace, name))
            if resource.plural == "customresourcedefinitions":
                for served in of_definition(found):
                    self._resources.pop((served.group, served.version, served.plural), None)
            return _shown(resource, found), True

    def bind(self, namespace: str, name: str, node: str) -> None:
        """What the scheduler does with a pod: only once."""
        with self.store.lock:
            pod = self.get(self.resource("", "v1", "pods"), namespace, name)
            if pod["spec"].get("nodeName"):
                why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                raise conflict("pods/binding", name, why)
            pod["spec"]["nodeName"] = node
            status = pod.setdefault("status", {})
            rest = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
            placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}
            status["conditions"] = [*rest, placed]
            self.store.put(("pods", namespace, name), pod)

    def _mark(self, resource: Resource, namespace: str, name: str, old: Json, grace: int) -> Json:
        if "deletionTimestamp" not in old["metadata"]:
            old["metadata"]["deletionTimestamp"] = _now()
            old["metadata"]["deletionGracePeriodSeconds"] = grace
        return _shown(resource, self.store.put(_key(resource, namespace, name), old))

    def _write(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        sub: str,
        old: Json,
        new: Json,
        user: str,
    ) -> Json | None:
        """None if it has changed meanwhile: hooks are asked without the lock, as they ask us."""
        self._check_kind(resource, new)
        metadata = new.setdefault("metadata", {})
        given = metadata.get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict(resource.name, name)
        if metadata.get("name", name) != name:
            raise bad_request("the name of the object does not match the name on the URL")
        metadata["name"] = name
        for key in _SERVER_OWNED:
            metadata.pop(key, None)
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
        if sub == "status":
            new = {**old, "status": new.get("status"), "metadata": {**old["metadata"]}}
            if new["status"] is None:
                new.pop("status")
        elif resource.status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        new = self._admitted("UPDATE", resource, sub, namespace, name, user, old, new)
        self._validate(resource, new)
        if resource.counted and sub != "status":
            same = all(new.get(k) == old.get(k) for k in {*new, *old} - {"metadata", "status"})
            generation = old["metadata"].get("generation", 1)
            new["metadata"]["generation"] = generation if same else generation + 1
        key = _key(resource, namespace, name)
        finalized = (
            new["metadata"].get("deletionTimestamp")
            and old["metadata"].get("finalizers")
            and not new["metadata"].get("finalizers")
            and not old["metadata"].get("deletionGracePeriodSeconds")
        )
        with self.store.lock:
            now = self.store.get(key)
            if now is None:
                raise not_found(resource.name, name)
            if now["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                return None
            found = self.store.put(key, new)
            if finalized:
                found = self.store.remove(key)
            return _shown(resource, found)

    def _admitted(
        self, operation: str, resource: Resource, sub: str, namespace: str, name: str, user: str,
        old: Json | None, new: Json | None,
    ) -> Json:  # fmt: skip
        for hook in self.admission:
            changed = hook(
                Admission(operation, resource.name, sub, namespace, name, user,
                          copy.deepcopy(old), copy.deepcopy(new))
            )  # fmt: skip
            if changed is not None:
                new = changed
        return new if new is not None else {}

    def _validate(self, resource: Resource, new: Json) -> None:
        if resource.schema is not None:
            causes = admit(resource.schema, new)
            if causes:
                raise invalid(resource.kind, new["metadata"]["name"], causes)

    def _check_kind(self, resource: Resource, new: Json) -> None:
        kind = new.setdefault("kind", resource.kind)
        version = new.setdefault("apiVersion", resource.api_version)
        if (kind, version) != (resource.kind, resource.api_version):
            raise bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): "
                f"{version}, {kind}"
            )

    def _define(self, key: Key, definition: Json) -> Json:
        for served in of_definition(definition):
            self._resources[served.group, served.version, served.plural] = served
        definition["status"] = {
            "conditions": [
                {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}
            ],
            "acceptedNames": definition["spec"]["names"],
            "storedVersions": [v["name"] for v in definition["spec"]["versions"] if v["storage"]],
        }
        return self.store.put(key, definition)


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return (resource.name, namespace if resource.namespaced else "", name)


def _shown(resource: Resource, found: Json) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **{
        k: v for k, v in found.items() if k not in ("apiVersion", "kind")}}  # fmt: skip


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
