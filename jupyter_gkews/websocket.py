"""The browsers' side of a kernel that is held or paused: holds requests, answers what it can.

A mixin over the kernel websocket connection class that is configured. Never resumes a kernel
itself: it tells the provisioner that a cell was run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from jupyter_client.jsonutil import json_default
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.websocket import WebSocketClosedError

from .departed import DepartedClient
from .errors import GkewsError
from .kernel.protocol import ACTION_PING, MSG_REQUEST
from .paused_replies import (
    IDLE,
    Message,
    aborted,
    answer_while_paused,
    failed_cell,
    interrupted_cell,
    is_run_by_user,
)
from .provisioning import PausableProvisioner

if TYPE_CHECKING:
    _Base = ZMQChannelsWebsocketConnection
else:
    _Base = object

V1 = "v1.kernel.websocket.jupyter.org"

#: Seconds between two nudges of a resumed kernel, and after which its iopub is not waited for.
NUDGE_INTERVAL_S = 0.1
NUDGE_LIMIT_S = 10.0

_EXECUTE = b'"execute_request"'
_EXECUTE_REPLY = b'"execute_reply"'
_PRIVATE = b'"gkews_'


@dataclass
class HeldRequest:
    """A request of a browser that the kernel cannot take now."""

    raw: Any  # as it came through the websocket
    channel: str
    header: dict[str, Any]
    content: dict[str, Any]
    frames: list[bytes]  # header, parent header, metadata, content, buffers: as ZMQ sends them

    @property
    def msg_type(self) -> str:
        """As in its header."""
        return str(self.header.get("msg_type", ""))

    @property
    def is_cell(self) -> bool:
        """Whether the user ran it, and it shall wake a paused kernel."""
        return self.msg_type == "execute_request" and is_run_by_user(self.content)


class PausableConnectionMixin(_Base):
    """Holds the requests of one websocket while its kernel is held, paused or resuming."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.held_requests: list[HeldRequest] = []
        #: the kernel is (or will be) a new process, and our iopub has not delivered from it yet
        self._cold = False
        self._warm = asyncio.Event()
        self._nudging: asyncio.Future[None] | None = None

    @property
    def _provisioner(self) -> PausableProvisioner | None:
        found = getattr(self.kernel_manager, "provisioner", None)
        return found if isinstance(found, PausableProvisioner) else None

    # -- connecting -------------------------------------------------------------------------

    async def prepare(self) -> None:
        """As the base class; a paused kernel lets everybody connect."""
        provisioner = self._provisioner
        if provisioner is not None:
            provisioner.clients.add(self)
        await cast(Any, super()).prepare()

    def request_kernel_info(self) -> Any:
        """Answered from what the kernel said before, while it cannot speak."""
        provisioner = self._provisioner
        if provisioner is None or provisioner.phase == "running":
            return cast(Any, super()).request_kernel_info()
        if provisioner.phase == "held" and provisioner.kernel_info is None:
            return cast(Any, super()).request_kernel_info()
        cast(Any, self)._finish_kernel_info(provisioner.kernel_info or {})
        return asyncio.wrap_future(self._kernel_info_future)

    def connect(self) -> Any:
        """As the base class; takes over what this browser left when it lost its connection."""
        provisioner = self._provisioner
        if provisioner is not None:
            self._cold = self._cold or provisioner.phase in ("paused", "resuming")
            departed = provisioner.clients.departed.pop(self.session_key, None)
            if departed is not None:
                self.held_requests[:0] = departed.take()
        connected = super().connect()
        if provisioner is not None and provisioner.phase == "running" and self.held_requests:
            self.kernel_released()
        return connected

    def nudge(self) -> asyncio.Future[None]:
        """Resolved at once while there is no process that could answer."""
        provisioner = self._provisioner
        if provisioner is None or provisioner.phase not in ("paused", "resuming"):
            return super().nudge()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def disconnect(self) -> None:  # type: ignore[override]  # the base's base has it async
        """As the base class; cells that wait for the kernel still run."""
        provisioner = self._provisioner
        if self._nudging is not None:
            self._nudging.cancel()
        if provisioner is not None:
            provisioner.clients.discard(self)
            waiting, self.held_requests = self.held_requests, []
            if waiting and self.kernel_id in self.multi_kernel_manager:
                departed = DepartedClient(self, provisioner, waiting)
                provisioner.clients.departed[self.session_key] = departed
                provisioner.clients.add(departed)
                if provisioner.phase == "running":
                    departed.kernel_released()
        cast(Any, super()).disconnect()

    # -- from the browser to the kernel -----------------------------------------------------

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        """Pass on, hold or answer, as the kernel's phase asks for."""
        provisioner = self._provisioner
        if provisioner is None or not self.channels:
            super().handle_incoming_message(incoming_msg)
        elif provisioner.phase == "running" and not self._cold and not self.held_requests:
            self._note_cell(provisioner, incoming_msg)
            super().handle_incoming_message(incoming_msg)
        else:
            request = self._read(incoming_msg)
            if request is None or not self._allowed(request):
                super().handle_incoming_message(incoming_msg)
            elif provisioner.phase == "paused":
                self._while_paused(provisioner, request)
            elif provisioner.phase == "held" and request.channel in ("control", "stdin"):
                super().handle_incoming_message(incoming_msg)  # its control thread answers
            else:
                self.held_requests.append(request)

    def _while_paused(self, provisioner: PausableProvisioner, request: HeldRequest) -> None:
        if request.is_cell and not provisioner.auto_resume:
            error = GkewsError(
                "resume_off",
                "The kernel is paused, and running a cell does not resume it (a setting).",
                "Click Resume, then run the cell again. Your variables are safe.",
            )
            self._answer(request, failed_cell(error))
            return
        answer = answer_while_paused(
            request.channel, request.msg_type, request.content, provisioner.kernel_info
        )
        if answer is not None:
            self._answer(request, answer)
            return
        self.held_requests.append(request)
        if request.is_cell:
            provisioner.request_run()

    def _note_cell(self, provisioner: PausableProvisioner, raw: Any) -> None:
        """Remember a cell that is on its way, cheaply: this sees every message of every kernel."""
        if isinstance(raw, str):
            if "execute_request" not in raw:
                return
        elif self.subprotocol == V1:
            start, end = (int.from_bytes(raw[i : i + 8], "little") for i in (16, 24))
            if _EXECUTE not in raw[start:end]:
                return
        request = self._read(raw)
        if request and request.msg_type == "execute_request" and self._allowed(request):
            provisioner.clients.outstanding.add(str(request.header.get("msg_id")))

    def _allowed(self, request: HeldRequest) -> bool:
        allowed = self.multi_kernel_manager.allowed_message_types
        return not allowed or request.msg_type in allowed

    def _read(self, raw: Any) -> HeldRequest | None:
        try:
            if self.subprotocol == V1:
                channel, frames = deserialize_msg_from_ws_v1(raw)
                header, content = json.loads(frames[0]), json.loads(frames[3])
            else:
                message = (
                    deserialize_binary_message(raw) if isinstance(raw, bytes) else json.loads(raw)
                )
                channel = message.get("channel") or "shell"
                header, content = message["header"], message["content"]
                pack = self.session.pack
                frames = [pack(message.get(k) or {}) for k in _PARTS]
                frames += message.get("buffers") or []
        except (ValueError, KeyError, IndexError, TypeError):
            return None  # the base class says what is wrong with it
        return HeldRequest(raw, channel, header, content, frames)

    # -- from the kernel to the browser -----------------------------------------------------

    def handle_outgoing_message(self, stream: Any, outgoing_msg: list[bytes]) -> None:
        """As the base class, less our private messages; notes what the kernel has done."""
        provisioner = self._provisioner
        if provisioner is not None:
            channel = stream if isinstance(stream, str) else getattr(stream, "channel", "")
            _, frames = self.session.feed_identities(outgoing_msg)
            parts = [
                f if isinstance(f, bytes) else f.bytes for f in frames[:3]
            ]  # signature, header, parent header
            if channel == "iopub":
                if self._cold:
                    self._look_for_new_process(provisioner, parts[1])
                if _PRIVATE in parts[1] or _PRIVATE in parts[2]:
                    return
            elif channel == "shell" and _EXECUTE_REPLY in parts[1]:
                with contextlib.suppress(ValueError):
                    provisioner.clients.outstanding.discard(str(json.loads(parts[2]).get("msg_id")))
        super().handle_outgoing_message(stream, outgoing_msg)

    def _look_for_new_process(self, provisioner: PausableProvisioner, header: bytes) -> None:
        hello = provisioner.hello if provisioner.phase == "running" else None
        if hello is not None and hello.session.encode() in header:
            self._warm.set()

    def _answer(self, request: HeldRequest, messages: list[Message]) -> None:
        for each in messages:
            self._send_to_browser(each, request.header)

    def _send_to_browser(self, answer: Message, parent: dict[str, Any] | None) -> None:
        channel, msg_type, content = answer
        message = self.session.msg(msg_type, content, parent=parent)
        hello = self._provisioner.hello if self._provisioner else None
        if hello is not None:
            # JupyterLab drops what it has not handled yet when a kernel's session id changes.
            message["header"]["session"] = hello.session
        with contextlib.suppress(WebSocketClosedError):
            if self.subprotocol == V1:
                data = serialize_msg_to_ws_v1(message, channel, self.session.pack)
                self.write_message(data, binary=True)
            else:
                message["channel"] = channel
                self.write_message(json.dumps(message, default=json_default))

    # -- what the provisioner tells (PausableConnection) ------------------------------------

    def held(self) -> int:
        """How many requests are held."""
        return len(self.held_requests)

    def cell_waits(self) -> bool:
        """Whether a cell that the user ran is held."""
        return any(request.is_cell for request in self.held_requests)

    def kernel_stopped(self) -> None:
        """The kernel is paused: whoever waits for its info gets it; held cells wake it."""
        provisioner = self._provisioner
        if provisioner is None:
            return
        self._cold = True
        if not self._kernel_info_future.done():
            cast(Any, self)._finish_kernel_info(provisioner.kernel_info or {})
        waiting, self.held_requests = self.held_requests, []
        for request in waiting:
            self._while_paused(provisioner, request)

    def kernel_starting(self) -> None:
        """A resume began."""
        self._cold = True
        self._warm.clear()

    def kernel_released(self) -> None:
        """Pass on what was held; after a resume only when our own iopub delivers again, and the
        server's watch hears."""
        if not self._cold:
            self._pass_on()
        elif self._nudging is None or self._nudging.done():
            self._nudging = asyncio.ensure_future(self._nudge_until_warm())

    async def _nudge_until_warm(self) -> None:
        """ZMQ reconnects every socket on its own timer: without this, a held cell could run, and
        its output be published, before iopub is back, and the browser would never see it.
        """
        provisioner = self._provisioner
        waited = [self._warm] if provisioner is None else [self._warm, provisioner.activity.hears]
        control = self.kernel_manager.connect_control()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NUDGE_LIMIT_S
        try:
            while not all(each.is_set() for each in waited) and loop.time() < deadline:
                self.session.send(control, MSG_REQUEST, {"action": ACTION_PING})
                with contextlib.suppress(asyncio.TimeoutError):
                    arrived = asyncio.gather(*(each.wait() for each in waited))
                    await asyncio.wait_for(arrived, NUDGE_INTERVAL_S)
        finally:
            control.close(linger=0)
        if not all(each.is_set() for each in waited):
            self.log.warning("iopub of kernel %s did not come back in time", self.kernel_id)
        if provisioner is not None and provisioner.phase == "running":
            self._cold = False
            # The new process says `starting` first, and the idle of our nudges is kept from the
            # browser. For the user it has not started: it goes on.
            self._send_to_browser(IDLE, None)
            self._pass_on()

    def _pass_on(self) -> None:
        waiting, self.held_requests = self.held_requests, []
        for request in waiting:
            self.handle_incoming_message(request.raw)

    def resume_failed(self, error: GkewsError) -> None:
        """Answer the first held cell with `error` and abort the rest, as after any error."""
        self._end_held(failed_cell(error))

    def interrupted(self) -> None:
        """End the held cells as an interrupt ends running and queued ones."""
        self._end_held(interrupted_cell())

    def _end_held(self, first_cell: list[Message]) -> None:
        waiting, self.held_requests = self.held_requests, []
        told = False
        for request in waiting:
            if request.is_cell and not told:
                told = True
                self._answer(request, first_cell)
            else:
                self._answer(request, aborted(request.channel, request.msg_type))

    def pause_ended(self) -> None:
        """A restart or shutdown: what was held would run without its variables; abort it."""
        self._cold = False
        if self._nudging is not None:
            self._nudging.cancel()
        waiting, self.held_requests = self.held_requests, []
        for request in waiting:
            self._answer(request, aborted(request.channel, request.msg_type))


_PARTS = ("header", "parent_header", "metadata", "content")


def pausable_connection_class(base: type[Any]) -> type[Any]:
    """`base` (the server's `kernel_websocket_connection_class`) made to know paused kernels.

    A class that does not speak ZMQ to its kernels (a gateway's) has nothing to pause here and is
    returned as it is.
    """
    if not issubclass(base, ZMQChannelsWebsocketConnection):
        return base
    if issubclass(base, PausableConnectionMixin):
        return base
    return type(f"Pausable{base.__name__}", (PausableConnectionMixin, base), {})
