"""While it is in force, imports and loads change no file of the user's: what they write goes
aside, what they would remove or rename stays, and each attempt is noted.

In the scratch process for good (with landlock.py below it, for native code); in a resume for the
imports of the user's own modules. It never refuses to read, and keeps nothing that was written.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import io
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable

from .user_modules import is_library_file, module_dict

#: Files larger than this (bytes) are not copied for code that wants to change them in place.
_BIGGEST_COPY = 64 << 20
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Modules that hold a function of their own name for what is guarded here.
_ALIASES = (("bz2", "_builtin_open"), ("tarfile", "bltn_open"), ("tokenize", "_builtin_open"))


#: Whose an attempt is that no module of the user's makes: an object's own code while it is loaded.
OF_CELLS = "__main__"


@dataclass(frozen=True)
class Attempt:
    """The code of `module` wanted to change `path`; `what` says how, as in "opens"."""

    module: str
    what: str
    path: str

    def subject(self) -> str:
        """Who it was, as the name of a row."""
        return "objects of cells" if self.module == OF_CELLS else f"module {self.module}"


def told(attempts: Iterable[Attempt]) -> dict[str, str]:
    """For each subject, a sentence of what it wanted."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for each in attempts:
        whats = found.setdefault(each.subject(), {})
        if each.what != _WRITES or each.path not in whats.get(_EMPTIES, ()):
            whats.setdefault(each.what, {})[each.path] = None
    said = {}
    for subject, whats in found.items():
        acts = " and ".join(f"{what} {', '.join(paths)}" for what, paths in whats.items())
        begin = "its import" if subject.startswith("module ") else "loading them"
        said[subject] = f"{begin} {acts}: that is held back, and the files stay as they are"
    return said


_EMPTIES, _WRITES = "empties", "writes to"


@dataclass
class FileGuard:
    """`folder`: where writes go; made on demand if it is None. `making`: whether new files and
    folders may be made where nothing is (by their maker alone, as tempfile does). `importing`:
    only what modules of the user's and cells want is held back; libraries are let go on."""

    folder: str | None = None
    making: bool = False
    importing: bool = False
    attempts: dict[Attempt, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._aside: dict[str, str] = {}
        self._made: list[str] = []
        self._removed: set[str] = set()
        self._sizes: dict[str, int] = {}  # of what is aside, when it was put there
        self._whose: dict[str, str] = {}
        self._databases: set[str] = set()
        self._others = {thread.ident for thread in threading.enumerate()}
        self._others.discard(threading.get_ident())
        self._given = self.folder

    # ---- what the wrappers ask ----

    def concerns(self) -> bool:
        """Whether the calling thread is one of those that are guarded."""
        return threading.get_ident() not in self._others

    def free(self, path: str) -> bool:
        """Whether `path` may be changed: it was made under this guard, or is no regular file."""
        if any(path == each or path.startswith(each + os.sep) for each in self._made):
            return True
        if self._given is not None and (path + os.sep).startswith(self._given + os.sep):
            return True
        if self.importing and not _whose():
            return True
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return False
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))

    def note(self, what: str, path: str) -> None:
        """Remember an attempt, with whose it is; those of libraries go without saying."""
        whose = _whose()
        if whose:
            self.attempts.setdefault(Attempt(whose, what, path))

    def aside(self, path: str) -> str | None:
        """Where `path` is, if it was written under this guard."""
        return self._aside.get(path)

    def made(self, path: str) -> None:
        """It was made under this guard."""
        self._made.append(path)

    def to_write(
        self,
        path: str,
        *,
        empty: bool,
        new: bool,
        create: bool,
        append: bool = False,
        database: bool = False,
    ) -> str:
        """Where to write instead of `path`: with what is there, unless it is to be emptied, or
        only appended to.

        Raises OSError as opening the file itself would.
        """
        found = self._aside.get(path)
        there = found is not None or (path not in self._removed and os.path.exists(path))
        if new and there:
            raise FileExistsError(17, os.strerror(17), path)
        if not create and not there:
            raise FileNotFoundError(2, os.strerror(2), path)
        if os.path.isdir(path):
            raise IsADirectoryError(21, os.strerror(21), path)
        if found is not None:
            return found
        if not there and not os.path.isdir(os.path.dirname(path)) and not self._made_up(path):
            raise FileNotFoundError(2, os.strerror(2), path)
        target = os.path.join(self._folder(), f"{len(self._aside)}-{os.path.basename(path)[:60]}")
        if there and not empty and not append:
            if os.stat(path).st_size > _BIGGEST_COPY:
                raise PermissionError(13, "it may not be changed while it is loaded again", path)
            with _open(path, "rb") as source, _open(target, "wb") as copy:
                shutil.copyfileobj(source, copy)
        if empty and there and not database and os.path.getsize(path):
            self.note(_EMPTIES, path)
        self._aside[path] = target
        self._whose[target] = _whose()
        if database:  # not to be gone on with by the way of files
            self._databases.add(target)
        self._sizes[target] = os.path.getsize(target) if os.path.exists(target) else 0
        return target

    def make_up(self, path: str) -> None:
        """Act as if the folder `path` had been made."""
        self._removed.discard(path)
        self._aside[path] = path

    def _made_up(self, path: str) -> bool:
        return self._aside.get(os.path.dirname(path)) == os.path.dirname(path)

    def is_gone(self, path: str) -> bool:
        """Whether it was removed under this guard, as it seems."""
        return path in self._removed

    def gone(self, path: str) -> bool:
        """Act as if `path` had been removed. False if there is nothing to remove."""
        there = path in self._aside or (path not in self._removed and os.path.lexists(path))
        if not there:
            return False
        if path not in self._aside or os.path.lexists(path):
            self.note("removes", path)
        self._aside.pop(path, None)
        self._removed.add(path)
        return True

    def moved(self, source: str, target: str) -> None:
        """Act as if `source` had been renamed to `target`."""
        self.note("replaces", target)
        there = self._aside.pop(source, None)
        self._removed.add(source)
        self._removed.discard(target)
        if there is None and self.free(source):
            there = os.path.join(self._folder(), f"m{len(self._aside)}")
            _rename(source, there)
        if there is not None:
            self._aside[target] = there

    def _folder(self) -> str:
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="gkews-aside-")
        return self.folder

    # ---- the end ----

    def settle(self) -> list[Attempt]:
        """After the last import: what is still open goes on in the file itself, at its end, with
        nothing of it changed. Returns what was held back."""
        places = {}
        for path, aside in self._aside.items():
            with contextlib.suppress(OSError):
                seen = os.stat(aside)
                if stat.S_ISREG(seen.st_mode):
                    places[seen.st_dev, seen.st_ino] = path, aside
        if places and _open_in(places):
            gc.collect()  # what the load has put something else in the place of
            flush_open_files()
        self._note_written()
        for number, (path, aside) in _open_in(places):
            if aside in self._databases:
                self.attempts.setdefault(Attempt(self._whose[aside], "goes on in a copy of", path))
            else:
                _go_on(number, path, aside)
        if self._given is None and self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
        return list(self.attempts)

    def noted(self) -> list[Attempt]:
        """What was held back until now."""
        flush_open_files()
        self._note_written()
        return list(self.attempts)

    def _note_written(self) -> None:
        for path, aside in self._aside.items():
            whose = self._whose.get(aside)
            if whose and aside not in self._databases:
                with contextlib.suppress(OSError):
                    if os.path.getsize(aside) != self._sizes[aside]:
                        self.attempts.setdefault(Attempt(whose, _WRITES, path))


