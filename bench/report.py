"""Write docs/benchmarks.md from the last runs' figures; it holds nothing that was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .figures import Figure, Run, as_markdown

_TEXT = """# Benchmarks

Written by `make bench WRITE=1` (`python -m bench --write`); do not edit by hand. Every figure is
a ratio or a difference within one run on one machine, so that it carries over to another one
better than seconds do.

No GPU could be had yet: `bench/gpu_roundtrip.py` is ready and has run on the CPU alone.

{runs}

How each is taken:

- **first checkpoint**: each time in a new kernel, after the page cache's dirty pages are written
  out: a checkpoint into a store that has none of it, then `safetensors.torch.save_file` of the
  model's tensors with `fsync` of file and folder, then (the disk's limit) as many bytes from
  aligned memory by three threads past the page cache (`O_DIRECT`) and `fsync`, all on one disk. The
  checkpoint's time is the whole operation as REST sees it, with hashing, with starting the scratch
  process, and with its test load; `until it is durable` is the same less the kernel's wait for the
  test load.
- **second checkpoint**: the same namespace again, nothing changed, against one pass of
  xxh3-128 over the same tensors in the kernel's memory. Nothing has changed since the test load of
  the one before, so its verdict is carried over. After one cell and one small variable it is not:
  the scratch process, which has its imports by then, loads the checkpoint.
- **extra anonymous memory**: `RssAnon` of the kernel's process, sampled every 10 ms. During the
  checkpoint: its peak less its value before. During the resume: its peak less that of a kernel
  which imported the same modules and mapped the same weights.
- **resume**: from the REST request to the reply of the first cell that uses the model, against
  starting a kernel, importing torch and transformers, `torch.load(mmap=True)` of the same weights
  and the same cell. `cold`: the weights of either side were dropped from the page cache before, and
  by hand a thread reads the file while the imports run.
- **peers**: the same namespace (model and tokenizer) saved and loaded by dill, cloudpickle and
  as a checkpoint, without a server, each in processes of its own: a first save, durable; a second
  one with nothing changed; a load, to the first token of the model, in a new process that has
  imported torch and transformers. Memory is `RssAnon` of the saving process, peak less before; the
  scratch process's own is told beside it.
- **graph pass**: in one kernel, in turn: `pickle.dump` (protocol 5) of a list of 1,000,000
  objects, and our pass over the same list with its classes; into files on the same disk. The
  median of the ratios of five turns.
- **300 frames and arrays**: checkpoints of the same kernel, the first ones into an empty store,
  then one after each single change.
- **server start**: from starting the process to its first answer, with and without the
  extension, in turn; the difference of the medians.
- **cell overhead**: an empty cell from request to idle, in kernels of a server with and of one
  without the extension, in blocks that take turns; the median of the differences of neighbouring
  blocks.
- **snapshots**: kernels in gVisor sandboxes. The snapshot step of a pause of a bare kernel, which
  comes after its checkpoint, against `runsc checkpoint` and `delete` of the same sandbox by hand,
  brought back from the same image; its resume, from the REST request to a cell's reply, against
  `runsc restore` until the sandbox's init answers. A model against a kernel that has imported torch
  and nothing else. Cells and output against a kernel of the same server outside, in turn.
- **workspaces**: our client against the API server of `tests/kube`, in a process of its own. From
  the request for a pause to its PATCH; the same through a Jupyter server, from the REST request on,
  less the time from the order for a checkpoint to its end; requests in a steady state beside open
  watches; a thousand simulated workspaces that all change, and what that leaves in memory. A
  Deployment without a workspace: from the request to its trigger.
- **small notebooks**: those of `tests/field`, each with processes of its own: set up, saved or
  paused, loaded or resumed in a new process, checked. `wrong, success reported`: the check fails
  and the tool had said nothing. What must be lost (a running thread, a generator) counts as lost.
"""


def write(path: Path, runs: Sequence[Run]) -> None:
    """Replace the file at `path` by the tables of these runs, those of one kind together."""
    sections: dict[str, list[Figure]] = {}
    for run in runs:
        heading = (
            f"Measured on {run.date} on {run.machine}; {run.load}. Model: Qwen2.5-"
            f"{run.size.upper()} in bfloat16, on the CPU."
        )
        sections.setdefault(heading, []).extend(run.figures)
    text = "\n\n".join(f"{heading}\n\n{as_markdown(found)}" for heading, found in sections.items())
    path.write_text(_TEXT.format(runs=text), encoding="utf-8")
