"""How much longer an empty cell takes in a kernel that the extension has loaded itself into."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .figures import Figure, spread
from .server_start import WITHOUT

BLOCKS = 30
CELLS = 40


def run(folder: Path, size: str) -> list[Figure]:
    """Run blocks of cells in turn in both kernels; the model's size does not matter here."""
    medians: dict[bool, list[float]] = {True: [], False: []}
    with (
        JupyterServer(folder / "with", folder) as server_with,
        JupyterServer(folder / "without", folder, WITHOUT) as server_without,
    ):
        kernels = {
            True: Kernel(server_with, "bench.ipynb"),
            False: Kernel(server_without, "bench.ipynb"),
        }
        for number in range(BLOCKS + 2):
            for extension in (True, False) if number % 2 else (False, True):
                taken = [timed_cell(kernels[extension]) for _ in range(CELLS)]
                if number >= 2:  # the first blocks warm up
                    medians[extension].append(statistics.median(taken) * 1e3)
        for kernel in kernels.values():
            kernel.close()
    # by pairs of blocks that ran next to each other: the machine's speed drifts
    pairs = zip(medians[True], medians[False], strict=True)
    difference = statistics.median(ours - plain for ours, plain in pairs)
    return [
        Figure(
            "cell, longer with the extension",
            difference,
            0.2,
            "ms",
            f"{spread(medians[True])} ms against {spread(medians[False])} ms, "
            f"{BLOCKS} blocks of {CELLS} cells each",
        )
    ]


def timed_cell(kernel: Kernel) -> float:
    """Seconds from sending an empty cell until the kernel is idle again."""
    started = time.perf_counter()
    kernel.run("pass")
    return time.perf_counter() - started
