"""REST under `<base_url>/gkews/`, described by openapi.yaml: reads requests, asks `lifecycle`.

Holds no state and decides nothing. Every route is authenticated and authorised for "gkews".
"""

from __future__ import annotations

import asyncio
import functools
import json
import shutil
from collections.abc import Awaitable, Callable
from http.client import responses
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from . import __version__
from .errors import GkewsError
from .lifecycle.operations import Operation
from .lifecycle.requests import (
    GcRequest,
    PauseRequest,
    ResumeRequest,
    accepts_missing,
    bad_request,
    only,
)
from .lifecycle.service import Lifecycle

Method = Callable[..., Awaitable[None]]

_REASON_OF_STATUS = {
    400: ("bad_request", "See openapi.yaml for what is allowed."),
    403: ("forbidden", "Log in, or send the server's token; with a cookie, the X-XSRFToken too."),
    404: ("no_such_route", "See openapi.yaml for the routes."),
    405: ("no_such_route", "See openapi.yaml for what this route takes."),
}


def json_errors(method: Method) -> Method:
    """Answer a GkewsError with its status and its JSON."""

    @functools.wraps(method)
    async def answered(self: GkewsHandler, *args: str, **kwargs: str) -> None:
        try:
            await method(self, *args, **kwargs)
        except GkewsError as error:
            if error.reason == "kernel_not_found" and not self.all_are_here:
                error = _not_known_yet()
            self.set_status(error.status)
            self.finish(json.dumps(error.to_json()))

    return answered


def _not_known_yet() -> GkewsError:
    return GkewsError(
        "kernel_starting",
        "The server has just started, and is still taking paused kernels over: whether this one is "
        "there is not known yet.",
        "Nothing was changed. Try again in a moment.",
    )


class GkewsHandler(APIHandler):
    """What all routes share."""

    auth_resource = "gkews"
    #: Whether the answer is about kernels: it waits until those of the server before are known.
    of_kernels = True
    all_are_here = True

    def initialize(self, lifecycle: Lifecycle) -> None:
        """Take the state machine from GkewsApp."""
        self.lifecycle = lifecycle

    async def prepare(self) -> None:  # type: ignore[override]
        """Before any method: a server that has just started takes paused kernels over first."""
        await super().prepare()
        if self.of_kernels and self.current_user:
            self.all_are_here = await self.lifecycle.wait_taken_over()

    def body(self) -> dict[str, Any]:
        """The JSON object of the request; {} if there is none. Raises `bad_request`."""
        if not self.request.body.strip():
            return {}
        try:
            body = json.loads(self.request.body)
        except ValueError:
            raise bad_request("The body is not JSON.") from None
        if not isinstance(body, dict):
            raise bad_request("The body must be a JSON object.")
        return body

    def reply(self, value: dict[str, Any], status: int = 200) -> None:
        """Finish with a JSON object."""
        self.set_status(status)
        self.finish(json.dumps(value))

    def accepted(self, operation: Operation) -> None:
        """Finish with 202, the operation, and where to read it again."""
        self.set_header("Location", f"{self.base_url}gkews/operations/{operation.id}")
        self.reply(operation.to_json(), 202)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Errors that are not ours (no token, no such route ...) have the same shape."""
        reason, hint = _REASON_OF_STATUS.get(
            status_code, ("internal", "The server's log says more.")
        )
        error = (kwargs.get("exc_info") or (None, None))[1]
        message = getattr(error, "log_message", None) or responses.get(status_code, "Error")
        if status_code == 405:
            message = f"This route does not take {self.request.method}."
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"reason": reason, "message": str(message), "hint": hint}))


class StatusHandler(GkewsHandler):
    """The workspace and every kernel."""

    # a page that is left open polls this: it must not keep the server awake
    _track_activity = False

    def initialize(self, lifecycle: Lifecycle, store: Path) -> None:  # type: ignore[override]
        """Take the store's folder as well."""
        super().initialize(lifecycle)
        self.store = store

    @web.authenticated
    @authorized
    @json_errors
    async def get(self) -> None:
        """See getStatus in openapi.yaml."""
        recoveries = self.lifecycle.recoveries
        woke = self.lifecycle.waking.last if self.lifecycle.waking is not None else None
        self.reply(
            {
                "version": __version__,
                "workspace": self.lifecycle.workspace.describe(),
                "kernels": self.lifecycle.kernels(),
                "engines": await asyncio.to_thread(self.lifecycle.engines.describe),
                "recovery": recoveries.describe() if recoveries is not None else None,
                "woke": woke.to_json() if woke is not None else None,
                "store": {"path": str(self.store), "free": _free(self.store)},
            }
        )


