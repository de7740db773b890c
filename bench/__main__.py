"""`python -m bench [names] [--write]`: run the benches one after the other and print one table.

`--write` also replaces docs/benchmarks.md, from the last run of each bench. Exits non-zero if a
bound is missed. Never run two at once, and never beside other work: they share the machine's disk
and cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from examples.qwen_model import choose_size

from . import (
    blocked,
    cell_overhead,
    checkpoint,
    field,
    frames,
    objects,
    peers,
    references,
    resume,
    server_start,
    snapshots,
    workspaces,
)
from .figures import Bench, Figure, Run, as_text, load, machine
from .report import write

ROOT = Path(__file__).parent.parent
BENCHES: dict[str, Bench] = {
    "checkpoint": checkpoint.run,
    "references": references.run,
    "blocked": blocked.run,
    "resume": resume.run,
    "peers": peers.run,
    "objects": objects.run,
    "frames": frames.run,
    "server_start": server_start.run,
    "cell_overhead": cell_overhead.run,
    "field": field.run,
    "snapshots": snapshots.run,
    "workspaces": workspaces.run,
}

WORK = ROOT / ".bench"
RESULTS = WORK / "results.json"


def read_runs() -> dict[str, Run]:
    """The last run of each bench, so that they can be taken one by one."""
    try:
        found = json.loads(RESULTS.read_text())
    except FileNotFoundError:
        return {}
    return {
        name: Run(**{**run, "figures": [Figure(**figure) for figure in run["figures"]]})
        for name, run in found.items()
    }


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--model", choices=["0.5b", "3b", "tiny"], help="default: what fits")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, too")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHES)
    if unknown:
        parser.error(f"no bench is called {', '.join(sorted(unknown))}")
    size = arguments.model or choose_size("BENCH_MODEL", ROOT)[0]
    # ended by make, end the servers and their kernels too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runs = read_runs()
    figures: list[Figure] = []
    for name in arguments.names or BENCHES:
        print(f"== {name} (model {size})", flush=True)
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run = Run(size, load(), machine(), datetime.now(timezone.utc).date().isoformat())
        started = time.monotonic()
        run.figures = BENCHES[name](folder, size)
        print(as_text(run.figures), f"\n    ({time.monotonic() - started:.0f} s)", flush=True)
        shutil.rmtree(folder)  # 3B leaves 12 GB behind otherwise
        figures += run.figures
        runs[name] = run
        RESULTS.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}, indent=1))
    if arguments.write:
        write(ROOT / "docs" / "benchmarks.md", [runs[name] for name in BENCHES if name in runs])
    missed = [figure.name for figure in figures if not figure.met]
    bounds = sum(figure.bound is not None for figure in figures)
    print(f"\n{bounds - len(missed)} of {bounds} bounds met", end="")
    print(f"; missed: {', '.join(missed)}" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
