"""The checkpoint of a namespace that holds a model, against safetensors and a pass of xxh3."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .figures import Figure, spread
from .memory import PeakSampler, rss_anon

ROUNDS = 3

_SETUP = """
import os, sys, time
sys.path.insert(0, {examples!r})
from qwen_model import load, prompt_ids
loaded = load({size!r})
model, tokenizer = loaded.model, loaded.tokenizer
"""

_SAVE = """
def save_plain(path):
    from safetensors.torch import save_file

    tensors = dict(model.named_parameters())  # each once: the tied head is the embedding
    started = time.perf_counter()
    save_file(tensors, path)
    for name, flags in ((path, os.O_RDWR), (os.path.dirname(path), os.O_RDONLY)):
        descriptor = os.open(name, flags)
        os.fsync(descriptor)
        os.close(descriptor)
    return time.perf_counter() - started


def hash_all():
    import torch, xxhash

    started = time.perf_counter()
    for parameter in model.parameters():
        data = parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        xxhash.xxh3_128(data).digest()
    return time.perf_counter() - started
"""


def timed_checkpoint(server: JupyterServer, kernel: Kernel) -> tuple[float, str, int]:
    """Take one: its seconds as a client sees them, its id, and the bytes it wrote."""
    started = time.perf_counter()
    result = server.operate(kernel.id, "checkpoint")["result"]
    return time.perf_counter() - started, result["checkpoint"], result["bytes_written"]


def steps_of(server: JupyterServer, checkpoint: str) -> str:
    """The seconds of the checkpoint's steps, as the kernel measured them."""
    seconds = server.gkews("GET", f"checkpoints/{checkpoint}")["seconds"]
    return ", ".join(f"{step} {value:.1f}" for step, value in seconds.items())


def run(folder: Path, size: str) -> list[Figure]:
    """First and second checkpoint, and the kernel's extra memory while the first is written."""
    examples = Path(__file__).parent.parent / "examples"
    plain_file = folder / "plain.safetensors"
    plain: list[float] = []
    first: list[float] = []
    with JupyterServer(folder / "jupyter", folder) as server:
        kernel = Kernel(server, "bench.ipynb")
        kernel.run(_SETUP.format(examples=str(examples), size=size))
        kernel.run(_SAVE)
        pid = kernel.pid()
        before = rss_anon(pid)
        with PeakSampler(lambda: pid) as memory:
            for _ in range(ROUNDS):
                # the checkpoint goes first, so that the memory that it takes is not already there
                kernel.run("os.sync()")
                seconds, checkpoint, written = timed_checkpoint(server, kernel)
                first.append(seconds)
                first_steps = steps_of(server, checkpoint)
                server.gkews("DELETE", f"checkpoints/{checkpoint}")
                peak_of_checkpoints = memory.peak
                expression = {"s": f"save_plain({str(plain_file)!r})"}
                plain.append(kernel.run("os.sync()", expression).expressions["s"])
                plain_file.unlink()
        timed_checkpoint(server, kernel)  # what the second ones find
        second: list[float] = []
        hashing: list[float] = []
        rewritten = 0
        for _ in range(ROUNDS):
            seconds, checkpoint, again = timed_checkpoint(server, kernel)
            second.append(seconds)
            second_steps = steps_of(server, checkpoint)
            rewritten = max(rewritten, again)
            hashing.append(kernel.run("", {"s": "hash_all()"}).expressions["s"])
        kernel.close()
    size_gb = written / 1e9
    return [
        Figure(
            "first checkpoint / safetensors save_file",
            statistics.median(first) / statistics.median(plain),
            1.3,
            "x",
            f"{spread(first)} s against {spread(plain)} s for {size_gb:.2f} GB; "
            f"the last one's steps: {first_steps} s",
        ),
        Figure(
            "second checkpoint, unchanged / one xxh3 pass",
            statistics.median(second) / statistics.median(hashing),
            None,
            "x",
            f"{spread(second)} s against {spread(hashing)} s; wrote {rewritten / 1e6:.2f} MB; the "
            f"last one's steps: {second_steps} s",
        ),
        Figure(
            "extra anonymous memory of the kernel while it checkpoints",
            (peak_of_checkpoints - before) / 1e6,
            300,
            "MB",
            f"peak {peak_of_checkpoints / 1e6:.0f} MB, before {before / 1e6:.0f} MB",
        ),
    ]