class KernelHandler(GkewsHandler):
    """One kernel."""

    @web.authenticated
    @authorized
    @json_errors
    async def get(self, kernel_id: str) -> None:
        """See getKernel in openapi.yaml."""
        self.reply(self.lifecycle.roster.describe(kernel_id))

    @web.authenticated
    @authorized
    @json_errors
    async def patch(self, kernel_id: str) -> None:
        """See patchKernel in openapi.yaml."""
        body = self.body()
        only(body, "auto_resume")
        if not isinstance(body.get("auto_resume"), bool):
            raise bad_request("'auto_resume' must be true or false.")
        await self.lifecycle.set_auto_resume(kernel_id, body["auto_resume"])
        self.reply(self.lifecycle.roster.describe(kernel_id))


class SurvivesHandler(GkewsHandler):
    """What a pause would keep."""

    _track_activity = False

    @web.authenticated
    @authorized
    @json_errors
    async def get(self, kernel_id: str) -> None:
        """See getSurvives in openapi.yaml."""
        self.reply(await self.lifecycle.survival.of(kernel_id))


class PauseHandler(GkewsHandler):
    """Pause a kernel."""

    def initialize(self, lifecycle: Lifecycle, timeout_s: float | None) -> None:  # type: ignore[override]
        """Take the default of `timeout_s` as well."""
        super().initialize(lifecycle)
        self.timeout_s = timeout_s

    @web.authenticated
    @authorized
    @json_errors
    async def post(self, kernel_id: str) -> None:
        """See pauseKernel in openapi.yaml."""
        request = PauseRequest.from_json(self.body(), self.timeout_s)
        self.accepted(self.lifecycle.pause(kernel_id, request))


class CheckpointKernelHandler(PauseHandler):
    """Write a checkpoint of a kernel."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self, kernel_id: str) -> None:
        """See checkpointKernel in openapi.yaml."""
        request = PauseRequest.from_json(self.body(), self.timeout_s, checkpoint=True)
        self.accepted(self.lifecycle.checkpoint(kernel_id, request))


class ResumeHandler(GkewsHandler):
    """Resume a kernel."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self, kernel_id: str) -> None:
        """See resumeKernel in openapi.yaml."""
        request = ResumeRequest.from_json(self.body())
        self.accepted(self.lifecycle.resume(kernel_id, request))


class OperationHandler(GkewsHandler):
    """One operation."""

    _track_activity = False

    @web.authenticated
    @authorized
    @json_errors
    async def get(self, operation_id: str) -> None:
        """See getOperation in openapi.yaml."""
        self.reply(self.lifecycle.book.get(operation_id).operation.to_json())

    @web.authenticated
    @authorized
    @json_errors
    async def delete(self, operation_id: str) -> None:
        """See cancelOperation in openapi.yaml."""
        self.reply(self.lifecycle.book.cancel(operation_id).operation.to_json(), 202)


class CheckpointsHandler(GkewsHandler):
    """All checkpoints."""

    @web.authenticated
    @authorized
    @json_errors
    async def get(self) -> None:
        """See listCheckpoints in openapi.yaml."""
        self.reply({"checkpoints": await asyncio.to_thread(self.lifecycle.shelf.all)})


class CheckpointHandler(GkewsHandler):
    """One checkpoint."""

    @web.authenticated
    @authorized
    @json_errors
    async def get(self, checkpoint_id: str) -> None:
        """See getCheckpoint in openapi.yaml."""
        kernel_id = self.get_query_argument("kernel_id", None)
        self.reply(await self.lifecycle.upkeep.in_detail(checkpoint_id, kernel_id))

    @web.authenticated
    @authorized
    @json_errors
    async def delete(self, checkpoint_id: str) -> None:
        """See deleteCheckpoint in openapi.yaml."""
        self.reply({"bytes_freed": await self.lifecycle.upkeep.delete(checkpoint_id)})


class SnapshotsHandler(GkewsHandler):
    """All process snapshots."""

    @web.authenticated
    @authorized
    @json_errors
    async def get(self) -> None:
        """See listSnapshots in openapi.yaml."""
        self.reply({"snapshots": await asyncio.to_thread(self.lifecycle.snapshots.all)})


