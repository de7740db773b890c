"""A Jupyter server and one of its kernels, driven as a browser drives them: REST and a websocket.

For the demo and the benches. Everything the server writes goes below one folder, it listens on
loopback only, and it is ended by its own pid. Nothing here knows what a cell contains.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import websocket


class CellError(Exception):
    """A cell raised; the text is its traceback."""


class RefusedError(Exception):
    """The server answered with one of its typed errors: `reason`, and a sentence."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.reason = str(error.get("reason"))
        super().__init__(f"{self.reason}: {error.get('message')} {error.get('hint', '')}".strip())


class JupyterServer:
    """A `jupyter server` process of this interpreter on a free loopback port.

    Use it as a context manager. `folder` takes its configuration, runtime and data (so also the
    checkpoint store); notebooks are looked for in `root`. `arguments` go to the command line,
    `environment` comes on top of ours.
    """

    def __init__(
        self, folder: Path, root: Path, *arguments: str, environment: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser"),
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.root_dir={root}",
            *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            *arguments,
        ]
        self._environment = {
            **os.environ,
            "JUPYTER_TOKEN": self.token,
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "IPYTHONDIR": str(folder / "ipython"),
            **(environment or {}),
        }

    def __enter__(self) -> JupyterServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = 60) -> None:
        """Start the process; return when it answers requests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._command, f"--ServerApp.port={port}"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is for us to handle, in order
            )
        where = self.folder / "runtime" / f"jpserver-{self.pid}.json"
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                self.url = str(json.loads(where.read_text())["url"])
                self.rest = httpx.Client(
                    base_url=self.url,
                    headers={"Authorization": f"token {self.token}"},
                    timeout=60,
                    trust_env=False,  # loopback goes through no proxy
                )
                self.rest.get("api/status").raise_for_status()
                return
            except (OSError, ValueError, httpx.TransportError):
                time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the server did not start; its log: {self.folder / 'server.log'}")

    def stop(self) -> None:
        """End the server, which ends its kernels; kill what of its own is left after 15 s."""
        if hasattr(self, "rest"):
            self.rest.close()
        if self._process is None or self._process.poll() is not None:
            return
        own = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _, alive = psutil.wait_procs(own[1:], timeout=5)
        for process in alive:  # psutil knows a reused pid from the process it saw
            process.kill()

    def gkews(self, method: str, path: str, body: Any = None) -> Any:
        """One request below `gkews/`. Raises RefusedError for a typed error."""
        reply = self.rest.request(method, f"gkews/{path}", json=body)
        data = reply.json() if reply.content else None
        if reply.is_error:
            raise RefusedError(data if isinstance(data, dict) else {"message": reply.text})
        return data

    def operate(
        self,
        kernel: str,
        kind: str,
        body: dict[str, Any] | None = None,
        watch: Callable[[dict[str, Any]], None] = lambda operation: None,
        timeout_s: float = 1800,
    ) -> dict[str, Any]:
        """Ask for a `pause` or `resume` and return the finished operation.

        `watch` is called with every state of it that is seen. Raises RefusedError if it fails.
        """
        operation: dict[str, Any] = self.gkews("POST", f"kernels/{kernel}/{kind}", body or {})
        deadline = time.monotonic() + timeout_s
        while operation["finished"] is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the {kind} has not ended after {timeout_s} s")
            watch(operation)
            time.sleep(0.05)
            operation = self.gkews("GET", f"operations/{operation['id']}")
        watch(operation)
        if operation["error"]:
            raise RefusedError(operation["error"])
        return operation

    def state(self, kernel: str) -> dict[str, Any]:
        """The kernel's entry in `gkews/status`."""
        for entry in self.gkews("GET", "status")["kernels"]:
            if entry["id"] == kernel:
                return dict(entry)
        raise LookupError(f"the server does not list kernel {kernel}")


@dataclass
class Outcome:
    """What one cell did: its execution count, what it printed or displayed, and expressions."""

    count: int = 0
    text: str = ""
    expressions: dict[str, Any] = field(default_factory=dict)


