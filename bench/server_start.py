"""How much longer a Jupyter server takes to start with the extension than without it."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import psutil

from examples.headless import JupyterServer

from .figures import Figure, spread

ROUNDS = 24

#: What makes a server one without the extension, on the command line.
WITHOUT = "--ServerApp.jpserver_extensions=jupyter_gkews=False"


def run(folder: Path, size: str) -> list[Figure]:
    """Start servers in turn, with and without; the model's size does not matter here."""
    # pip compiles what it installs; in a checkout the first start has to be allowed to
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    samples: dict[bool, list[float]] = {True: [], False: []}
    worked: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS + 1):
        # the order changes, so that a machine that gets slower favours neither
        for extension in (True, False) if number % 2 else (False, True):
            server = JupyterServer(
                folder / str(extension), folder, *([] if extension else [WITHOUT])
            )
            started = time.perf_counter()
            with server:
                taken = time.perf_counter() - started
                cpu = psutil.Process(server.pid).cpu_times()
                loaded = server.rest.get("gkews/status").is_success
            if loaded != extension:
                raise RuntimeError("the extension is not " + ("loaded" if extension else "off"))
            if number:  # the first pair fills the caches
                samples[extension].append(taken * 1e3)
                worked[extension].append((cpu.user + cpu.system) * 1e3)
    return [
        Figure(
            "server start, longer with the extension",
            _longer(samples),
            50,
            "ms",
            f"median of {ROUNDS} neighbouring pairs; {spread(samples[True], 0)} ms against "
            f"{spread(samples[False], 0)} ms",
        ),
        Figure(
            "the same in processor time",
            _longer(worked),
            None,
            "ms",
            f"{spread(worked[True], 0)} ms against {spread(worked[False], 0)} ms",
        ),
    ]


def _longer(samples: dict[bool, list[float]]) -> float:
    return statistics.median(
        with_it - without for with_it, without in zip(samples[True], samples[False], strict=True)
    )