def _whose() -> str:
    """The module of the user's that the present call comes from, OF_CELLS for a cell; "" for a
    library. Looked for as far as the load that makes the call."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name, path = frame.f_globals.get("__name__"), frame.f_code.co_filename
        if name == __name__:
            pass
        elif not isinstance(name, str) or name.startswith("jupyter_gkews."):
            return ""
        elif not is_library_file(path) or (name == OF_CELLS and not os.path.isabs(path)):
            return name
        frame = frame.f_back
    return ""


def flush_open_files() -> None:
    """Write out what the process's open files hold in memory."""
    for obj in gc.get_objects():
        # By type first: isinstance() would wake lazy proxies of other packages.
        if issubclass(type(obj), (io.TextIOBase, io.BufferedIOBase)):
            with contextlib.suppress(Exception):  # a broken file must not keep the others back
                if not obj.closed and obj.writable():
                    obj.flush()


def _open_in(places: dict[tuple[int, int], tuple[str, str]]) -> list[tuple[int, tuple[str, str]]]:
    found = []
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    try:
        numbers = [int(name) for name in os.listdir(folder) if name.isdigit()] if places else []
    except OSError:
        return []
    for number in numbers:
        with contextlib.suppress(OSError):
            seen = os.fstat(number)
            if (seen.st_dev, seen.st_ino) in places:
                found.append((number, places[seen.st_dev, seen.st_ino]))
    return found


