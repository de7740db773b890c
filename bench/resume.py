"""A resume, from the request to the first cell's reply, against loading the same by hand."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import psutil

from examples.headless import JupyterServer, Kernel

from .checkpoint import _SETUP
from .figures import Figure, spread
from .memory import PeakSampler

ROUNDS = 3

_FIRST_CELL = "first = model(input_ids=ids).logits[0, -1].argmax().item()"

_SAVE = """
def save_plain(path):
    import torch

    torch.save(model.state_dict(), path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
"""

# Reading, while the imports run: what a careful user does where the file is cold.
_READ_AHEAD = """
import threading
def read_ahead():
    with open({path!r}, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
threading.Thread(target=read_ahead).start()
"""

# What a careful user writes by hand: no initialisation, no copy, weights mapped from the file.
_BY_HAND = """
import torch, transformers
config = transformers.Qwen2Config.from_dict({config!r})
torch.set_default_dtype(torch.bfloat16)
with torch.device("meta"):
    model = transformers.Qwen2ForCausalLM(config)
torch.set_default_dtype(torch.float32)
weights = torch.load({path!r}, mmap=True, weights_only=True)
model.load_state_dict(weights, strict=False, assign=True)
model.tie_weights()
model.model.rotary_emb = type(model.model.rotary_emb)(config)
model = model.eval()
ids = torch.tensor({ids!r})
"""


def run(folder: Path, size: str) -> list[Figure]:
    """Resume cold and warm against the same by hand, and the extra memory of the resume."""
    examples = Path(__file__).parent.parent / "examples"
    plain_file = folder / "plain.pt"
    store = folder / "jupyter" / "data"
    with JupyterServer(folder / "jupyter", folder) as server:
        kernel = Kernel(server, "bench.ipynb")
        kernel.run(_SETUP.format(examples=str(examples), size=size))
        kernel.run("ids = prompt_ids(tokenizer, 'Is anybody there?')")
        answer = kernel.run(
            _FIRST_CELL,
            {
                "first": "first",
                "ids": "ids.tolist()",
                "config": "{k: v for k, v in model.config.to_dict().items() if k != 'dtype'}",
            },
        ).expressions
        kernel.run(_SAVE)
        kernel.run(f"save_plain({str(plain_file)!r})")
        by_hand_code = _BY_HAND.format(
            config=answer["config"], path=str(plain_file), ids=answer["ids"]
        )

        seconds: dict[tuple[str, str], list[float]] = {}
        peaks: dict[str, list[int]] = {"resume": [], "by hand": []}
        for temperature in ("cold", "warm"):
            for _ in range(ROUNDS):
                server.operate(kernel.id, "pause")
                if temperature == "cold":
                    drop_from_cache(store)
                taken, peak = timed_resume(server, kernel, answer["first"])
                seconds.setdefault((temperature, "resume"), []).append(taken)
                peaks["resume"].append(peak)

                # Two models at once do not fit into a small machine: this one waits on disk.
                server.operate(kernel.id, "pause")
                code = by_hand_code
                if temperature == "cold":
                    drop_from_cache(plain_file)
                    code = _READ_AHEAD.format(path=str(plain_file)) + code
                taken, peak = timed_by_hand(server, code, answer["first"])
                seconds.setdefault((temperature, "by hand"), []).append(taken)
                peaks["by hand"].append(peak)
                server.operate(kernel.id, "resume")
        kernel.close()

    figures = [
        Figure(
            f"resume to the first cell's reply / by hand, {temperature}",
            statistics.median(seconds[temperature, "resume"])
            / statistics.median(seconds[temperature, "by hand"]),
            1.1,
            "x",
            f"{spread(seconds[temperature, 'resume'])} s against "
            f"{spread(seconds[temperature, 'by hand'])} s",
        )
        for temperature in ("cold", "warm")
    ]
    ours, theirs = max(peaks["resume"]), statistics.median(peaks["by hand"])
    figures.append(
        Figure(
            "extra anonymous memory of the kernel while it resumes",
            (ours - theirs) / 1e6,
            300,
            "MB",
            f"peak {ours / 1e6:.0f} MB, by hand {theirs / 1e6:.0f} MB",
        )
    )
    return figures


def timed_resume(server: JupyterServer, kernel: Kernel, expected: int) -> tuple[float, int]:
    """Ask for the resume and send the cell at once; seconds to its reply, and peak RssAnon."""
    known = kernel_pids(server)
    with PeakSampler(lambda: next(iter(kernel_pids(server) - known), None)) as memory:
        started = time.perf_counter()
        server.gkews("POST", f"kernels/{kernel.id}/resume", {})
        outcome = kernel.run(_FIRST_CELL, {"first": "first"})
        taken = time.perf_counter() - started
    require(outcome.expressions["first"], expected)
    return taken, memory.peak


def timed_by_hand(server: JupyterServer, code: str, expected: int) -> tuple[float, int]:
    """Start a kernel, load by hand, run the cell; seconds to its reply, and peak RssAnon."""
    known = kernel_pids(server)
    with PeakSampler(lambda: next(iter(kernel_pids(server) - known), None)) as memory:
        started = time.perf_counter()
        other = Kernel(server, "by-hand.ipynb")
        other.run(code)
        outcome = other.run(_FIRST_CELL, {"first": "first"})
        taken = time.perf_counter() - started
    require(outcome.expressions["first"], expected)
    other.close()
    server.rest.delete(f"api/kernels/{other.id}").raise_for_status()
    return taken, memory.peak


def require(found: int, expected: int) -> None:
    """A fast wrong answer is no figure."""
    if found != expected:
        raise RuntimeError(f"the model answers {found}, but answered {expected} before")


def kernel_pids(server: JupyterServer) -> set[int]:
    """The kernels that the server has started and that live."""
    return {
        child.pid
        for child in psutil.Process(server.pid).children()
        if any("ipykernel" in part for part in child.cmdline())
    }


def drop_from_cache(path: Path) -> None:
    """Drop a file, or all files below a folder, from the page cache (clean pages only)."""
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        try:
            descriptor = os.open(file, os.O_RDONLY)
        except FileNotFoundError:  # a checkpoint that is being deleted
            continue
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
