"""The safetensors files that this process has loaded, and where their tensors lie in them.

Notes which files safetensors opens (a hook set when it is imported, nothing a cell), and reads
headers. It never writes, and a file that it cannot make out is simply not one of them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import re
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

#: What safetensors itself allows for a header, in bytes.
_HEADER_LIMIT = 100_000_000
#: Folders whose files are gone after a restart of the machine or before.
NOT_DURABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/proc")
#: File systems that go with the container or the machine.
_PASSING = frozenset(("overlay", "aufs", "tmpfs", "ramfs", "squashfs", "fuse.overlayfs"))

#: Files opened by safetensors in this process: real path -> the path that was asked for.
_opened: dict[str, str] = {}
_watching = False


class Identity(NamedTuple):
    """Tells a file from another one, or from itself after a write: `mtime` in ns."""

    device: int
    inode: int
    size: int
    mtime: int


class TensorPlace(NamedTuple):
    """One tensor of a file: its dtype in the words of safetensors, first byte, size in bytes."""

    dtype: str
    offset: int
    nbytes: int


@dataclass
class WeightsFile:
    """A safetensors file: the path by which the user knows it, and what is in it."""

    path: str
    real: str
    identity: Identity
    tensors: list[TensorPlace]


def identity_of(path: str | os.PathLike[str]) -> Identity | None:
    """The identity of a regular file; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def read(path: str) -> WeightsFile | None:
    """The file at `path`, if it is a whole safetensors file; None for anything else."""
    before = identity_of(path)
    if before is None:  # also a pipe, at which opening it would wait
        return None
    try:
        with open(path, "rb") as file:
            start = file.read(9)
            length = int.from_bytes(start[:8], "little")
            if start[8:] != b"{" or not 2 <= length <= _HEADER_LIMIT:
                return None
            header = json.loads(start[8:] + file.read(length - 1))
        tensors = []
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            place = TensorPlace(str(entry["dtype"]), 8 + length + int(first), int(last - first))
            if place.nbytes < 0 or place.offset + place.nbytes > before.size:
                return None
            if place.nbytes:
                tensors.append(place)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    real = os.path.realpath(path)
    return WeightsFile(_known_as(path, real), real, before, tensors)


def _known_as(path: str, real: str) -> str:
    """The path that says most: one of a Hugging Face snapshot rather than its blob."""
    asked = _opened.get(real)
    if asked is not None and os.path.realpath(asked) == real:
        return asked
    folder, digest = os.path.split(real)
    if os.path.basename(folder) == "blobs":
        snapshots = Path(folder).parent / "snapshots"
        with contextlib.suppress(OSError):
            for link in sorted(snapshots.glob("*/*"), reverse=True):
                if link.is_symlink() and os.path.basename(os.readlink(link)) == digest:
                    return str(link)
    return path


# ---- which files were opened ----


def note(path: Any) -> None:
    """A file was opened by safetensors. Never raises."""
    with contextlib.suppress(Exception):
        asked = os.path.abspath(os.fsdecode(path))
        real = os.path.realpath(asked)
        _opened.pop(real, None)
        _opened[real] = asked


def opened() -> list[str]:
    """Real paths of the files that were opened, the last one last."""
    return list(_opened)


def watch() -> None:
    """Note from now on which files safetensors opens; if it is not imported yet, once it is."""
    global _watching
    _watching = True
    module = sys.modules.get("safetensors")
    if module is not None:
        _wrap(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def watching() -> bool:
    """Whether `watch` was called in this process: its `safe_open` is another one then."""
    return _watching


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of safetensors, and is gone after it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Let the others find it, and look at what they made of it."""
        if fullname != "safetensors":
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec, spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """The loader of safetensors, and one step more."""

    def __init__(self, spec: Any, loader: Any) -> None:
        self._spec = spec
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """As the loader does; the module does not know that it had another one."""
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _wrap(module)


def _wrap(module: Any) -> None:
    """Let `safetensors.safe_open` note its files. What it makes are the very objects it made."""
    original = getattr(module, "safe_open", None)
    if not isinstance(original, type) or isinstance(original, _Noting):
        return
    attributes = {
        "__doc__": original.__doc__,
        "__module__": "safetensors",
        "__qualname__": "safe_open",
        "__slots__": (),
        "_original": original,
    }
    with contextlib.suppress(Exception):
        module.safe_open = _Noting("safe_open", (), attributes)


class _Noting(type):
    """The type of the `safe_open` that notes: calling it opens a file as the original does."""

    _original: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cls._original(*args, **kwargs)
        note(args[0] if args else kwargs.get("filename"))
        return made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls._original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._original, name)


# ---- what will be there tomorrow ----


def durable(file: WeightsFile, store: Path) -> bool:
    """Whether the file can be counted on as long as the store: it is in no folder for temporary
    files, and not on a file system that goes with the container while the store is on another."""
    for folder in {os.path.realpath(f) for f in (*NOT_DURABLE, *_temporary())}:
        if file.real == folder or file.real.startswith(folder.rstrip(os.sep) + os.sep):
            return False
    try:
        same = os.stat(store).st_dev == file.identity.device
    except OSError:
        same = False
    return same or _file_system(file.identity.device) not in _PASSING


def _temporary() -> tuple[str, ...]:
    return (tempfile.gettempdir(),) if NOT_DURABLE else ()


def _file_system(device: int) -> str:
    """The type of the file system with this number; "" if it is not known."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            words = line.split()
            if words[2] == wanted:
                return words[words.index("-") + 1]
    return ""


# ---- the same file at another place ----

_SNAPSHOT = re.compile(r"(?:^|/)(models--[^/]+)/snapshots/([^/]+)/(.+)$")


def source_of(path: str) -> tuple[str, str, str] | None:
    """(repository, revision, file) of a file in a Hugging Face cache, from its path."""
    found = _SNAPSHOT.search(path.replace(os.sep, "/"))
    if found is None:
        return None
    return found[1][len("models--") :].replace("--", "/"), found[2], found[3]


def elsewhere(path: str, real: str) -> list[str]:
    """Where a file of a Hugging Face cache may be now: in the caches that this process knows, of
    the same revision, or the same blob. Whoever uses one compares its bytes."""
    found = _SNAPSHOT.search(path.replace(os.sep, "/"))
    if found is None:
        return []
    folder, revision, name = found.groups()
    blob = os.path.basename(real)
    places = []
    for hub in _hubs():
        repository = os.path.join(hub, folder)
        places.append(os.path.join(repository, "snapshots", revision, name))
        places.append(os.path.join(repository, "blobs", blob))
        with contextlib.suppress(OSError):
            for other in sorted(os.listdir(os.path.join(repository, "snapshots"))):
                places.append(os.path.join(repository, "snapshots", other, name))
    return [place for place in dict.fromkeys(places) if place not in (path, real)]


def _hubs() -> list[str]:
    """Where Hugging Face keeps its files, by the environment and by default."""
    env = os.environ.get
    home = env("HF_HOME") or os.path.join(
        env("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    hubs = [env("HF_HUB_CACHE"), env("HUGGINGFACE_HUB_CACHE"), os.path.join(home, "hub")]
    hubs.append(os.path.expanduser("~/.cache/huggingface/hub"))
    return [os.path.abspath(hub) for hub in hubs if hub]