class Kernel:
    """A kernel with a session for a notebook, and one websocket to it, kept open throughout."""

    def __init__(self, server: JupyterServer, notebook: str, spec: str = "python3") -> None:
        session = server.rest.post(
            "api/sessions",
            json={
                "path": notebook,
                "name": Path(notebook).name,
                "type": "notebook",
                "kernel": {"name": spec},
            },
        )
        session.raise_for_status()
        self.id = str(session.json()["kernel"]["id"])
        self._session = uuid.uuid4().hex
        self._socket = websocket.create_connection(
            f"{server.url.replace('http', 'ws', 1)}api/kernels/{self.id}/channels"
            f"?session_id={self._session}",
            header=[f"Authorization: token {server.token}"],
            http_no_proxy=["127.0.0.1", "localhost"],
        )
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close the websocket; the kernel is the server's and goes on."""
        with contextlib.suppress(OSError, websocket.WebSocketException):
            self._socket.send_close()  # the server answers by closing, which ends the reader
        self._reader.join(5)
        self._socket.shutdown()  # type: ignore[no-untyped-call]

    def _read(self) -> None:
        # All the time, also while nobody waits for a message: reading answers the server's pings,
        # and without an answer it closes the socket after half a minute.
        try:
            while True:
                if self._socket.sock is not None and hasattr(socket, "TCP_QUICKACK"):
                    # Linux forgets this after a while. Without it each cell takes 40 ms longer:
                    # the server's next small message waits until the last is acknowledged.
                    self._socket.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                data = self._socket.recv()
                if isinstance(data, str) and data:
                    self._messages.put(json.loads(data))
        except (OSError, websocket.WebSocketException):
            self._messages.put(None)  # closed, by us or by the server

    def pid(self) -> int:
        """The kernel's process id, as it says itself."""
        return int(self.run("", {"pid": "__import__('os').getpid()"}).expressions["pid"])

    def run(
        self,
        code: str,
        expressions: dict[str, str] | None = None,
        timeout_s: float = 1800,
    ) -> Outcome:
        """Run a cell and wait until it is done. Raises CellError.

        `expressions`: name -> Python expression, evaluated after the cell; the value that comes
        back is what `ast.literal_eval` makes of its repr.
        """
        return self.result(self.send(code, expressions), timeout_s)

    def send(self, code: str, expressions: dict[str, str] | None = None) -> str:
        """Send a cell and return the id of the request, for `result`."""
        request = uuid.uuid4().hex
        message = {
            "channel": "shell",
            "header": {
                "msg_id": request,
                "msg_type": "execute_request",
                "session": self._session,
                "username": "",
                "version": "5.3",
                "date": "",
            },
            "parent_header": {},
            "metadata": {},
            "content": {
                "code": code,
                "silent": not code,
                "store_history": bool(code),
                "user_expressions": expressions or {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
            "buffers": [],
        }
        self._socket.send(json.dumps(message))
        return request

    def result(self, request: str, timeout_s: float = 1800) -> Outcome:
        """Wait for the reply to `request` and for the kernel to be idle after it."""
        outcome, reply, idle = Outcome(), None, False
        deadline = time.monotonic() + timeout_s
        while reply is None or not idle:
            try:
                message = self._messages.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise TimeoutError(f"the cell has not ended after {timeout_s} s") from None
            if message is None:
                raise ConnectionError("the server closed the websocket")
            if message.get("parent_header", {}).get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "execute_reply":
                reply = content
            elif kind == "status":
                idle = content["execution_state"] == "idle"
            elif kind == "stream":
                outcome.text += content["text"]
            elif kind in ("execute_result", "display_data"):
                outcome.text += content["data"].get("text/plain", "") + "\n"
        if reply["status"] != "ok":
            raise CellError("\n".join(reply.get("traceback", [])) or str(reply))
        outcome.count = reply["execution_count"]
        for name, value in reply.get("user_expressions", {}).items():
            if value["status"] != "ok":
                raise CellError(f"{name}: {value.get('evalue')}")
            outcome.expressions[name] = ast.literal_eval(value["data"]["text/plain"])
        return outcome
