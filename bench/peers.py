"""A namespace with a model, saved and loaded by dill, by cloudpickle, and as a checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .figures import Figure
from .memory import PeakSampler, rss_anon
from .resume import require

ROOT = Path(__file__).parent.parent
OURS = "a checkpoint"
PEERS = ("dill", "cloudpickle")


@dataclass
class Outcome:
    """Of one tool: seconds of each step, bytes of memory beyond what the namespace takes."""

    seconds: dict[str, float] = field(default_factory=dict)
    extra: int = 0
    beside: int = 0
    token: int = 0


def run(folder: Path, size: str) -> list[Figure]:
    """Save, save again, and load: the slowest of ours against the fastest of the peers."""
    found = {tool: outcome(tool, folder / tool.replace(" ", "-"), size) for tool in (OURS, *PEERS)}
    ours = found.pop(OURS)
    for each in found.values():
        require(each.token, ours.token)
    figures = []
    bounds = {"save": 0.25, "load": 0.2, "second save": 0.05}
    for step, bound in bounds.items():
        best = min(found, key=lambda tool: found[tool].seconds[step])
        told = ", ".join(f"{tool} {each.seconds[step]:.2f} s" for tool, each in found.items())
        figures.append(
            Figure(
                f"{step} / the faster of dill and cloudpickle",
                ours.seconds[step] / found[best].seconds[step],
                bound,
                "x",
                f"{ours.seconds[step]:.2f} s against {told}",
            )
        )
    told = ", ".join(f"{tool} {each.extra / 1e6:.0f} MB" for tool, each in found.items())
    figures.append(
        Figure(
            "extra anonymous memory of a save without a server",
            ours.extra / 1e6,
            300,
            "MB",
            f"{told}; our scratch process besides: {ours.beside / 1e6:.0f} MB",
        )
    )
    return figures


def outcome(tool: str, folder: Path, size: str) -> Outcome:
    """Let one tool save twice in one process and load in another."""
    folder.mkdir()
    result = Outcome()
    saving = _Step(["save", tool, str(folder), size])
    saving.go("ready")
    before = rss_anon(saving.pid)
    peaks: list[int] = []
    for step in ("save", "second save"):
        with PeakSampler(lambda: saving.pid) as memory:
            result.seconds[step] = saving.go(step)["seconds"]
        peaks.append(memory.peak)
        if step == "save":
            result.beside = sum(map(own_memory, psutil.Process(saving.pid).children()))
    result.extra = max(0, max(peaks) - before)
    result.token = saving.go("token")["token"]
    saving.end()
    loading = _Step(["load", tool, str(folder), size])
    loading.go("ready")
    answer = loading.go("load")
    result.seconds["load"] = answer["seconds"]
    require(answer["token"], result.token)
    loading.end()
    shutil.rmtree(folder)
    return result


def own_memory(process: psutil.Process) -> int:
    """RssAnon of one process, in bytes."""
    return rss_anon(process.pid)


class _Step:
    """The process of one tool: does one thing after the other, each when it is told."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peer_process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"},
        )
        self.pid = self._process.pid

    def go(self, what: str) -> dict[str, Any]:
        """Tell it to do `what`, and wait for what it says of it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"the process ended at {what!r}: {self._process.wait()}")

    def end(self) -> None:
        """End it and its children."""
        children = psutil.Process(self.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        for child in children:
            if child.is_running():
                child.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
