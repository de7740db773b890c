"""Process snapshots: of a bare kernel against runsc alone, of a big model against torch alone, and
what cells cost in a sandbox.

Skips itself, with the reason, where runsc cannot run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from examples.headless import JupyterServer, Kernel
from jupyter_gkews.engines.gvisor import guest, kernelspec
from jupyter_gkews.engines.gvisor.runsc import Runsc, probe

from .cell_overhead import timed_cell
from .checkpoint import _SETUP
from .figures import Figure, spread

ROUNDS = 5
BLOCKS, CELLS = 8, 20
LINES = 20000

_STREAM = f"for n in range({LINES}): print('line', n)"
_TORCH = "import torch"
_FIRST_CELL = "ready = 1 + 1"
_MODEL_CELL = "first = model(input_ids=ids).logits[0, -1].argmax().item()"


def run(folder: Path, size: str) -> list[Figure]:
    """All figures; none where no sandbox can be made."""
    runsc = Runsc(folder / "state")
    if (why_not := runsc.why_not() or probe(runsc)) is not None:
        print(f"    skipped: {why_not}")
        return []
    kernelspec.write(folder / "jupyter" / "data" / "kernels")
    with JupyterServer(folder / "jupyter", folder) as server:
        return [*_bare(server), *_cells(server), *_model(server, size)]


def _sandboxed(server: JupyterServer, notebook: str) -> Kernel:
    return Kernel(server, notebook, kernelspec.NAME)


def _end(server: JupyterServer, kernel: Kernel) -> None:
    kernel.close()
    server.rest.delete(f"api/kernels/{kernel.id}").raise_for_status()


# ---- pause and resume ----


def _pause(server: JupyterServer, kernel: Kernel) -> tuple[dict[str, Any], Path]:
    """The operation's result, and the folder of the image."""
    result = server.operate(kernel.id, "pause", {"snapshot": True})["result"]
    return result, server.folder / "data" / "gkews" / "snapshots" / result["snapshot"]


def _resume(server: JupyterServer, kernel: Kernel, cell: str) -> float:
    """Seconds from the request to the reply of `cell`, which is sent at once."""
    started = time.perf_counter()
    operation = server.gkews("POST", f"kernels/{kernel.id}/resume", {})["id"]
    kernel.run(cell)
    taken = time.perf_counter() - started
    while server.gkews("GET", f"operations/{operation}")["finished"] is None:
        time.sleep(0.05)
    if server.state(kernel.id)["provenance"] != "restored":
        raise RuntimeError("the kernel was not restored")
    return taken


