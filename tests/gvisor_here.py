"""Whether runsc can run on this machine, for the tests that need it. Starts nothing that stays."""

from __future__ import annotations

from pathlib import Path

from expected import skip_without
from live_server import LiveServer

from jupyter_gkews.engines.gvisor.kernelspec import write
from jupyter_gkews.engines.gvisor.runsc import Runsc, probe


def skip_without_runsc(state: Path) -> Runsc:
    """A runsc that works here, its state below `state`. Skips with the reason where none does."""
    runsc = Runsc(state)
    why_not = runsc.why_not() or probe(runsc)
    if why_not is not None:
        skip_without("runsc", why_not)
    return runsc


def add_kernelspec(server: LiveServer) -> None:
    """As `jupyter gkews install-kernel` does, into the server's own data directory."""
    write(server.base / "data" / "kernels")
