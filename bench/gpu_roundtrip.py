"""A model on a GPU: saved, its memory given back, loaded in a new process, compared bit for bit.

    python bench/gpu_roundtrip.py [--cpu] [--small] [--store DIR]

Needs torch, cloudpickle and this checkout; uses blake3 and xxhash where they are installed. The
shape is that of Qwen2.5-3B (6.17 GB of bfloat16); save and load are compared with the speed of
plain pinned copies in the same run. Without CUDA it says so and makes the same checks on the CPU
with a small shape. The last line is the outcome as JSON; exit status 1 if a check failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

#: Qwen2.5-3B, and a shape for a machine without a GPU.
SHAPES = {
    "3b": {"layers": 36, "width": 2048, "inner": 11008, "heads": 16, "kv": 2, "words": 151936},
    "small": {"layers": 2, "width": 64, "inner": 128, "heads": 4, "kv": 2, "words": 1000},
}
#: Bytes of memory that a device may hold more after the process is gone than before it began.
SLACK = 256 << 20
CELL = """
import torch
from torch import nn
from torch.nn import functional as F

class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

class Layer(nn.Module):
    def __init__(self, width, inner, heads, kv):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, kv * self.size)
        self.v = nn.Linear(width, kv * self.size)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.before, self.after = Norm(width), Norm(width)
    def split(self, x, heads):
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)
    def forward(self, x):
        y = self.before(x)
        k = self.split(self.k(y), self.kv).repeat_interleave(self.heads // self.kv, 1)
        v = self.split(self.v(y), self.kv).repeat_interleave(self.heads // self.kv, 1)
        a = F.scaled_dot_product_attention(self.split(self.q(y), self.heads), k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(x.shape))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

class Model(nn.Module):
    def __init__(self, layers, width, inner, heads, kv, words):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, inner, heads, kv) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

def greedy(count=8):
    ids = prompt.clone()
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return ids.tolist()

torch.manual_seed(0)
with torch.device(device):
    model = Model(**shape).to(torch.bfloat16).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2: nn.init.normal_(p, std=0.02)
    prompt = torch.arange(5)[None] + 7
    eighth = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8).view(torch.float8_e5m2)
    part = eighth[10:20]
    many = [torch.full((7,), i) for i in range(500)]
