"""Finds running Jupyter servers as `jupyter server list` does and asks them over REST.

For the command line only: the server itself never imports it. Starts no server.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from .errors import GkewsError

#: Seconds for one answer. Long: `survives` waits for the kernel.
TIMEOUT_S = 60.0


class UnreachableError(Exception):
    """No answer that can be used; `hint` says what to do. `reason`: the nearest of errors.py."""

    def __init__(self, message: str, hint: str, reason: str = "kernel_unreachable") -> None:
        self.message, self.hint, self.reason = message, hint, reason
        super().__init__(message)


@dataclass(frozen=True)
class Found:
    """A kernel and the server that has it."""

    server: Server
    kernel: dict[str, Any]


class Server:
    """One running server. `root` is its root folder on this machine, where that is known."""

    def __init__(self, url: str, token: str | None, root: str | None, *, local: bool) -> None:
        self.url = url.rstrip("/") + "/"
        self.root = root
        self.local = local
        # a server without a token still wants proof that no foreign page made the request
        xsrf = secrets.token_hex(16)
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"token {token}"} if token else {"X-XSRFToken": xsrf},
            cookies=None if token else {"_xsrf": xsrf},
            timeout=TIMEOUT_S,
            trust_env=not local,  # a proxy of the environment cannot reach our own loopback
        )

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON of an answer. Raises GkewsError as the server says it, else UnreachableError."""
        try:
            answer = self._client.request(method, f"gkews/{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnreachableError(
                f"The server at {self.url} does not answer: {error}",
                "Is it still running? See `jupyter server list`.",
            ) from None
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_success and isinstance(value, dict):
            return value
        if answer.status_code == 404 and not (isinstance(value, dict) and value.get("hint")):
            raise UnreachableError(
                f"The server at {self.url} runs without jupyter_gkews.",
                "Enable it there: jupyter server extension enable jupyter_gkews",
                "no_such_route",
            )
        if answer.status_code in (401, 403) or answer.is_redirect:
            raise UnreachableError(
                f"The server at {self.url} refuses us.",
                "Give its token: --token, or the environment variable JUPYTER_TOKEN.",
                "forbidden",
            )
        if isinstance(value, dict) and value.get("reason"):
            raise GkewsError.from_json(value)
        raise UnreachableError(
            f"The server at {self.url} answers {answer.status_code}.",
            "Its log says more.",
            "internal",
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def servers(url: str | None, token: str | None, *, none_is_fine: bool = False) -> list[Server]:
    """The server at `url`, or all that run here. Raises UnreachableError if there is none, unless
    that is fine."""
    from jupyter_server.serverapp import list_running_servers  # a second and a half to import

    infos = list(list_running_servers())
    token = token or os.environ.get("JUPYTER_TOKEN")
    if url is not None:
        known = next((i for i in infos if i["url"].rstrip("/") == url.rstrip("/")), None)
        if known is not None:
            infos = [known]
        else:
            return [Server(url, token, None, local=False)]
    if not infos:
        if none_is_fine:
            return []
        raise UnreachableError(
            "No Jupyter server is running.", "Start one, or name one elsewhere: --url, --token."
        )
    return [Server(i["url"], token or i.get("token"), i.get("root_dir"), local=True) for i in infos]


def find_kernel(among: list[Server], name: str) -> Found:
    """The kernel whose id begins with `name`, or whose notebook it is.

    A notebook is named as the server does (relative to its root) or as a file here. Raises
    GkewsError `kernel_not_found`; UnreachableError if none of the servers could be asked.
    """
    found: list[Found] = []
    problems: list[UnreachableError] = []
    for server in among:
        try:
            status = server.ask("GET", "status")
        except UnreachableError as problem:
            problems.append(problem)
            continue
        found += [Found(server, k) for k in status["kernels"] if _is_named(server, k, name)]
    if len(found) > 1:
        ids = ", ".join(f"{f.kernel['id'][:8]} ({f.kernel['path'] or '-'})" for f in found)
        raise GkewsError(
            "bad_request", f"{name!r} names several kernels: {ids}.", "Give more of the id."
        )
    if found:
        return found[0]
    if problems and len(problems) == len(among):
        raise problems[0]
    raise GkewsError(
        "kernel_not_found",
        f"No running server has a kernel or notebook {name!r}.",
        "`jupyter gkews status` lists them.",
    )


def _is_named(server: Server, kernel: dict[str, Any], name: str) -> bool:
    path = kernel["path"]
    if len(name) >= 4 and kernel["id"].startswith(name):
        return True
    if path is None:
        return False
    if path == name:
        return True
    return server.root is not None and os.path.realpath(name) == os.path.realpath(
        os.path.join(os.path.expanduser(server.root), path)
    )


def each(among: list[Server], ask: Callable[[Server], Any]) -> list[tuple[Server, Any]]:
    """The answers of those servers that could be asked; raises UnreachableError if none could."""
    answers, problems = [], []
    for server in among:
        try:
            answers.append((server, ask(server)))
        except UnreachableError as problem:
            problems.append(problem)
    if not answers and problems:
        raise problems[0]
    return answers