def _go_on(fd: int, path: str, aside: str) -> bool:
    """Let `fd` stand for the file itself, which keeps what it has; or, if it is not there, for a
    new one with what was written aside."""
    try:
        import fcntl

        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        keeps = flags & (os.O_ACCMODE | os.O_APPEND)
        at, end = os.lseek(fd, 0, os.SEEK_CUR), 0
        new = not os.path.exists(path)
        if new:
            shutil.copyfile(aside, path)
        real = _os_open(path, keeps | getattr(os, "O_CLOEXEC", 0))
        try:
            end = os.lseek(real, 0, os.SEEK_END)
            if new:
                os.lseek(real, min(at, end), os.SEEK_SET)
            os.dup2(real, fd, inheritable=os.get_inheritable(fd))
        finally:
            os.close(real)
    except (OSError, ImportError):
        return False
    return True


# ---- what takes the place of open() and its like ----

_open: Callable[..., Any] = builtins.open
_os_open: Callable[..., int] = os.open
_rename: Callable[..., None] = os.rename
_guard: FileGuard | None = None
_exempt = threading.local()


@contextmanager
def trusted() -> Iterator[None]:
    """Within this block the calling thread is not guarded: it does what a load is for."""
    before = getattr(_exempt, "now", False)
    _exempt.now = True
    try:
        yield
    finally:
        _exempt.now = before


def _path_of(path: Any, dir_fd: Any = None) -> str:
    name = os.fsdecode(path)
    if dir_fd is not None and not os.path.isabs(name):
        name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
    folder, last = os.path.split(os.path.abspath(name))
    return os.path.join(os.path.realpath(folder), last)


def _guarded() -> FileGuard | None:
    """The guard, unless the call comes from the load itself."""
    if _guard is None or not _guard.concerns() or getattr(_exempt, "now", False):
        return None
    caller = sys._getframe(2).f_globals.get("__name__")
    ours = isinstance(caller, str) and caller.startswith("jupyter_gkews.")
    return None if ours else _guard


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
        return _open(file, mode, buffering, **plain)
    path = os.path.realpath(_path_of(file))
    if not set(mode) & set("wax+"):
        there = guard.aside(path)
        return _open(file if there is None else there, mode, buffering, **plain)
    if guard.free(path):
        return _open(file, mode, buffering, **plain)
    if guard.making and "x" in mode and not os.path.lexists(path):
        made = _open(file, mode, buffering, **plain)
        guard.made(path)
        return made
    target = guard.to_write(
        path, empty="w" in mode, new="x" in mode, create="r" not in mode, append=mode[:1] == "a"
    )
    made = _open(target, mode.replace("x", "w"), buffering, **text)
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
        return _os_open(path, flags, mode, dir_fd=dir_fd)
    full = os.path.realpath(_path_of(path, dir_fd))
    if not flags & _WRITING:
        there = guard.aside(full)
        if there is not None and os.path.isfile(there):
            return _os_open(there, flags, mode)
        return _os_open(path, flags, mode, dir_fd=dir_fd)
    if guard.free(full):
        return _os_open(path, flags, mode, dir_fd=dir_fd)
    new = bool(flags & os.O_EXCL)
    if guard.making and new and not os.path.lexists(full):
        made = _os_open(path, flags, mode, dir_fd=dir_fd)
        guard.made(full)
        return made
    create, append = bool(flags & os.O_CREAT), bool(flags & os.O_APPEND)
    empty = bool(flags & os.O_TRUNC)
    target = guard.to_write(full, empty=empty, new=new, create=create, append=append)
    return _os_open(target, (flags | os.O_CREAT) & ~os.O_EXCL, 0o600)


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
        if os.stat(path).st_size > _BIGGEST_COPY:
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
        if getattr(sys.modules.get(module), name, None) is _open:
            yield sys.modules[module], name, open_
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # up to Python 3.10
    for name, wrapped in _KINDS.items():
        if accessor is not None and name in vars(accessor):
            yield accessor, name, staticmethod(wrapped(getattr(os, name)))
    if accessor is not None:
        opens = getattr(accessor, "open", None)
        yield accessor, "open", staticmethod(os_open if opens is _os_open else open_)


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
        _originals[id(ours)] = original
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
        _originals.clear()


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


def real(obj: Any) -> Any:
    """What a graph names: never one of ours, which must not outlive the load."""
    return _originals.get(id(obj), obj) if _originals else obj


#: What takes the place of open() and its like now, by id -> the real one.
_originals: dict[int, Any] = {}


def _forget(before: set[str]) -> None:
    """Modules that were imported meanwhile may have taken one of ours: they get the real one."""
    for name, module in list(sys.modules.items()):
        namespace = (module_dict(module) if name not in before else None) or {}
        for key, value in list(namespace.items()):
            if id(value) in _originals:
                namespace[key] = _originals[id(value)]
    logging = sys.modules.get("logging")
    for reference in list(getattr(logging, "_handlerList", ())):
        held = getattr(reference(), "__dict__", {})
        if held.get("_builtin_open") is open_:
            held["_builtin_open"] = _open
