"""A server is killed while a kernel in a sandbox writes its checkpoint: the store is not locked by
it afterwards, as soon as its processes have ended and not before. On the real engine."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from gvisor_here import add_kernelspec, skip_without_runsc
from live_server import LiveKernel, LiveServer, wait_until

from jupyter_gkews.cli import main
from jupyter_gkews.kernel.checkpoint import locks

#: A value whose save begins, and does not end before it is allowed to.
SLOW = """
import os, time
class Slow:
    def __reduce__(self):
        open({folder!r} + "/begun", "w").close()
        while not os.path.exists({folder!r} + "/end"): time.sleep(0.02)
        return (int, ())
slow = Slow()
"""
#: The lock of a save that is under way for as long as a cell wants.
HOLD = """
import os
from pathlib import Path
from jupyter_gkews.kernel.checkpoint import locks
numbers = iter(range(5)); next(numbers)
held = locks.shared(Path({store!r})); held.__enter__()
"""


class Servers:
    """One after the other over one store, with a kernel in a sandbox, and what runs under them."""

    def __init__(self, base: Path) -> None:
        self.base, self.folder = base, base / "root" / "held"  # the same inside and outside
        self.started: list[LiveServer] = []
        self.under: list[psutil.Process] = []
        self.store = self.start().store
        self.stray = self.store / "chunks" / "ab" / f"blake3-{'ab' * 32}"

    def start(self) -> LiveServer:
        server = LiveServer(self.base / "jupyter", self.base / "root")
        add_kernelspec(server)
        self.started.append(server)
        return server.start()

    @property
    def server(self) -> LiveServer:
        """The last one."""
        return self.started[-1]

    def kernel(self) -> LiveKernel:
        """The notebook's."""
        return self.server.notebook("a.ipynb", "python3-pausable")

    def save(self, kernel: LiveKernel) -> None:
        """Return in the middle of a checkpoint."""
        self.folder.mkdir()
        kernel.run(SLOW.format(folder=str(self.folder)))
        kernel.ask("checkpoint")
        wait_until((self.folder / "begun").exists, "the kernel writes its checkpoint")
        self.stray.parent.mkdir(parents=True, exist_ok=True)
        self.stray.write_bytes(bytes(5000))  # as what it has written, and no manifest names yet
        assert self.marks(kernel)

    def kill(self) -> None:
        """End the server alone."""
        self.under = self.server.children()
        self.server.process.kill()
        self.server.process.wait()

    def let_them_end(self) -> None:
        """What ran under the killed server, also where it was stopped."""
        for process in reversed(self.under):
            if process.is_running():
                process.resume()
        _, alive = psutil.wait_procs(self.under, timeout=60)
        assert not alive, "sandboxes outlive their server"

    def marks(self, kernel: LiveKernel) -> list[Path]:
        return locks.marks(self.store).get(kernel.id, [])

    def gc(self) -> dict[str, Any]:
        """What a collection reports: of the server, or of `jupyter gkews gc` where none runs."""
        if self.server.process.poll() is None:
            return dict(self.server.post("gkews/gc", None, status=200))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert main(["gc", "--json", f"--store={self.store}"]) == 0
        (report,) = json.loads(said.getvalue())["stores"]
        return dict(report)

    def refuses(self, kernel: LiveKernel) -> bool:
        """Whether a collection removes nothing, and the mark is still there."""
        before = self.marks(kernel)
        kept = self.gc()
        return (
            "nothing was removed" in kept["stays"]
            and kept["bytes_freed"] == 0
            and self.marks(kernel) == before != []
        )

    def end(self) -> None:
        for process in self.under:  # also one that was stopped
            if process.is_running():
                process.kill()
        for server in self.started:
            server.stop(signal.SIGKILL)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """The first of them runs."""
    skip_without_runsc(tmp_path / "state")
    made = Servers(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_frozen_kernel_keeps_what_it_had_locked_and_one_that_ended_with_its_server_does_not(
    servers: Servers,
) -> None:
    kernel = servers.kernel().ready()
    kernel.run(HOLD.format(store=str(servers.store)))
    pid = kernel.run("os.getpid()")
    operation = kernel.do("pause")
    assert operation["result"]["snapshot"] and servers.marks(kernel)
    servers.kill()
    os.utime(servers.store / "sandboxes" / kernel.id, (1, 1))  # as after a night
    assert servers.refuses(kernel)

    servers.start()
    wait_until(lambda: servers.server.get("api/sessions"), "the paused kernel is taken over")
    kernel = servers.server.kernel_of("a.ipynb")
    assert kernel.status["state"] == "paused" and servers.marks(kernel)
    assert kernel.do("resume")["result"]["provenance"] == "restored"
    assert kernel.run("os.getpid()") == pid and kernel.run("next(numbers)") == "1"
    assert servers.refuses(kernel)
    kernel.run("held.__exit__(None, None, None)")
    assert servers.gc()["stays"] is None and not servers.marks(kernel)

    servers.save(kernel)
    assert servers.refuses(kernel)
    servers.kill()
    servers.let_them_end()
    assert servers.marks(kernel) and servers.stray.exists(), "nobody was there to remove it"
    done = servers.gc()
    assert done["stays"] is None and done["chunks"]["bytes"] == 5000
    assert not servers.marks(kernel) and not servers.stray.exists()


@pytest.mark.soak
def test_the_store_is_locked_while_the_sandbox_of_a_killed_server_lives(servers: Servers) -> None:
    kernel = servers.kernel().ready()
    servers.save(kernel)
    under = servers.server.children()
    for process in under:  # it may go on later: parents first, as they would take note of it
        process.suspend()
    servers.kill()
    servers.under = under
    assert servers.refuses(kernel)
    server = servers.start()
    folder = servers.store / "sandboxes" / kernel.id
    os.utime(folder, (1, 1))
    assert servers.refuses(kernel) and folder.is_dir() and servers.stray.exists()

    servers.let_them_end()
    done = servers.gc()
    assert done["stays"] is None and done["chunks"]["bytes"] == 5000
    assert not servers.stray.exists() and not folder.exists() and not servers.marks(kernel)
    assert done["leftovers"]["count"] >= 1 and done["bytes_freed"] > 5000
    again = servers.kernel().ready()  # the notebook starts anew
    again.run("x = 1")
    again.do("checkpoint")
    assert server.get("gkews/store")["stays"] is None


@pytest.mark.soak
def test_the_next_server_frees_the_store_by_itself(servers: Servers) -> None:
    kernel = servers.kernel().ready()
    kernel.run("x = bytes(100)")
    old = kernel.do("checkpoint")["result"]["checkpoint"]
    servers.save(kernel)
    servers.kill()
    servers.let_them_end()
    folder = servers.store / "sandboxes" / kernel.id
    os.utime(folder, (1, 1))
    server = servers.start()
    wait_until(lambda: not folder.exists(), "the folder goes")
    assert not servers.marks(kernel)
    wait_until(lambda: not servers.stray.exists(), "and what nothing needs")
    assert server.ask("DELETE", f"gkews/checkpoints/{old}")["bytes_freed"] > 0
