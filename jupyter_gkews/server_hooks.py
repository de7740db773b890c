"""What is changed in the server's own objects: what it starts kernels with, and when it may stop
itself. Nothing of it is done before a kernel, or a server of paused ones, needs it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow

if TYPE_CHECKING:
    from .lifecycle.service import Lifecycle

PROVISIONER = "gkews-provisioner"


def start_kernels_pausable(server: Any, log: logging.Logger) -> None:
    """What costs time and only kernels need: to be done before the first one starts."""
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    from .websocket import pausable_connection_class

    # over whatever is configured, or was put there by another extension
    settings = server.web_app.settings
    key = "kernel_websocket_connection_class"
    settings[key] = pausable_connection_class(settings[key])
    # by the trait, not by the environment variable, which leaks into the kernels
    factory = KernelProvisionerFactory.instance(parent=server)
    if factory.default_provisioner_name == "local-provisioner":
        factory.default_provisioner_name = PROVISIONER
    elif factory.default_provisioner_name != PROVISIONER:
        log.warning(
            "Kernels are started by %s: jupyter_gkews cannot pause them",
            factory.default_provisioner_name,
        )


def count_paused_as_idle(server: Any, lifecycle: Lifecycle, log: logging.Logger) -> None:
    """Let a server stop itself although paused kernels are listed: they are durable."""
    original = server.shutdown_no_activity

    def shutdown_no_activity() -> None:
        if len(server.kernel_manager) == 0 or not lifecycle.all_paused():
            original()
            return
        idle_s = (utcnow() - server.web_app.last_activity()).total_seconds()
        if (
            idle_s > server.shutdown_no_activity_timeout
            and not server.extension_manager.any_activity()
        ):
            log.info("Only paused kernels for %d seconds; shutting down.", idle_s)
            server.stop()

    server.shutdown_no_activity = shutdown_no_activity
