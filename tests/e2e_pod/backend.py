"""The backend of Kubeflow's dashboard, as far as a page asks it: state, list, pause, resume.

Paths, envelopes and codes are those of kubeflow/notebooks (notebooks-v2, workspaces/backend), read
and written anew. It trusts the user that the access proxy names, asks the API server whether
that user may (SubjectAccessReview), and then acts as itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from kube.admin import KUBEFLOW, Admin, Answered
from tornado import web

Json = dict[str, Any]
USER = "kubeflow-userid"


class Handler(web.RequestHandler):
    """`admin`: the backend's own service account."""

    def initialize(self, admin: Admin) -> None:
        self.admin = admin

    async def may(self, verb: str, namespace: str, name: str = "") -> bool:
        """Whether the user may; else the answer has been written."""
        user = self.request.headers.get(USER)
        if not user:
            self.refuse(401, "authentication is required to access this resource")
            return False
        if await asyncio.to_thread(allowed, self.admin, user, verb, namespace, name):
            return True
        self.refuse(403, "you are not authorized to access this resource")
        return False

    def refuse(self, code: int, message: str, cause: Json | None = None) -> None:
        self.set_status(code)
        error = {"code": str(code), "message": message, **({"cause": cause} if cause else {})}
        self.finish({"error": error})

    async def asked(self, asking: Awaitable[Json]) -> Json | None:
        """The answer of the API server; None when ours has been written."""
        try:
            return await asking
        except Answered as answered:
            if answered.code == 404:
                self.refuse(404, "the requested resource could not be found")
                return None
            raise

    def write_error(self, status_code: int, **more: Any) -> None:
        self.refuse(status_code, "the server could not process your request")


class Workspaces(Handler):
    async def get(self, namespace: str) -> None:
        if await self.may("list", namespace):
            found = await asyncio.to_thread(self.admin.list, _path(namespace))
            self.finish({"data": [_listed(one) for one in found]})


class OneWorkspace(Handler):
    async def get(self, namespace: str, name: str) -> None:
        if await self.may("get", namespace, name):
            reading = asyncio.to_thread(self.admin.get, _path(namespace), name)
            found = await self.asked(reading)
            if found is not None:
                self.finish({"data": _updatable(found)})


class Pause(Handler):
    async def post(self, namespace: str, name: str) -> None:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip()
        if kind != "application/json":
            self.refuse(415, "Only application/json is supported")
            return
        try:
            data = json.loads(self.request.body)["data"]
            paused = data["paused"]
        except (ValueError, KeyError, TypeError):
            self.refuse(422, "request body was invalid")
            return
        if not await self.may("update", namespace, name):
            return
        steps: list[Json] = [{"op": "test", "path": "/spec/paused", "value": not paused}]
        if not paused:
            steps.append({"op": "test", "path": "/status/state", "value": "Paused"})
        steps.append({"op": "replace", "path": "/spec/paused", "value": paused})
        patching = asyncio.to_thread(self.admin.json_patch, _path(namespace), name, steps)
        try:
            found = await self.asked(patching)
        except Answered as answered:
            if answered.code != 422:
                raise
            why = {"origin": "KUBERNETES", "message": "workspace is not in a valid state"}
            self.refuse(409, "kubernetes conflict error (see .cause.conflict_cause[] for details)",
                        {"conflict_cause": [why]})  # fmt: skip
            return
        if found is not None:
            self.finish({"data": {"paused": found["spec"]["paused"]}})


def application(admin: Admin) -> web.Application:
    """Served below /workspaces/api/v1."""
    base, about = "/workspaces/api/v1/workspaces/([^/]+)", {"admin": admin}
    return web.Application(
        [
            (base, Workspaces, about),
            (base + "/([^/]+)", OneWorkspace, about),
            (base + "/([^/]+)/actions/pause", Pause, about),
        ],
        log_function=lambda handler: None,
    )


def allowed(admin: Admin, user: str, verb: str, namespace: str, name: str = "") -> bool:
    """What the API server says of this user and a Workspace."""
    about = {"group": "kubeflow.org", "resource": "workspaces", "verb": verb}
    about |= {"namespace": namespace, "name": name}
    review = admin.create(
        "apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"spec": {"user": user, "resourceAttributes": about}},
    )
    return bool(review["status"]["allowed"])


def _path(namespace: str) -> str:
    return f"{KUBEFLOW}/namespaces/{namespace}/workspaces"


def _updatable(found: Json) -> Json:
    """A Workspace as GET has it."""
    spec = found["spec"]
    template = spec["podTemplate"]
    return {
        "revision": found["metadata"]["resourceVersion"],
        "displayName": spec.get("displayName", ""),
        "paused": spec.get("paused", False),
        "podTemplate": {
            "podMetadata": template.get("podMetadata") or {"labels": {}, "annotations": {}},
            "volumes": template.get("volumes") or {},
            "options": template["options"],
        },
    }


def _listed(found: Json) -> Json:
    """A Workspace as a list has it, without what only the dashboard shows."""
    spec, status, meta = found["spec"], found.get("status") or {}, found["metadata"]
    options = {
        name: {"current": {"id": spec["podTemplate"]["options"][name]}}
        for name in ("imageConfig", "podConfig")
    }
    port = "8888"
    path = f"/workspace/connect/{meta['namespace']}/{meta['name']}/{port}/"
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "workspaceKind": {"name": spec["kind"], "missing": False},
        "paused": spec.get("paused", False),
        "pausedTime": status.get("pauseTime", 0),
        "state": status.get("state", "Unknown"),
        "stateMessage": status.get("stateMessage", ""),
        "podTemplate": {"options": options},
        "activity": {"lastActivity": 0, "lastUpdate": 0},
        "services": [{"httpService": {"displayName": "JupyterLab", "httpPath": path}}],
    }
