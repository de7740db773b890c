"""While it is in force, imports and loads change no file of the user's: what they write goes
aside, what they would remove or rename stays, and each attempt is noted.

In the scratch process for good (with landlock.py below it, for native code); in a resume for the
imports of the user's own modules. It never refuses to read, and keeps nothing that was written.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Callable

from .open_files import flush_open_files
from .user_modules import is_users_code

#: Files larger than this (bytes) are not copied for code that wants to change them in place.
BIGGEST_COPY = 64 << 20
#: The real ones, whatever stands in their place.
OPEN: Callable[..., Any] = builtins.open
OS_OPEN: Callable[..., int] = os.open
RENAME: Callable[..., None] = os.rename
_OURS = frozenset((__name__, f"{__package__}.guarded_calls"))


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
            if os.stat(path).st_size > BIGGEST_COPY:
                raise PermissionError(13, "it may not be changed while it is loaded again", path)
            with OPEN(path, "rb") as source, OPEN(target, "wb") as copy:
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
            RENAME(source, there)
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
        if self._aside:
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
        if name in _OURS:
            pass
        elif not isinstance(name, str) or name.startswith("jupyter_gkews."):
            return ""
        elif is_users_code(name, path):
            return name
        frame = frame.f_back
    return ""


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
        real = OS_OPEN(path, keeps | getattr(os, "O_CLOEXEC", 0))
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
