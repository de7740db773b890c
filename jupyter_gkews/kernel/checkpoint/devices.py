"""Where the tensors of a device go when a checkpoint is loaded: back, elsewhere, or nowhere.

`on_missing_gpu` is the user's rule for a device that is not there or has no room: "cpu" moves what
needs it and says so, "wait" waits until there is room, "fail" refuses. It never touches a tensor.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import GkewsError
from .chunks import CHUNK, threads
from .known import KNOWN
from .transfers import Upload

RULES = ("cpu", "wait", "fail")
#: The step that is told while a load waits for a device.
WAITING = "waiting_for_gpu"
#: Seconds that a load waits, unless it is told otherwise, and between two looks.
WAIT_S = 600.0
LOOK_S = 0.5
#: What must stay free on a device beside the tensors: bytes, for the first kernels and handles.
SPARE = 256 << 20


class Accelerators:
    """The devices of this process, as torch sees them."""

    def free(self, kind: str) -> dict[int, int]:
        """Free bytes by index of the devices of a kind ("cuda", "xpu", "mps"); empty: none. Where
        the driver does not tell, a device counts as empty."""
        torch = sys.modules.get("torch")
        module = getattr(torch, kind, None)
        try:
            if torch is None or module is None or not module.is_available():
                return {}
            return {index: self._free(module, index) for index in range(module.device_count())}
        except (RuntimeError, AssertionError, AttributeError):
            return {}

    def _free(self, module: Any, index: int) -> int:
        try:
            return int(module.mem_get_info(index)[0])
        except (RuntimeError, AttributeError):
            return sys.maxsize

    def appeared(self, kind: str) -> bool:
        """Whether a new process sees a device of this kind, that this one did not at its start: a
        driver that found none does not look again."""
        code = f"import torch, sys; sys.exit(not torch.{kind}.is_available())"
        try:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


@dataclass
class Placement:
    """Where each device of a checkpoint is now; `said`: a clause for what is not where it was."""

    targets: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def target(self, device: str) -> str:
        """Where tensors of `device` go: on the CPU if nothing was decided about it."""
        return self.targets.get(device, "cpu")


def needs(manifest: Any) -> dict[str, int]:
    """Bytes that the checkpoint's tensors take on each device ("cuda:0")."""
    found: dict[str, int] = {}
    seen = set()
    for index, device in manifest.state.get("devices", {}).items():
        block, offset, nbytes, _ = manifest.views[int(index)]
        if (block, offset, nbytes) not in seen:
            seen.add((block, offset, nbytes))
            found[device] = found.get(device, 0) + nbytes
    return found


def place(
    needed: Mapping[str, int],
    rule: str,
    *,
    wait_s: float = WAIT_S,
    tell: Callable[[str, int, int], None] | None = None,
    accelerators: Accelerators | None = None,
) -> Placement:
    """Decide where the tensors of each device go, by `rule`; waits up to `wait_s` seconds for room.

    `tell(WAITING, bytes free, bytes needed)` is called while it waits. Raises restore_failed.
    """
    accelerators = accelerators or Accelerators()
    placement = Placement()
    real = {device: nbytes for device, nbytes in needed.items() if device != "cpu"}
    deadline = time.monotonic() + wait_s
    while real:
        placement, wanting = _attempt(real, rule, accelerators)
        if not wanting:
            break
        if rule == "fail":
            raise _refusal(wanting, "", rule)
        if rule != "wait":
            for device, why in wanting.items():
                placement.targets[device] = "cpu"
                placement.said[device] = f"{why}: it is on the CPU now"
            break
        kinds = {device.split(":")[0] for device in wanting}
        if time.monotonic() >= deadline:
            raise _refusal(wanting, f" after {wait_s:.0f} s of waiting", rule)
        free = sum(sum(accelerators.free(kind).values()) for kind in kinds)
        if tell is not None:
            tell(WAITING, min(free, 1 << 60), sum(real.values()))
        for kind in kinds:
            if not accelerators.free(kind) and accelerators.appeared(kind):
                raise GkewsError(
                    "restore_failed",
                    f"A device of the kind {kind} has come, but this process cannot see it.",
                    "Nothing was loaded and the checkpoint is unchanged. Resume again: a new "
                    "process sees it.",
                )
        time.sleep(min(LOOK_S, max(0.0, deadline - time.monotonic())))
    return placement


