"""A real kube-apiserver and its etcd for one test run: loopback, ports of the system's choice.

The binaries are what scripts/kube/build.sh has left in its cache; `why_not` says what is missing.
Runs no kubelet, scheduler or controller. Both processes end with `stop`, by their pids.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .certificates import signing_key

#: Read when the tests are collected: later HOME is a temporary one.
CACHE = Path(
    os.environ.get("GKEWS_KUBE_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gkews-kube"
)


def why_not() -> str | None:
    """Why there is no real server here; None if there is."""
    missing = [
        name for name in ("kube-apiserver", "etcd") if not os.access(CACHE / "bin" / name, os.X_OK)
    ]
    if shutil.which("openssl") is None:
        return "openssl is not installed"
    if not missing:
        return None
    try:
        reason = (CACHE / "why-not").read_text().strip()
    except OSError:
        reason = "scripts/kube/build.sh has not been run"
    return f"no real {' and '.join(missing)} here: {reason}"


class RealCluster:
    """`url`, `ca` (a file) and `admin_token`, as of the fake one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.admin_token = secrets.token_hex(16)
        self.ca = folder / "certs" / "apiserver.crt"
        self.url = ""
        self.etcd_url = ""
        self._port = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> RealCluster:
        """Ready when this returns. A port that another process takes first is tried anew."""
        for _ in range(3):
            if self._try():
                return self
            self.stop()
        log = (self.folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"kube-apiserver did not become ready:\n{log}")

    def _try(self) -> bool:
        (self.folder / "certs").mkdir(parents=True, exist_ok=True)
        etcd_data = self.folder / "etcd"
        shutil.rmtree(etcd_data, ignore_errors=True)
        key = self.folder / "accounts.key"
        if not key.exists():
            signing_key(key)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{self.admin_token},admin,admin,system:masters\n")
        self._port, client, peer = _free_ports(3)
        self.url = f"https://127.0.0.1:{self._port}"
        self.etcd_url = f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self._run(
            "etcd", "--name", "t", "--data-dir", etcd_data, "--unsafe-no-fsync",
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"t={peers}", "--log-level", "error",
        )  # fmt: skip
        return self._serve()

    def _serve(self) -> bool:
        key, tokens = self.folder / "accounts.key", self.folder / "tokens.csv"
        issuer = "https://kubernetes.default.svc"
        self._run(
            "kube-apiserver", f"--etcd-servers={self.etcd_url}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self._port}", "--insecure-port=0",
            f"--cert-dir={self.folder / 'certs'}", "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC", f"--token-auth-file={tokens}",
            f"--service-account-issuer={issuer}", f"--api-audiences={issuer}",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            # there is no controller that would make the default accounts it asks for
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        return self._ready(60.0)

    def _run(self, name: str, *arguments: str | Path) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [CACHE / "bin" / name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )
        self._processes.append(process)

    def _ready(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.admin_token}"}
        )
        context = ssl._create_unverified_context()
        while time.monotonic() < end:
            if any(process.poll() is not None for process in self._processes):
                return False
            try:
                with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                    if answer.read().startswith(b"ok"):
                        return True
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)  # there is nothing to wait for but its answer
        return False

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nothing listens at its address; afterwards it is back with all that it had."""
        _end(self._processes.pop())
        try:
            yield
        finally:
            if not self._serve():
                raise RuntimeError("kube-apiserver did not come back")

    def compact(self) -> None:
        """Let etcd forget what was before now."""
        etcdctl = [CACHE / "bin" / "etcdctl", "--endpoints", self.etcd_url]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        status = subprocess.run(
            [*etcdctl, "get", "/", "--prefix", "--limit=1", "-w", "json"],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        revision = json.loads(status.stdout)["header"]["revision"]
        subprocess.run(
            [*etcdctl, "compact", str(revision)], env=environment, check=True, capture_output=True
        )

    def stop(self) -> None:
        """The API server first, so that it does not complain of a lost etcd."""
        for process in reversed(self._processes):
            _end(process)
        self._processes.clear()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
