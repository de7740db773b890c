"""Follows an operation of a server to its end, with a line of progress on a terminal.

For the command line. Starts and cancels nothing.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from .server_client import Server
from .tables import duration, size

#: Seconds between two looks at a running operation.
POLL_S = 0.2


def wait_for(server: Server, operation: dict[str, Any]) -> dict[str, Any]:
    """Follow the operation to its end, with a line of progress on a terminal."""
    shown = 0
    while operation["finished"] is None:
        if sys.stderr.isatty():
            line = _progress(operation)
            print("\r" + line.ljust(shown), end="", file=sys.stderr, flush=True)
            shown = len(line)
        time.sleep(POLL_S)
        operation = server.ask("GET", f"operations/{operation['id']}")
    if shown:
        print("\r" + " " * shown + "\r", end="", file=sys.stderr, flush=True)
    return operation


def _progress(operation: dict[str, Any]) -> str:
    words = str(operation["phase"]).replace("_", " ")
    if operation["step"]:
        words += f", {operation['step']}"
    done, total = operation["bytes_done"], operation["bytes_total"]
    if total:
        words += f": {100 * done // total} %, {size(done)} of {size(total)}"
    if operation["eta_s"] is not None:
        words += f", {duration(operation['eta_s'])} left"
    return words
