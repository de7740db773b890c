"""A real Jupyter server that believes to live in the pod of a workspace of the fake cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from live_server import LiveServer, wait_until

from .actors import Platform
from .fake import FakeCluster

Json = dict[str, Any]

#: As of the pilot: nothing of podsnapshot.gke.io.
PILOT = [
    {"apiGroups": ["kubeflow.org"], "resources": ["workspaces", "workspacekinds"],
     "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
]  # fmt: skip
SNAPSHOTS = [
    {"apiGroups": ["podsnapshot.gke.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
]


class PodServer(LiveServer):
    """`platform`'s workspace `ws` is running; its account may do what `rules` say."""

    def __init__(
        self, base: Path, fake: FakeCluster, platform: Platform, *options: str,
        rules: list[Json] | None = None,
    ) -> None:  # fmt: skip
        self.fake, self.platform = fake, platform
        pod = wait_until(platform.pod, "the workspace has a pod")
        platform.admin.grant("default", "default", [*PILOT, *SNAPSHOTS] if rules is None else rules)
        self.account = base / "account"
        self.account.mkdir(parents=True, exist_ok=True)
        (self.account / "token").write_text(platform.admin.account("default", "default", pod))
        (self.account / "namespace").write_text("default")
        (self.account / "ca.crt").write_text(fake.ca.read_text())
        self._pod_name = pod["metadata"]["name"]
        super().__init__(
            base, base / "root", f"--GkewsApp.service_account_dir={self.account}", *options
        )

    def environment(self) -> dict[str, str]:
        host, port = self.fake.url.removeprefix("https://").split(":")
        about = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        return {**super().environment(), **about, "HOSTNAME": self._pod_name}

    # -- the workspace -----------------------------------------------------------------------

    @property
    def workspace(self) -> Json:
        """As `status` has it."""
        return self.get("gkews/status")["workspace"]  # type: ignore[no-any-return]

    def looked(self) -> Json:
        """The same once it is known."""
        return wait_until(
            lambda: self.workspace if self.workspace["state"] != "unknown" else None,
            "the workspace is known",
        )

    def pause(self, body: Json | None = None, *, status: int = 202) -> Json:
        return self.post("gkews/workspace/pause", body, status=status)  # type: ignore[no-any-return]

    def paused(self, body: Json | None = None) -> Json:
        """The operation of a pause, once it has ended."""
        return self.operation(self.pause(body)["id"])

    def patches(self) -> list[str]:
        """The requests to change the Workspace that the cluster has had from this server."""
        return [
            path for user, method, path in self.fake.requests
            if method == "PATCH" and "/workspaces/ws" in path and user != "admin"
        ]  # fmt: skip

    def journal(self) -> list[Json]:
        file = self.store / "journal.jsonl"
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines()]

    def events_of_the_journal(self) -> list[str]:
        return [record["event"] for record in self.journal()]
