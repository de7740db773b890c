"""The REST interface is what openapi.yaml says, and nobody gets in without the token."""

from __future__ import annotations

import re

import httpx
import pytest
from contract import METHODS, SPEC, operations
from live_server import LiveServer
from openapi_spec_validator import validate
from tornado.web import RequestHandler

from jupyter_gkews.handlers import GkewsHandler, UnknownHandler, routes
from jupyter_gkews.workspace_handlers import workspace_routes

FILLED = {
    "kernel_id": "no-kernel",
    "operation_id": "no-op",
    "checkpoint_id": "no-checkpoint",
    "snapshot_id": "no-snapshot",
}


def filled(template: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: FILLED[match[1]], template).lstrip("/")


def registered() -> list[tuple[str, type[GkewsHandler]]]:
    found = routes(None, store=None, timeout_s=None)  # type: ignore[arg-type]
    found += workspace_routes(None, timeout_s=None)  # type: ignore[arg-type]
    return [
        (re.sub(r"\(\?P<(\w+)>\[\^/\]\+\)", r"{\1}", pattern), handler)
        for pattern, handler, _ in found
        if handler is not UnknownHandler
    ]


def test_the_description_is_a_valid_openapi_file() -> None:
    validate(SPEC)


def test_every_route_is_described_with_exactly_the_methods_it_has() -> None:
    has = {
        (method.upper(), template)
        for template, handler in registered()
        for method in METHODS
        if getattr(handler, method) is not getattr(RequestHandler, method)
    }
    assert has == set(operations())


def test_every_handler_asks_for_the_resource_gkews() -> None:
    assert {handler.auth_resource for _, handler in registered()} == {"gkews"}


@pytest.mark.parametrize(("method", "template"), operations())
def test_a_request_without_the_token_is_refused(
    server: LiveServer, method: str, template: str
) -> None:
    answer = httpx.request(method, server.url + filled(template), trust_env=False)
    assert answer.status_code == 403
    assert answer.json()["reason"] == "forbidden"
    assert answer.json()["hint"]


def test_a_request_with_a_wrong_token_is_refused(server: LiveServer) -> None:
    answer = httpx.get(
        server.url + "gkews/status", headers={"Authorization": "token no"}, trust_env=False
    )
    assert answer.status_code == 403


def test_a_cookie_alone_does_not_change_anything_without_the_xsrf_token(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url, trust_env=False, follow_redirects=True) as browser:
        browser.get(f"api/status?token={server.token}")
        assert browser.get("gkews/status").status_code == 200, "the login cookie is taken"
        kernel = server.notebook("xsrf.ipynb").ready()
        refused = browser.post(f"gkews/kernels/{kernel.id}/pause")
        assert refused.status_code == 403
        assert "_xsrf" in refused.json()["message"]
        assert kernel.status["state"] == "running"


def test_whom_the_authorizer_refuses_gets_nothing(start_server, tmp_path) -> None:
    (tmp_path / "jupyter" / "config").mkdir(parents=True)
    (tmp_path / "jupyter" / "config" / "jupyter_server_config.py").write_text(
        "from jupyter_server.auth import Authorizer\n"
        "class NoGkews(Authorizer):\n"
        "    def is_authorized(self, handler, user, action, resource):\n"
        "        return resource != 'gkews'\n"
        "c.ServerApp.authorizer_class = NoGkews\n"
    )
    server = start_server()
    for method, template in operations():
        answer = server.client.request(method, filled(template))
        assert answer.status_code == 403, (method, template)
    assert server.client.get("api/kernels").status_code == 200


@pytest.mark.parametrize("path", ["gkews/nothing", "gkews/kernels", "gkews/", "gkews/status/x"])
def test_an_unknown_route_says_so_in_json(server: LiveServer, path: str) -> None:
    answer = server.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["reason"] == "no_such_route"


def test_an_unknown_route_tells_nothing_to_a_stranger(server: LiveServer) -> None:
    assert httpx.get(server.url + "gkews/nothing", trust_env=False).status_code == 403


def test_a_method_that_a_route_lacks_is_refused_in_json(server: LiveServer) -> None:
    answer = server.client.put("gkews/status", json={})
    assert answer.status_code == 405
    assert answer.json()["reason"] == "no_such_route"
    assert answer.json()["message"] == "This route does not take PUT."
    assert answer.json()["hint"]


def test_status_names_the_version_and_says_that_there_is_no_workspace(server: LiveServer) -> None:
    status = server.get("gkews/status")
    assert status["version"] == SPEC["info"]["version"]
    assert status["workspace"]["state"] == "none"
    assert status["workspace"]["reason"] == "no_workspace"
    assert not status["workspace"]["pausable"]
    assert server.get("gkews/workspace")["state"] == "none"
    assert status["store"]["free"] > 0


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_the_workspace_cannot_be_paused_without_an_engine(server: LiveServer, what: str) -> None:
    assert server.post(f"gkews/workspace/{what}", status=409)["reason"] == "no_workspace"


def test_what_a_pause_of_the_workspace_does_not_know_is_refused_with_what_it_knows(
    server: LiveServer,
) -> None:
    error = server.post("gkews/workspace/pause", {"foo": 1}, status=400)
    assert "foo" in error["message"]
    said = f"{error['message']} {error['hint']}"
    assert "stateless" in said and "without_checkpoint" in said and "snapshot" not in said
