"""Speaks kernel/protocol.py to one kernel: requests, progress, events, idleness.

Follows the kernel through restarts and pauses. Never starts or stops a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from jupyter_client.session import Session

from . import run_directory
from .engines.base import Inside, Objection
from .errors import GkewsError
from .kernel.protocol import (
    ACTION_CANCEL,
    ACTION_CHECKPOINT,
    ACTION_MAP_STORED,
    ACTION_PING,
    ACTION_PREFLIGHT,
    ACTION_RELEASE,
    ACTION_RESUMED,
    ACTION_SURVIVES,
    MSG_EVENT,
    MSG_REPLY,
    MSG_REQUEST,
    CheckpointOrder,
    Restored,
    RestoreOrder,
)
from .kernel_process import how_it_ended
from .provisioning import PausableProvisioner
from .run_directory import ProgressCallback

log = logging.getLogger(__name__)

#: Append these to MappingKernelManager.untracked_message_types: they are not the user's activity.
UNTRACKED_MESSAGE_TYPES = [MSG_REQUEST, MSG_REPLY, MSG_EVENT]

#: Seconds for a reply on the control channel, which a kernel answers whatever it computes.
CONTROL_TIMEOUT_S = 10.0
#: Seconds for the preflight, which looks at every descriptor of every process of a sandbox.
PREFLIGHT_TIMEOUT_S = 60.0
#: Seconds in which a kernel must have mapped its big memory from the store.
MAP_TIMEOUT_S = 180.0
#: Seconds of proven idleness after which requests that never ended are no longer waited for.
LOST_REQUEST_S = 5.0

#: Requests whose busy status says nothing about the user's work.
_QUIET_REQUESTS = {MSG_REQUEST, "kernel_info_request", "comm_info_request", "usage_request"}


class KernelClient:
    """One server-side client of one kernel. Needs a running loop; `close` it in the end."""

    def __init__(self, km: Any, provisioner: PausableProvisioner) -> None:
        self._km = km
        self._provisioner = provisioner
        self._session = Session(key=km.session.key, signature_scheme=km.session.signature_scheme)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._callbacks: list[Callable[[dict[str, Any]], object]] = []
        self._changed = asyncio.Event()
        self._busy = False
        self._streams: dict[str, Any] = {}
        self._connect()
        provisioner.launch_listeners.append(self._on_launch)

    # -- channels ---------------------------------------------------------------------------

    def _connect(self) -> None:
        self._streams = {
            "shell": self._km.connect_shell(),
            "control": self._km.connect_control(),
            "iopub": self._km.connect_iopub(),
        }
        self._streams["shell"].on_recv(self._on_reply)
        self._streams["control"].on_recv(self._on_reply)
        self._streams["iopub"].on_recv(self._on_iopub)

    def _disconnect(self) -> None:
        for stream in self._streams.values():
            if not stream.closed():
                stream.on_recv(None)
                stream.close(linger=0)
        self._streams = {}

    def _on_launch(self) -> None:
        # Sockets of our own for every process: what was meant for the previous one is dropped
        # with its socket, and a restart may have chosen other ports.
        self._disconnect()
        if self._waiting:
            self._fail_all(self._died())
        self._busy = False
        self._connect()
        self._changed.set()

    def close(self) -> None:
        """Close the channels; requests that wait end with kernel_unreachable."""
        with contextlib.suppress(ValueError):
            self._provisioner.launch_listeners.remove(self._on_launch)
        self._disconnect()
        self._callbacks.clear()
        self._fail_all(_no_longer_managed())

    def _died(self) -> GkewsError:
        how = how_it_ended(self._provisioner.exit_status)
        if self._provisioner.phase == "resuming":
            return GkewsError(
                "kernel_died",
                f"The kernel died as soon as it had loaded the checkpoint{how}.",
                "The kernel stays paused and the checkpoint is untouched; resume again, or restore "
                "it elsewhere.",
            )
        return GkewsError(
            "kernel_died",
            f"The kernel died in the middle{how}.",
            "The server restarts it without variables; earlier checkpoints are kept.",
        )

    def _fail_all(self, error: GkewsError) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def _parse(self, frames: list[bytes]) -> dict[str, Any] | None:
        try:
            _, parts = self._session.feed_identities(frames)
            return self._session.deserialize(parts)
        except Exception:  # not signed with our key, or not a message
            log.debug("A message of kernel %s could not be read", self._km.kernel_id)
            return None

    def _on_reply(self, frames: list[bytes]) -> None:
        message = self._parse(frames)
        if message is None:
            return
        future = self._waiting.pop(message["parent_header"].get("msg_id", ""), None)
        if future is not None and not future.done():
            future.set_result(message["content"])

    def _on_iopub(self, frames: list[bytes]) -> None:
        message = self._parse(frames)
        if message is None:
            return
        kind = message["header"]["msg_type"]
        if kind == MSG_EVENT:
            for callback in list(self._callbacks):
                callback(message["content"])
        elif kind == "status":
            parent = message["parent_header"] or {}
            state = message["content"].get("execution_state")
            if state == "idle":
                self._provisioner.clients.outstanding.discard(parent.get("msg_id", ""))
            if parent.get("msg_type") not in _QUIET_REQUESTS:
                self._busy = state == "busy"
                self._changed.set()

    # -- requests ---------------------------------------------------------------------------

    async def _request(
        self,
        channel: str,
        content: dict[str, Any],
        timeout_s: float | None,
        *,
        kind: str = MSG_REQUEST,
        on_progress: ProgressCallback | None = None,
    ) -> dict[str, Any]:
        """The reply's content. Raises its error; kernel_died; kernel_unreachable on timeout (s)."""
        if not self._streams:
            raise _no_longer_managed()
        message = self._session.msg(kind, content)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[message["msg_id"]] = future
        operation = content.get("operation")
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        try:
            self._session.send(self._streams[channel], message)
            while not future.done():
                await asyncio.wait([future], timeout=0.2)
                if on_progress:
                    run_directory.tell_progress(self._provisioner, operation, on_progress)
                if future.done():
                    break
                if not self._provisioner.process_alive():
                    raise self._died()
                if deadline is not None and loop.time() > deadline:
                    raise GkewsError(
                        "kernel_unreachable",
                        f"The kernel did not answer within {timeout_s:.0f} s.",
                        "It is as it was. Interrupt or restart it if it hangs.",
                    )
        finally:
            self._waiting.pop(message["msg_id"], None)
        reply = future.result()
        if reply.get("status") == "error":
            raise GkewsError.from_json(reply)
        return reply

    async def ping(
        self, timeout_s: float = CONTROL_TIMEOUT_S, *, channel: str = "control"
    ) -> dict[str, Any]:
        """{"busy": bool, "holding": operation id or None}: on the control channel at once, whatever
        the kernel does; on "shell" when it is ready for cells."""
        return await self._request(channel, {"action": ACTION_PING}, timeout_s)

    async def get_kernel_info(self) -> dict[str, Any]:
        """Content of the kernel_info_reply; kept in `provisioner.kernel_info` for a pause."""
        if self._provisioner.kernel_info is None:
            self._provisioner.kernel_info = await self._request(
                "control", {}, CONTROL_TIMEOUT_S, kind="kernel_info_request"
            )
        return self._provisioner.kernel_info

    async def survives(self, timeout_s: float) -> dict[str, Any]:
        """What would survive a pause now. Raises kernel_busy if not answered in `timeout_s` (s)."""
        try:
            reply = await self._request("shell", {"action": ACTION_SURVIVES}, timeout_s)
        except GkewsError as error:
            if error.reason != "kernel_unreachable":
                raise
            raise GkewsError(
                "kernel_busy",
                "The kernel is busy and cannot look at its variables now.",
                "Try again when the running cell has finished.",
            ) from None
        return dict(reply["survives"])

    async def checkpoint(
        self,
        order: CheckpointOrder,
        on_progress: ProgressCallback | None = None,
        on_captured: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """Take the checkpoint `order`; returns its summary. The caller has waited for idleness.

        With `order.hold` the kernel waits afterwards: `release` it, or stop its process. With
        `order.background`, `on_captured` is called when the kernel is free again. Raises what the
        kernel raised, or kernel_died.
        """
        await self.get_kernel_info()
        content = {"action": ACTION_CHECKPOINT, **vars(order)}
        try:
            reply = await self._request("shell", content, None, on_progress=on_progress)
        except asyncio.CancelledError:
            with contextlib.suppress(GkewsError):
                await self.cancel(order.operation)
                await self.release(order.operation)
            raise
        if (captured := reply.get("captured")) is not None:
            if on_captured is not None:
                on_captured(captured)
            return await self.checkpointed(order.operation, on_progress)
        self._provisioner.reported_vram = int(reply.get("vram", 0))
        return dict(reply["checkpoint"])

    async def checkpointed(
        self, operation: str, on_progress: ProgressCallback | None = None
    ) -> dict[str, Any]:
        """Wait until a checkpoint in the background has ended; its summary.

        Raises its error; kernel_died, also where the kernel was restarted.
        """
        try:
            return await run_directory.checkpointed(self._provisioner, operation, on_progress)
        except asyncio.CancelledError:
            with contextlib.suppress(GkewsError):
                await self.cancel(operation)
            raise

    async def preflight(self) -> Inside:
        """What a snapshot of the process cannot hold, what it would, and what it would need."""
        reply = await self._request("control", {"action": ACTION_PREFLIGHT}, PREFLIGHT_TIMEOUT_S)
        return Inside(
            objections=[Objection(**each) for each in reply.get("objections") or []],
            holds=dict(reply.get("holds") or {}),
            needs=dict(reply.get("needs") or {}),
        )

    async def map_stored(self) -> list[str]:
        """Let a held kernel map big memory from the store; all files that its processes have
        mapped then."""
        reply = await self._request("control", {"action": ACTION_MAP_STORED}, MAP_TIMEOUT_S)
        log.debug("Mapped from the store: %s", reply.get("mapped"))
        return [str(path) for path in reply["files"]]

    async def resumed(self, told: dict[str, Any], timeout_s: float) -> list[dict[str, Any]]:
        """Let the user's on_resume functions run, before any cell that comes later; what became of
        each. Raises kernel_unreachable if they (or a cell) still run after `timeout_s` (s), and
        kernel_died."""
        content = {"action": ACTION_RESUMED, **told}
        self._provisioner.runs_hooks = True
        try:
            reply = await self._request("shell", content, timeout_s)
        except GkewsError as error:
            if error.reason == "kernel_died":
                raise self._ended_by_functions(error.hint) from error
            raise
        finally:
            self._provisioner.runs_hooks = False
        return list(reply.get("hooks") or [])

    def _ended_by_functions(self, hint: str) -> GkewsError:
        if self._provisioner.phase == "resuming":
            hint = (
                "The kernel stays paused, and what it was resumed from is kept; but each resume "
                "runs that function again. Put right what makes it end the kernel, or restore a "
                "checkpoint from before it was registered."
            )
        return GkewsError(
            "kernel_died",
            "A function registered with on_resume ended the kernel, or it died while they ran"
            f"{how_it_ended(self._provisioner.exit_status)}.",
            hint,
        )

    async def cancel(self, operation: str) -> None:
        """Ask the kernel to give up the checkpoint of `operation`; it then ends with cancelled."""
        content = {"action": ACTION_CANCEL, "operation": operation}
        await self._request("control", content, CONTROL_TIMEOUT_S)

    async def release(self, operation: str) -> None:
        """Let a kernel that holds after a checkpoint go on. No error if it does not hold."""
        content = {"action": ACTION_RELEASE, "operation": operation}
        await self._request("control", content, CONTROL_TIMEOUT_S)

    async def restored(
        self, order: RestoreOrder, launch: str, on_progress: ProgressCallback | None = None
    ) -> Restored:
        """Wait until the launch `launch` has loaded `order`.

        Raises the error of the load; kernel_died; restore_failed if the kernel side never loads.
        """
        restored = await run_directory.restored(self._provisioner, order, launch, on_progress)
        # Connected anew, to hear the events of the very first cell: sockets that were there before
        # the process listened reconnect when they like.
        self._disconnect()
        self._connect()
        return restored

    # -- events and idleness ----------------------------------------------------------------

    def subscribe(self, callback: Callable[[dict[str, Any]], object]) -> None:
        """Call `callback(event)` for each event of the kernel (protocol: EVENT_...)."""
        self._callbacks.append(callback)

    def is_idle(self) -> bool:
        """Whether nothing is executing and no execute request of any websocket is outstanding."""
        return not self._busy and not self._provisioner.clients.outstanding

    async def wait_idle(self, timeout_s: float | None = None, *, then_hold: bool = False) -> None:
        """Wait until the kernel is idle. Cells that were queued before have then run.

        `then_hold` holds the websockets in the same turn of the loop, so that no cell slips in.
        Raises kernel_busy after `timeout_s` (s); kernel_died.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        launch = self._provisioner.launch
        idle_since: float | None = None  # by the kernel's own word, whatever we think we know
        pause = 0.05
        while True:
            self._changed.clear()
            if not self._provisioner.process_alive() or self._provisioner.launch != launch:
                raise GkewsError(
                    "kernel_died", "The kernel died.", "The server restarts it, with no variables."
                )
            if await self._says_busy():
                idle_since = None
            elif idle_since is None:
                idle_since = loop.time()
            elif loop.time() - idle_since > LOST_REQUEST_S:
                log.warning("Kernel %s never ended some requests", self._km.kernel_id)
                self._provisioner.clients.outstanding.clear()
                self._busy = False
            if idle_since is not None and self.is_idle():
                if then_hold:
                    self._provisioner.hold()
                return
            if deadline is not None and loop.time() >= deadline:
                raise GkewsError(
                    "kernel_busy",
                    f"The kernel was still busy after {timeout_s:.0f} s.",
                    "Nothing was changed. Wait for the cell, or pause with interrupt.",
                )
            left = pause if deadline is None else max(0.0, min(pause, deadline - loop.time()))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
            pause = min(1.0, pause * 2)

    async def _says_busy(self) -> bool:
        try:
            return bool((await self.ping())["busy"])
        except GkewsError as error:
            if error.reason != "kernel_unreachable":
                raise
            return True  # a cell that keeps the interpreter to itself (a long call into C)


def _no_longer_managed() -> GkewsError:
    return GkewsError(
        "kernel_unreachable",
        "The kernel is no longer managed by this server.",
        "It was shut down or restarted; its checkpoints are kept.",
    )
