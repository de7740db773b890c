"""How to reach the API server: as the service account of this pod (`InPod`), or by a kubeconfig.

Never writes a file, never prints a token.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import GkewsError


class Connection(Protocol):
    """A way to a cluster."""

    @property
    def text(self) -> str:
        """For messages: which cluster, as whom."""

    def configuration(self, kubernetes: Any) -> Any:
        """A fresh `kubernetes.client.Configuration`. Raises GkewsError (`cluster_unreachable`)."""


@dataclass(frozen=True)
class Kubeconfig:
    """A kubeconfig as kubectl reads it; `context` instead of the current one."""

    file: str | None = None
    context: str | None = None

    @property
    def text(self) -> str:
        """For messages."""
        return (
            f"the cluster of context {self.context}" if self.context else "the kubeconfig's cluster"
        )

    def configuration(self, kubernetes: Any) -> Any:
        """Tokens of exec plugins are asked for anew, too."""
        from importlib import import_module

        config, yaml = import_module("kubernetes.config"), import_module("yaml")
        found = kubernetes.client.Configuration()
        # the package reads the variable only when it is imported
        file = self.file or os.environ.get("KUBECONFIG") or None
        try:
            config.load_kube_config(
                config_file=file, context=self.context, client_configuration=found,
                persist_config=False,
            )  # fmt: skip
        except (
            config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError,
        ) as error:  # fmt: skip
            raise GkewsError(
                "cluster_unreachable",
                f"The kubeconfig cannot be used: {error}",
                "Nothing was changed. `kubectl config get-contexts` shows what there is.",
            ) from error
        return found
