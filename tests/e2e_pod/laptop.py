"""`jupyter gkews workspace` on a user's own machine: another view of the same workspace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kube.clusters import write_kubeconfig
from kube.roles import bind_workspace

from .stand_in import StandIn

Json = dict[str, Any]


class Ended:
    """Of one command: its exit status, the JSON that it printed, what it said on stderr."""

    def __init__(self, code: int, out: str, said: str) -> None:
        self.code, self.said = code, said
        self.json: Json = json.loads(out) if out.strip() else {}


class Laptop:
    """With a kubeconfig of an account that has the rights of deploy/, and no others."""

    def __init__(self, stand_in: StandIn, folder: Path, workspace: str = "ws") -> None:
        folder.mkdir()
        self.check = stand_in.platform.check
        self.place = f"{stand_in.namespace}/{workspace}"
        token = stand_in.admin.account(stand_in.namespace, "laptop")
        bind_workspace(stand_in.admin, stand_in.namespace, "laptop")
        self._file = write_kubeconfig(stand_in.cluster, folder / "kubeconfig", token)
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, action: str, *options: str) -> subprocess.Popen[str]:
        """Begin a command; end it with `end`."""
        command = [sys.executable, "-m", "jupyter_gkews.cli", "workspace", action, self.place]
        begun = subprocess.Popen(
            [*command, "--json", *options],
            env={**os.environ, "KUBECONFIG": str(self._file)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._running.append(begun)
        return begun

    def end(self, begun: subprocess.Popen[str], seconds: float = 240.0) -> Ended:
        deadline = time.monotonic() + seconds
        while True:
            try:
                out, said = begun.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                self.check()
                if time.monotonic() > deadline:
                    raise
            else:
                self._running.remove(begun)
                return Ended(begun.returncode, out, said)

    def run(self, action: str, *options: str) -> Ended:
        """A command from its begin to its end."""
        return self.end(self.begin(action, *options))

    def status(self) -> Json:
        """What `status` prints."""
        ended = self.run("status")
        assert ended.code == 0, ended.said
        return ended.json

    def close(self) -> None:
        for begun in self._running:
            begun.kill()
            begun.communicate()
