"""Code objects from one Python to another: as bytecode where it is the same, else from the source.

Bytecode of another version must never run: it would crash, or compute something else. Source is
taken only if it is the very text that the code was compiled from. It compiles and runs nothing
at a save but sources with several nameless functions on one line.
"""

from __future__ import annotations
import __future__

import ast
import functools
import hashlib
import importlib.util
import linecache
import marshal
import sys
import types
from collections.abc import Iterator
from typing import Any

#: Bytecode with this number is this Python's own.
MAGIC = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")
_IMPLEMENTATION = sys.implementation.name
_FUTURES = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_VARIABLE_ARGUMENTS = 0x04 | 0x08


class OtherPythonError(Exception):
    """Code of another Python whose source is not known; the clause says which and why."""


def describe(code: types.CodeType) -> tuple[Any, ...]:
    """What is needed to find `code` again in its source: (implementation, Python, file name,
    digest of the source or None, line, what tells it from others there, number among equals)."""
    text = _source(code.co_filename)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        _IMPLEMENTATION,
        version,
        code.co_filename,
        None if text is None else _digest(text),
        code.co_firstlineno,
        _signature(code),
        code.co_flags & _FUTURES,
        0 if text is None or not code.co_name.startswith("<") else _number(code, text),
    )


def dump(code: types.CodeType) -> bytes:
    """Its bytecode; ValueError for code with constants that no compiler makes."""
    return marshal.dumps(code)


def load(magic: int, described: tuple[Any, ...], data: bytes) -> types.CodeType:
    """The code object: from its bytecode if that is this Python's, else compiled again.

    Raises OtherPythonError.
    """
    implementation, version, filename, digest, line, signature, flags, number = described
    if magic == MAGIC and implementation == _IMPLEMENTATION:
        code: types.CodeType = marshal.loads(data)
        return code
    theirs = f"it was compiled by Python {version}, and"
    text = _source(filename)
    if text is None or digest is None:
        raise OtherPythonError(f"{theirs} its source is not known")
    if _digest(text) != digest:
        raise OtherPythonError(f"{theirs} its source {filename} has been changed since")
    try:
        found = [
            each
            for each in _compiled(text, filename, flags)
            if each.co_firstlineno == line and _signature(each) == signature
        ]
    except (SyntaxError, ValueError) as error:
        raise OtherPythonError(
            f"{theirs} this Python cannot compile its source ({error})"
        ) from None
    if len(found) == 1:
        return found[0]
    if number is not None and number < len(found):
        return found[int(number)]
    raise OtherPythonError(f"{theirs} it is not found in its source")


def _signature(code: types.CodeType) -> tuple[Any, ...]:
    """What is the same in every version: the name, the arguments, the closure's variables."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return (
        code.co_name,
        code.co_posonlyargcount,
        code.co_argcount,
        code.co_kwonlyargcount,
        code.co_flags & _VARIABLE_ARGUMENTS,
        code.co_varnames[:count],
        code.co_freevars,
    )


def _number(code: types.CodeType, text: str) -> int | None:
    """Which of those that look alike on its line it is (two lambdas); None if that is not clear."""
    try:
        alike = [
            each
            for each in _compiled(text, code.co_filename, code.co_flags & _FUTURES)
            if each.co_firstlineno == code.co_firstlineno and _signature(each) == _signature(code)
        ]
    except (SyntaxError, ValueError):
        return None
    if len(alike) < 2:
        return 0
    same = [number for number, each in enumerate(alike) if each == code]
    return same[0] if len(same) == 1 else None


@functools.lru_cache(maxsize=64)
def _compiled(text: str, filename: str, flags: int) -> tuple[types.CodeType, ...]:
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    top: types.CodeType = compile(text, filename, "exec", flags=flags, dont_inherit=True)
    return tuple(_within(top))


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _within(constant)


def _source(filename: str) -> str | None:
    """The text of a cell or file; as linecache has it, or as it is on disk."""
    text = "".join(linecache.getlines(filename))
    return text or None


@functools.lru_cache(maxsize=256)
def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
