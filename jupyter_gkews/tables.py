"""How the command line writes sizes, times, tables and JSON, and reads seconds.

Knows nothing of servers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime


def size(count: int | float | None) -> str:
    """Bytes as the operating system shows them (1 GB = 10^9 bytes); - if unknown."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            whole = unit == "B" or abs(value) >= 99.95
            return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("not reached")


def duration(seconds: float | None) -> str:
    """Seconds in the two largest units; - if unknown."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, length, smaller, part in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def parse_seconds(text: str) -> float:
    """Seconds as a command line has them. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def local_time(time: str | None) -> str:
    """An ISO 8601 UTC time on this machine's clock."""
    if not time:
        return "-"
    then = datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone()
    return f"{then:%Y-%m-%d %H:%M}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be, heads in capitals."""
    lines = [[head.upper() for head in heads], *[[c or "-" for c in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_json(value: object) -> None:
    """For `--json`."""
    print(json.dumps(value, indent=2))
