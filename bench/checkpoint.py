"""The checkpoint of a namespace that holds a model, against safetensors, the disk's own limit, and
a pass of xxh3."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .direct_write import direct_write
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


def seconds_of(server: JupyterServer, checkpoint: str) -> dict[str, float]:
    """The seconds of the checkpoint's steps, as the kernel measured them."""
    seconds: dict[str, float] = server.gkews("GET", f"checkpoints/{checkpoint}")["seconds"]
    return seconds


def steps_of(server: JupyterServer, checkpoint: str) -> str:
    """The same in words."""
    seconds = seconds_of(server, checkpoint)
    return ", ".join(f"{step} {value:.1f}" for step, value in seconds.items())


def run(folder: Path, size: str) -> list[Figure]:
    """First and second checkpoint, and the kernel's extra memory while the first is written."""
    plain: list[float] = []
    limit: list[float] = []
    first: list[float] = []
    durable: list[float] = []
    extra: list[float] = []
    # in the foreground, as a pause takes it; in the background it yields to everything else
    foreground = "--GkewsApp.checkpoint_in_background=False"
    with JupyterServer(folder / "jupyter", folder, foreground) as server:
        for number in range(ROUNDS):
            # a new kernel each time: neither what it has hashed before nor its scratch process
            kernel, before = new_kernel(server, size)
            pid = kernel.pid()
            with PeakSampler(lambda pid=pid: pid) as memory:  # type: ignore[misc]
                kernel.run("os.sync()")
                seconds, checkpoint, written = timed_checkpoint(server, kernel)
            first.append(seconds)
            extra.append((memory.peak - before) / 1e6)
            first_steps = steps_of(server, checkpoint)
            durable.append(seconds - seconds_of(server, checkpoint)["verifying"])
            if number < ROUNDS - 1:
                server.gkews("DELETE", f"checkpoints/{checkpoint}")
            path = str(folder / "plain.safetensors")
            plain.append(kernel.run("os.sync()", {"s": f"save_plain({path!r})"}).expressions["s"])
            os.unlink(path)
            kernel.run("os.sync()")
            limit.append(direct_write(folder / "limit.bin", written))
            if number < ROUNDS - 1:
                close(server, kernel)
        second: list[float] = []
        hashing: list[float] = []
        grown: list[float] = []
        rewritten = 0
        for _ in range(ROUNDS):
            seconds, checkpoint, again = timed_checkpoint(server, kernel)
            second.append(seconds)
            second_steps = steps_of(server, checkpoint)
            rewritten = max(rewritten, again)
            hashing.append(kernel.run("", {"s": "hash_all()"}).expressions["s"])
        for number in range(ROUNDS):
            kernel.run(f"small = {number}")
            seconds, checkpoint, again = timed_checkpoint(server, kernel)
            grown.append(seconds)
            grown_steps = steps_of(server, checkpoint)
        close(server, kernel)
    size_gb = written / 1e9
    return [
        Figure(
            "first checkpoint until it is durable / safetensors save_file and fsync",
            statistics.median(durable) / statistics.median(plain),
            0.75,
            "x",
            f"{spread(durable)} s against {spread(plain)} s for {size_gb:.2f} GB",
        ),
        Figure(
            "first checkpoint until it is durable / the disk's limit",
            statistics.median(durable) / statistics.median(limit),
            2,
            "x",
            f"{spread(durable)} s against {spread(limit)} s for the same bytes past the page cache",
        ),
        Figure(
            "first checkpoint with its test load / safetensors save_file and fsync",
            statistics.median(first) / statistics.median(plain),
            None,
            "x",
            f"{spread(first)} s: a scratch process imports all that the kernel has, reads every "
            f"byte back; the last one's steps: {first_steps} s",
        ),
        Figure(
            "second checkpoint, unchanged / one xxh3 pass",
            statistics.median(second) / statistics.median(hashing),
            3,
            "x",
            f"{spread(second)} s against {spread(hashing)} s; the last one's steps: "
            f"{second_steps} s",
        ),
        Figure(
            "second checkpoint, unchanged: written",
            rewritten / 1e6,
            1,
            "MB",
            "the graph; no chunk is written again",
        ),
        Figure(
            "a checkpoint after one cell and one small variable / one xxh3 pass",
            statistics.median(grown) / statistics.median(hashing),
            None,
            "x",
            f"{spread(grown)} s, loaded by the scratch process that is there already; the last "
            f"one's steps: {grown_steps} s",
        ),
        Figure(
            "extra anonymous memory of the kernel while it checkpoints",
            max(extra),
            300,
            "MB",
            f"peak less before, of {ROUNDS} kernels: {spread(extra, 0)} MB",
        ),
    ]


def new_kernel(server: JupyterServer, size: str) -> tuple[Kernel, int]:
    """A kernel that has loaded the model, and its RssAnon in bytes."""
    examples = Path(__file__).parent.parent / "examples"
    kernel = Kernel(server, "bench.ipynb")
    kernel.run(_SETUP.format(examples=str(examples), size=size))
    kernel.run(_SAVE)
    return kernel, rss_anon(kernel.pid())


def close(server: JupyterServer, kernel: Kernel) -> None:
    """End a kernel: two models at once do not fit into a small machine."""
    kernel.close()
    server.rest.delete(f"api/kernels/{kernel.id}").raise_for_status()
