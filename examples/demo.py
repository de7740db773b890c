"""The main job without a browser: run the notebook, pause, see the memory free, resume, compare.

`make demo` runs it. What came back is compared here, outside of the kernel, with what was there
before; it prints one table and exits non-zero if any of it is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .headless import CellError, JupyterServer, Kernel, Outcome
from .snapshot_round import snapshot_round

HERE = Path(__file__).parent

#: What is asked of the kernel before the pause and after the resume; each value must be equal.
EVIDENCE = {
    "weights": ("the SHA-256 of every weight", "fingerprint(model)"),
    "tokens": ("greedy tokens for the same question", "ask(question)"),
    "answer": ("plain values", "(answer, said, losses, draws, max_new)"),
    "tied": (
        "tied weights are one tensor",
        "head is model.lm_head.weight is model.model.embed_tokens.weight",
    ),
    "optimizer": (
        "the optimizer holds the probe's own parameters",
        "optimizer.param_groups[0]['params'][0] is probe.weight",
    ),
    "moments": (
        "the optimizer's moments",
        "[float(s['exp_avg'].double().sum()) for s in optimizer.state.values()]",
    ),
    "view": ("a numpy view shares its base", "np.shares_memory(best, scores)"),
    "instance": ("an instance of a class of the notebook", "isinstance(run, Run)"),
    "globals": (
        "functions see the live namespace",
        "ask.__globals__ is get_ipython().user_ns and run.describe.__globals__ is ask.__globals__",
    ),
    "frame": ("the DataFrame", "int(pd.util.hash_pandas_object(results).sum())"),
    "random": (
        "random generators (random, numpy, torch)",
        "[__import__('hashlib').sha256(repr(s).encode()).hexdigest() for s in (random.getstate(), "
        "np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())]",
    ),
    "file": (
        "the open file and its position",
        "(__import__('os').path.abspath(source.name), source.tell())",
    ),
    "place": ("working directory and In", "(__import__('os').getcwd(), In)"),
}
EXPECTED_LOST = {"stream"}  # the notebook's running generator
LITTLE = 64_000_000  # bytes; what the cells after the resume change is less than that


@dataclass
class Memory:
    """One look from outside: bytes of the kernel's process tree, and of the machine."""

    kernel: int
    available: int

    @classmethod
    def of(cls, pid: int | None) -> Memory:
        kernel = 0
        if pid is not None and psutil.pid_exists(pid):
            root = psutil.Process(pid)
            for process in [root, *root.children(recursive=True)]:
                kernel += process.memory_info().rss
        return cls(kernel, psutil.virtual_memory().available)


@dataclass
class Round:
    """One pause and the resume after it."""

    pause: dict[str, Any]
    resume: dict[str, Any]
    before: Memory
    paused: Memory
    after: Memory
    pause_s: float
    resume_s: float


@dataclass
class Checks:
    """What was verified, in order. Nothing is verified silently."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list)

    def add(self, what: str, good: bool, detail: str = "") -> None:
        self.rows.append((what, good, detail))

    @property
    def failed(self) -> list[str]:
        return [what for what, good, _ in self.rows if not good]


def cells_of(notebook: Path) -> tuple[list[str], list[str]]:
    """The code cells before and after the markdown cell that is tagged `pause`."""
    before: list[str] = []
    after: list[str] = []
    part = before
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if "pause" in cell["metadata"].get("tags", []):
            part = after
        elif cell["cell_type"] == "code":
            part.append("".join(cell["source"]))
    if not before or not after:
        raise ValueError(f"{notebook} has no cell tagged `pause` between code cells")
    return before, after


def compare(before: Outcome, after: Outcome, checks: Checks) -> None:
    """Add one check for each piece of evidence."""
    for name, (what, _) in EVIDENCE.items():
        was, now = before.expressions[name], after.expressions[name]
        # What is a statement about identity must hold, not only be the same as before.
        checks.add(what, was == now and now is not False, f"{was} -> {now}")


def pause_and_resume(
    name: str,
    server: JupyterServer,
    kernel: Kernel,
    checks: Checks,
    resume: Callable[[], dict[str, Any]],
) -> Round:
    """Pause through REST, look at what is left, and bring the kernel back by `resume`."""
    pid = kernel.pid()
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    before = Memory.of(pid)
    started = time.monotonic()
    pause = server.operate(kernel.id, "pause", {"when": "idle"}, Progress("pause"))
    pause_s = time.monotonic() - started
    left = [process.pid for process in tree if process.is_running()]
    checks.add(
        f"{name} pause: the kernel's processes are gone", not left, f"left: {left}" if left else ""
    )
    paused = Memory.of(pid)
    state = server.state(kernel.id)["state"]
    checks.add(f"{name} pause: the server says `paused`", state == "paused", state)
    listed = server.rest.get(f"api/kernels/{kernel.id}").is_success
    checks.add(f"{name} pause: kernel id and session stay", listed)

    started = time.monotonic()
    resumed = resume()
    fresh = kernel.pid()  # the first reply of the new process: until then nobody can work
    resume_s = time.monotonic() - started
    checks.add(f"{name} resume: in a new process", fresh != pid)
    provenance = resumed["result"]["provenance"]
    checks.add(
        f"{name} resume: provenance is `recovered`", provenance == "recovered", str(provenance)
    )
    return Round(pause, resumed, before, paused, Memory.of(fresh), pause_s, resume_s)


class Progress:
    """Print an operation's phases as they come, one line a phase, with bytes where there are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seen: tuple[str, str | None] | None = None

    def __call__(self, operation: dict[str, Any]) -> None:
        now = (operation["phase"], operation.get("step"))
        if now != self.seen and operation["finished"] is None:
            self.seen = now
            step = f" ({now[1]})" if now[1] else ""
            total = operation["bytes_total"]
            size = f", {operation['bytes_done'] / 1e9:.2f} of {total / 1e9:.2f} GB" if total else ""
            print(f"    {self.kind}: {now[0]}{step}{size}", flush=True)


