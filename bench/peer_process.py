"""The process of one tool in peers.py: `python -m bench.peer_process save|load TOOL FOLDER SIZE`.

Does what it reads, line by line, and answers each with a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

OURS = "a checkpoint"
QUESTION = "Is anybody there?"


def durable(path: Path) -> None:
    """Make a file and its name durable."""
    for name, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY)):
        descriptor = os.open(name, flags)
        os.fsync(descriptor)
        os.close(descriptor)


def save(tool: str, folder: Path, namespace: dict[str, Any], number: int) -> None:
    """Save the model and the tokenizer, durable."""
    if tool == OURS:
        from jupyter_gkews.kernel.checkpoint.save import save as save_checkpoint
        from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

        save_checkpoint(namespace, CheckpointStore(folder / "store"), checkpoint=f"c{number}")
        return
    path = folder / f"{number}.pkl"
    with open(path, "wb") as file:
        importlib.import_module(tool).dump(namespace, file)
    durable(path)
    if number:
        path.unlink()  # the disk of a small machine holds no more


def load(tool: str, folder: Path) -> dict[str, Any]:
    """What `save` wrote first, in this process."""
    if tool == OURS:
        from jupyter_gkews.kernel.checkpoint.restore import restore
        from jupyter_gkews.kernel.checkpoint.store import CheckpointStore

        namespace: dict[str, Any] = vars(sys.modules["__main__"])
        restore(namespace, CheckpointStore(folder / "store"), "c0")
        return namespace
    with open(folder / "0.pkl", "rb") as file:
        found: dict[str, Any] = importlib.import_module(tool).load(file)
    return found


def next_token(namespace: dict[str, Any]) -> int:
    """The first token that the model answers."""
    ids = namespace["tokenizer"](QUESTION, return_tensors="pt").input_ids
    return int(namespace["model"](input_ids=ids).logits[0, -1].argmax())


def main(what: str, tool: str, folder: Path, size: str) -> None:
    """Answer line after line of stdin."""
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    namespace = vars(main_module)
    qwen_model: Any = importlib.import_module("examples.qwen_model")  # imports what loading needs
    if what == "save":
        loaded = qwen_model.load(size)
        namespace.update(model=loaded.model, tokenizer=loaded.tokenizer)
    for line in sys.stdin:
        step, answer = line.strip(), {"step": line.strip()}
        started = time.perf_counter()
        if step in ("save", "second save"):
            names = namespace if tool == OURS else {n: namespace[n] for n in ("model", "tokenizer")}
            save(tool, folder, names, int(step != "save"))
        elif step == "load":
            answer["token"] = next_token(load(tool, folder))
        elif step == "token":
            answer["token"] = next_token(namespace)
        answer["seconds"] = time.perf_counter() - started
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    os._exit(0)
