"""gVisor's `runsc`: whether it works here, and the commands that the engine gives it.

Knows the command line and its versions; nothing of kernels. Every command has the same global
flags, as a restore needs those of the checkpoint.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import GkewsError

#: Seconds for a command that only looks or removes.
QUICK_S = 20.0
#: What to install where `runsc` is missing (Debian's names).
INSTALL = "Install the packages runsc and uidmap (Debian, Ubuntu), or gVisor's own release."


@dataclass(frozen=True)
class Version:
    """A release of runsc: Debian's and gVisor's own carry the date."""

    text: str
    date: int  # yyyymmdd; 0 if it cannot be told

    @property
    def compression_is_optional(self) -> bool:
        """`checkpoint --compression=none`, from 2024 on."""
        return self.date >= 20240101

    @property
    def platform(self) -> str:
        """systrap where it is stable; ptrace before."""
        return "systrap" if self.date >= 20240101 else "ptrace"


class Runsc:
    """One runsc with one state directory, `root`."""

    def __init__(self, root: Path, binary: str | None = None) -> None:
        self.root = root
        self.binary = binary or shutil.which("runsc") or ""

    @cached_property
    def version(self) -> Version:
        """What `runsc --version` says."""
        try:
            said = subprocess.run(
                [self.binary, "--version"],
                capture_output=True,
                text=True,
                timeout=QUICK_S,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return Version("", 0)
        found = re.search(r"version\s+(\S+)", said)
        text = found[1] if found else ""
        date = re.search(r"(20\d{6})", text)
        return Version(text, int(date[1]) if date else 0)

    def why_not(self) -> str | None:
        """Why no sandbox can be made here, in one sentence; None if one probably can."""
        if not self.binary:
            return f"gVisor's runsc is not installed. {INSTALL}"
        if not self.version.text:
            return f"{self.binary} does not run. {INSTALL}"
        if os.geteuid() and not shutil.which("newuidmap"):
            return f"newuidmap is missing, which an ordinary user needs for a sandbox. {INSTALL}"
        return None

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        return [
            self.binary,
            f"--root={self.root}",
            f"--platform={self.version.platform}",
            "--network=none",
            "--ignore-cgroups",
            *arguments,
        ]

    async def call(self, *arguments: str, timeout_s: float | None = None) -> None:
        """Run a command to its end.

        Raises GkewsError (`snapshot_failed`) with what it said.
        """
        process = await asyncio.create_subprocess_exec(
            *self.command(*arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), timeout_s)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise GkewsError(
                "snapshot_failed",
                f"`runsc {arguments[0]}` failed: {last_words(said)}",
                "The portable checkpoint is not touched by this.",
            )

    async def checkpoint(self, container: str, image: Path) -> None:
        """Freeze `container` into the empty directory `image`. The sandbox has ended afterwards,
        also when this fails."""
        options = ["--compression=none"] if self.version.compression_is_optional else []
        await self.call("checkpoint", *options, f"--image-path={image}", container)
        for path in image.iterdir():
            path.chmod(0o600)

    async def delete(self, container: str) -> None:
        """Remove what runsc knows of a container, running or not."""
        await self.call("delete", "--force", container, timeout_s=QUICK_S)

    def run(self, bundle: Path, container: str) -> list[str]:
        """The command that starts a container and stays until it ends."""
        return self.command("run", f"--bundle={bundle}", container)

    def restore(self, bundle: Path, container: str, image: Path) -> list[str]:
        """The command that restores one and stays until it ends."""
        return self.command("restore", f"--bundle={bundle}", f"--image-path={image}", container)


def probe(runsc: Runsc) -> str | None:
    """Make a sandbox that does nothing: why that is not possible here, or None. Takes a second."""
    with tempfile.TemporaryDirectory(prefix="gkews-probe-") as folder:
        spec: dict[str, Any] = {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/true"], "cwd": "/"},
            "root": {"path": "/", "readonly": True},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": namespaces(), **id_mappings()},
        }
        Path(folder, "config.json").write_text(json.dumps(spec))
        here = Runsc(Path(folder) / "state", runsc.binary)
        try:
            done = subprocess.run(
                here.run(Path(folder), f"gkews-probe-{uuid.uuid4().hex}"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=QUICK_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"runsc cannot make a sandbox here: {error}"
    if done.returncode:
        return (
            f"runsc cannot make a sandbox here: {last_words(done.stderr)}. In a container it "
            "needs SYS_ADMIN."
        )
    return None


def namespaces() -> list[dict[str, str]]:
    """Those of every sandbox; an ordinary user's has a user namespace as well."""
    kinds = ["pid", "ipc", "uts", "mount", "network", *(["user"] if os.geteuid() else [])]
    return [{"type": kind} for kind in kinds]


def id_mappings() -> dict[str, Any]:
    """Root inside is this user outside."""
    if not os.geteuid():
        return {}
    return {
        "uidMappings": [{"containerID": 0, "hostID": os.geteuid(), "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": os.getegid(), "size": 1}],
    }


def last_words(said: bytes) -> str:
    """The last line that is not empty, without the time before it."""
    lines: Sequence[str] = [line for line in said.decode("utf-8", "replace").splitlines() if line]
    return lines[-1][-400:] if lines else "it said nothing"