def resume_by_rest(server: JupyterServer, kernel: Kernel) -> dict[str, Any]:
    """Ask for the resume, as the button does."""
    return server.operate(kernel.id, "resume", {}, Progress("resume"))


def resume_by_cell(
    server: JupyterServer, kernel: Kernel, checks: Checks, answer: Any
) -> dict[str, Any]:
    """Run a cell in the paused kernel, as a user does who just goes on working."""
    outcome = kernel.run("max_new = len(answer); again = ask(question)", {"again": "again"})
    right = outcome.expressions["again"] == answer
    checks.add("a cell run while paused resumes and is then run", right)
    operation = server.state(kernel.id)["last_operation"]
    if not operation or operation["kind"] != "resume":
        raise RuntimeError(f"the kernel's last operation is not the resume but {operation}")
    return dict(operation)


def demonstrate(notebook: Path, work: Path, *, snapshot: bool) -> int:
    """Do it all; return the exit status. `snapshot`: also the round with a process snapshot."""
    before_cells, after_cells = cells_of(notebook)
    checks = Checks()
    started = time.monotonic()
    with JupyterServer(work, notebook.parent) as server:
        version = server.gkews("GET", "status")["version"]
        print(f"Jupyter server with jupyter_gkews {version} on {server.url} (pid {server.pid})")
        kernel = Kernel(server, notebook.name)
        print(f"\n{notebook.name}: {len(before_cells)} cells before the pause")
        for code in before_cells:
            show(kernel.run(code))
        expressions = {name: expression for name, (_, expression) in EVIDENCE.items()}
        count = kernel.run("'last cell before the pause'").count
        was = kernel.run("", expressions)

        print("\nPause through REST, then resume")
        first = pause_and_resume(
            "first", server, kernel, checks, lambda: resume_by_rest(server, kernel)
        )
        compare(was, kernel.run("", expressions), checks)
        checks.add(
            "the execution count goes on", kernel.run("'next cell'").count == count + 1, f"{count}"
        )

        print(f"\n{len(after_cells)} cells after the resume")
        for number, code in enumerate(after_cells, 1):
            try:
                show(kernel.run(code))
            except CellError as error:
                print(error)
                checks.add(f"cell {number} after the resume", False, str(error).splitlines()[-1])
            else:
                checks.add(f"cell {number} after the resume", True)

        print("\nPause again, and just run the next cell")
        second = pause_and_resume(
            "second",
            server,
            kernel,
            checks,
            lambda: resume_by_cell(server, kernel, checks, was.expressions["tokens"]),
        )
        for name, each in (("first", first), ("second", second)):
            lost = {entry["name"] for entry in each.pause["result"]["lost"]}
            what = f"{name} pause: lost the generator and nothing else"
            checks.add(what, lost == EXPECTED_LOST, str(lost))
        sizes = [each.pause["result"]["bytes_written"] for each in (first, second)]
        small = 0 < sizes[1] <= min(sizes[0], LITTLE)
        checks.add("the second checkpoint wrote only what changed", small, str(sizes))
        kernel.close()
        server.rest.delete(f"api/kernels/{kernel.id}")  # the model's memory is free again
        if snapshot:
            snapshot_round(server, work, checks.add)
    print(table(first, second, checks, time.monotonic() - started))
    return 1 if checks.failed else 0


