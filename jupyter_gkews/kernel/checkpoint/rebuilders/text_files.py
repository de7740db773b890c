"""Where a text file stands, and how it translates line ends: what Python does not tell directly.

It may read on in the file to find out, and always goes back.
"""

from __future__ import annotations

import codecs
import gc
import io
import os
from typing import Any

from .interface import CannotKeepError

#: Encodings in which a position is a number of bytes.
_STATELESS = ("utf-8", "ascii", "iso8859-1", "cp1252")
#: A file in another encoding is read through up to this size. Bytes.
_SMALL = 64 << 20
#: A TextIOWrapper decodes at most this much ahead.
_AHEAD = 1 << 20

_UNKNOWN = "its position is not known while a `for` loop over it is unfinished"


def newline_of(file: io.TextIOWrapper) -> str | None:
    """The `newline` with which `file` was opened: None, "", "\\n", "\\r" or "\\r\\n".

    CPython keeps it where only the garbage collector looks: the string after encoding and
    decoder, if it is not None.
    """
    parts = gc.get_referents(file)
    decoder = next((p for p in parts if isinstance(p, io.IncrementalNewlineDecoder)), None)
    if decoder is not None:  # None or "": "\n" alone or together with "\r" counts as a line end
        return None if _translates(decoder, file.encoding) else ""
    own = (id(file.encoding), id(file.errors))
    texts = [part for part in parts if isinstance(part, str) and id(part) not in own]
    return texts[0] if texts and texts[0] in ("", "\n", "\r", "\r\n") else None


def _translates(decoder: Any, encoding: str) -> bool:
    state = decoder.getstate()
    try:
        decoder.reset()
        return "\r" not in decoder.decode("a\r\nb".encode(encoding), True)
    finally:
        decoder.setstate(state)


def position_of(file: io.TextIOWrapper, on_disk: bool) -> int:
    """What `seek` needs to come back to where the file stands.

    `for line in file` reads ahead and disables tell() until the loop ends; then the place is
    found by what is still to come. Raises CannotKeepError where that is not exact.
    """
    try:
        return file.tell()
    except OSError:
        pass
    if not on_disk:
        return _by_reading_again(file)
    path = f"/proc/self/fd/{file.fileno()}" if os.path.isdir("/proc/self/fd") else file.name
    exact = file.errors in ("strict", "surrogateescape", "surrogatepass")
    read: list[str] = []
    position: int | None = None
    try:
        if exact and codecs.lookup(file.encoding).name in _STATELESS:
            position = _by_bytes(file, path, read)
        if position is None:
            position = _by_characters(file, path, read)
    except (OSError, UnicodeError) as error:
        raise CannotKeepError("an open file", f"{_UNKNOWN} ({error})") from error
    file.seek(position)
    return position


def _by_bytes(file: io.TextIOWrapper, path: str, read: list[str]) -> int | None:
    """For encodings without a state: the characters decoded already are read, up to the moment at
    which the file reads on; they end where the bytes read so far end."""
    buffer: Any = file.buffer
    end: int = buffer.tell()
    pending = ""
    while len(read) < _AHEAD:
        char = file.read(1)
        if not char:
            break
        read.append(char)
        if buffer.tell() != end:
            break
        pending += char
    size = len(pending.encode(file.encoding, file.errors or "strict"))
    returns = pending.count("\n")
    low = max(0, end - size - returns - 4)
    with open(path, "rb") as again:
        again.seek(low)
        raw = again.read(end - low)
    # A character that was read in part, at the end of what was decoded, has up to 3 bytes.
    for partial in range(4):
        stop = len(raw) - partial
        for more in sorted(range(returns + 1), key=lambda n: min(n, returns - n)):
            start = stop - size - more
            if start >= 0 and _decoded(file, raw[start:stop]) == pending:
                return low + start
    return None


def _decoded(file: io.TextIOWrapper, raw: bytes) -> str | None:
    try:
        text = raw.decode(file.encoding, file.errors or "strict")
    except UnicodeError:
        return None
    if newline_of(file) is None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _by_characters(file: io.TextIOWrapper, path: str, read: list[str]) -> int:
    """For all others: as many characters before the end as are left here; `read` are those that
    have been read already."""
    if os.fstat(file.fileno()).st_size > _SMALL and not read:
        raise CannotKeepError("an open file", f"{_UNKNOWN} (encoding {file.encoding})")
    rest = "".join(read) + file.read()
    options: dict[str, Any] = {"encoding": file.encoding, "errors": file.errors}
    with open(path, newline=newline_of(file), **options) as again:
        whole = len(again.read())
        again.seek(0)
        again.read(whole - len(rest))
        position: int = again.tell()
        if again.read() != rest:
            file.seek(position)
            raise CannotKeepError("an open file", _UNKNOWN)
    return position


def _by_reading_again(file: io.TextIOWrapper) -> int:
    """For what can only be read through itself (a compressed file): the same, from its start."""
    rest = file.read(_SMALL)
    if len(rest) == _SMALL:
        raise CannotKeepError("an open file", f"{_UNKNOWN}, and much is still to come")
    file.seek(0)
    whole = 0
    while True:
        part = len(file.read(1 << 20))
        if not part:
            break
        whole += part
    file.seek(0)
    for start in range(0, whole - len(rest), 1 << 20):
        file.read(min(1 << 20, whole - len(rest) - start))
    return file.tell()
