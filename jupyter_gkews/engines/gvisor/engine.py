"""The gVisor engine: images of sandboxed kernels in the store, taken and restored.

One directory an image, `snapshots/<id>/`; `snapshot.json` in it is written last and makes it
whole. Never touches a checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from datetime import datetime, timezone
from pathlib import Path

from ...errors import GkewsError
from ...kernel.checkpoint import locks
from .. import needed_files
from ..base import Ability, Estimate, Inside, Leftover, Objection, Snapshot
from . import bundle, fitness, kernel_folders
from .provisioner import SandboxProvisioner
from .runsc import Runsc, probe
from .sandbox import MARGIN

#: Bytes of memory a second, and seconds besides, of a snapshot and of a restore; and bytes of an
#: image for one of memory. About, until this server has taken one: told, never relied on.
SPEED = 250e6
BESIDES_S = 0.5
SHRINKS_TO = 0.7
#: Bytes of memory that an interpreter with ipykernel has at least.
LEAST = 30_000_000
#: Bytes of its image.
LEAST_IMAGE = 20_000_000
#: Seconds for which a directory without an image is never taken for a leftover.
JUST_BEGUN_S = 60.0
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")

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
        self._pace = Pace()

    def ability(self) -> Ability:
        """Whether runsc is here and can make a sandbox; tried once."""
        if self._ability is None:
            why_not = self._runsc.why_not() or probe(self._runsc)
            version = self._runsc.version if not why_not else None
            self._ability = Ability(why_not is None, why_not, version)
        return self._ability

    def keeps(self) -> list[str]:
        """What a restored process has more than a recovered one."""
        return list(KEEPS)

    def estimate(self, kernel: str, stored: int = 0) -> Estimate:
        """From what its sandbox holds in memory, at the pace of the last one on this server."""
        memory = _memory(self._kernel(kernel).pids())
        left = max(memory - stored, min(memory, LEAST))
        told = self._pace.estimate(left)
        return replace(told, image_bytes=max(told.image_bytes, min(left, LEAST_IMAGE)))

    def preflight(self, kernel: str) -> list[Objection]:
        """Room on the disk."""
        need = _memory(self._kernel(kernel).pids()) + MARGIN  # as if nothing could be compressed
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
        self, kernel: str, checkpoint: str, held_by: str, inside: Inside
    ) -> Snapshot:
        """Freeze the sandbox into a new directory, which is locked while this takes."""
        now = datetime.now(timezone.utc)
        of = self._kernel(kernel)
        found = Snapshot(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
            engine=self.id,
            kernel=kernel,
            checkpoint=checkpoint,
            created=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            bytes=0,
            environment=fitness.environment(self._runsc, inside),
            held_by=held_by,
            holds=inside.holds,
            needs=fitness.needs(inside, self._binds(of)),
        )
        self._make_folder()
        place = self._folder / found.id
        place.mkdir(mode=0o700)
        memory, began = _memory(of.pids()), time.monotonic()
        mapped = inside.needs.get("mapped", ())
        with contextlib.ExitStack() as stack:
            stack.enter_context(_locked(place))
            try:
                kernel_folders.note_kernel(place, kernel)
                # no chunk goes between the note and the image
                await asyncio.to_thread(stack.enter_context, locks.shared(self._store))
                noted = await asyncio.to_thread(needed_files.note, self._store, mapped)
                await asyncio.to_thread(needed_files.write, place, noted)
                found.bytes = await of.freeze(place / "image")
                _write(place / "snapshot.json", asdict(found))
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        self._pace.taken(memory, found.bytes, time.monotonic() - began)
        self._born_here.add(found.id)
        return found

    async def restore(self, snapshot: Snapshot) -> None:
        """Bring the sandbox back, after a look at what would make it fail."""
        problem = await asyncio.to_thread(self.unfit, snapshot)
        if problem is not None:
            raise problem
        reset = snapshot.id not in self._born_here
        # a second life of the image meets clients that have spoken with the first
        self._born_here.discard(snapshot.id)
        image, began = self._folder / snapshot.id / "image", time.monotonic()
        await self._kernel(snapshot.kernel).thaw(image, reset=reset)
        self._pace.restored(snapshot.bytes, time.monotonic() - began)

    def unfit(self, snapshot: Snapshot) -> GkewsError | None:
        """The image, and what was there when it was taken, compared with now."""
        image = self._folder / snapshot.id / "image"
        try:
            there = sum(path.stat().st_size for path in image.iterdir())
        except OSError:
            there = -1
        if there != snapshot.bytes:
            return GkewsError(
                "snapshot_failed",
                "The image of the snapshot is gone."
                if there < 0
                else "The image of the snapshot is cut off or was changed: it has "
                f"{there:,} bytes, and was written with {snapshot.bytes:,}.",
                "Nothing was tried with it.",
            )
        mounted = bundle.mounted(self._bundle(snapshot.kernel))
        problem = fitness.unfit(snapshot.environment, snapshot.needs, self._runsc, mounted)
        if problem is not None:
            return problem
        try:
            needed_files.check(self._store, image.parent)
        except GkewsError as error:
            return error
        return None

    def find(self, snapshot: str) -> Snapshot | None:
        """Read from its directory; fields of newer versions are left out."""
        if not _ID.fullmatch(snapshot):
            return None
        try:
            data = json.loads((self._folder / snapshot / "snapshot.json").read_text())
            known = {field.name for field in fields(Snapshot)}
            return Snapshot(**{key: value for key, value in data.items() if key in known})
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def snapshots(self) -> list[Snapshot]:
        """All that are whole."""
        return [found for found in map(self.find, self._names()) if found is not None]

    def leftovers(self) -> list[Leftover]:
        """Directories that nobody works in and that hold no image."""
        found = []
        for name in self._names():
            place = self._folder / name
            whole = place / "snapshot.json"
            # looked at twice: between, it may have become whole
            if not whole.exists() and _abandoned(place) and not whole.exists():
                found.append(Leftover(name, _tree_bytes(place)))
        return found

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder), reverse=True)
        except OSError:
            return []

    def delete(self, snapshot: str) -> int:
        """Remove the directory; snapshot.json first, so that no half of it is ever offered."""
        place = self._folder / snapshot
        if not _ID.fullmatch(snapshot) or not place.is_dir():
            return 0
        nbytes = _tree_bytes(place)
        (place / "snapshot.json").unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        self._born_here.discard(snapshot)
        return nbytes

    def tidy(self, *, dry_run: bool = False) -> list[Leftover]:
        """Folders of kernels that ended with their server, and their marks in the store's lock."""
        try:
            return kernel_folders.tidy(self._store, dry_run=dry_run)
        except OSError:  # a store that cannot be read: whoever works on it says so
            return []

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

    def _binds(self, of: SandboxProvisioner) -> list[str]:
        """Folders that must be there at a restore; that of the launch is made again for it."""
        mounted = bundle.mounted(self._bundle(of.kernel_id))
        return [path for path in mounted if path != os.path.realpath(of.run_dir)]

    def _bundle(self, kernel: str) -> Path:
        return self._store / "sandboxes" / kernel / "bundle"


