"""A real Jupyter server in a process of its own, its kernels, and a browser's websocket to them.

For the tests only. Everything lies in one temporary directory, binds to loopback, and is ended by
process id.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import nbformat
import psutil
import websocket
from contract import check

#: Seconds within which anything that is waited for must have happened.
DEADLINE_S = 60.0

#: Ours alone: the others double the time of a start, and start processes of their own.
EXTENSIONS = {
    "jupyter_gkews": True,
    "jupyter_lsp": False,
    "jupyter_server_terminals": False,
    "jupyterlab": False,
    "notebook": False,
    "notebook_shim": False,
}


def wait_until(
    what: Callable[[], Any],
    why: str,
    timeout_s: float = DEADLINE_S,
    told: Callable[[], object] = lambda: "",
) -> Any:
    """The first true value of `what()`; fails with `why`, and what is `told` then, when it does not
    become true in time."""
    end = time.monotonic() + timeout_s
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout_s} s: {why}\n{told()}"
        time.sleep(0.02)


class LiveServer:
    """`jupyter server` with the extension, on a free port."""

    def __init__(self, base: Path, root: Path, *options: str, token: str | None = None) -> None:
        self.base, self.root, self.options = base, root, options
        self.token = uuid.uuid4().hex if token is None else token
        self.log = base / f"server-{uuid.uuid4().hex[:8]}.log"
        self._sockets: list[websocket.WebSocket] = []
        for folder in (base, root):
            folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """An environment in which nothing of the user's is read or written."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "JPY_"))}
        home = self.base / "home"
        home.mkdir(exist_ok=True)
        return {
            **env,
            "HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(self.base / "config"),
            "JUPYTER_DATA_DIR": str(self.base / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.base / "runtime"),
            "IPYTHONDIR": str(self.base / "ipython"),
            "JUPYTER_TOKEN": "",
        }

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"} if self.token else {}

    @property
    def store(self) -> Path:
        return self.base / "data" / "gkews"

    def start(self) -> LiveServer:
        # Jupyter finds a free port, gives it up and takes it again: another may be first
        for _ in range(3):
            self._begin()
            found = wait_until(self._listens, f"the server is listening, see {self.log}")
            if self.process.poll() is None:
                break
        else:
            raise AssertionError(self.log.read_text())
        self.info = found
        self.url: str = self.info["url"]
        self.client = httpx.Client(
            base_url=self.url,
            headers=self.authorization,
            timeout=DEADLINE_S,
            trust_env=False,
        )
        return self

    def _begin(self) -> None:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "jupyter_server",
                    "--no-browser",
                    "--allow-root",
                    "--ServerApp.ip=127.0.0.1",
                    "--ServerApp.port=0",
                    f"--ServerApp.root_dir={self.root}",
                    f"--IdentityProvider.token={self.token}",
                    f"--ServerApp.jpserver_extensions={EXTENSIONS}",
                    *self.options,
                ],
                env=self.environment(),
                cwd=self.base,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _listens(self) -> dict[str, Any] | None:
        """What the server says of itself, once it can be asked; also once it has lost its port."""
        if self.process.poll() is not None:
            said = self.log.read_text()
            assert "is already in use" in said, said
            return {"port": None}
        info = self.base / "runtime" / f"jpserver-{self.process.pid}.json"
        try:
            found: dict[str, Any] = json.loads(info.read_text())
            # it is written before the server listens
            socket.create_connection(("127.0.0.1", found["port"]), DEADLINE_S).close()
        except (FileNotFoundError, ValueError, ConnectionRefusedError):
            return None
        return found

    def children(self) -> list[psutil.Process]:
        """Every process that the server has started and that runs."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End the server and whatever it leaves."""
        if not hasattr(self, "process"):
            return
        for opened in self._sockets:
            opened.close()
        children = self.children()
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop in 30 s: {self.log}") from None
        finally:
            for child in children:
                try:
                    child.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(children, timeout=10)
            if hasattr(self, "client"):
                self.client.close()

    # -- REST --------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The JSON of an answer that has this HTTP status; ours are as openapi.yaml says."""
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == status, (answer.status_code, answer.text, self.log)
        value = answer.json() if answer.content else None
        if path.startswith("gkews/"):
            check(method, path, status, value)
        return value

    def get(self, path: str, *, status: int = 200) -> Any:
        return self.ask("GET", path, status=status)

    def post(self, path: str, body: Any = None, *, status: int = 202) -> Any:
        return self.ask("POST", path, body, status=status)

    def operation(self, operation: str) -> dict[str, Any]:
        """The operation once it has ended."""

        def ended() -> Any:
            found = self.get(f"gkews/operations/{operation}")
            return found if found["finished"] else None

        return wait_until(ended, f"operation {operation} has ended")

    def notebook(self, path: str, kernel: str = "python3") -> LiveKernel:
        """A new notebook with a kernel of its own, as JupyterLab would start it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            nbformat.write(nbformat.v4.new_notebook(), file)
        session = self.ask(
            "POST",
            "api/sessions",
            {"path": path, "name": file.name, "type": "notebook", "kernel": {"name": kernel}},
            status=201,
        )
        return LiveKernel(self, session["kernel"]["id"], path)

    def kernel_of(self, path: str) -> LiveKernel:
        """The kernel that the notebook's session has."""
        for session in self.get("api/sessions"):
            if session["path"] == path:
                return LiveKernel(self, session["kernel"]["id"], path)
        raise AssertionError(f"no session for {path}")

    def events(self) -> websocket.WebSocket:
        """A listener on the server's event bus."""
        return self._socket("api/events/subscribe")

    def _socket(self, path: str) -> websocket.WebSocket:
        opened = websocket.create_connection(
            self.url.replace("http://", "ws://") + path,
            header=self.authorization,
            timeout=DEADLINE_S,
            suppress_origin=True,
        )
        self._sockets.append(opened)
        return opened


