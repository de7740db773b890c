"""First checkpoint of a model loaded from safetensors files, against one pass of BLAKE3."""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from examples.headless import JupyterServer, Kernel

from .figures import Figure, spread
from .memory import PeakSampler, rss_anon
from .resume import kernel_pids, require

ROUNDS = 5

# Two files, as a model of this size has on the hub; in a kernel of its own, which goes again.
_MAKE = """
import sys
sys.path.insert(0, {examples!r})
from qwen_model import load
made = load({size!r}).model
made.save_pretrained({weights!r}, max_shard_size={shard!r})
"""

_LOAD = """
import os, time
import blake3, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained({weights!r}, dtype="auto").eval()
ids = torch.arange(1, 9)[None]


def hash_all():
    started = time.perf_counter()
    for parameter in model.parameters():
        data = parameter.detach().flatten().view(torch.uint8).numpy()
        blake3.blake3(max_threads=blake3.blake3.AUTO).update(data).digest()
    return time.perf_counter() - started


hash_all()
"""

_FIRST_CELL = "first = model(input_ids=ids).logits[0, -1].argmax().item()"


def run(folder: Path, size: str) -> list[Figure]:
    """Checkpoints of models freshly loaded from files, then a resume from there."""
    examples = str(Path(__file__).parent.parent / "examples")
    weights = str(folder / "weights")
    shard = {"3b": "4GB", "0.5b": "600MB"}.get(size, "1MB")
    whole: list[float] = []
    unproved: list[float] = []
    again: list[float] = []
    hashing: list[float] = []
    written = peak = 0
    with JupyterServer(folder / "jupyter", folder) as server:
        maker = Kernel(server, "make.ipynb")
        maker.run(_MAKE.format(examples=examples, size=size, weights=weights, shard=shard))
        maker.close()
        server.rest.delete(f"api/kernels/{maker.id}").raise_for_status()
        for number in range(ROUNDS):  # each in a process that has checkpointed nothing yet
            kernel = Kernel(server, "bench.ipynb")
            kernel.run(_LOAD.format(weights=weights))
            pid = kernel.pid()
            before = rss_anon(pid)
            with PeakSampler(partial(int, pid)) as memory:
                seconds, summary = timed_checkpoint(server, kernel, "off")
                peak = max(peak, memory.peak - before)
            unproved.append(seconds)
            written = max(written, summary["bytes"]["written"])
            whole.append(timed_checkpoint(server, kernel, "scratch")[0])
            again.append(timed_checkpoint(server, kernel, "scratch")[0])
            hashing.append(kernel.run("", {"s": "hash_all()"}).expressions["s"])
            first = kernel.run(_FIRST_CELL, {"first": "first"}).expressions["first"]
            if number < ROUNDS - 1:
                kernel.close()
                server.rest.delete(f"api/kernels/{kernel.id}").raise_for_status()
        server.operate(kernel.id, "pause")
        known = kernel_pids(server)
        with PeakSampler(lambda: next(iter(kernel_pids(server) - known), None)) as resumed:
            server.operate(kernel.id, "resume")
            outcome = kernel.run(_FIRST_CELL, {"first": "first"})
        require(outcome.expressions["first"], first)
        kernel.close()
    referenced = summary["bytes"]["referenced"] / 1e9
    against = f"against {spread(hashing)} s for {referenced:.2f} GB in files"
    return [
        Figure(
            "first checkpoint of weights in files, not proved / one BLAKE3 pass",
            statistics.median(unproved) / statistics.median(hashing),
            1.5,
            "x",
            f"{spread(unproved)} s {against}",
        ),
        Figure(
            "the proof in a new scratch process, and comparing again / one BLAKE3 pass",
            statistics.median(whole) / statistics.median(hashing),
            None,
            "x",
            f"{spread(whole)} s {against}; the next one, with nothing changed: {spread(again)} s",
        ),
        Figure(
            "bytes that it writes", written / 1e6, 50, "MB", f"{referenced:.2f} GB are referred to"
        ),
        Figure(
            "extra anonymous memory of the kernel meanwhile",
            peak / 1e6,
            300,
            "MB",
            "its peak less its value before, the largest of the runs; of the resumed kernel "
            f"{resumed.peak / 1e6:.0f} MB in all",
        ),
    ]


def timed_checkpoint(
    server: JupyterServer, kernel: Kernel, prove: str
) -> tuple[float, dict[str, Any]]:
    """Take one, proved by `prove`: its seconds as a client sees them, and its summary."""
    kernel.run("os.sync()")
    started = time.perf_counter()
    result = server.operate(kernel.id, "checkpoint", {"prove": prove})["result"]
    seconds = time.perf_counter() - started
    summary = server.gkews("GET", f"checkpoints/{result['checkpoint']}")
    return seconds, summary
