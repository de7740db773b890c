"""Takes one checkpoint out of a store, and one into it: as a folder or a tar file.

What comes in is checked by hash while it is copied, and is not trusted by that: its signature
stays what it was. Only files that the manifest names are looked at, each under a name that we
make; an interrupted import leaves nothing, an interrupted export nothing under its name.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Callable

from ...errors import GkewsError
from . import chunks
from .commit import Staging
from .manifest import Manifest, unchecked
from .trust import Progress, checked, needs, wrong

if TYPE_CHECKING:
    from .store import CheckpointStore

#: A manifest larger than this (bytes) is not read.
MAX_MANIFEST = 1 << 30
_PIECE = 1 << 20
#: A link is not followed, and a pipe is not waited for.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def export(
    store: CheckpointStore, checkpoint: str, target: Path, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Write a checkpoint to the new folder `target`, or to a tar file if it is named so.

    Returns {"path", "bytes", "needs": files outside of the store that it refers to}. Raises
    bad_request (the target is there), checkpoint_not_found, _damaged, disk_full,
    store_not_writable; nothing is left under the target's name then.
    """
    data = store.manifest_bytes(checkpoint)
    manifest = checked(data, checkpoint)
    if os.path.lexists(target):
        raise GkewsError(
            "bad_request", f"{target} is there already.", "It was not touched. Name another."
        )
    part = target.with_name(f".{target.name}.part-{os.urandom(4).hex()}")
    with store.loading(), writing_to(target.parent):
        try:
            with _writer(part, tar=target.name.endswith(".tar")) as put:
                put("manifest.json", io.BytesIO(data), len(data))
                total = _total(manifest)
                done = 0
                for name, digest, size in _files(manifest):
                    path = (
                        store.directory(checkpoint) / name
                        if name == "graph.pkl"
                        else store.root / name
                    )
                    if (why := wrong(path, digest, size)) is not None:
                        raise _not_whole(checkpoint, f"{path.name} {why}")
                    with open(path, "rb") as file:
                        put(name, file, size)
                    done += size
                    if progress is not None:
                        progress(done, total)
            os.rename(part, target)
            chunks.fsync_file(target.parent)
        except BaseException:
            _remove(part)
            raise
    return {"path": str(target), "bytes": total + len(data), "needs": needs(unchecked(data))}


