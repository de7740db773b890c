"""The kernel's side of the scratch process: starts it, feeds it, compares what it found."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from ...errors import GkewsError
from .. import pure_python

#: Seconds without a sign of life after which the scratch process is given up.
SILENCE_S = 180.0


@dataclass
class Verdict:
    """What a test load found. `differs`: positions of names that did not come back equal;
    `failed`: objects that did not load ({"name", "path", "what", "reason"}); `died_at`: position
    of the name at which the process ended; `lenient`: as in the manifest."""

    differs: list[int] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    lenient: bool = False
    died_at: int | None = None


class Scratch:
    """One scratch process. Start it early: it imports while the kernel writes."""

    def __init__(self, modules: list[str]) -> None:
        script = Path(__file__).with_name("scratch.py")
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        environ = dict(os.environ)
        environ.update({"CUDA_VISIBLE_DEVICES": "", "JUPYTER_GKEWS_SCRATCH": "1"})
        environ.pop("PYTHONSTARTUP", None)
        try:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(their_in), str(their_out)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(their_in, their_out),
                env=environ,
                start_new_session=True,  # an interrupt of the kernel is not for it
            )
        except OSError:
            os.close(self._out)
            os.close(self._in)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)
        self._buffer = b""
        self._read = -1
        self._errors = b""
        paths = [p for p in sys.path if isinstance(p, str)]
        self._say({"sys_path": paths, "pure_python": pure_python.folders(), "modules": modules})

    def _say(self, order: dict[str, Any]) -> None:
        data = (json.dumps(order) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            return  # seen as the end of its answers

    def prove(
        self,
        store: Path,
        checkpoint: str,
        staging: Path,
        trusted: list[str],
        expected: list[str],
        check: Callable[[], None],
    ) -> Verdict:
        """Let it load the staged checkpoint and compare with the fingerprints of the kernel.

        `trusted`: chunks that this process wrote or checked itself; all others are read whole.

        Raises verification_failed if it tells nothing about a single name.
        """
        self._read = -1
        order = {"store": str(store), "checkpoint": checkpoint, "staging": str(staging)}
        self._say({**order, "trusted": trusted})
        while True:
            answer = self._answer(check)
            if answer is None:
                return self._died()
            if "error" in answer:
                error = GkewsError.from_json(answer["error"])
                raise _failed(f"A test load of the checkpoint failed: {error.message}")
            if "read" in answer:
                self._read = int(answer["read"])
            if "fingerprints" in answer:
                break
        found = answer["fingerprints"]
        if len(found) != len(expected):
            raise _failed("A test load of the checkpoint found other names than were saved")
        broken = {failure["name"] for failure in answer["failed"]}
        differs = [i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]]
        return Verdict(differs, answer["failed"], bool(answer["lenient"] or broken))

    def _died(self) -> Verdict:
        if self._read >= 0:
            return Verdict(died_at=self._read)
        text = self._errors.decode("utf-8", "replace").strip().split("\n")[-1]
        code = self._process.poll()
        raise _failed(f"The test load of the checkpoint ended (exit status {code}) {text}".strip())

    def _answer(self, check: Callable[[], None]) -> dict[str, Any] | None:
        """The next answer; None if the process ended or fell silent."""
        assert self._process.stderr is not None
        errors = self._process.stderr.fileno()
        sources = [self._in, errors]
        deadline = time.monotonic() + SILENCE_S
        while b"\n" not in self._buffer:
            check()
            ready, _, _ = select.select(sources, [], [], 0.1)
            if errors in ready:
                said = os.read(errors, 65536)
                self._errors = (self._errors + said)[-65536:]
                if not said:
                    sources.remove(errors)
            if self._in in ready:
                data = os.read(self._in, 1 << 20)
                if not data:
                    self._process.wait()
                    return None
                self._buffer += data
                deadline = time.monotonic() + SILENCE_S
            elif time.monotonic() > deadline:
                self._process.kill()
                self._process.wait()
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """End it."""
        for fd in (self._out, self._in):
            try:
                os.close(fd)
            except OSError:
                continue
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


def _failed(message: str) -> GkewsError:
    return GkewsError(
        "verification_failed",
        message.rstrip(".") + ".",
        "Nothing was released: the kernel and all earlier checkpoints are as they were. "
        "`%survives` shows what a checkpoint would hold.",
    )
