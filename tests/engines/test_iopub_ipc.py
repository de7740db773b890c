"""The patches of ipykernel's output: for the ipykernel that it knows, and for no other."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ipykernel.iostream import IOPubThread, OutStream
from jupyter_client.manager import KernelManager

from jupyter_gkews.kernel import iopub_ipc, iopub_pid, sandboxed


def test_the_installed_ipykernel_is_the_one_that_the_patch_knows() -> None:
    iopub_ipc.check()


@pytest.mark.parametrize("name", ["_setup_pipe_in", "_setup_pipe_out"])
def test_a_changed_ipykernel_is_refused_and_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def another(self: object) -> None:
        return None

    monkeypatch.setattr(IOPubThread, name, another)
    with pytest.raises(iopub_ipc.UnknownIPyKernelError, match=name):
        iopub_ipc.install("/nowhere")
    assert getattr(IOPubThread, name) is another


def test_a_method_that_takes_other_arguments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(self, more):  # type: ignore[no-untyped-def]
        self.socket.context.socket(more).bind_to_random_port(urandom)  # noqa: F821
        self._pipe_uuid = self._pipe_port = None

    monkeypatch.setattr(IOPubThread, "_setup_pipe_in", another)
    monkeypatch.setattr(iopub_ipc, "IN_NAMES", {"socket", "context"})
    with pytest.raises(iopub_ipc.UnknownIPyKernelError, match="other arguments"):
        iopub_ipc.check()


def test_the_process_id_is_asked_once_by_the_streams_of_the_installed_ipykernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cls in (IOPubThread, OutStream):
        monkeypatch.setattr(cls, "_is_master_process", cls._is_master_process)
    assert iopub_pid.install() == ["IOPubThread", "OutStream"]


def test_a_stream_that_asks_in_another_way_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def another(self: object) -> bool:
        return self is not None

    for cls in (IOPubThread, OutStream):
        monkeypatch.setattr(cls, "_is_master_process", another)
    assert iopub_pid.install() == []
    assert OutStream._is_master_process is another


@pytest.fixture
def patched_kernel() -> Iterator[tuple[Any, Any]]:
    """A kernel on unix sockets with the patch, outside of any sandbox, and a client of it."""
    folder = f"/tmp/gkews-test-{uuid.uuid4().hex[:8]}"  # short: a socket's path has 107 bytes
    km = KernelManager(transport="ipc", ip=f"{folder}/k")
    Path(folder).mkdir(mode=0o700)
    km.kernel_spec.argv[:] = [sys.executable, sandboxed.__file__, folder, "-f", "{connection_file}"]
    km.start_kernel()
    client = km.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield km, client
    finally:
        client.stop_channels()
        km.shutdown_kernel(now=True)
        shutil.rmtree(folder)


def test_a_patched_kernel_has_no_port_and_its_forked_children_print(
    patched_kernel: tuple[Any, Any],
) -> None:
    km, client = patched_kernel
    assert psutil.Process(km.provisioner.pid).net_connections("inet") == []
    printed = []
    client.execute_interactive(
        "import os\nif not (pid := os.fork()):\n    print('from the child', flush=True)\n"
        "    os._exit(0)\nos.waitpid(pid, 0)\nprint('from the kernel')",
        output_hook=lambda message: printed.append(message["content"].get("text", "")),
        timeout=60,
    )
    # what the child sent is on its way when its parent has seen its end
    while "from the child" not in "".join(printed):
        message = client.get_iopub_msg(timeout=60)
        printed.append(message["content"].get("text", ""))
    assert "from the kernel" in "".join(printed)


def test_a_print_in_a_patched_kernel_makes_no_system_call(patched_kernel: tuple[Any, Any]) -> None:
    _, client = patched_kernel
    printed: list[str] = []
    client.execute_interactive(
        "import os\nasked, getpid = [], os.getpid\n"
        "def counted():\n    asked.append(1)\n    return getpid()\n"
        "os.getpid = counted\nfor n in range(50): print('line')\nhere = len(asked)\n"
        "os.getpid = getpid\nprint('asked', here)",
        output_hook=lambda message: printed.append(message["content"].get("text", "")),
        timeout=60,
    )
    said = "".join(printed)
    assert said.count("line") == 50
    assert int(said.split("asked ")[1]) < 50  # those of the messages, not of each print
