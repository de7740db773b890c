"""Signs that this very process was restored from a snapshot: in another pod, or at another time.

Reads clocks, /proc and the pod's token, and says so when two signs agree. Asks nobody, and does
nothing about it. The signs are those of GKE's pods and of gVisor (docs/waking.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .pod_account import ACCOUNT

#: Seconds between two ticks of the heartbeat.
TICK_S = 1.0
#: A tick that comes so many seconds late is a sign: a restore, or a machine that was busy,
#: suspended or stopped, or whose clock was set.
LATE_S = 2.0
#: Seconds within which two signs must be seen to be of one restore.
AGREE_S = 120.0
#: What is told within so many seconds of a restore is of that one.
SAME_S = 30.0
#: How /proc/version begins in gVisor, whatever the machine runs.
GVISOR_VERSION = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"

CLOCK, HOST = "clock", "host"
POD, NETWORK, BOOT, GVISOR, TOLD = "pod", "network", "boot", "gvisor", "told"
#: What never happens to a process that merely slept, was stopped, or whose clock was set. One of
#: these must be among the two.
DECISIVE = frozenset({POD, NETWORK, BOOT, GVISOR, TOLD})


@dataclass(frozen=True)
class Sign:
    """One sign: its kind, and what was seen, as a sentence."""

    kind: str
    what: str


@dataclass(frozen=True)
class Restore:
    """That it happened. Times in seconds since the epoch, by the wall clock."""

    signs: tuple[Sign, ...]
    stopped: float
    """The last tick before: what was running then is what was saved."""
    woke: float

    @property
    def away_s(self) -> float:
        """How long this process was not there; 0 if the clock of the new machine is behind."""
        return max(0.0, self.woke - self.stopped)

    @property
    def evidence(self) -> list[dict[str, str]]:
        """The signs, for records."""
        return [{"sign": sign.kind, "what": sign.what} for sign in self.signs]


class Clocks(Protocol):
    """The two clocks: of the wall, and the one that nobody sets."""

    def wall(self) -> float: ...  # noqa: D102

    def steady(self) -> float: ...  # noqa: D102


class SystemClocks:
    """Those of this process."""

    wall = staticmethod(time.time)
    steady = staticmethod(time.monotonic)


@dataclass(frozen=True)
class Place:
    """Where the signs are read."""

    account: Path = ACCOUNT
    proc: Path = Path("/proc")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    host_name: Callable[[], str] = socket.gethostname

    def in_gvisor(self) -> bool:
        """Whether the kernel of this process is gVisor."""
        return (self.proc / "gvisor").is_dir() or _text(self.proc / "version").startswith(
            GVISOR_VERSION
        )

    def in_pod(self) -> bool:
        """Whether this is a container of Kubernetes."""
        return bool(self.environ.get("KUBERNETES_SERVICE_HOST"))

    def pod(self) -> str:
        """The uid of the pod that the token is for; empty where there is none."""
        from .workspaces.identity import from_token  # not needed for the start of most servers

        about = from_token(_text(self.account / "token").strip()).get("pod") or {}
        return str(about.get("uid") or "") if isinstance(about, dict) else ""

    def boot(self) -> str:
        """What the kernel calls its present run; empty in gVisor."""
        return _text(self.proc / "sys/kernel/random/boot_id").strip()

    def traffic(self) -> dict[str, list[int]]:
        """What each network device has carried: counters that only grow while a machine runs."""
        found = {}
        for line in _text(self.proc / "net/dev").splitlines():
            name, colon, numbers = line.partition(":")
            if colon:
                with contextlib.suppress(ValueError):
                    found[name.strip()] = [int(number) for number in numbers.split()]
        return found


class RestoreSigns:
    """Watches over one process. Everything but the thread of gVisor's word is in the loop.

    `restored` is called once a restore, in the loop, at the first moment in which two signs are
    seen: at a tick, when something is told, or when `look` is called for a request.
    """

    def __init__(
        self,
        restored: Callable[[Restore], object],
        place: Place | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self._restored = restored
        self._place, self._clocks = place or Place(), clocks or SystemClocks()
        self._gvisor = self._place.in_gvisor()
        self._seen: dict[str, tuple[float, Sign]] = {}  # kind -> when, by the steady clock
        self._declared: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._listening: threading.Thread | None = None
        self._stopped: float | None = None  # the last tick before the late one
        self._wall, self._pod, self._host, self._boot = 0.0, "", "", ""
        self._traffic: dict[str, list[int]] = {}

    @property
    def can_be_restored(self) -> bool:
        """Whether this process lives where a restore can happen: nothing is watched elsewhere."""
        return self._gvisor or self._place.in_pod()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch; called in the loop."""
        if self.can_be_restored and self._loop is None:
            self._loop = loop
            self._took_stock()
            self._timer = loop.call_later(TICK_S, self._tick)
            self._listen()

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._timer = None

    def look(self) -> None:
        """A request has come: was the heartbeat late just now? Costs two clocks if it was not."""
        if self._loop is not None and self._late_s() > LATE_S:
            self._look()

    def told(self, what: str, kind: str = TOLD) -> None:
        """Somebody who should know says that this process was restored."""
        if self._loop is None:
            return
        now = self._clocks.steady()
        if self._declared is None or now - self._declared > SAME_S:
            self._note(kind, what)
        self._look()

    # -- within ------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._loop is None:
            return
        self._timer = self._loop.call_later(TICK_S, self._tick)
        if self._late_s() > LATE_S or self._seen:
            self._look()
        elif self._gvisor:
            self._judge_traffic()
            if self._seen:
                self._look()
        self._wall = self._clocks.wall()

    def _late_s(self) -> float:
        return self._clocks.wall() - self._wall - TICK_S

    def _look(self) -> None:
        """Read everything, and declare if two agree."""
        stopped, late = self._wall, self._late_s()
        if late > LATE_S:
            self._note(CLOCK, f"the heartbeat was {late:.0f} s late by the wall clock")
            self._stopped = min(self._stopped or stopped, stopped)
        self._wall = self._clocks.wall()
        before, self._pod = self._pod, self._place.pod() or self._pod
        if before and before != self._pod:
            self._note(POD, f"the token is for pod {self._pod}, and was for {before}")
        before, self._host = self._host, self._place.host_name()
        if before != self._host:
            self._note(HOST, f"the host is called {self._host}, and was {before}")
        before, self._boot = self._boot, self._place.boot() or self._boot
        if before and before != self._boot:
            self._note(BOOT, "the kernel under this process is another one")
        self._judge_traffic()
        now = self._clocks.steady()
        self._seen = {
            kind: (when, sign) for kind, (when, sign) in self._seen.items() if now - when <= AGREE_S
        }
        if len(self._seen) >= 2 and DECISIVE & self._seen.keys():
            found = Restore(
                tuple(sign for _, sign in self._seen.values()),
                self._stopped or stopped,
                self._wall,
            )
            self._declared = now
            self._took_stock()
            self._listen()
            self._restored(found)
        elif not self._seen:
            self._stopped = None

    def _judge_traffic(self) -> None:
        before, self._traffic = self._traffic, self._place.traffic() if self._gvisor else {}
        for name, counts in self._traffic.items():
            pairs = zip(before.get(name, ()), counts, strict=False)
            if any(now < then for then, now in pairs):
                self._note(NETWORK, f"the counters of network device {name} began anew")

    def _note(self, kind: str, what: str) -> None:
        self._seen.setdefault(kind, (self._clocks.steady(), Sign(kind, what)))

    def _took_stock(self) -> None:
        """What there is now is what later looks are compared with."""
        self._seen.clear()
        self._stopped = None
        self._wall = self._clocks.wall()
        self._pod, self._host = self._place.pod(), self._place.host_name()
        self._boot = self._place.boot()
        self._traffic = self._place.traffic() if self._gvisor else {}

    def _listen(self) -> None:
        """Wait for gVisor's own word, where it gives one."""
        path = self._place.proc / "gvisor/checkpoint"
        if self._listening is not None and self._listening.is_alive():
            return
        if self._loop is None or not path.exists():
            return
        loop = self._loop

        def hear() -> None:
            with contextlib.suppress(OSError, RuntimeError):  # not readable here; the loop ended
                while not loop.is_closed():
                    # each opening is for the next checkpoint alone
                    with open(path, "rb", buffering=0) as word:
                        said = word.read(64)
                    if not said:
                        return
                    if said.strip() == b"restore":
                        loop.call_soon_threadsafe(
                            self.told, "gVisor says that this process is a restored one", GVISOR
                        )

        self._listening = threading.Thread(target=hear, name="gkews gVisor", daemon=True)
        self._listening.start()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


__all__ = ["Clocks", "Place", "Restore", "RestoreSigns", "Sign", "SystemClocks"]
