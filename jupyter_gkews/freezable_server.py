"""A server that may be frozen whole with its kernels, in a pod or in a sandbox of ours: it gets
sockets that gVisor can save and restore, before its first kernel starts.

One home for it: the loop polls, kernels speak over unix sockets, and so does the pipe of the IOPub
thread of ipykernel (kernel/iopub_ipc.py). What the user has configured is left as it is.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import selectors
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traitlets.config import Config

from .engines.restore_signs import Place, Restore, RestoreSigns
from .launching import HISTORY, LaunchSettings, sandbox_sockets

#: What a server may be told: whether it shall be prepared.
WAYS = ("auto", "always", "never")


def shall_be(way: str, place: Place) -> bool:
    """Whether a server at `place` shall be prepared. `auto`: in a sandbox of ours, and in a pod
    whose kernel is gVisor."""
    if way != "auto":
        return way == "always"
    return sandbox_sockets() is not None or (place.in_pod() and place.in_gvisor())


def prepare(server: Any, launch: LaunchSettings, log: logging.Logger) -> None:
    """Before the first kernel. `server`: the ServerApp."""
    watch_by_poll(server.io_loop.asyncio_loop)
    ours = sandbox_sockets()
    if ours is not None:
        launch.sockets, launch.history = ours, HISTORY
    else:
        # on the container's own file system, which is saved with it: a volume may have no sockets
        launch.sockets = Path(tempfile.mkdtemp(prefix="gkews-"))
        atexit.register(_remove_own, launch.sockets, os.getpid())
    kernels = server.kernel_manager
    chosen = kernels.config.KernelManager.get("transport")
    if chosen is None or not isinstance(chosen, str):
        kernels.update_config(Config({"KernelManager": {"transport": "ipc"}}))
    elif chosen != "ipc":
        log.warning(
            "KernelManager.transport is %s: a snapshot of this server with kernels fails", chosen
        )


def watch_for_restores(
    server: Any, restored: Callable[[Restore], object], place: Place
) -> RestoreSigns:
    """Call `restored` when this process was restored from a snapshot; before the first request
    that comes after it is served."""
    signs = RestoreSigns(restored, place)
    app = server.web_app
    find_handler = app.find_handler

    def looked(request: Any, **kwargs: Any) -> Any:
        try:
            signs.look()
        except Exception:  # the request has nothing to do with it
            server.log.exception("Whether this server was restored could not be looked at")
        return find_handler(request, **kwargs)

    app.find_handler = looked
    server.io_loop.add_callback(signs.start, server.io_loop.asyncio_loop)
    return signs


def watch_by_poll(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` watch its sockets with poll: gVisor cannot save a TCP socket in an epoll set, and
    one that listens may hear nothing after a restore (gvisor#13920).

    The loop is made before any extension is asked, so its selector is exchanged.
    """
    inside: Any = loop
    before = getattr(inside, "_selector", None)
    if before is None or isinstance(before, selectors.PollSelector):
        return
    after = selectors.PollSelector()
    for key in list(before.get_map().values()):
        after.register(key.fileobj, key.events, key.data)
    inside._selector = after
    before.close()


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
