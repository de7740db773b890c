"""A restore of this process is declared when two signs agree, and never else."""

from __future__ import annotations

import base64
import json
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from jupyter_gkews.engines.restore_signs import (
    AGREE_S,
    GVISOR_VERSION,
    Place,
    Restore,
    RestoreSigns,
)

HOUR = 3600.0
LO = "Inter-| Receive | Transmit\n face |bytes packets|bytes packets\n    lo: {0} 9 {0} 9\n"


class Loop:
    """The timer of a loop whose time the test passes."""

    def __init__(self) -> None:
        self.tick: Any = None

    def call_later(self, delay: float, callback: Any) -> Loop:
        del delay
        self.tick = callback
        return self

    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        callback(*args)

    def cancel(self) -> None:
        self.tick = None

    def is_closed(self) -> bool:
        return False


class Machine:
    """A container in gVisor as a process in it sees it, and the two clocks."""

    def __init__(self, base: Path, environ: dict[str, str], version: str) -> None:
        self.base = base
        self.now, self.running, self.host = 1_000_000.0, 5.0, "ws-me-0"
        self.found: list[Restore] = []
        for name in ("account", "proc/net", "proc/sys/kernel/random"):
            (base / name).mkdir(parents=True)
        (base / "proc/version").write_text(version)
        self.token("pod-1")
        self.traffic(5_000)
        self.loop = Loop()
        place = Place(base / "account", base / "proc", environ, lambda: self.host)
        self.signs = RestoreSigns(self.found.append, place, self)
        self.signs.start(self.loop)  # type: ignore[arg-type]

    def wall(self) -> float:
        return self.now

    def steady(self) -> float:
        return self.running

    def token(self, uid: str, **more: Any) -> None:
        claims = {"kubernetes.io": {"namespace": "ns", "pod": {"name": "p", "uid": uid}}, **more}
        middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        (self.base / "account/token").write_text(f"head.{middle}.signature\n")

    def traffic(self, count: int) -> None:
        (self.base / "proc/net/dev").write_text(LO.format(count))

    def run(self, seconds: int) -> None:
        """Let it work as usual."""
        for _ in range(seconds):
            self.now += 1
            self.running += 1
            self.loop.tick()

    def sleep(self, seconds: float, steady: float = 0.0) -> None:
        """The process does not run for a while; then its overdue timer fires."""
        self.now += seconds
        self.running += steady
        self.loop.tick()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, GVISOR_VERSION)
    yield made
    made.signs.close()


def kinds(machine: Machine) -> list[set[str]]:
    return [{sign.kind for sign in each.signs} for each in machine.found]


def test_another_pod_and_a_late_heartbeat_are_a_restore(machine: Machine) -> None:
    machine.run(10)
    stopped = machine.now
    machine.token("pod-2")
    machine.sleep(8 * HOUR)
    (found,) = machine.found
    assert kinds(machine) == [{"clock", "pod"}]
    assert found.stopped == stopped and found.away_s == 8 * HOUR
    assert "pod-2, and was for pod-1" in found.evidence[1]["what"]
    machine.run(300)
    assert len(machine.found) == 1
    machine.token("pod-3")
    machine.sleep(HOUR)
    assert len(machine.found) == 2


@pytest.mark.parametrize("steady", [0.0, 8 * HOUR])
def test_it_does_not_matter_whether_the_steady_clock_stood_still(
    machine: Machine, steady: float
) -> None:
    machine.run(3)
    machine.traffic(10)  # as gVisor's own network begins anew
    machine.sleep(8 * HOUR, steady)
    assert kinds(machine) == [{"clock", "network"}]


def test_the_first_request_learns_of_it_before_the_next_tick(machine: Machine) -> None:
    machine.run(3)
    machine.token("pod-2")
    machine.now += HOUR
    machine.signs.look()
    assert kinds(machine) == [{"clock", "pod"}]
    assert machine.found[0].away_s == HOUR
    machine.loop.tick()
    assert len(machine.found) == 1


def test_a_suspended_laptop_in_another_network_is_no_restore(machine: Machine) -> None:
    machine.run(3)
    machine.host = "laptop.example"
    machine.sleep(8 * HOUR)
    machine.run(600)
    machine.sleep(8 * HOUR, 8 * HOUR)
    assert machine.found == []


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 3.0])
def test_a_clock_that_is_set_or_a_debugger_is_no_restore(machine: Machine, jump: float) -> None:
    for _ in range(5):
        machine.run(3)
        machine.sleep(jump)
        machine.signs.look()
    assert machine.found == []


def test_a_token_that_is_renewed_is_none(machine: Machine) -> None:
    machine.run(3)
    machine.token("pod-1", exp=99)
    machine.sleep(10)
    (machine.base / "account/token").unlink()
    machine.sleep(10)
    machine.token("pod-1")
    machine.sleep(10)
    assert machine.found == []


def test_what_is_told_needs_a_second_sign_and_is_not_counted_twice(machine: Machine) -> None:
    machine.run(3)
    machine.signs.told("the host says so")
    assert machine.found == []
    machine.sleep(HOUR)
    assert kinds(machine) == [{"told", "clock"}]
    machine.signs.told("the host says so")  # it is slow
    machine.sleep(10)  # and the machine is busy
    machine.run(int(AGREE_S) + 60)
    assert len(machine.found) == 1


def test_signs_that_are_far_apart_do_not_agree(machine: Machine) -> None:
    machine.run(3)
    machine.sleep(HOUR)
    machine.run(int(AGREE_S) + 5)
    machine.token("pod-2")
    machine.signs.told("too late")
    machine.run(int(AGREE_S) + 5)
    assert kinds(machine) == [{"told", "pod"}]


def test_gvisor_is_asked_for_its_word(tmp_path: Path) -> None:
    word = tmp_path / "proc/gvisor/checkpoint"
    word.parent.mkdir(parents=True)
    os.mkfifo(word)  # as there, a reader waits until something has happened
    fifo = os.open(word, os.O_RDWR)

    def say(what: bytes) -> None:
        os.write(fifo, what)
        wait_until(lambda: not select.select([fifo], [], [], 0)[0], "it is heard")

    machine = Machine(tmp_path, {}, "Linux version 6.1")
    try:
        machine.now += HOUR
        for _ in range(2):  # who hears the second one is done with the first
            say(b"resume")  # of the one that was not restored
        assert machine.found == []
        say(b"restore")
        wait_until(lambda: machine.found, "the word has come")
        assert kinds(machine) == [{"gvisor", "clock"}]
    finally:
        machine.signs.close()
        os.close(fifo)


def test_elsewhere_nothing_is_watched(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {}, "Linux version 6.1.0 (debian)")
    assert not machine.signs.can_be_restored and machine.loop.tick is None
    machine.token("pod-2")
    machine.now += HOUR
    machine.signs.look()
    machine.signs.told("nonsense")
    assert machine.found == []
