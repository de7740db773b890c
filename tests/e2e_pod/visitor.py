"""A user at the access proxy, with a session and without a browser: pages, kernels, the dashboard.

Knows only URLs: what a server inside answers is asked for as JupyterLab asks it.
"""

from __future__ import annotations

from typing import Any

import httpx
from live_server import DEADLINE_S, LiveServer, wait_until

from .access_proxy import COOKIE, XSRF_COOKIE, XSRF_HEADER
from .node_agent import PORT
from .stand_in import USER, StandIn

Json = dict[str, Any]

#: Two cells: what they print tells whether process, thread and generator are the same.
LIVE = """
import os, threading, time
ticks = []
def tick():
    while True:
        ticks.append(1)
        time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
numbers = (n for n in range(100))
print(os.getpid(), next(numbers))
"""
ON = "n = len(ticks); time.sleep(0.3); print(os.getpid(), next(numbers), len(ticks) > n)"


class Visitor(LiveServer):
    """The server of a workspace, as its user has it: everything of LiveServer but its process."""

    def __init__(self, stand_in: StandIn, workspace: str = "ws", user: str = USER) -> None:
        self.check = stand_in.platform.check
        self.place = f"{stand_in.namespace}/{workspace}"
        self.root = stand_in.home(workspace)
        self.log = stand_in.folder / "pods"
        self.cookies = {COOKIE: stand_in.proxy.sign_in(user)}
        self.url = f"{stand_in.proxy.url}/workspace/connect/{self.place}/{PORT}/"
        self.client = httpx.Client(
            base_url=self.url, cookies=self.cookies, timeout=DEADLINE_S, trust_env=False
        )
        self.dashboard = httpx.Client(
            base_url=f"{stand_in.proxy.url}/workspaces/api/v1/workspaces/",
            cookies={**self.cookies, XSRF_COOKIE: "sent-back"}, headers={XSRF_HEADER: "sent-back"},
            timeout=DEADLINE_S, trust_env=False,
        )  # fmt: skip
        self._sockets = []

    @property
    def authorization(self) -> dict[str, str]:
        """For websockets."""
        held = {**self.cookies, **dict(self.client.cookies)}
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in held.items())}

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
        self.client.close()
        self.dashboard.close()

    def wait_until_served(self, seconds: float = 240.0) -> None:
        """The pod is ready and its server answers; then as a page that was opened."""

        def served() -> bool:
            self.check()
            return self.client.get("api/status").status_code == 200

        wait_until(served, f"{self.place} answers, see {self.log}", seconds)
        # a page brings the cookie against forged requests, and its scripts send it back
        self.client.get("login", follow_redirects=True)
        self.client.headers["X-XSRFToken"] = self.client.cookies.get("_xsrf", "")

    # -- the dashboard -----------------------------------------------------------------------

    def listed(self) -> Json:
        """The workspace as the dashboard lists it."""
        namespace, _, name = self.place.partition("/")
        found: list[Json] = self.dashboard.get(namespace).raise_for_status().json()["data"]
        return next(one for one in found if one["name"] == name)

    def set_paused(self, paused: bool, **headers: str) -> httpx.Response:
        """The button of the dashboard."""
        body = {"data": {"paused": paused}}
        return self.dashboard.post(f"{self.place}/actions/pause", json=body, headers=headers)

    def wait_for(self, state: str, seconds: float = 120.0) -> Json:
        """Until the dashboard shows this state."""

        def there() -> Json | None:
            self.check()
            found = self.listed()
            return found if found["state"] == state else None

        found: Json = wait_until(there, f"{self.place} is {state}: {self.listed()}", seconds)
        return found
