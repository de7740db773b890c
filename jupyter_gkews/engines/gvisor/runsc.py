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
import sys
import tempfile
import uuid
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from ...launching import ENV_SOCKETS
from .causes import sentence

#: Seconds for a command that only looks or removes.
QUICK_S = 20.0
#: What to install where `runsc` is missing (Debian's names).
INSTALL = "Install the packages runsc and uidmap (Debian, Ubuntu), or gVisor's own release."


class Runsc:
    """One runsc with one state directory, `root`."""

    def __init__(self, root: Path, binary: str | None = None) -> None:
        self.root = root
        self.binary = binary or shutil.which("runsc") or ""

    @property
    def version(self) -> str:
        """The release that `runsc --version` names; "" if it does not run."""
        found = re.search(r"version\s+(\S+)", _said(self.binary, "--version"))
        return found[1] if found else ""

    @property
    def _flags(self) -> str:
        return _said(self.binary, "flags")

    @property
    def _checkpoint_help(self) -> str:
        return _said(self.binary, "help", "checkpoint")

    @property
    def platform(self) -> str:
        """systrap where this runsc has it, else ptrace: both need no hardware."""
        found = re.search(r"^\s*-platform \w+\n(.*)$", self._flags, re.MULTILINE)
        return "systrap" if found and "systrap" in found[1] else "ptrace"

    @property
    def compression_is_optional(self) -> bool:
        """Whether an image can be written as it is: many times as fast as compressing it."""
        return bool(re.search(r"^\s*-compression\b", self._checkpoint_help, re.MULTILINE))

    @property
    def leaves_zeros_out(self) -> bool:
        """Whether pages that hold only zeros need not be in the image."""
        return "-exclude-committed-zero-pages" in self._checkpoint_help

    def why_not(self) -> str | None:
        """Why no sandbox can be made here, in one sentence; None if one probably can."""
        if sys.platform != "linux":
            return "gVisor, which freezes processes, runs on Linux alone."
        if os.environ.get(ENV_SOCKETS):
            return "This server lives in a sandbox itself, and is frozen as a whole."
        if not self.binary:
            return f"gVisor's runsc is not installed. {INSTALL}"
        if not self.version:
            return f"{self.binary} does not run. {INSTALL}"
        if "-image-path" not in self._checkpoint_help:
            return f"runsc {self.version} is too old: it cannot write images. {INSTALL}"
        return _what_a_user_lacks() if os.geteuid() else None

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        # edits of files are edits of this machine's, not of an overlay that would need a file in /
        overlay = ["--overlay2=none"] if "-overlay2" in self._flags else []
        return [
            self.binary,
            f"--root={self.root}",
            f"--platform={self.platform}",
            "--network=none",
            "--ignore-cgroups",
            *overlay,
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
                f"`runsc {arguments[0]}` failed. {sentence(last_words(said))}",
                "The portable checkpoint is not touched by this.",
            )

    async def checkpoint(self, container: str, image: Path) -> None:
        """Freeze `container` into the empty directory `image`. The sandbox has ended afterwards,
        also when this fails."""
        options = ["--compression=none"] if self.compression_is_optional else []
        options += ["--exclude-committed-zero-pages"] if self.leaves_zeros_out else []
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


def _said(binary: str, *arguments: str) -> str:
    """What runsc prints of itself; "" if it does not run. Asked once for each build of it."""
    try:
        return _ask(binary, os.stat(binary).st_mtime_ns, arguments)
    except OSError:
        return ""


@lru_cache
def _ask(binary: str, built: int, arguments: tuple[str, ...]) -> str:
    del built
    try:
        done = subprocess.run(
            [binary, *arguments], capture_output=True, text=True, timeout=QUICK_S, check=False
        )
    except (OSError, subprocess.SubprocessError):  # remembered, too: one that hangs is slow to ask
        return ""
    return done.stdout + done.stderr


def _what_a_user_lacks() -> str | None:
    """Programs without which an ordinary user can have no sandbox. No range in /etc/subuid is
    needed: root inside is this user, and no other id exists there."""
    missing = [name for name in ("newuidmap", "newgidmap") if not shutil.which(name)]
    if not missing:
        return None
    return (
        f"{' and '.join(missing)} cannot be found, which an ordinary user needs for a sandbox. "
        "Install the package uidmap (Debian, Ubuntu) or shadow-utils."
    )


def _what_forbids_namespaces() -> str | None:
    """The setting of this machine for which an ordinary user can make no user namespace."""
    for setting, off, words in _NAMESPACE_SETTINGS:
        try:
            value = Path("/proc/sys", setting).read_text().strip()
        except OSError:
            continue
        if value == off:
            return f"{words} (sysctl {setting.replace('/', '.')} is {off}): ask its administrator."
    return None


#: Settings of Linux, of Debian and of Ubuntu, and the value that forbids.
_NAMESPACE_SETTINGS = [
    ("user/max_user_namespaces", "0", "This machine lets nobody make user namespaces"),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "This machine lets ordinary users make no user namespaces",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor lets ordinary users make no user namespaces here",
    ),
]


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
    return why_it_failed(last_words(done.stderr)) if done.returncode else None


def why_it_failed(said: str) -> str:
    """The sentence for a sandbox that did not start, from runsc's last words."""
    forbidden = _what_forbids_namespaces() if os.geteuid() else None
    if forbidden:
        return forbidden
    refused = "not permitted" in said
    hint = " In a container it needs the capability SYS_ADMIN." if refused else ""
    return f"runsc cannot make a sandbox here: {said.rstrip('.')}.{hint}"


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
