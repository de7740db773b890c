"""Puts a FileGuard behind open() and all else by which Python changes files, and takes it away.

It decides nothing: file_guard.py does. What it puts in place never outlives the load, not even in
modules that were imported meanwhile.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from .file_guard import BIGGEST_COPY, OPEN, OS_OPEN, FileGuard
from .stand_ins import is_trusted, originals
from .user_modules import is_users_code, module_dict

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Modules that hold a function of their own name for what is guarded here.
_ALIASES = (("bz2", "_builtin_open"), ("tarfile", "bltn_open"), ("tokenize", "_builtin_open"))

_guard: FileGuard | None = None


def _path_of(path: Any, dir_fd: Any = None) -> str:
    name = os.fsdecode(path)
    if dir_fd is not None and not os.path.isabs(name):
        name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
    folder, last = os.path.split(os.path.abspath(name))
    return os.path.join(os.path.realpath(folder), last)


def _guarded() -> FileGuard | None:
    """The guard, unless the call comes from the load itself."""
    if _guard is None or not _guard.concerns() or is_trusted():
        return None
    frame: Any = sys._getframe(2)
    while frame is not None:
        name, path = frame.f_globals.get("__name__"), frame.f_code.co_filename
        if name == __name__:  # open_, which calls an opener
            pass
        elif isinstance(name, str) and name.startswith(_PACKAGE):
            # What makes objects again knows what it does; what only starts others' code does not.
            return _guard if name in _STARTERS else None
        elif is_users_code(name, path):
            return _guard
        frame = frame.f_back
    return _guard


_PACKAGE = "jupyter_gkews."
_STARTERS = frozenset(
    f"{__package__}.{name}"
    for name in ("own_imports", "reading", "patient", "rebuild", "module_state", "patching")
)


def open_(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: Any = None,
    errors: Any = None,
    newline: Any = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """open(), under the guard."""
    guard = _guarded()
    text = {"encoding": encoding, "errors": errors, "newline": newline}
    plain = {**text, "closefd": closefd, "opener": opener}
    if guard is None or isinstance(file, int) or not isinstance(mode, str) or opener is not None:
        return OPEN(file, mode, buffering, **plain)
    path = os.path.realpath(_path_of(file))
    if not set(mode) & set("wax+"):
        there = guard.aside(path)
        return OPEN(file if there is None else there, mode, buffering, **plain)
    if guard.free(path):
        return OPEN(file, mode, buffering, **plain)
    if guard.making and "x" in mode and not os.path.lexists(path):
        made = OPEN(file, mode, buffering, **plain)
        guard.made(path)
        return made
    target = guard.to_write(
        path, empty="w" in mode, new="x" in mode, create="r" not in mode, append=mode[:1] == "a"
    )
    made = OPEN(target, mode.replace("x", "w"), buffering, **text)
    raw = getattr(made, "buffer", made)
    raw = getattr(raw, "raw", raw)
    with contextlib.suppress(AttributeError):
        raw.name = os.fspath(file)  # as it was given
    return made


def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
    """os.open(), under the guard."""
    guard = _guarded()
    tmpfile = getattr(os, "O_TMPFILE", 0)
    if guard is None or (tmpfile and flags & tmpfile == tmpfile):
        return OS_OPEN(path, flags, mode, dir_fd=dir_fd)
    full = os.path.realpath(_path_of(path, dir_fd))
    if not flags & _WRITING:
        there = guard.aside(full)
        if there is not None and os.path.isfile(there):
            return OS_OPEN(there, flags, mode)
        return OS_OPEN(path, flags, mode, dir_fd=dir_fd)
    if guard.free(full):
        return OS_OPEN(path, flags, mode, dir_fd=dir_fd)
    new = bool(flags & os.O_EXCL)
    if guard.making and new and not os.path.lexists(full):
        made = OS_OPEN(path, flags, mode, dir_fd=dir_fd)
        guard.made(full)
        return made
    create, append = bool(flags & os.O_CREAT), bool(flags & os.O_APPEND)
    empty = bool(flags & os.O_TRUNC)
    target = guard.to_write(full, empty=empty, new=new, create=create, append=append)
    return OS_OPEN(target, (flags | os.O_CREAT) & ~os.O_EXCL, 0o600)


def _removing(original: Any) -> Any:
    def remove(path: Any, *args: Any, dir_fd: Any = None, **more: Any) -> Any:
        guard = _guarded()
        known = {} if dir_fd is None else {"dir_fd": dir_fd}
        if guard is None or isinstance(path, int):
            return original(path, *args, **known, **more)
        full = _path_of(path, dir_fd)
        if guard.free(full) or not (guard.is_gone(full) or guard.gone(full)):
            return original(path, *args, **known, **more)
        return None  # a second try of the same import may find it removed already

    return remove


def _moving(original: Any) -> Any:
    def move(src: Any, dst: Any, **more: Any) -> Any:
        guard = _guarded()
        if guard is None:
            return original(src, dst, **more)
        source = _path_of(src, more.get("src_dir_fd"))
        target = _path_of(dst, more.get("dst_dir_fd"))
        there = guard.aside(source) is not None
        if not there and guard.free(source) and not os.path.lexists(target) and guard.making:
            guard.made(target)
            return original(src, dst, **more)
        if not there and not os.path.lexists(source):
            return original(src, dst, **more)
        guard.moved(source, target)
        return None

    return move


def _making(original: Any) -> Any:
    name, at = ("dst", 1) if original.__name__ in ("link", "symlink") else ("path", 0)

    def make(*args: Any, **more: Any) -> Any:
        guard = _guarded()
        path = args[at] if len(args) > at else more.get(name)
        if guard is None or path is None:
            return original(*args, **more)
        full = _path_of(path, more.get("dir_fd", more.get("dst_dir_fd")))
        removed = guard.is_gone(full)
        if (
            (os.path.lexists(full) and not removed)
            or (guard.making and not removed)
            or guard.free(full)
        ):
            made = original(*args, **more)
            guard.made(full)
            return made
        if not removed:
            guard.note("makes", full)
        guard.make_up(full)
        return None

    return make


def _altering(original: Any) -> Any:
    def alter(path: Any, *args: Any, **more: Any) -> Any:
        guard = _guarded()
        if guard is None or isinstance(path, int):
            return original(path, *args, **more)
        full = os.path.realpath(_path_of(path, more.get("dir_fd")))
        if guard.free(full) or not os.path.lexists(full):
            return original(path, *args, **more)
        guard.note("alters", full)
        return None

    return alter


def connect(database: Any, *args: Any, **more: Any) -> Any:
    """sqlite3.connect(), under the guard: to a copy of the file."""
    guard = _guarded()
    plain = isinstance(database, (str, bytes, os.PathLike)) and not more.get("uri")
    name = os.fsdecode(database) if plain else ""
    if guard is None or name in ("", ":memory:"):
        return _connect(database, *args, **more)
    path = os.path.realpath(_path_of(name))
    if guard.free(path):
        return _connect(database, *args, **more)
    known = guard.aside(path)
    target = known or guard.to_write(path, empty=True, new=False, create=True, database=True)
    if known is None and os.path.exists(path):
        if os.stat(path).st_size > BIGGEST_COPY:
            raise PermissionError(13, "it may not be changed while it is loaded again", path)
        with (
            contextlib.closing(_connect(f"file:{path}?mode=ro", uri=True)) as source,
            contextlib.closing(_connect(target)) as copy,
        ):
            source.backup(copy)
    return _connect(target, *args, **more)


_connect: Callable[..., Any] = connect  # sqlite3's, once it is there

_KINDS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("remove", "unlink", "rmdir"), _removing),
    **dict.fromkeys(("rename", "replace"), _moving),
    **dict.fromkeys(("mkdir", "mkfifo", "symlink", "link"), _making),
    **dict.fromkeys(("truncate", "chmod", "chown", "lchown", "utime"), _altering),
    **dict.fromkeys(("setxattr", "removexattr"), _altering),
}


def _places() -> Iterator[tuple[Any, str, Any]]:
    """(owner, name, what takes its place)."""
    yield builtins, "open", open_
    yield io, "open", open_
    yield os, "open", os_open
    for name, wrapped in _KINDS.items():
        original = getattr(os, name, None)
        if original is not None:
            yield os, name, wrapped(original)
    for module, name in _ALIASES:
        if getattr(sys.modules.get(module), name, None) is OPEN:
            yield sys.modules[module], name, open_
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # up to Python 3.10
    for name, wrapped in _KINDS.items():
        if accessor is not None and name in vars(accessor):
            yield accessor, name, staticmethod(wrapped(getattr(os, name)))
    if accessor is not None:
        opens = getattr(accessor, "open", None)
        yield accessor, "open", staticmethod(os_open if opens is OS_OPEN else open_)


def put_in_force(guard: FileGuard) -> Any:
    """For as long as what is returned is kept."""
    kept = in_force(guard)
    kept.__enter__()
    return kept


@contextmanager
def in_force(guard: FileGuard) -> Iterator[FileGuard]:
    """Within this block, `guard` is asked. One at a time."""
    global _guard
    before = set(sys.modules)
    put: list[tuple[Any, str, Any, Any]] = []
    for owner, name, ours in _places():
        put.append((owner, name, vars(owner)[name], ours))
    database = _sqlite()
    if database is not None:
        put += [(each, "connect", each.connect, connect) for each in database]
    for owner, name, original, ours in put:
        originals[id(ours)] = original
        setattr(owner, name, ours)
    _guard = guard
    try:
        yield guard
    finally:
        _guard = None
        for owner, name, original, ours in put:
            if vars(owner).get(name) is ours:  # a load puts back what cells have patched
                setattr(owner, name, original)
        _forget(before)
        originals.clear()


def _sqlite() -> list[Any] | None:
    global _connect
    try:
        import sqlite3
        import sqlite3.dbapi2
    except ImportError:
        return None
    if _connect is connect:
        _connect = sqlite3.connect
    return [sqlite3, sqlite3.dbapi2]


def _forget(before: set[str]) -> None:
    """Modules that were imported meanwhile may have taken one of ours: they get the real one."""
    for name, module in list(sys.modules.items()):
        namespace = (module_dict(module) if name not in before else None) or {}
        if originals.keys().isdisjoint(map(id, list(namespace.values()))):
            continue
        for key, value in list(namespace.items()):
            if id(value) in originals:
                namespace[key] = originals[id(value)]
    logging = sys.modules.get("logging")
    for reference in list(getattr(logging, "_handlerList", ())):
        held = getattr(reference(), "__dict__", {})
        if held.get("_builtin_open") is open_:
            held["_builtin_open"] = OPEN
