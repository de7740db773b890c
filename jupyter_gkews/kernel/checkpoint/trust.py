"""Signs a checkpoint that somebody else signed, or nobody, after its user has said so.

Everything is compared with its hash first, and the manifest's shape with what a manifest is.
Nothing is unpickled, and nothing of the checkpoint is changed but its signature.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ...errors import GkewsError
from . import chunks
from .compression import CODECS
from .manifest import COMPRESSED, FORMAT, Manifest, parse, render, unchecked

if TYPE_CHECKING:
    from .store import CheckpointStore

_HASH = re.compile(r"(?:blake3|blake2b)-[0-9a-f]{64}")
Progress = Callable[[int, int], None]


def describe(store: CheckpointStore, checkpoint: str) -> dict[str, Any]:
    """What a checkpoint says of itself, and whose signature it carries; nothing is believed.

    {"id", "name", "created", "python", "platform", "kernel", "notebook", "names", "modules",
    "bytes", "needs": files it refers to, "signature": "yours" | "none" | "of another key" |
    "changed after it was signed", "key": id or null}. Raises checkpoint_not_found, _damaged,
    _too_new.
    """
    data = store.manifest_bytes(checkpoint)
    content = unchecked(data)
    signature, key = "yours", store.key()
    try:
        parse(data, key, checkpoint)
    except GkewsError as error:
        words = {
            "checkpoint_unsigned": "none",
            "checkpoint_foreign_key": "of another key",
            "checkpoint_damaged": "changed after it was signed",
        }
        if error.reason not in words or not content:
            raise
        signature = words[error.reason]
    signed = json.loads(data).get("signature")
    environment = content.get("environment")
    environment = environment if isinstance(environment, dict) else {}
    return {
        "id": checkpoint,
        "name": content.get("name"),
        "created": content.get("created"),
        "python": environment.get("python"),
        "platform": environment.get("platform"),
        "kernel": content.get("kernel"),
        "notebook": content.get("notebook"),
        "names": [
            str(row.get("name")) for row in _rows(content.get("names"))
            if row.get("kind") == "variable"
        ],
        "modules": [str(name) for name in content.get("modules") or () if isinstance(name, str)],
        "bytes": content.get("bytes"),
        "needs": needs(content),
        "signature": signature,
        "key": signed.get("key") if isinstance(signed, dict) else None,
    }  # fmt: skip


def needs(content: dict[str, Any]) -> list[str]:
    """Files outside of the store that a checkpoint refers to, and that do not travel with it."""
    found = {str(row["path"]) for row in _rows(content.get("references")) if row.get("path")}
    return sorted(found)


def trust(
    store: CheckpointStore,
    checkpoint: str,
    *,
    altered: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Sign a checkpoint with the store's key; returns its summary. One that is trusted already
    stays as it is. `altered`: also one that was changed after it was signed.

    Raises checkpoint_not_found, _damaged (what is wrong with it), _too_new, store_not_writable,
    disk_full. The checkpoint is then as it was.
    """
    signature = describe(store, checkpoint)["signature"]
    if signature == "yours":
        return store.summary(checkpoint)
    if signature == "changed after it was signed" and not altered:
        raise GkewsError(
            "checkpoint_damaged",
            f"The manifest of checkpoint {checkpoint} was changed after it was signed.",
            "It was not trusted and not changed. Use an older checkpoint; if you changed it "
            "yourself, say so: --altered.",
        )
    data = store.manifest_bytes(checkpoint)
    manifest = checked(data, checkpoint)
    with store.writing(), store.saving():
        check_bytes(store, manifest, progress)
        key = store.prepare(new_key=True)
        manifest.sequence = store.next_sequence()
        directory = store.directory(checkpoint)
        for left in directory.glob("manifest.json.new-*"):  # of one that died
            left.unlink(missing_ok=True)
        new = directory / f"manifest.json.new-{os.urandom(4).hex()}"
        try:
            chunks.write_file(new, [render(manifest, key)])
            os.replace(new, directory / "manifest.json")
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        chunks.fsync_file(directory)
    return store.summary(checkpoint)