def import_(
    store: CheckpointStore, source: Path, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Take the checkpoint in the folder or tar file `source` into the store, as it is signed.

    Returns {"id", "bytes", "new": bytes that the store did not have, "needs"}. Raises bad_request
    (no such file, not a checkpoint, another one of this id is there), checkpoint_damaged,
    _too_new, disk_full, store_not_writable; the store is as it was then.
    """
    with _reader(source) as read:
        data = _all(read("manifest.json"))
        told = unchecked(data).get("id")
        manifest = checked(data, told if isinstance(told, str) else str(source))
        directory = store.directory(manifest.id)
        if directory.exists():
            if _same(store.manifest_bytes(manifest.id), data):
                return {"id": manifest.id, "bytes": _total(manifest), "new": 0,
                        "needs": needs(unchecked(data))}  # fmt: skip
            raise GkewsError(
                "bad_request",
                f"There is a checkpoint {manifest.id} already, signed otherwise or another one.",
                "Neither was touched. Checkpoints are never overwritten: delete that one first.",
            )
        store.prepare()
        with store.writing(), store.saving():
            staging = Staging(store, manifest.id)
            try:
                staging.make()
                new, nbytes = _take(store, staging, manifest, read, progress)
                staging.install(new)
                chunks.write_file(staging.path / "manifest.json", [data])
                chunks.fsync_file(staging.path)
                os.rename(staging.path, directory)
                chunks.fsync_file(directory.parent)
            finally:
                staging.remove()
    return {"id": manifest.id, "bytes": _total(manifest), "new": nbytes,
            "needs": needs(unchecked(data))}  # fmt: skip


def _same(one: bytes, other: bytes) -> bool:
    """Whether two manifests say the same, whoever signed them and in whatever store."""
    first, second = ({**unchecked(data), "sequence": 0} for data in (one, other))
    return first == second


def _take(
    store: CheckpointStore,
    staging: Staging,
    manifest: Manifest,
    read: Callable[[str], BinaryIO],
    progress: Progress | None,
) -> tuple[list[str], int]:
    """Copy what the store does not have into `staging`; (names of new chunks, their bytes)."""
    new: list[str] = []
    nbytes = done = 0
    total = _total(manifest)
    for name, digest, size in _files(manifest):
        if name == "graph.pkl":
            target = staging.graph
        else:
            target = staging.chunks / digest
            if wrong(store.chunk_path(digest), digest, size) is None:
                done += size
                continue
            new.append(digest)
        with read(name) as file:
            _copy(file, target, digest, size, manifest.id)
        nbytes += size
        done += size
        if progress is not None:
            progress(done, total)
    return new, nbytes


def _copy(file: BinaryIO, target: Path, digest: str, size: int, checkpoint: str) -> None:
    """Copy one file, hashed on its way; checkpoint_damaged unless it is what it should be."""
    try:
        hasher = chunks.hasher(digest.split("-", 1)[0])
    except LookupError as error:
        raise _not_whole(checkpoint, f"it cannot be checked here: {error}") from None
    left = size
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as out:
        while left > 0:
            piece = file.read(min(_PIECE, left))
            if not piece:
                break
            hasher.update(piece)
            out.write(piece)
            left -= len(piece)
        if left or file.read(1):
            raise _not_whole(checkpoint, f"{digest} has another size than {size} bytes")
        if f"{digest.split('-', 1)[0]}-{hasher.hexdigest()}" != digest:
            raise _not_whole(checkpoint, f"{digest} has other bytes than were saved")
        out.flush()
        os.fsync(out.fileno())


def _files(manifest: Manifest) -> Iterator[tuple[str, str, int]]:
    """(name in a checkpoint that travels, hash, bytes) of every file but the manifest."""
    yield "graph.pkl", str(manifest.graph["name"]), int(manifest.graph.get("bytes", -1))
    for index in range(len(manifest.chunks)):
        chunk = manifest.chunk(index)
        yield chunks.relative_path(chunk.name), chunk.name, chunk.nbytes


def _total(manifest: Manifest) -> int:
    return sum(size for _, _, size in _files(manifest))


# ---- folders and tar files ----


@contextmanager
def _writer(target: Path, *, tar: bool) -> Iterator[Callable[[str, BinaryIO, int], None]]:
    """`put(name, file, bytes)` for a new folder or tar file; durable in the end."""
    if not tar:
        os.mkdir(target, 0o700)
        folders = {target}

        def put(name: str, file: BinaryIO, size: int) -> None:
            path = target / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folders.update([path.parent, path.parent.parent] if path.parent != target else [])
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                shutil.copyfileobj(file, out, _PIECE)
                out.flush()
                os.fsync(out.fileno())

        yield put
        for folder in folders:
            chunks.fsync_file(folder)
        return
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:

            def add(name: str, file: BinaryIO, size: int) -> None:
                member = tarfile.TarInfo(name)
                member.size, member.mode = size, 0o600
                archive.addfile(member, file)

            yield add
        out.flush()
        os.fsync(out.fileno())


@contextmanager
def _reader(source: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """`read(name)` for a folder or tar file: plain files only, no links, nothing outside."""
    if source.is_dir():
        yield lambda name: _open_below(source, name)
        return
    archive = None
    members = {}
    try:
        archive = tarfile.open(source, "r:*")  # noqa: SIM115
        for member in archive:
            if member.isreg():
                members[member.name.removeprefix("./")] = member
    except (OSError, tarfile.TarError, EOFError) as error:
        if archive is not None:
            archive.close()
        why = error.strerror if isinstance(error, OSError) else None
        raise GkewsError(
            "bad_request",
            f"{source} cannot be read: {why or 'it is not a whole tar file'}.",
            "Nothing was taken into the store.",
        ) from None
    reading = archive

    def read(name: str) -> BinaryIO:
        member = members.get(name)
        file = None if member is None else reading.extractfile(member)
        if file is None:
            raise _missing(source, name)
        return file  # type: ignore[return-value]

    with reading:
        try:
            yield read
        except (tarfile.TarError, EOFError):
            raise _not_whole(source.name, "the tar file is cut off") from None


def _open_below(root: Path, name: str) -> BinaryIO:
    path = root
    try:
        for step in name.split("/"):
            path = path / step
            if stat.S_ISLNK(path.lstat().st_mode):
                raise _missing(root, f"{name} (a link, which is not followed)")
        fd = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        file = os.fdopen(fd, "rb")
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            file.close()
            raise _missing(root, f"{name} (not a file)")
    except OSError:
        raise _missing(root, name) from None
    return file


def _all(file: BinaryIO) -> bytes:
    with file:
        data = file.read(MAX_MANIFEST + 1)
    if len(data) > MAX_MANIFEST:
        raise GkewsError("bad_request", "The manifest is too large.", "Nothing was taken.")
    return data


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns errors of the file system of an export into the typed ones."""
    from .store import FULL

    try:
        yield
    except OSError as error:
        reason = "disk_full" if error.errno in FULL else "store_not_writable"
        raise GkewsError(
            reason,
            f"The checkpoint could not be written to {folder}: {error.strerror or error}.",
            "The store is as it was, and nothing was left there.",
        ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _missing(source: Path, name: str) -> GkewsError:
    if name == "manifest.json" or (not (source / "manifest.json").exists() and source.is_dir()):
        return GkewsError(
            "bad_request",
            f"{source} is not an exported checkpoint: it has no {name}.",
            "Nothing was taken into the store. Name what `jupyter gkews export` wrote.",
        )
    return _not_whole(source.name, f"{name} is missing")


def _not_whole(what: str, why: str) -> GkewsError:
    return GkewsError(
        "checkpoint_damaged",
        f"Checkpoint {what} is not whole: {why}.",
        "Nothing was written, and what was read is as it was.",
    )
