"""REST of the whole workspace, `<base_url>/gkews/workspace`: reads requests, asks `lifecycle`.

Holds no state and decides nothing, as handlers.py.
"""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from .handlers import GkewsHandler, PauseHandler, json_errors
from .lifecycle.requests import WorkspacePauseRequest, only
from .lifecycle.service import Lifecycle


class WorkspaceHandler(GkewsHandler):
    """The workspace."""

    _track_activity = False
    of_kernels = False

    @web.authenticated
    @authorized
    @json_errors
    async def get(self) -> None:
        """See getWorkspace in openapi.yaml."""
        self.reply(await self.lifecycle.workspace.describe_anew())


class PauseWorkspaceHandler(PauseHandler):
    """Pause the workspace."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self) -> None:
        """See pauseWorkspace in openapi.yaml."""
        request = WorkspacePauseRequest.from_json(self.body(), self.timeout_s)
        self.accepted(await self.lifecycle.workspace.pause(request))


class ResumeWorkspaceHandler(GkewsHandler):
    """Call off the pause that is under way."""

    @web.authenticated
    @authorized
    @json_errors
    async def post(self) -> None:
        """See resumeWorkspace in openapi.yaml."""
        only(self.body())
        self.accepted(await self.lifecycle.workspace.resume())


def workspace_routes(lifecycle: Lifecycle, *, timeout_s: float | None) -> list[tuple[Any, ...]]:
    """The routes, their handlers and what is handed to them."""
    plain = {"lifecycle": lifecycle}
    return [
        (r"/gkews/workspace", WorkspaceHandler, plain),
        (r"/gkews/workspace/pause", PauseWorkspaceHandler, {**plain, "timeout_s": timeout_s}),
        (r"/gkews/workspace/resume", ResumeWorkspaceHandler, plain),
    ]
