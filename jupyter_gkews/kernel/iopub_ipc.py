"""Puts the pipe of ipykernel's IOPub thread on a unix socket, for a kernel that gVisor freezes.

ipykernel binds it to TCP whatever the kernel's transport is, and a TCP socket in an epoll set
cannot be saved by gVisor. Changes nothing but where this one socket is bound; refuses an
ipykernel whose methods are not the ones it knows.
"""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

#: The names that the two methods we replace use, as ipykernel 6.29 to 7 have them.
IN_NAMES = {"socket", "context", "urandom", "_pipe_uuid", "bind_to_random_port", "_pipe_port"}
OUT_NAMES = {"Context", "connect", "_pipe_port", "linger"}


class UnknownIPyKernelError(RuntimeError):
    """This ipykernel's IOPub thread is not the one that the patch was written for."""


def check() -> None:
    """Raise UnknownIPyKernelError unless the methods are those that we know."""
    from ipykernel.iostream import IOPubThread

    for name, wanted in (("_setup_pipe_in", IN_NAMES), ("_setup_pipe_out", OUT_NAMES)):
        method = getattr(IOPubThread, name, None)
        code = getattr(method, "__code__", None)
        if method is None or code is None or not wanted <= set(code.co_names):
            raise UnknownIPyKernelError(f"ipykernel's IOPubThread.{name} has changed")
        if list(inspect.signature(method).parameters) != ["self"]:
            raise UnknownIPyKernelError(f"ipykernel's IOPubThread.{name} takes other arguments")


def install(folder: str) -> None:
    """Let the pipe of every IOPub thread of this process lie in `folder`.

    Raises UnknownIPyKernelError; nothing is changed then.
    """
    import zmq
    from ipykernel.iostream import IOPubThread
    from zmq.eventloop.zmqstream import ZMQStream

    check()

    def setup_pipe_in(self: Any) -> None:
        self._pipe_uuid = os.urandom(16)
        self._pipe_port = f"ipc://{folder}/iopub-{os.getpid()}-{id(self):x}"
        pipe = self.socket.context.socket(zmq.PULL)
        pipe.linger = 0
        try:
            pipe.bind(self._pipe_port)
        except zmq.ZMQError as error:
            warnings.warn(f"IOPub pipe: {error}; output of forked processes is lost", stacklevel=2)
            self._pipe_flag = False
            pipe.close()
            return
        self._pipe_in = ZMQStream(pipe, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def setup_pipe_out(self: Any) -> tuple[Any, Any]:
        context = zmq.Context()  # a process that was forked must not use its parent's
        pipe = context.socket(zmq.PUSH)
        pipe.linger = 3000
        pipe.connect(self._pipe_port)
        return context, pipe

    thread_class: Any = IOPubThread
    thread_class._setup_pipe_in = setup_pipe_in
    thread_class._setup_pipe_out = setup_pipe_out