class SnapshotHandler(GkewsHandler):
    """One process snapshot."""

    @web.authenticated
    @authorized
    @json_errors
    async def get(self, snapshot_id: str) -> None:
        """See getSnapshot in openapi.yaml."""
        self.reply(await asyncio.to_thread(self.lifecycle.snapshots.get, snapshot_id))

    @web.authenticated
    @authorized
    @json_errors
    async def delete(self, snapshot_id: str) -> None:
        """See deleteSnapshot in openapi.yaml."""
        self.reply(await self.lifecycle.upkeep.delete_snapshot(snapshot_id))


class RestoreHandler(GkewsHandler):
    """Load a checkpoint into a kernel."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self, checkpoint_id: str) -> None:
        """See restoreCheckpoint in openapi.yaml."""
        body = self.body()
        only(body, "kernel_id", "accept_missing")
        kernel_id = body.get("kernel_id")
        if kernel_id is not None and not isinstance(kernel_id, str):
            raise bad_request("'kernel_id' must be the id of a kernel, or left out.")
        accept = accepts_missing(body)
        operation = await self.lifecycle.restores.restore(
            checkpoint_id, kernel_id, accept_missing=accept
        )
        self.accepted(operation)


class StoreHandler(GkewsHandler):
    """The store as a whole."""

    _track_activity = False

    def initialize(self, lifecycle: Lifecycle, store: Path) -> None:  # type: ignore[override]
        """Take the store's folder as well."""
        super().initialize(lifecycle)
        self.store = store

    @web.authenticated
    @authorized
    @json_errors
    async def get(self) -> None:
        """See getStore in openapi.yaml."""
        report = await self.lifecycle.upkeep.collect(older_than_s=None, keep=None, dry_run=True)
        self.reply(
            {
                "path": str(self.store),
                "free": _free(self.store),
                "bytes": report["store"]["bytes"],
                "checkpoints": report["store"]["checkpoints"],
                "snapshots": report["store"]["snapshots"],
                "unused": report["bytes_freed"],
                "stays": report["stays"],
            }
        )


class GcHandler(GkewsHandler):
    """Remove what the store does not need."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self) -> None:
        """See collectGarbage in openapi.yaml."""
        request = GcRequest.from_json(self.body())
        self.reply(
            await self.lifecycle.upkeep.collect(
                older_than_s=request.older_than_s, keep=request.keep, dry_run=request.dry_run
            )
        )


class UnknownHandler(GkewsHandler):
    """Any other path below gkews/: 404 in JSON, for those who are logged in."""

    @web.authenticated
    @authorized
    async def _not_found(self) -> None:
        raise web.HTTPError(404, "There is no such route.")

    get = post = put = patch = delete = _not_found


def _free(store: Path) -> int | None:
    folder = store
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def routes(lifecycle: Lifecycle, *, store: Path, timeout_s: float | None) -> list[tuple[Any, ...]]:
    """The routes, their handlers and what is handed to them."""
    plain = {"lifecycle": lifecycle}
    waiting = {**plain, "timeout_s": timeout_s}
    kernel = r"/gkews/kernels/(?P<kernel_id>[^/]+)"
    checkpoint = r"/gkews/checkpoints/(?P<checkpoint_id>[^/]+)"
    return [
        (r"/gkews/status", StatusHandler, {**plain, "store": store}),
        (kernel, KernelHandler, plain),
        (kernel + "/survives", SurvivesHandler, plain),
        (kernel + "/pause", PauseHandler, waiting),
        (kernel + "/resume", ResumeHandler, plain),
        (kernel + "/checkpoint", CheckpointKernelHandler, waiting),
        (r"/gkews/operations/(?P<operation_id>[^/]+)", OperationHandler, plain),
        (r"/gkews/checkpoints", CheckpointsHandler, plain),
        (checkpoint, CheckpointHandler, plain),
        (checkpoint + "/restore", RestoreHandler, plain),
        (r"/gkews/snapshots", SnapshotsHandler, plain),
        (r"/gkews/snapshots/(?P<snapshot_id>[^/]+)", SnapshotHandler, plain),
        (r"/gkews/store", StoreHandler, {**plain, "store": store}),
        (r"/gkews/gc", GcHandler, plain),
        (r"/gkews/.*", UnknownHandler, plain),
    ]
