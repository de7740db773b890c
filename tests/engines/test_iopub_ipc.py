"""The patch of ipykernel's IOPub thread: for the ipykernel that it knows, and for no other."""

from __future__ import annotations

import pytest
from ipykernel.iostream import IOPubThread

from jupyter_gkews.kernel import iopub_ipc


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
