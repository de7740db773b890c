"""The notebooks that a platform team gets to prove a snapshot, run as they say: on the real engine.

Run headless through a real server; also that they do not say "restored" where it is not so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gvisor_here import skip_without_runsc

from examples.demo import cells_of
from examples.headless import JupyterServer, Kernel
from jupyter_gkews.engines.gvisor.kernelspec import NAME, write

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Seconds for which the kernel lies frozen: the ticker must miss some of its ticks.
PAUSED_S = 3.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JupyterServer]:
    """A server above copies of the examples, with the pausable kernel."""
    skip_without_runsc(tmp_path / "state")
    monkeypatch.setenv("DEMO_MODEL", "tiny")
    root = tmp_path / "notebooks"
    root.mkdir()
    for path in (*EXAMPLES.glob("verify_*.ipynb"), EXAMPLES / "qwen_model.py"):
        (root / path.name).write_bytes(path.read_bytes())
    write(tmp_path / "server" / "data" / "kernels")
    with JupyterServer(tmp_path / "server", root) as started:
        yield started


def run_with_a_pause(server: JupyterServer, name: str, **how: bool) -> str:
    """Run a notebook as its text says; what its last cell prints. `how`: of the resume."""
    before, after = cells_of(EXAMPLES / name)
    kernel = Kernel(server, name, NAME)
    try:
        for code in before:
            kernel.run(code)
        paused = server.operate(kernel.id, "pause", {})
        assert paused["result"]["snapshot"], paused["result"]["note"]
        time.sleep(PAUSED_S)
        server.operate(kernel.id, "resume", how)
        return [kernel.run(code).text for code in after][-1]
    finally:
        kernel.close()


def test_the_process_is_proved_to_be_the_same(server: JupyterServer) -> None:
    said = run_with_a_pause(server, "verify_snapshot.ipynb")
    assert "VERDICT: RESTORED - the same process went on, 8 of 8 checks passed" in said, said
    for line in ("the process id is unchanged", "160 MB are bit-identical", "the ticker goes on"):
        assert f"yes  {line}" in said, said


@pytest.mark.soak
def test_the_model_is_proved_to_be_loaded_still(server: JupyterServer) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    said = run_with_a_pause(server, "verify_model_snapshot.ipynb")
    assert "VERDICT: RESTORED - the same process went on, 7 of 7 checks passed" in said, said


@pytest.mark.soak
def test_a_kernel_that_came_back_from_its_checkpoint_does_not_pass(server: JupyterServer) -> None:
    said = run_with_a_pause(server, "verify_snapshot.ipynb", snapshot=False)
    assert "VERDICT: NOT RESTORED" in said, said
    # in another process, and yet the array is whole: that is what a checkpoint promises
    assert "yes  160 MB are bit-identical" in said, said
    for line in ("the ticker goes on", "the generator goes on", "the child process answers"):
        assert f"NO   {line}" in said, said