class Pace:
    """How fast snapshots went on this server, and how small they became: the last one counts."""

    def __init__(self) -> None:
        self._shrinks_to = SHRINKS_TO
        self._speed = self._back = SPEED

    def taken(self, memory: int, nbytes: int, seconds: float) -> None:
        """One was taken, of so many bytes of memory."""
        if memory > 0 and nbytes > 0:
            self._shrinks_to = min(1.0, nbytes / memory)
            self._speed = memory / max(0.01, seconds - BESIDES_S)

    def restored(self, nbytes: int, seconds: float) -> None:
        """One was restored, from an image of so many bytes."""
        if nbytes > 0:
            self._back = nbytes / self._shrinks_to / max(0.01, seconds - BESIDES_S)

    def estimate(self, memory: int) -> Estimate:
        """What one of so many bytes of memory would cost."""
        return Estimate(
            round(memory * self._shrinks_to),
            round(BESIDES_S + memory / self._speed, 1),
            round(BESIDES_S + memory / self._back, 1),
        )


def _memory(pids: set[int]) -> int:
    """Resident bytes of what runs inside: runsc keeps it in a file of its own in memory. (What is
    anonymous in its processes is runsc's, and no part of an image.)"""
    found = [0]
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        found.append(int(fields.get("RssShmem", "0").split()[0]) * 1024)
    return max(found)  # each of them maps the same file


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Tell others that somebody works in this directory; ends by itself with the process."""
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _abandoned(place: Path) -> bool:
    """Whether nobody works there. Where there are no locks, that is not known."""
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        if time.time() - os.fstat(fd).st_mtime < JUST_BEGUN_S:
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _tree_bytes(place: Path) -> int:
    total = 0
    for path in place.rglob("*"):
        with contextlib.suppress(OSError):
            if not path.is_dir():
                total += path.lstat().st_size
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
