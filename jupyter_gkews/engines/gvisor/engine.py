"""The gVisor engine: images of sandboxed kernels in the store, taken and restored.

One directory an image, `snapshots/<id>/`; `snapshot.json` in it is written last and makes it
whole. Never touches a checkpoint.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from ...errors import GkewsError
from ...kernel.checkpoint import locks
from .. import needed_files
from ..base import Ability, Estimate, Objection, Snapshot
from .provisioner import SandboxProvisioner
from .runsc import Runsc, probe

#: Bytes that must stay free on the disk besides an image.
MARGIN = 1 << 30
#: Bytes a second that this old runsc compresses, about: it is told to the user, not relied on.
SPEED = 250e6

KEEPS = [
    "threads and what they are doing",
    "half-consumed generators and running cells",
    "child processes, open files, sockets between them",
    "the process itself: same pid, nothing is imported or loaded again",
]


class GvisorEngine:
    """Snapshots of the kernels that live in sandboxes. `find_kernel(id)`: its provisioner."""

    id = "gvisor"

    def __init__(self, store: Path, find_kernel: Callable[[str], object]) -> None:
        self._store = store
        self._folder = store / "snapshots"
        self._find_kernel = find_kernel
        self._runsc = Runsc(store / "sandboxes")
        self._ability: Ability | None = None
        self._born_here: set[str] = set()  # images whose clients are this process's

    def ability(self) -> Ability:
        """Whether runsc is here and can make a sandbox; tried once."""
        if self._ability is None:
            why_not = self._runsc.why_not() or probe(self._runsc)
            version = self._runsc.version.text if not why_not else None
            self._ability = Ability(why_not is None, why_not, version)
        return self._ability

    def keeps(self) -> list[str]:
        """What a restored process has more than a recovered one."""
        return list(KEEPS)

    def estimate(self, kernel: str) -> Estimate:
        """From what its sandbox holds in memory of its own."""
        nbytes = _private_bytes(self._kernel(kernel).pids())
        return Estimate(nbytes, 1 + nbytes / SPEED, 1 + nbytes / SPEED)

    def preflight(self, kernel: str) -> list[Objection]:
        """Room on the disk."""
        need = self.estimate(kernel).image_bytes + MARGIN
        self._make_folder()
        free = shutil.disk_usage(self._folder).free
        if free >= need:
            return []
        return [
            Objection(
                "the disk",
                f"an image may need {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
                "Free some space (`jupyter gkews gc`), or pause with the checkpoint alone.",
            )
        ]

    async def snapshot(
        self, kernel: str, checkpoint: str, held_by: str, mapped: Sequence[str] = ()
    ) -> Snapshot:
        """Freeze the sandbox into a new directory."""
        now = datetime.now(timezone.utc)
        found = Snapshot(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
            engine=self.id,
            kernel=kernel,
            checkpoint=checkpoint,
            created=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            bytes=0,
            environment=self._environment(),
            held_by=held_by,
        )
        self._make_folder()
        place = self._folder / found.id
        place.mkdir(mode=0o700)
        with ExitStack() as stack:
            try:
                # no chunk goes between the note and the image
                await asyncio.to_thread(stack.enter_context, locks.shared(self._store))
                noted = await asyncio.to_thread(needed_files.note, self._store, mapped)
                await asyncio.to_thread(needed_files.write, place, noted)
                found.bytes = await self._kernel(kernel).freeze(place / "image")
                _write(place / "snapshot.json", asdict(found))
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        self._born_here.add(found.id)
        return found

    async def restore(self, snapshot: Snapshot) -> None:
        """Bring the sandbox back, after a look at what would make it fail."""
        now = self._environment()
        for key, name in (("runsc", "runsc"), ("machine", "processor"), ("kernel", "kernel")):
            before = snapshot.environment.get(key)
            if before != now[key]:
                raise GkewsError(
                    "snapshot_failed",
                    f"The snapshot was taken with another {name}: {before}, here it is {now[key]}.",
                    "The image is kept. Resume from the checkpoint instead.",
                )
        image = self._folder / snapshot.id / "image"
        if not image.is_dir():
            raise GkewsError(
                "snapshot_failed",
                "The image of the snapshot is gone.",
                "Resume from the checkpoint instead.",
            )
        await asyncio.to_thread(needed_files.check, self._store, image.parent)
        reset = snapshot.id not in self._born_here
        # a second life of the image meets clients that have spoken with the first
        self._born_here.discard(snapshot.id)
        await self._kernel(snapshot.kernel).thaw(image, reset=reset)

    def find(self, snapshot: str) -> Snapshot | None:
        """Read from its directory."""
        try:
            data = json.loads((self._folder / snapshot / "snapshot.json").read_text())
            return Snapshot(**data)
        except (OSError, ValueError, TypeError):
            return None

    def snapshots(self) -> list[Snapshot]:
        """All that are whole."""
        try:
            names = sorted(os.listdir(self._folder), reverse=True)
        except OSError:
            return []
        return [found for found in map(self.find, names) if found is not None]

    def delete(self, snapshot: str) -> int:
        """Remove the directory; snapshot.json first, so that no half of it is ever offered."""
        place = self._folder / Path(snapshot).name
        if not place.is_dir():
            return 0
        nbytes = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        (place / "snapshot.json").unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        self._born_here.discard(snapshot)
        return nbytes

    def _kernel(self, kernel: str) -> SandboxProvisioner:
        found = self._find_kernel(kernel)
        if not isinstance(found, SandboxProvisioner):
            raise GkewsError(
                "snapshot_unavailable",
                "This kernel does not live in a sandbox.",
                'Choose "Python 3 (pausable)" for a kernel whose process can be frozen.',
            )
        return found

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _environment(self) -> dict[str, str]:
        """What a restore needs to be the same."""
        return {
            "runsc": self._runsc.version.text,
            "machine": platform.machine(),
            "kernel": platform.release(),
        }


def _private_bytes(pids: set[int]) -> int:
    """Resident bytes that are no file's: what an image must hold."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        for name in ("RssAnon", "RssShmem"):
            total += int(fields.get(name, "0").split()[0]) * 1024
    return total


def _write(path: Path, data: dict[str, object]) -> None:
    """Durable: the image is whole once this is there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
