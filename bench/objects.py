"""A million small objects: the graph pass against plain pickle of the same graph, in one kernel."""

from __future__ import annotations

import statistics
from pathlib import Path

from examples.headless import JupyterServer, Kernel

from .checkpoint import steps_of, timed_checkpoint
from .figures import Figure, spread

ROUNDS = 5

_SETUP = """
import collections, dataclasses, datetime, pickle, time
from jupyter_gkews.kernel.checkpoint.collect import GraphFile, collect

class Point:
    def __init__(self, i):
        self.i = i

class Slots:
    __slots__ = ("i",)
    def __init__(self, i):
        self.i = i

@dataclasses.dataclass
class Record:
    i: int
    tags: list

Pair = collections.namedtuple("Pair", "i text")
KINDS = {
    "plain": [Point],
    "mixed": [Point, Slots, lambda i: Record(i, [i]), lambda i: Pair(i, str(i)), lambda i: {"i": i},
              lambda i: (i, str(i)), lambda i: datetime.datetime.fromtimestamp(i)],
}

def make(kind):
    makers = KINDS[kind]
    return [makers[i % len(makers)](i) for i in range(1_000_000)]

def plain(path):
    started = time.perf_counter()
    with open(path, "wb") as file:
        pickle.dump(objects, file, protocol=5)
    return time.perf_counter() - started

def graph(path):
    names = {"objects": objects, **{name: globals()[name] for name in ("Point", "Slots", "Record")}}
    started = time.perf_counter()
    with open(path, "wb", buffering=1 << 20) as file:
        collect(names, hidden=frozenset(), extras=None, objects=None, cell_of=None,
                file=GraphFile(file), check=lambda: None)
    return time.perf_counter() - started
"""


def run(folder: Path, size: str) -> list[Figure]:
    """The graph pass of plain and of mixed objects, and a whole checkpoint of the plain ones."""
    figures = []
    plain: list[float] = []
    with JupyterServer(folder / "jupyter", folder) as server:
        kernel = Kernel(server, "objects.ipynb")
        kernel.run(_SETUP)
        for kind, words in (("mixed", "small objects of seven kinds"), ("plain", "small objects")):
            kernel.run(f"objects = make({kind!r})")
            found: dict[str, list[float]] = {"plain": [], "graph": []}
            for _ in range(ROUNDS):
                for way, seconds in found.items():
                    path = str(folder / f"{way}.pkl")
                    seconds.append(kernel.run("", {"s": f"{way}({path!r})"}).expressions["s"])
            plain = found["plain"]
            ratios = [
                ours / peer for ours, peer in zip(found["graph"], found["plain"], strict=True)
            ]
            figures.append(
                Figure(
                    f"graph pass of 1,000,000 {words} / pickle.dump",
                    statistics.median(ratios),
                    1.5,
                    "x",
                    f"{spread(found['graph'])} s against {spread(found['plain'])} s",
                )
            )
        whole, checkpoint, _ = timed_checkpoint(server, kernel)
        figures.append(
            Figure(
                "whole checkpoint of 1,000,000 small objects, proved / pickle.dump",
                whole / statistics.median(plain),
                None,
                "x",
                f"{whole:.1f} s; steps: {steps_of(server, checkpoint)} s",
            )
        )
        kernel.close()
    return figures
