"""Device memory to the host and back, in pieces, through pinned buffers, each begun early.

Two buffers a thread: while one is hashed and written, the device fills the other; on the way back,
one is filled from the file while the other is on its way. Never a second copy of the whole in host
memory. Bytes are moved as bytes, whatever their dtype. It decides nothing about devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

#: (owner, first byte there, bytes, first byte here): part of a device storage and its place in a
#: host buffer.
Part = tuple[Any, int, int, int]


@dataclass
class HostBuffer:
    """Page-aligned host memory: `view` is its bytes; `memory` keeps it alive."""

    view: memoryview
    address: int
    memory: Any


class Copier(Protocol):
    """How bytes are moved between a device and a host buffer."""

    def allocate(self, nbytes: int) -> HostBuffer:
        """Host memory that the device can reach without a detour, if there is such."""

    def fetch(self, buffer: HostBuffer, parts: Sequence[Part]) -> Any:
        """Begin to copy parts of device memory into the buffer; returns what `wait` takes."""

    def send(self, buffer: HostBuffer, target: Any, offset: int, nbytes: int) -> Any:
        """Begin to copy the first bytes of the buffer into device memory."""

    def wait(self, ticket: Any) -> None:
        """Until that copy has ended. Lets other threads run."""


class TorchCopier:
    """Copies by torch: on a stream of its own for each device where the device has streams."""

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}

    def allocate(self, nbytes: int) -> HostBuffer:
        """Pinned memory; ordinary memory where none can be had."""
        torch = sys.modules["torch"]
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE + mmap.PAGESIZE
        memory = None
        with contextlib.suppress(RuntimeError, AssertionError):  # no accelerator, no room
            memory = torch.empty(size, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        if memory is None:
            memory = torch.empty(size, dtype=torch.uint8)
        skip = -memory.data_ptr() % mmap.PAGESIZE
        memory = memory[skip : skip + size - mmap.PAGESIZE]
        address = memory.data_ptr()
        view = memoryview((ctypes.c_char * memory.numel()).from_address(address)).cast("B")
        return HostBuffer(view, address, memory)

    def fetch(self, buffer: HostBuffer, parts: Sequence[Part]) -> Any:
        """See Copier."""
        tickets = []
        for device in dict.fromkeys(owner.device for owner, *_ in parts):
            with self._on_stream(device) as stream:
                for owner, start, nbytes, at in parts:
                    if owner.device == device:
                        source = flat(owner)[start : start + nbytes]
                        target = buffer.memory[at : at + nbytes]
                        target.copy_(source, non_blocking=stream is not None)
                if stream is not None:
                    tickets.append(stream.record_event())
        return tickets

    def send(self, buffer: HostBuffer, target: Any, offset: int, nbytes: int) -> Any:
        """See Copier."""
        with self._on_stream(target.device) as stream:
            part = flat(target)[offset : offset + nbytes]
            part.copy_(buffer.memory[:nbytes], non_blocking=stream is not None)
            return [stream.record_event()] if stream is not None else []

    def wait(self, ticket: Any) -> None:
        """See Copier."""
        for event in ticket:
            event.synchronize()

    @contextlib.contextmanager
    def _on_stream(self, device: Any) -> Any:
        """Within it, copies go on our stream of the device; None where it has no streams."""
        torch = sys.modules["torch"]
        module = getattr(torch, device.type, None)
        if device.type == "cpu" or not hasattr(module, "stream"):
            yield None
            return
        assert module is not None
        stream = self._streams.get(str(device))
        if stream is None:
            stream = self._streams[str(device)] = module.Stream(device=device)
        with module.stream(stream):
            yield stream


def flat(storage: Any) -> Any:
    """The bytes of a storage as a tensor on it; takes no memory of the device."""
    torch = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def settle(devices: set[str]) -> None:
    """Wait until the devices have done what the user's cells have asked of them: a copy on another
    stream would not wait for it."""
    torch = sys.modules.get("torch")
    for device in devices:
        module = getattr(torch, device.split(":")[0], None)
        synchronize = getattr(module, "synchronize", None)
        if synchronize is None:
            continue
        if ":" in device:
            synchronize(int(device.split(":")[1]))
        else:
            synchronize()


class Ahead:
    """One thread's two buffers for what comes from devices: `begin` early, `take` when due, in the
    same order. What was taken is valid until the next but one `begin`."""

    def __init__(self, nbytes: int, copier: Copier | None = None) -> None:
        self._nbytes = nbytes
        self._copier = copier
        self._buffers: list[HostBuffer] = []
        self._begun: list[tuple[HostBuffer, Any]] = []
        self._turn = 0

    def begin(self, parts: Sequence[Part]) -> None:
        """Begin to copy these parts to the host."""
        if self._copier is None:
            self._copier = TorchCopier()
        if len(self._buffers) < 2:
            self._buffers.append(self._copier.allocate(self._nbytes))
        buffer = self._buffers[self._turn % len(self._buffers)]
        self._turn += 1
        self._begun.append((buffer, self._copier.fetch(buffer, parts)))

    def take(self) -> HostBuffer:
        """The buffer of the first `begin` that was not taken yet, filled."""
        assert self._copier is not None
        buffer, ticket = self._begun.pop(0)
        self._copier.wait(ticket)
        return buffer


class Upload:
    """One thread's two buffers for what goes to devices."""

    def __init__(self, nbytes: int, copier: Copier | None = None) -> None:
        self._nbytes = nbytes
        self._copier = copier or TorchCopier()
        self._buffers: list[HostBuffer] = []
        self._tickets: list[Any] = [None, None]

    def put(self, source: Any, target: Any) -> None:
        """Copy `source` (a buffer of bytes) to the start of the device storage `target`; it is
        there when this returns."""
        data = memoryview(source).cast("B")
        address = ctypes.addressof(ctypes.c_char.from_buffer(source)) if len(data) else 0
        for number, start in enumerate(range(0, len(data), self._nbytes)):
            turn = number % 2
            if len(self._buffers) <= turn:
                self._buffers.append(self._copier.allocate(self._nbytes))
            buffer = self._buffers[turn]
            self._wait(turn)
            nbytes = min(self._nbytes, len(data) - start)
            ctypes.memmove(buffer.address, address + start, nbytes)
            self._tickets[turn] = self._copier.send(buffer, target, start, nbytes)
        for turn in range(2):
            self._wait(turn)

    def _wait(self, turn: int) -> None:
        if self._tickets[turn] is not None:
            self._copier.wait(self._tickets[turn])
            self._tickets[turn] = None
