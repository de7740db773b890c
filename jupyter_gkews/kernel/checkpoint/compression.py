"""Compresses the graph of a checkpoint once it is written, and reads it back piece by piece.

Only the graph: what leaves it is memory of arrays and tensors, which is mapped as it lies on the
disk. It never reads more plain bytes than a manifest states, and never drops the plain file
before the compressed one is whole.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, Callable

from ...errors import GkewsError
from .manifest import COMPRESSED, Manifest

#: What may be asked for.
WAYS = ("none", "zstd")
#: What a graph may be compressed with; gzip (of the standard library) where there is no zstd.
CODECS = ("zstd", "gzip")
#: A graph smaller than this (bytes) is left as it is: that is what an empty notebook has.
SMALL = 16384
_LEVEL = 3
_PIECE = 1 << 20
#: Read ahead (bytes): pickle looks at all of it whenever it has read a little.
_AHEAD = 16 << 10
_WINDOW = 1 << 27  # bytes of memory that reading zstd may take: what its own tools allow

NO_ZSTD = "zstd was asked for, and this kernel's environment has none (the package zstandard)"


def check_way(how: str) -> str:
    """`how` if it is one of WAYS; raises bad_request."""
    if how not in WAYS:
        raise GkewsError(
            "bad_request",
            f"'compress' is {how!r}; it must be one of {', '.join(WAYS)}.",
            "Nothing was written.",
        )
    return how


def can_read(codec: str) -> bool:
    """Whether this environment can read what was compressed with `codec`."""
    return codec == "gzip" or (codec == "zstd" and _zstd(reading=True) is not None)


def pack(
    graph: Path,
    manifest: Manifest,
    how: str,
    *,
    check: Callable[[], None],
    name_of: Callable[[Path], str],
) -> None:
    """Compress the file `graph` in place, if `how` says so and it gets smaller by an eighth.

    The manifest then has the name and bytes of the compressed file, its codec and its plain
    bytes; else it is as it was. `check` is called often and may raise. Raises OSError.
    """
    plain = int(manifest.graph["bytes"])
    if how == "none" or plain < SMALL:
        return
    codec, why = ("zstd", None) if _zstd(reading=False) is not None else ("gzip", NO_ZSTD)
    packed = graph.with_name(graph.name + ".packed")
    try:
        with (
            open(graph, "rb") as source,
            open(packed, "xb", opener=_private) as target,
            _writer(codec, target) as writer,
        ):
            while piece := source.read(_PIECE):
                check()
                writer.write(piece)
        nbytes = packed.stat().st_size
        if nbytes > plain - plain // 8:
            return
        os.replace(packed, graph)
    finally:
        with contextlib.suppress(FileNotFoundError):
            packed.unlink()
    manifest.graph = {
        "name": name_of(graph), "bytes": nbytes, "codec": codec, "plain": plain, "why": why
    }  # fmt: skip
    manifest.format = max(manifest.format, COMPRESSED)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)


def open_graph(path: Path, manifest: Manifest) -> BinaryIO:
    """The plain bytes of a graph, to be read from the start; `tell` counts plain bytes.

    Raises OSError; GkewsError restore_failed where nothing can read its codec, and, while it is
    read, checkpoint_damaged where it is not what the manifest states.
    """
    check_codec(manifest)
    codec = manifest.graph.get("codec")
    if codec is None:
        return open(path, "rb")
    plain = _Bounded(path, str(codec), int(manifest.graph["plain"]), manifest.id)
    return io.BufferedReader(plain, _AHEAD)


def check_codec(manifest: Manifest) -> None:
    """Raise restore_failed unless this environment can read the graph of `manifest`."""
    codec = manifest.graph.get("codec")
    if codec is not None and not can_read(str(codec)):
        raise GkewsError(
            "restore_failed",
            f"The graph of checkpoint {manifest.id} is compressed with {codec}, which nothing in "
            "this environment can read.",
            "Nothing was loaded and the checkpoint is unchanged. Install the package zstandard "
            "into the kernel's environment and try again.",
        )


class _Bounded(io.RawIOBase):
    """The plain bytes of a compressed file; an error where there are more or fewer than stated."""

    def __init__(self, path: Path, codec: str, plain: int, checkpoint: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115
        self._checkpoint = checkpoint
        self._left = plain
        self._done = 0
        self._reader = _reader(codec, self._file)

    def readable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """How many plain bytes were read."""
        return self._done

    def readinto(self, buffer: Any) -> int:
        """As io.RawIOBase says."""
        view = memoryview(buffer)
        try:
            # one byte more than may come, to see whether it does
            data = self._reader.read(min(len(view), self._left + 1))
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(str(error)) from None
        except Exception as error:  # each library has a class of its own for it
            raise self._damaged(str(error)) from None
        if len(data) > self._left:
            raise self._damaged("it holds more than was saved")
        if not data and self._left:
            raise self._damaged("it ends too early")
        view[: len(data)] = data
        self._left -= len(data)
        self._done += len(data)
        return len(data)

    def close(self) -> None:
        """Close the file as well."""
        self._file.close()
        super().close()

    def _damaged(self, why: str) -> GkewsError:
        return GkewsError(
            "checkpoint_damaged",
            f"Checkpoint {self._checkpoint} is damaged: its graph cannot be decompressed "
            f"({why.splitlines()[0][:200] if why else 'no reason given'}).",
            "Nothing was loaded and nothing was changed.",
        )


# ---- libraries ----


def _zstd(*, reading: bool) -> str | None:
    """The module that knows zstd; pyarrow, which is large, only if it is there already or to
    read what nothing else can."""
    if sys.version_info >= (3, 14) and _found("compression.zstd"):
        return "compression.zstd"
    if _found("zstandard"):
        return "zstandard"
    if "pyarrow" in sys.modules or (reading and _found("pyarrow")):
        with contextlib.suppress(Exception):
            if importlib.import_module("pyarrow").Codec.is_available("zstd"):
                return "pyarrow"
    return None


def _found(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _writer(codec: str, target: BinaryIO) -> Any:
    """A file to write plain bytes to; the same bytes make the same file."""
    if codec == "gzip":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=target, mtime=0)
    name = _zstd(reading=False)
    module = importlib.import_module(str(name))
    if name == "compression.zstd":
        return module.ZstdFile(target, "wb", level=_LEVEL)
    if name == "zstandard":
        return module.ZstdCompressor(level=_LEVEL).stream_writer(target, closefd=False)
    return module.CompressedOutputStream(module.PythonFile(_Kept(target), "w"), "zstd")


def _reader(codec: str, source: BinaryIO) -> Any:
    """A file to read plain bytes from."""
    if codec == "gzip":
        return gzip.GzipFile(fileobj=source, mode="rb")
    name = _zstd(reading=True)
    module = importlib.import_module(str(name))
    if name == "compression.zstd":
        return module.ZstdFile(source, "rb")
    if name == "zstandard":
        return module.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(source, closefd=False)
    return module.CompressedInputStream(module.PythonFile(source, "r"), "zstd")


class _Kept:
    """A file that whoever writes to it does not close."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write
        self.flush = file.flush

    def close(self) -> None:
        """Nothing."""