class LiveKernel:
    """One kernel, as a browser tab has it."""

    def __init__(self, server: LiveServer, kernel_id: str, path: str | None = None) -> None:
        self.server, self.id, self.path = server, kernel_id, path
        self._session = uuid.uuid4().hex
        self._socket: websocket.WebSocket | None = None

    # -- the notebook's side -------------------------------------------------------------------

    def connect(self) -> websocket.WebSocket:
        """The tab's websocket; opened once."""
        if self._socket is None:
            self._socket = self.server._socket(
                f"api/kernels/{quote(self.id)}/channels?session_id={self._session}"
            )
        return self._socket

    def close(self) -> None:
        """Close the tab."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, code: str) -> str:
        """Run a cell without waiting for it; the id of the message."""
        message = uuid.uuid4().hex
        self.connect().send(
            json.dumps(
                {
                    "header": {
                        "msg_id": message,
                        "msg_type": "execute_request",
                        "username": "",
                        "session": self._session,
                        "version": "5.3",
                        "date": "",
                    },
                    "parent_header": {},
                    "metadata": {},
                    "content": {"code": code, "silent": False, "store_history": True},
                    "channel": "shell",
                    "buffers": [],
                }
            )
        )
        return message

    def answer(self, message: str) -> Answer:
        """What a cell printed and how it ended, once it has."""
        got = Answer()
        idle = False
        while not (idle and got.reply):
            received = json.loads(self.connect().recv())
            if (received.get("parent_header") or {}).get("msg_id") != message:
                continue
            kind, content = received["header"]["msg_type"], received["content"]
            if kind == "stream":
                got.text += content["text"]
            elif kind in ("execute_result", "display_data"):
                got.text += content["data"]["text/plain"]
            elif kind == "execute_reply":
                got.reply = content
            elif kind == "status" and content["execution_state"] == "idle":
                idle = True
            # a kernel that died or that refuses says it in its reply alone
            if got.reply and got.reply["status"] != "ok":
                break
        return got

    def run(self, code: str) -> str:
        """Run a cell that succeeds; what it printed or returned."""
        answer = self.answer(self.send(code))
        assert answer.reply["status"] == "ok", answer.reply
        return answer.text

    # -- gkews ---------------------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        """As `status` lists it."""
        return self.server.get(f"gkews/kernels/{self.id}")

    def busy(self, before: str = "pass", after: str = "pass") -> RunningCell:
        """A cell that has run `before` when this returns, and runs `after` once it is told to."""
        return RunningCell(self, before, after)

    @property
    def pid(self) -> int:
        """The kernel's own process id."""
        return int(self.run("import os; print(os.getpid())"))

    def ready(self) -> LiveKernel:
        """Wait until it can be paused."""
        self.run("pass")
        wait_until(lambda: self.status["pausable"], "the kernel can be paused")
        return self

    def ask(self, what: str, body: Any = None, *, status: int = 202) -> Any:
        """POST pause, resume or checkpoint."""
        return self.server.post(f"gkews/kernels/{self.id}/{what}", body, status=status)

    def do(self, what: str, body: Any = None) -> dict[str, Any]:
        """An operation that succeeds, once it has ended."""
        ended = self.server.operation(self.ask(what, body)["id"])
        assert ended["error"] is None, ended["error"]
        return ended

    def fail(self, what: str, body: Any = None) -> dict[str, Any]:
        """The error of an operation that is accepted and then fails."""
        ended = self.server.operation(self.ask(what, body)["id"])
        assert ended["error"] is not None, ended["result"]
        return ended["error"]


class RunningCell:
    """A cell that runs until it is told to end, however slow the machine is."""

    def __init__(self, kernel: LiveKernel, before: str, after: str) -> None:
        self.kernel = kernel
        place = kernel.server.base / f"cell-{uuid.uuid4().hex}"
        begun, self._end = place.with_suffix(".begun"), place.with_suffix(".end")
        self.message = kernel.send(
            # without a name that would be one more variable of the kernel
            f"{before}\n__import__('pathlib').Path({str(begun)!r}).touch()\n"
            f"while not __import__('os').path.exists({str(self._end)!r}):\n"
            f"    __import__('time').sleep(0.02)\n{after}"
        )
        wait_until(begun.exists, "the cell runs")
        # the server hears of it by another way
        wait_until(lambda: kernel.status["execution_state"] == "busy", "the server knows of it")

    def end(self) -> Answer:
        """Let it run to its end; how it ended."""
        self._end.touch()
        return self.kernel.answer(self.message)


class Answer:
    """The outcome of one cell."""

    def __init__(self) -> None:
        self.text = ""
        self.reply: dict[str, Any] = {}
