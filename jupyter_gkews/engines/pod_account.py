"""The service account of the pod that this process lives in: whether there is one, and its token.

Reads the token anew each time: it is rotated, and after a restore the old one is dead. Asks nobody,
never writes a file, never prints a token.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import GkewsError

#: Where Kubernetes mounts the service account into a container.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class InPod:
    """The service account of the pod that this process lives in."""

    account: Path = ACCOUNT
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def text(self) -> str:
        """For messages."""
        return "the cluster of this pod"

    @property
    def is_there(self) -> bool:
        """Whether this process lives in a pod at all."""
        return bool(self.environ.get("KUBERNETES_SERVICE_HOST"))

    def why_not(self) -> str | None:
        """Why this process has no such account, in a sentence; None if it has."""
        if not self.is_there:
            return "This server does not run in a Kubernetes pod."
        if not (self.account / "token").is_file():
            return "The pod has no service-account token (automountServiceAccountToken is off)."
        return None

    @property
    def namespace(self) -> str:
        """The pod's; empty if the file is not there."""
        try:
            return (self.account / "namespace").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def token(self) -> str:
        """As it is now. Raises GkewsError."""
        try:
            return (self.account / "token").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise GkewsError(
                "cluster_unreachable",
                f"The service-account token of this pod cannot be read: {error}",
                "Kernels can be paused one by one.",
            ) from error

    def configuration(self, kubernetes: Any) -> Any:
        """With the token as the file has it now."""
        why_not = self.why_not()
        if why_not is not None:
            raise GkewsError("cluster_unreachable", why_not, "Kernels can be paused one by one.")
        host = self.environ["KUBERNETES_SERVICE_HOST"]
        port = self.environ.get("KUBERNETES_SERVICE_PORT") or "443"
        found = kubernetes.client.Configuration()
        found.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        authority = self.account / "ca.crt"
        if authority.is_file():
            found.ssl_ca_cert = str(authority)
        # the variables of the environment are about the web; the cluster's own address is near
        found.proxy = None
        # 'authorization' works in every version; 'BearerToken' sends no header in 30.1
        found.api_key["authorization"] = f"Bearer {self.token()}"
        return found