class ByHand:
    """The same image, restored and saved again by runsc's own commands and nothing else."""

    def __init__(self, server: JupyterServer, kernel: Kernel, image: Path) -> None:
        self.folder = server.folder / "data" / "gkews" / "sandboxes" / kernel.id
        self.image = image
        self.runsc = Runsc(self.folder / "runsc")
        self.container = f"bench-{os.urandom(8).hex()}"

    def times(self) -> tuple[float, float]:
        """Seconds of a restore until the guest answers; of a checkpoint and the delete."""
        restore = self.runsc.restore(self.folder / "bundle", self.container, self.image / "image")
        again = self.image / "by-hand"
        again.mkdir()
        started = time.perf_counter()
        process = subprocess.Popen(
            restore, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            _say(process, guest.RESUME, b"reset")
            _until(process, guest.STARTED)
            restored = time.perf_counter() - started
            _say(process, guest.PAUSE)
            _until(process, guest.PAUSED)
            started = time.perf_counter()
            asyncio.run(self.runsc.checkpoint(self.container, again))
            process.wait()
            # what `restore` has not removed itself when it ended
            removing = self.runsc.command("delete", "--force", self.container)
            subprocess.run(removing, check=False, capture_output=True)
            return restored, time.perf_counter() - started
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(again)


def _say(process: subprocess.Popen[bytes], kind: int, payload: bytes = b"") -> None:
    assert process.stdin is not None
    process.stdin.write(guest.frame(kind, 0, payload))
    process.stdin.flush()


def _until(process: subprocess.Popen[bytes], kind: int) -> None:
    assert process.stdout is not None
    frames = guest.Frames()
    while True:
        while (got := frames.take()) is not None:
            if got[0] == kind:
                return
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            raise RuntimeError("runsc ended")
        frames.feed(data)


def _bare(server: JupyterServer) -> list[Figure]:
    kernel = _sandboxed(server, "bare.ipynb")
    kernel.run("x = 1")
    seconds: dict[str, list[float]] = {}
    for number in range(ROUNDS + 1):
        result, image = _pause(server, kernel)
        restored, saved = ByHand(server, kernel, image).times()
        resumed = _resume(server, kernel, _FIRST_CELL)
        if number:  # the first round fills the caches
            seconds.setdefault("pause", []).append(result["seconds"]["snapshotting"])
            seconds.setdefault("whole pause", []).append(sum(result["seconds"].values()))
            seconds.setdefault("by hand, pause", []).append(saved)
            seconds.setdefault("resume", []).append(resumed)
            seconds.setdefault("by hand, resume", []).append(restored)
    _end(server, kernel)
    return [
        Figure(
            "bare kernel, snapshot step / runsc checkpoint and delete",
            _ratio(seconds["pause"], seconds["by hand, pause"]),
            1.3,
            "x",
            f"{spread(seconds['pause'])} s against {spread(seconds['by hand, pause'])} s; the "
            f"whole pause, with its proved checkpoint: {spread(seconds['whole pause'])} s",
        ),
        Figure(
            "bare kernel, resume to the first cell's reply / runsc restore",
            _ratio(seconds["resume"], seconds["by hand, resume"]),
            1.3,
            "x",
            f"{spread(seconds['resume'])} s against {spread(seconds['by hand, resume'])} s until "
            "the sandbox's init answers",
        ),
    ]


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """Of neighbours: the machine's speed drifts."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


# ---- cells ----


def _cells(server: JupyterServer) -> list[Figure]:
    inside = _sandboxed(server, "inside.ipynb")
    native = Kernel(server, "native.ipynb")
    cells: dict[bool, list[float]] = {True: [], False: []}
    streams: dict[bool, list[float]] = {True: [], False: []}
    for number in range(BLOCKS + 1):
        for sandboxed in (True, False) if number % 2 else (False, True):
            kernel = inside if sandboxed else native
            taken = statistics.median(timed_cell(kernel) for _ in range(CELLS))
            started = time.perf_counter()
            said = kernel.run(_STREAM).text
            streamed = time.perf_counter() - started
            if said.count("\n") != LINES:
                raise RuntimeError("lines are missing")
            if number:
                cells[sandboxed].append(taken * 1e3)
                streams[sandboxed].append(streamed)
    _end(server, inside)
    _end(server, native)
    return [
        Figure(
            "cell round trip in the sandbox / native",
            _ratio(cells[True], cells[False]),
            3,
            "x",
            f"{spread(cells[True])} ms against {spread(cells[False])} ms",
        ),
        Figure(
            "streaming output in the sandbox, time / native",
            _ratio(streams[True], streams[False]),
            1.67,
            "x",
            f"{spread(streams[True])} s against {spread(streams[False])} s for {LINES} lines "
            "(the bound: at least 0.6 of the native rate)",
        ),
    ]


# ---- a big model ----


def _rounds(
    server: JupyterServer, kernel: Kernel, first_cell: str
) -> tuple[dict[str, list[float]], int]:
    """Seconds by step, and the largest image (bytes)."""
    seconds: dict[str, list[float]] = {"snapshot": [], "whole pause": [], "resume": []}
    largest = 0
    for number in range(ROUNDS):
        result, image = _pause(server, kernel)
        largest = max(largest, sum(path.stat().st_size for path in (image / "image").iterdir()))
        taken = _resume(server, kernel, first_cell)
        if number:  # the first pause writes the checkpoint and fills the caches
            seconds["snapshot"].append(result["seconds"]["snapshotting"])
            seconds["resume"].append(taken)
        else:
            seconds["first snapshot"] = [result["seconds"]["snapshotting"]]
            seconds["first resume"] = [taken]
        seconds["whole pause"].append(sum(result["seconds"].values()))
    return seconds, largest


def _model(server: JupyterServer, size: str) -> list[Figure]:
    kernel = _sandboxed(server, "torch.ipynb")
    kernel.run(_TORCH)
    torch, torch_image = _rounds(server, kernel, _FIRST_CELL)
    _end(server, kernel)
    kernel = _sandboxed(server, "model.ipynb")
    examples = Path(__file__).parent.parent / "examples"
    kernel.run(_SETUP.format(examples=str(examples), size=size))
    kernel.run("ids = prompt_ids(tokenizer, 'Is anybody there?')")
    before = kernel.run(_MODEL_CELL, {"first": "first"}).expressions["first"]
    model, image = _rounds(server, kernel, _FIRST_CELL)
    _pause(server, kernel)
    token = _resume(server, kernel, _MODEL_CELL)
    if kernel.run("", {"first": "first"}).expressions["first"] != before:
        raise RuntimeError("the model answers otherwise than before")
    _end(server, kernel)
    first = model["first snapshot"][0]
    return [
        Figure(
            f"model {size}, snapshot step / torch only",
            _ratio(
                model["first snapshot"] + model["snapshot"],
                torch["first snapshot"] + torch["snapshot"],
            ),
            2,
            "x",
            f"{spread(model['first snapshot'] + model['snapshot'])} s against "
            f"{spread(torch['first snapshot'] + torch['snapshot'])} s, the first ones included",
        ),
        Figure(
            f"model {size}, the first snapshot step / torch only",
            first / torch["first snapshot"][0],
            None,
            "x",
            f"{first:.2f} s against {torch['first snapshot'][0]:.2f} s: it gives the memory of all "
            "weights back, once, as maps of the store take their place; the whole first pause "
            f"{model['whole pause'][0]:.1f} s, in which the checkpoint is written, the later ones "
            f"{spread(model['whole pause'][1:])} s",
        ),
        Figure(
            f"model {size}, image",
            image / 1e6,
            150,
            "MB",
            f"largest; with torch only {torch_image / 1e6:.0f} MB",
        ),
        Figure(
            f"model {size}, restore to the first cell's reply / torch only",
            _ratio(
                model["first resume"] + model["resume"], torch["first resume"] + torch["resume"]
            ),
            3,
            "x",
            f"{spread(model['first resume'] + model['resume'])} s against "
            f"{spread(torch['first resume'] + torch['resume'])} s; to the first token of the model "
            f"{token:.2f} s",
        ),
    ]
