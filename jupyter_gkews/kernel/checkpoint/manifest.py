"""The manifest of a checkpoint: what is in it, signed with the user's key.

One signature covers all: the manifest names the graph and every chunk by hash. Nothing of a
checkpoint is unpickled before `parse` has returned. It never reads chunks or graphs.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from .. import plain_json as json
from .chunks import Chunk, fsync_file
from .references import Reference, files_of

#: What only a reader can read that knows it: references to files; a compressed graph.
WITH_REFERENCES, COMPRESSED = 2, 3
#: The newest format that this code reads.
FORMAT = COMPRESSED
KEY_BYTES = 32

_KEEPS = "Nothing was loaded and the checkpoint was not changed."


@dataclass
class Manifest:
    """Everything about one checkpoint but its bytes.

    `names`: in graph order, {"name", "kind": "variable" | "extra" | "item" | "process"}; a
    variable is the "at"-th of the namespace; an item ("of", "key") belongs to the
    dictionary of the extra before it. `variables`: the rows of `survives`. `blocks`: for each
    block the indexes of its chunks. `views`: (block, offset, nbytes, alone), a block of -1 - r
    being the reference r. `lost` and `rebuilt`: rows {"name", "reason", "cell"} as users see them.
    `sequence`: counts up over the checkpoints of a store, in the order of their commits.
    `format`: 2 where only a reader that knows references can read it, 3 where the graph is
    compressed. `graph`: {"name", "bytes"} of the file; where it is compressed also "codec", "plain"
    (bytes) and "why" (null, or why it is not the codec that was asked for).
    `lenient`: 1 where the test load met objects that fail to load, so that the reader starts
    with its slow, forgiving way at once. `proved`: how, as proof.Proof.told says it; None where
    a version wrote it that did not say.
    """

    id: str
    created: str
    sequence: int = 0
    name: str | None = None
    kernel: dict[str, Any] = field(default_factory=dict)
    notebook: str | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    names: list[dict[str, Any]] = field(default_factory=list)
    variables: list[dict[str, Any]] = field(default_factory=list)
    process: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    rebuilt: list[dict[str, Any]] = field(default_factory=list)
    kept: int = 0
    modules: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    graph: dict[str, Any] = field(default_factory=dict)
    chunks: list[list[Any]] = field(default_factory=list)
    blocks: list[list[int]] = field(default_factory=list)
    views: list[list[int]] = field(default_factory=list)
    pickle_buffers: list[int] = field(default_factory=list)
    bytes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    lenient: int = 0
    proved: dict[str, Any] | None = None
    references: list[dict[str, Any]] = field(default_factory=list)
    format: int = 1

    def chunk(self, index: int) -> Chunk:
        """Chunk `index`."""
        name, nbytes, quick = self.chunks[index]
        return Chunk(str(name), int(nbytes), None if quick is None else str(quick))

    def algorithms(self) -> set[str]:
        """The hashes that name its graph and its chunks, and what compresses the graph."""
        names = [str(self.graph.get("name", "")), *(str(chunk[0]) for chunk in self.chunks)]
        codecs = {str(self.graph["codec"])} if self.graph.get("codec") else set()
        return codecs | {name.split("-", 1)[0] for name in names}

    def plain_graph_bytes(self) -> int:
        """Bytes of the graph as it is read."""
        return int(self.graph.get("plain", self.graph.get("bytes", 0)))

    def compressed(self) -> dict[str, Any] | None:
        """{"codec", "bytes", "plain", "why"} of a graph that is compressed."""
        if not self.graph.get("codec"):
            return None
        return {name: self.graph.get(name) for name in ("codec", "bytes", "plain", "why")}

    def referenced(self) -> list[Reference]:
        """The references."""
        return [Reference.from_json(each) for each in self.references]

    def files(self) -> list[dict[str, Any]]:
        """The files that it refers to: [{"path", "bytes", "names", "problem"}], with what can be
        told of each without reading it."""
        return files_of(self.referenced())

    def summary(self) -> dict[str, Any]:
        """What lists and replies show (docs/architecture.md)."""
        return {
            "id": self.id,
            "name": self.name,
            "created": self.created,
            "format": self.format,
            "kernel": self.kernel,
            "notebook": self.notebook,
            "python": self.environment.get("python"),
            "counts": {"kept": self.kept, "rebuilt": len(self.rebuilt), "lost": len(self.lost)},
            "rebuilt": self.rebuilt,
            "lost": self.lost,
            "bytes": {"referenced": 0, **self.bytes},
            "files": self.files(),
            "seconds": self.seconds,
            "environment": self.environment,
            "proved": self.proved,
            "compressed": self.compressed(),
            "error": None,
        }


def _body(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def _mac(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def key_id(key: bytes) -> str:
    """A name for a key that gives nothing of it away."""
    return hashlib.sha256(b"jupyter-gkews key " + key).hexdigest()[:16]


def render(manifest: Manifest, key: bytes) -> bytes:
    """The signed manifest, as it is written to manifest.json."""
    content = vars(manifest)  # `asdict` would copy every list of it
    signature = {"method": "hmac-sha256", "key": key_id(key), "mac": _mac(key, _body(content))}
    return json.dumps(
        {"format": manifest.format, "signature": signature, "manifest": content}
    ).encode()


def parse(data: bytes, key: bytes | None, where: str) -> Manifest:
    """The manifest in `data`, once its version and signature hold.

    Raises GkewsError: checkpoint_damaged, _too_new, _unsigned, _foreign_key. `where` names the
    checkpoint in messages; `key` is None where the store has none, or none that is whole.
    """
    try:
        outer = json.loads(data)
        version = outer["format"]
        if not isinstance(version, int):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise GkewsError(
            "checkpoint_damaged",
            f"The manifest of checkpoint {where} is cut off or not a manifest.",
            _KEEPS,
        ) from None
    if version > FORMAT:
        raise GkewsError(
            "checkpoint_too_new",
            f"Checkpoint {where} has format {version}; this version reads up to {FORMAT}.",
            f"{_KEEPS} Install a newer jupyter-gkews in the kernel's and the server's environment.",
        )
    signature = outer.get("signature")
    if not isinstance(signature, dict) or not signature.get("mac"):
        raise GkewsError(
            "checkpoint_unsigned",
            f"Checkpoint {where} carries no signature.",
            f"{_KEEPS} A checkpoint is code: one that nobody signed is not loaded. If you know "
            f"where it comes from: jupyter gkews trust {where}",
        )
    if key is None:
        raise GkewsError(
            "checkpoint_foreign_key",
            f"The signature of checkpoint {where} cannot be checked: the store's key is missing "
            "or damaged.",
            f"{_KEEPS} Bring the file `key` of the store's folder back, from a backup say. If "
            f"there is none, and you know the checkpoint: jupyter gkews trust {where}",
        )
    if signature.get("key") != key_id(key):
        raise GkewsError(
            "checkpoint_foreign_key",
            f"Checkpoint {where} was signed with another key than this store's.",
            f"{_KEEPS} A checkpoint is code. If you know where it comes from: "
            f"jupyter gkews trust {where}",
        )
    content = outer.get("manifest")
    known = Manifest.__dataclass_fields__
    if not isinstance(content, dict) or not hmac.compare_digest(
        _mac(key, _body(content)), str(signature["mac"])
    ):
        raise GkewsError(
            "checkpoint_damaged",
            f"The manifest of checkpoint {where} was changed after it was signed.",
            _KEEPS,
        )
    return Manifest(**{name: value for name, value in content.items() if name in known})


def unchecked(data: bytes) -> dict[str, Any]:
    """What a manifest says of itself, whether or not it can be trusted: to be shown, never
    believed. {} if it cannot be read."""
    try:
        content = json.loads(data)["manifest"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def tells_its_chunks(data: bytes, key: bytes | None) -> bool:
    """Whether all chunks that a manifest names can be read from `data`: not if it was cut off or
    changed, or has a format that names them in ways unknown here. Says nothing about trust."""
    try:
        parse(data, key, "")
    except GkewsError as error:
        if error.reason in ("checkpoint_unsigned", "checkpoint_foreign_key"):
            return isinstance(unchecked(data).get("chunks"), list)
        return False
    return True


def read_key(root: Path) -> bytes | None:
    """The user's key in the store at `root`; None if there is none, or none that is whole."""
    try:
        key = (root / "key").read_bytes()
    except OSError:
        return None
    return key if len(key) == KEY_BYTES else None


def make_key(root: Path) -> bytes:
    """The user's key, made on first use. Safe against two processes making it at once."""
    key = read_key(root)
    if key is not None:
        return key
    # Written whole under a name of its own, then linked: nobody ever sees half a key.
    temporary = root / f".key-{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, root / "key")
    finally:
        os.unlink(temporary)
    fsync_file(root)
    key = read_key(root)
    if key is None:
        raise GkewsError(
            "store_not_writable",
            f"The signing key {root / 'key'} is not a key.",
            "Checkpoints signed with it cannot be read any more; move it away to start anew.",
        )
    return key
