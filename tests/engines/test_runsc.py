"""runsc: what it is able to do is asked of it, and what is missing is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gkews.engines.gvisor import runsc as module
from jupyter_gkews.engines.gvisor.runsc import Runsc, why_it_failed

#: What two releases of Debian's runsc say of themselves, shortened.
OLD = {
    "--version": "runsc version 0.0~20221219.0\nspec: 1.0.2-dev",
    "flags": '  -overlay2 value\n  -platform string\n\tptrace (default), kvm. (default "ptrace")',
    "help checkpoint": "  -image-path string\n  -leave-running",
}
NEW = {
    "--version": "runsc version 0.0~20240729.0\nspec: 1.2.0",
    "flags": "  -overlay2 value\n  -platform string\n\tsystrap (default), ptrace, kvm.",
    "help checkpoint": "  -compression value\n  -exclude-committed-zero-pages\n  -image-path s",
}


def program(folder: Path, says: dict[str, str]) -> Runsc:
    """A program that says of itself what a release says."""
    folder.mkdir()
    lines = [f'[ "$*" = "{asked}" ] && cat <<"E"\n{said}\nE' for asked, said in says.items()]
    file = folder / "runsc"
    file.write_text("#!/bin/sh\n" + "\n".join(lines) + "\nexit 0\n")
    file.chmod(0o755)
    return Runsc(folder, str(file))


def test_abilities_are_asked_of_the_program(tmp_path: Path) -> None:
    old, new = program(tmp_path / "old", OLD), program(tmp_path / "new", NEW)
    assert "20221219" in old.version and "20240729" in new.version
    assert (old.platform, new.platform) == ("ptrace", "systrap")
    assert (old.compression_is_optional, new.compression_is_optional) == (False, True)
    assert (old.leaves_zeros_out, new.leaves_zeros_out) == (False, True)
    assert "--overlay2=none" in new.command("run")


def test_the_installed_program_is_understood(runsc: Runsc) -> None:
    assert runsc.version and runsc.platform in ("systrap", "ptrace")


def test_a_release_without_images_is_too_old(tmp_path: Path) -> None:
    said = program(tmp_path / "x", {**OLD, "help checkpoint": "no such command"}).why_not()
    assert said is not None and "too old" in said


def test_a_program_that_does_not_run_is_told(tmp_path: Path) -> None:
    said = Runsc(tmp_path, str(tmp_path / "nothing")).why_not()
    assert said is not None and "does not run" in said


def test_what_an_ordinary_user_lacks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = program(tmp_path / "x", OLD)
    assert here.version and here.compression_is_optional is False  # asked once
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = here.why_not()
    assert said is not None and said.startswith("newuidmap and newgidmap cannot be found")
    for name in ("newuidmap", "newgidmap"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert here.why_not() is None  # no range in /etc/subuid is needed
    settings = tmp_path / "setting"
    settings.write_text("0\n")
    monkeypatch.setattr(module, "_NAMESPACE_SETTINGS", [(str(settings), "0", "Nobody may")])
    assert why_it_failed("clone: operation not permitted").startswith("Nobody may (sysctl ")
    settings.write_text("9\n")
    assert "SYS_ADMIN" in why_it_failed("clone: operation not permitted")


def test_a_server_in_a_sandbox_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = program(tmp_path / "x", NEW)
    monkeypatch.setenv("JUPYTER_GKEWS_SANDBOX", "/tmp/.gkews")
    said = here.why_not()
    assert said is not None and "frozen as a whole" in said