def checked(data: bytes, checkpoint: str) -> Manifest:
    """The manifest in `data`, whoever signed it: each field of the kind that it must have.

    Raises checkpoint_damaged, checkpoint_too_new.
    """
    content = unchecked(data)
    try:
        version = json.loads(data)["format"]
        if type(version) is int and version > FORMAT:
            parse(data, None, checkpoint)  # says so
        fields = Manifest.__dataclass_fields__
        manifest = Manifest(**{name: value for name, value in content.items() if name in fields})
        _check_shape(manifest, checkpoint)
    except (
        ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        raise GkewsError(
            "checkpoint_damaged",
            f"Checkpoint {checkpoint} is not whole: its manifest is not one ({error}).",
            "It was not trusted and not changed.",
        ) from None
    return manifest


def _check_shape(manifest: Manifest, checkpoint: str) -> None:
    if manifest.id != checkpoint:
        raise ValueError(f"it is of checkpoint {str(manifest.id)[:80]!r}")
    for name in ("kernel", "environment", "state", "graph", "bytes", "seconds"):
        _must(isinstance(getattr(manifest, name), dict), name)
    for name in ("names", "variables", "process", "lost", "rebuilt"):
        rows = getattr(manifest, name)
        _must(isinstance(rows, list) and len(_rows(rows)) == len(rows), name)
    _must(all(isinstance(name, str) for name in manifest.modules), "modules")
    _must(isinstance(manifest.created, str), "created")
    _must(manifest.name is None or isinstance(manifest.name, str), "name")
    _must(bool(_HASH.fullmatch(str(manifest.graph.get("name")))), "graph")
    if manifest.graph.get("codec") is not None:
        known = manifest.graph["codec"] in CODECS and manifest.format >= COMPRESSED
        _must(known and _is_size(manifest.graph.get("plain")), "graph")
    sizes = []
    for name, nbytes, quick in manifest.chunks:
        _must(bool(_HASH.fullmatch(str(name))) and _is_size(nbytes), "chunks")
        _must(quick is None or isinstance(quick, str), "chunks")
        sizes.append(nbytes)
    blocks = []
    for parts in manifest.blocks:
        _must(all(_is_size(part) for part in parts), "blocks")
        blocks.append(sum(sizes[part] for part in parts))
    for block, offset, nbytes, _ in manifest.views:
        _must(_is_size(block) and _is_size(offset) and _is_size(nbytes), "views")
        # a block number beyond the blocks is one of the references, checked where they are read
        _must(block >= len(blocks) or offset + nbytes <= blocks[block], "views")
    _must(all(_is_size(i) and i < len(manifest.views) for i in manifest.pickle_buffers), "buffers")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} are of a wrong kind")


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def check_bytes(
    store: CheckpointStore, manifest: Manifest, progress: Progress | None = None
) -> None:
    """Compare the graph and every chunk with the full hash that names it; checkpoint_damaged."""
    tell = progress or (lambda done, total: None)
    found = [(store.directory(manifest.id) / "graph.pkl", str(manifest.graph["name"]),
              int(manifest.graph.get("bytes", -1)))]  # fmt: skip
    for index in range(len(manifest.chunks)):
        chunk = manifest.chunk(index)
        found.append((store.chunk_path(chunk.name), chunk.name, chunk.nbytes))
    done, total = 0, sum(size for _, _, size in found)
    for path, name, size in found:
        if (why := wrong(path, name, size)) is not None:
            raise GkewsError(
                "checkpoint_damaged",
                f"Checkpoint {manifest.id} is not whole: {path.name} {why}.",
                "It was not trusted and not changed.",
            )
        done += size
        tell(done, total)


def wrong(path: Path, name: str, size: int) -> str | None:
    """What is wrong with a file that should have this hash and size in bytes; None if nothing."""
    try:
        if path.is_symlink() or not path.is_file():
            return "is gone" if not os.path.lexists(path) else "is not a file"
        if path.stat().st_size != size:
            return f"has {path.stat().st_size} bytes of {size}"
        if chunks.name_of_file(path, name.split("-", 1)[0]) != name:
            return "has other bytes than were saved"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except LookupError as error:
        return f"cannot be checked here: {error}"
    return None