def show(outcome: Outcome) -> None:
    """Print a cell's output, indented, as the notebook numbers it."""
    lines = outcome.text.rstrip().splitlines() or [""]
    for position, line in enumerate(lines):
        print(f"  {f'[{outcome.count}]' if position == 0 else '':5} {line}", flush=True)


def table(first: Round, second: Round, checks: Checks, seconds: float) -> str:
    """The one table: what was kept, bytes, seconds, memory, and what was verified."""
    rows: list[tuple[str, str, str]] = [("", "first pause", "second pause")]

    def row(label: str, value: Callable[[Round], str]) -> None:
        rows.append((label, value(first), value(second)))

    def phases(operation: dict[str, Any]) -> str:
        each = operation["result"]["seconds"]
        return ", ".join(f"{name} {value:.1f}" for name, value in each.items()) or "-"

    row("kept / rebuilt / lost", lambda r: counts(r.pause["result"]))
    row("lost", lambda r: ", ".join(e["name"] for e in r.pause["result"]["lost"]) or "-")
    row("bytes written", lambda r: f"{r.pause['result']['bytes_written'] / 1e6:,.1f} MB")
    row("pause, s", lambda r: f"{r.pause_s:.1f}")
    row("resume, s (until a cell ran)", lambda r: f"{r.resume_s:.1f}")
    row("kernel memory before", lambda r: gigabytes(r.before.kernel))
    row("kernel memory paused", lambda r: gigabytes(r.paused.kernel))
    row("kernel memory resumed", lambda r: gigabytes(r.after.kernel))
    row("machine, free before", lambda r: gigabytes(r.before.available))
    row("machine, free paused", lambda r: gigabytes(r.paused.available))
    widths = [max(len(cells[column]) for cells in rows) for column in range(3)]
    rule = "-" * (sum(widths) + 4)
    lines = ["", rule]
    for label, one, two in rows:
        lines.append(f"{label:{widths[0]}}  {one:>{widths[1]}}  {two:>{widths[2]}}")
        if not label:
            lines.append(rule)
    lines.append(rule)
    for name, each in (("first", first), ("second", second)):
        lines.append(f"{name} pause, s a phase:  {phases(each.pause)}")
        lines.append(f"{name} resume, s a phase: {phases(each.resume)}")
    lines.append(rule)
    for what, good, detail in checks.rows:
        lines.append(
            f"{'ok  ' if good else 'WRONG'} {what}{f': {detail[:400]}' if not good else ''}"
        )
    lines.append(rule)
    lost = ", ".join(sorted(EXPECTED_LOST))
    verdict = f"Everything came back, but for `{lost}`, as announced."
    if checks.failed:
        verdict = f"WRONG: {'; '.join(checks.failed)}"
    lines.append(f"{verdict} ({len(checks.rows)} checks, {seconds:.0f} s)")
    return "\n".join(lines)


def counts(result: dict[str, Any]) -> str:
    """Kept, rebuilt and lost as three numbers."""
    return f"{result['kept']} / {result['rebuilt']} / {len(result['lost'])}"


def gigabytes(size: int) -> str:
    """Bytes as GB with two digits."""
    return f"{size / 1e9:.2f} GB"


def main() -> int:
    """Parse the command line, run the demo, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notebook", type=Path, default=HERE / "qwen_pause_resume.ipynb")
    parser.add_argument(
        "--work",
        type=Path,
        default=HERE.parent / ".demo",
        help="takes all that the server writes; emptied",
    )
    parser.add_argument(
        "--no-snapshot",
        action="store_false",
        dest="snapshot",
        help="leave out the round with a process snapshot",
    )
    arguments = parser.parse_args()
    work: Path = arguments.work.resolve()
    marker = work / "made-by-gkews-demo"
    if work.exists() and not marker.exists() and any(work.iterdir()):
        parser.error(f"{work} holds something that this demo did not make; it will not empty it")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    marker.touch()
    # make ends its children with SIGTERM: let the server and its kernels be ended then, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 1
    try:
        status = demonstrate(arguments.notebook.resolve(), work, snapshot=arguments.snapshot)
    except Exception:
        traceback.print_exc()
        print(f"The demo failed; the server's log is {work / 'server.log'}", file=sys.stderr)
    finally:
        if status == 0 and not os.environ.get("DEMO_KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