def _attempt(
    needed: Mapping[str, int], rule: str, accelerators: Accelerators
) -> tuple[Placement, dict[str, str]]:
    """A placement by what is free now, and the devices for which there is no place, with why."""
    placement, wanting = Placement(), {}
    room: dict[str, dict[int, int]] = {}
    for device in needed:
        kind = device.split(":")[0]
        if kind not in room:
            room[kind] = accelerators.free(kind)
    # Those that are there as they were come first: what moves takes what they leave.
    homeless = []
    for device, nbytes in needed.items():
        kind, index = _split(device)
        if index in room[kind]:
            if room[kind][index] >= nbytes + SPARE:
                room[kind][index] -= nbytes
                placement.targets[device] = device
            else:
                gib = nbytes / (1 << 30)
                wanting[device] = f"{device} has no {gib:.1f} GiB free"
        else:
            homeless.append(device)
    for device in sorted(homeless, key=lambda device: -needed[device]):
        kind, _ = _split(device)
        most = max(room[kind], key=lambda index: room[kind][index], default=None)
        if rule == "fail" or most is None or room[kind][most] < needed[device] + SPARE:
            wanting[device] = f"{device} is not here"
            continue
        room[kind][most] -= needed[device]
        placement.targets[device] = f"{kind}:{most}"
        placement.said[device] = f"{device} is not here: it is on {kind}:{most} now"
    return placement, wanting


def _split(device: str) -> tuple[str, int]:
    kind, _, index = device.partition(":")
    return kind, int(index) if index else 0


def _refusal(wanting: Mapping[str, str], when: str, rule: str) -> GkewsError:
    return GkewsError(
        "restore_failed",
        f"The checkpoint cannot be loaded here{when}: {'; '.join(wanting.values())}.",
        "Nothing was loaded, the kernel stays paused and the checkpoint is unchanged. Resume where "
        "there is such a device with room"
        + (", wait longer" if rule == "wait" else "")
        + ", or allow the move to the CPU (on_missing_gpu: cpu).",
    )


class Uploads:
    """Fills the storages of a checkpoint that go to devices, in threads, in the order of the graph,
    while this process rebuilds the objects. A context manager: leaving it ends the threads."""

    def __init__(self, memory: Any, manifest: Any, placement: Placement) -> None:
        self._memory = memory
        self._manifest = manifest
        self._jobs: list[tuple[int, str]] = []
        self._made: dict[int, Any] = {}
        self._done: dict[int, threading.Event] = {}
        self._next = 0
        self._stopped = False
        self._lock = threading.Lock()
        for index, device in manifest.state.get("devices", {}).items():
            target = placement.target(device)
            if target != "cpu":
                self._jobs.append((int(index), target))
                self._done[int(index)] = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name="gkews-upload", daemon=True)
            for _ in range(min(threads(), len(self._jobs)))
        ]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        upload = Upload(CHUNK)
        while not self._stopped:
            with self._lock:
                number = self._next
                self._next += 1
            if number >= len(self._jobs):
                return
            index, target = self._jobs[number]
            try:
                self._made[index] = self._upload(upload, index, target)
            except BaseException as error:
                self._made[index] = error
            finally:
                self._done[index].set()

    def _upload(self, upload: Upload, index: int, target: str) -> Any:
        torch = sys.modules["torch"]
        buffer, _ = self._memory.view(index)
        nbytes = self._manifest.views[index][2]
        storage = torch.empty(nbytes, dtype=torch.uint8, device=target).untyped_storage()
        upload.put(buffer, storage)
        self._remember(index, storage)
        return storage

    def _remember(self, index: int, storage: Any) -> None:
        """What lies there now, so that the next save writes none of it again."""
        block, offset, nbytes, _ = self._manifest.views[index]
        parts = [self._manifest.chunk(number) for number in self._manifest.blocks[block]]
        if offset or sum(part.nbytes for part in parts) != nbytes:
            return  # one of many in a pack
        address = storage.data_ptr()
        for part in parts:
            KNOWN.remember(address, part)
            address += part.nbytes

    def storage(self, index: int) -> Any:
        """The storage of a view on its device, filled; None if that is not going to a device.
        Raises what went wrong with it."""
        done = self._done.get(index)
        if done is None:
            return None
        done.wait()
        made = self._made[index]
        if isinstance(made, BaseException):
            raise made
        return made

    def __enter__(self) -> Uploads:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join()
