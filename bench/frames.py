"""300 variables with 2 GB of pandas and numpy: the checkpoint after one element has changed."""

from __future__ import annotations

import statistics
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .checkpoint import steps_of, timed_checkpoint
from .figures import Figure, spread

ROUNDS = 3

_SETUP = """
import numpy as np, pandas as pd
draw = np.random.default_rng(0)
for i in range(150):
    globals()[f"array{i}"] = draw.random(900_000)
for i in range(140):
    globals()[f"frame{i}"] = pd.DataFrame({
        "a": draw.random(150_000), "b": draw.integers(0, 9, 150_000),
        "at": pd.date_range("2026", periods=150_000, freq="s"),
        "kind": pd.Categorical(draw.integers(0, 5, 150_000)),
    })
for i in range(10):
    globals()[f"names{i}"] = pd.DataFrame({
        "name": [f"name {j}" for j in range(50_000)], "v": draw.random(50_000)})
held = sum(v.nbytes if isinstance(v, np.ndarray) else int(v.memory_usage(deep=True).sum())
           for v in list(globals().values()) if isinstance(v, (np.ndarray, pd.DataFrame)))
"""
#: One element each time, of an array, of a frame and of a column of strings.
_CHANGES = (
    "array7[5] += 1",
    "frame9.loc[3, 'a'] = 5.5",
    "names2.loc[7, 'name'] = 'another'",
)


def run(folder: Path, size: str) -> list[Figure]:
    """First checkpoint, then one after each change."""
    with JupyterServer(folder / "jupyter", folder) as server:
        kernel = Kernel(server, "frames.ipynb")
        kernel.run(_SETUP)
        held = kernel.run("", {"s": "held"}).expressions["s"]
        first: list[float] = []
        for round_ in range(ROUNDS):
            kernel.run("import os; os.sync()")
            seconds, checkpoint, _ = timed_checkpoint(server, kernel)
            first.append(seconds)
            if round_ < ROUNDS - 1:
                server.gkews("DELETE", f"checkpoints/{checkpoint}")
        again: list[float] = []
        written: list[int] = []
        for change in _CHANGES:
            kernel.run(change)
            seconds, checkpoint, nbytes = timed_checkpoint(server, kernel)
            again.append(seconds)
            written.append(nbytes)
        steps = steps_of(server, checkpoint)
        kernel.close()
    return [
        Figure(
            "checkpoint of 300 frames and arrays, one element changed / the first",
            statistics.median(again) / statistics.median(first),
            0.25,
            "x",
            f"{spread(again)} s against {spread(first)} s for {held / 1e9:.2f} GB; the last one's "
            f"steps: {steps} s",
        ),
        Figure(
            "bytes written for one changed element",
            max(written) / 1e6,
            20,
            "MB",
            "after a change of an array, of a frame, of a string: "
            + ", ".join(f"{nbytes / 1e6:.2f}" for nbytes in written),
        ),
    ]
