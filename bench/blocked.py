"""How long a checkpoint blocks a kernel that holds a model, against a plain fork of that kernel."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .checkpoint import _SETUP
from .figures import Figure, spread

ROUNDS = 5

_FORK = """
def fork_alone():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        started = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        took = time.perf_counter() - started
    os.waitpid(child, 0)
    return took
"""


def run(folder: Path, size: str) -> list[Figure]:
    """First checkpoints and later ones of a namespace with a model, and forks between them."""
    examples = Path(__file__).parent.parent / "examples"
    forks: list[float] = []
    first: list[float] = []
    later: list[float] = []
    slowest: list[float] = []
    written: list[float] = []
    with JupyterServer(folder / "jupyter", folder) as server:
        kernel = Kernel(server, "bench.ipynb")
        kernel.run(_SETUP.format(examples=str(examples), size=size))
        kernel.run(_FORK)
        for number in range(ROUNDS):
            forks.append(kernel.run("os.sync()", {"s": "fork_alone()"}).expressions["s"])
            started = time.perf_counter()
            operation = server.gkews("POST", f"kernels/{kernel.id}/checkpoint", {})["id"]
            waits = []
            while True:  # the user's next cells, one after the other
                began = time.perf_counter()
                kernel.run("")
                waits.append(time.perf_counter() - began)
                state = server.gkews("GET", f"operations/{operation}")
                if state["finished"]:
                    break
            written.append(time.perf_counter() - started)
            slowest.append(max(waits))
            result = state["result"]
            assert result and not result["note"], state
            (later if number else first).append(result["blocked_s"])
            if number == 0:
                nbytes = result["bytes_written"] + result.get("bytes_referenced", 0)
        kernel.close()
    everything = first + later
    return [
        Figure(
            "kernel blocked by a checkpoint / one fork of it",
            statistics.median(everything) / statistics.median(forks),
            5,
            "x",
            f"{spread(everything, 3)} s (the first one {first[0]:.3f} s) against "
            f"{spread(forks, 3)} s for {nbytes / 1e9:.2f} GB; durable after {spread(written)} s; "
            f"the slowest empty cell meanwhile took {spread(slowest)} s",
        ),
    ]
