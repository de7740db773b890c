"""How much longer a Jupyter server takes to start with the extension than without it."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from examples.headless import JupyterServer

from .figures import Figure, spread

ROUNDS = 15

#: What makes a server one without the extension, on the command line.
WITHOUT = "--ServerApp.jpserver_extensions=jupyter_gkews=False"


def run(folder: Path, size: str) -> list[Figure]:
    """Start servers in turn, with and without; the model's size does not matter here."""
    # pip compiles what it installs; in a checkout the first start has to be allowed to
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    samples: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS + 1):
        for extension in (True, False):
            server = JupyterServer(
                folder / str(extension), folder, *([] if extension else [WITHOUT])
            )
            started = time.perf_counter()
            with server:
                taken = time.perf_counter() - started
                loaded = server.rest.get("gkews/status").is_success
            if loaded != extension:
                raise RuntimeError("the extension is not " + ("loaded" if extension else "off"))
            if number:  # the first pair fills the caches
                samples[extension].append(taken * 1e3)
    return [
        Figure(
            "server start, longer with the extension",
            statistics.median(samples[True]) - statistics.median(samples[False]),
            50,
            "ms",
            f"{spread(samples[True], 0)} ms against {spread(samples[False], 0)} ms, "
            f"{ROUNDS} starts each",
        )
    ]
