"""The demo's short round with a process snapshot: a small kernel in a sandbox, frozen and restored.

Skipped, with the reason, where gVisor's runsc cannot run. What came back is compared outside of
the kernel, as in the rest of the demo.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from jupyter_gkews.engines.gvisor.kernelspec import NAME, write
from jupyter_gkews.engines.gvisor.runsc import Runsc, probe

from .headless import JupyterServer, Kernel

#: Seconds for which the process lies frozen, and a tick of its thread.
FROZEN_S = 2.0
TICK_S = 0.1

CELL = f"""
import threading, time
ticks, numbers = [], (n * n for n in range(100))
next(numbers)
def tick():
    while True:
        ticks.append(time.time())
        time.sleep({TICK_S})
threading.Thread(target=tick, daemon=True).start()
"""


def why_not(work: Path) -> str | None:
    """Why no process snapshot can be taken here, in a sentence; None if one can."""
    runsc = Runsc(work / "runsc")
    return runsc.why_not() or probe(runsc)


def snapshot_round(
    server: JupyterServer, work: Path, add: Callable[[str, bool, str], object]
) -> None:
    """Pause and resume a kernel that can be frozen; `add(what, good, detail)` for each check."""
    reason = why_not(work)
    if reason is not None:
        print(f"\nProcess snapshots are left out: {reason}")
        return
    write(work / "data" / "kernels")
    print("\nA kernel in a sandbox, with a thread that ticks: the process itself is frozen")
    kernel = Kernel(server, "snapshot-round.ipynb", NAME)
    kernel.run(CELL)
    pid, seen = kernel.pid(), kernel.run("", {"n": "len(ticks)"}).expressions["n"]
    paused = server.operate(kernel.id, "pause", {})["result"]
    add("snapshot: it was taken", bool(paused["snapshot"]), str(paused["note"]))
    time.sleep(FROZEN_S)
    resumed = server.operate(kernel.id, "resume", {})["result"]
    provenance = resumed["provenance"]
    add("snapshot: provenance is `restored`", provenance == "restored", str(provenance))
    look = {
        "pid": "__import__('os').getpid()",
        "gap": "max(b - a for a, b in zip(ticks, ticks[1:]))",
        "ticks": "len(ticks)",
        "next": "next(numbers)",
    }
    now = kernel.run(f"time.sleep({5 * TICK_S})", look).expressions
    add("snapshot: the same process id", now["pid"] == pid, f"{pid} and {now['pid']}")
    gap = f"{now['gap']:.1f} s without a tick"
    add("snapshot: its thread stood still", now["gap"] > FROZEN_S, gap)
    add("snapshot: and ticks on", now["ticks"] > seen + 2, f"{seen} and {now['ticks']} ticks")
    add("snapshot: the generator goes on", now["next"] == 1, str(now["next"]))
    seconds = ", ".join(
        f"{phase} {operation['seconds'][phase]:.1f} s"
        for operation, phase in ((paused, "snapshotting"), (resumed, "restoring"))
        if phase in operation["seconds"]
    )
    print(f"  pid {pid} and {now['pid']}, {gap}; {seconds}")
    kernel.close()
    server.rest.delete(f"api/kernels/{kernel.id}")
