"""One measured figure against its bound, and how figures are shown as text and as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class Figure:
    """A figure: `value` is compared with `bound`, both in `unit`; less is better.

    A `bound` of None: nothing is promised yet, the figure is shown all the same. `how` says from
    what it comes, with the raw numbers of the run.
    """

    name: str
    value: float
    bound: float | None
    unit: str
    how: str

    @property
    def met(self) -> bool:
        """Whether the bound holds, or there is none."""
        return self.bound is None or self.value <= self.bound

    def row(self) -> tuple[str, str, str, str, str]:
        """Name, value, bound, verdict, and how, as text."""
        return (
            self.name,
            f"{self.value:.2f} {self.unit}",
            "-" if self.bound is None else f"<= {self.bound:g} {self.unit}",
            "-" if self.bound is None else "pass" if self.met else "MISS",
            self.how,
        )


@dataclass
class Run:
    """One run of one bench: with which model, beside what, on which machine, and when."""

    size: str
    load: str
    machine: str
    date: str
    figures: list[Figure] = field(default_factory=list)


def spread(samples: Sequence[float], digits: int = 2) -> str:
    """The median of the samples with their range, as `2.10 (2.01-2.40)`."""
    low, high = min(samples), max(samples)
    return f"{statistics.median(samples):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def as_text(figures: Sequence[Figure]) -> str:
    """A table for the terminal; `how` on a line of its own below each figure."""
    rows = [figure.row() for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for row in rows:
        lines.append("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)))
        lines.append(f"    {row[4]}")
    return "\n".join(lines)


def as_markdown(figures: Sequence[Figure]) -> str:
    """The same as a Markdown table."""
    lines = ["| what | measured | bound | | from |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(figure.row())} |" for figure in figures]
    return "\n".join(lines)


def machine() -> str:
    """This machine in one sentence."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # not Linux: platform's word will do
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{psutil.cpu_count()} cores of {processor}, {memory:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def load() -> str:
    """What else the machine did in the last minute: figures of a busy one are worth less."""
    busy = os.getloadavg()[0]
    if busy < 0.5:
        return "nothing else ran"
    return f"other work ran at the same time: the load was {busy:.1f} when it began"


Bench = Callable[[Path, str], list[Figure]]
"""A bench: (an empty folder to work in, the model's size) -> figures."""