window = model.layers[0].q.weight.detach()[3]
state = model.state_dict()
"""


def digests(model: Any) -> dict[str, str]:
    """A hash of the bytes of every parameter."""
    import torch

    from jupyter_gkews.kernel.checkpoint import chunks

    found = {}
    for name, value in model.named_parameters():
        host = value.detach().contiguous().view(torch.uint8).reshape(-1).cpu()
        data = (ctypes.c_char * host.numel()).from_address(host.data_ptr())
        found[name] = chunks.name_of(memoryview(data).cast("B"))
    return found


def copy_speed(nbytes: int = 1 << 30) -> dict[str, float]:
    """GB/s of pinned copies, medians of 5: the limit of what goes over the bus."""
    import torch

    host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    speeds = {}
    for name, target, source in (("d2h", host, there), ("h2d", there, host)):
        seconds = []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        speeds[name] = nbytes / statistics.median(seconds[1:]) / 1e9
    return speeds


def save_part(store: Path, device: str, size: str) -> dict[str, Any]:
    """Build, look, save twice."""
    import types

    import torch

    from jupyter_gkews.kernel.checkpoint.save import save
    from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

    sys.modules["__main__"] = types.ModuleType("__main__")
    namespace = vars(sys.modules["__main__"])
    namespace.update(device=device, shape=SHAPES[size])
    exec(compile(CELL, "<cell 1>", "exec"), namespace)
    nbytes = sum(p.numel() * p.element_size() for p in namespace["model"].parameters())
    out: dict[str, Any] = {"bytes": nbytes, "tokens": namespace["greedy"]()}
    out["digests"] = digests(namespace["model"])
    if device == "cuda":
        out["speed"] = copy_speed()
        torch.cuda.empty_cache()
        out["reserved"] = torch.cuda.memory_reserved()
    for name, prove in (("first", False), ("again", False), ("proved", True)):
        began = time.perf_counter()
        summary = save(namespace, CheckpointStore(store), checkpoint=name, prove=prove)
        out[name] = time.perf_counter() - began
        out[f"{name}_written"] = summary["bytes"]["written"]
        out[f"{name}_seconds"] = summary["seconds"]
        out["lost"] = summary["lost"]
    if device == "cuda":
        out["reserved_after"] = torch.cuda.memory_reserved()
    return out


def load_part(store: Path, device: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Load in this process, compare, save again."""
    import types

    import torch

    from jupyter_gkews.kernel.checkpoint.restore import restore
    from jupyter_gkews.kernel.checkpoint.save import save
    from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

    sys.modules["__main__"] = types.ModuleType("__main__")
    back = vars(sys.modules["__main__"])
    if device == "cuda":
        torch.zeros(1, device="cuda")  # the context is not part of the load
    began = time.perf_counter()
    rule = "cpu" if device == "moved" else "fail"
    report = restore(back, CheckpointStore(store), "proved", on_missing_gpu=rule)
    if device == "cuda":
        torch.cuda.synchronize()
    out: dict[str, Any] = {"load": time.perf_counter() - began, "seconds": report.seconds}
    model = back["model"]
    there = "cpu" if device == "moved" else device
    checks = {
        "bits": digests(model) == wanted["digests"],
        "device": all(p.device.type == there for p in model.parameters()),
        "tied": model.head.weight is model.embed.weight,
        "view": back["window"].data_ptr() == model.layers[0].q.weight[3].data_ptr(),
        "state_dict": back["state"]["norm.weight"].data_ptr() == model.norm.weight.data_ptr(),
        "float8": back["part"].untyped_storage().data_ptr()
        == back["eighth"].untyped_storage().data_ptr(),
        "many": [int(t[3]) for t in back["many"]] == list(range(500)),
        "nothing lost": not report.lost,
    }
    if device == "moved":
        checks["said so"] = any("cuda" in row["reason"] for row in report.rebuilt_details)
    else:
        checks["tokens"] = back["greedy"]() == wanted["tokens"]
        began = time.perf_counter()
        summary = save(back, CheckpointStore(store), checkpoint="after", prove=False)
        out["after"], out["after_written"] = (
            time.perf_counter() - began,
            summary["bytes"]["written"],
        )
        checks["written once"] = summary["bytes"]["written"] < max(4 << 20, wanted["bytes"] // 50)
    return {**out, "checks": checks}


def free_memory() -> int:
    """Free bytes of the device, asked in a process of its own."""
    code = "import torch; print(torch.cuda.mem_get_info()[0])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)


def part(name: str, store: Path, device: str, size: str, wanted: Any = None) -> dict[str, Any]:
    """Run one part in a process of its own; its outcome."""
    told = store / f"{name}.json"
    (store / "wanted.json").write_text(json.dumps(wanted))
    environ = dict(os.environ)
    if device == "moved":
        environ["CUDA_VISIBLE_DEVICES"] = ""
    arguments = ["--part", name, "--device", device, "--size", size, "--store", str(store)]
    subprocess.run([sys.executable, __file__, *arguments], check=True, env=environ)
    outcome: dict[str, Any] = json.loads(told.read_text())
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cpu", action="store_true", help="the small shape on the CPU")
    parser.add_argument("--small", action="store_true", help="the small shape on the GPU")
    parser.add_argument("--store", type=Path, help="where to write (default: a folder that goes)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        store = options.store / "store"
        if options.part == "save":
            outcome = save_part(store, options.device, options.size)
        else:
            wanted = json.loads((options.store / "wanted.json").read_text())
            outcome = load_part(store, options.device, wanted)
        (options.store / f"{options.part}.json").write_text(json.dumps(outcome))
        return 0
    import torch

    gpu = torch.cuda.is_available() and not options.cpu
    device, size = ("cuda", "small" if options.small else "3b") if gpu else ("cpu", "small")
    if not gpu:
        print("No CUDA device is used: the same checks on the CPU with a small shape; no figures.")
    folder = Path(tempfile.mkdtemp(prefix="gpu-roundtrip-", dir=options.store))
    try:
        return run(folder, device, size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, device: str, size: str) -> int:
    """All parts, the table, and the line of JSON."""
    before = free_memory() if device == "cuda" else 0
    saved = part("save", folder, device, size)
    checks = {"nothing lost at the save": not saved["lost"]}
    if device == "cuda":
        checks["memory given back"] = before - free_memory() < SLACK
        grew = saved["reserved_after"] - saved["reserved"]
        checks["no copy on the device"] = grew < SLACK
    checks["second save writes nothing"] = saved["again_written"] < max(
        4 << 20, saved["bytes"] // 50
    )
    loaded = part("load", folder, device, size, saved)
    checks |= loaded["checks"]
    figures: dict[str, Any] = {}
    if device == "cuda":
        moved = part("load", folder, "moved", size, saved)
        checks |= {f"moved to the CPU: {name}": met for name, met in moved["checks"].items()}
        gb, speed = saved["bytes"] / 1e9, saved["speed"]
        figures = {
            "gigabytes": gb,
            **{f"copy_{name}_gb_s": value for name, value in speed.items()},
            "first_save_s": saved["first"],
            "second_save_s": saved["again"],
            "load_s": loaded["load"],
            "save_after_load_s": loaded["after"],
            "first_save_x_copy": saved["first"] / (gb / speed["d2h"]),
            "second_save_x_copy": saved["again"] / (gb / speed["d2h"]),
            "load_x_copy": loaded["load"] / (gb / speed["h2d"]),
            "first_save_steps": saved["first_seconds"],
            "load_steps": loaded["seconds"],
        }
    for name, met in checks.items():
        print(f"{'pass' if met else 'FAIL'}  {name}")
    print(json.dumps({"device": device, "shape": size, "checks": checks, "figures": figures}))
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
