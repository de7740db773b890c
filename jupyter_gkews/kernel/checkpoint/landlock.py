"""Takes the right to change files from this process, for good, but below a few folders.

By Linux's Landlock (5.13 and newer); it holds for native code and for child processes as well.
Where the system has none it says so and does nothing. It never takes the right to read.

The numbers are those of linux/landlock.h and of the generic table of system calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38

_WRITE_FILE = 1 << 1
#: Removing (directories, files) and making (character devices, directories, regular files,
#: sockets, pipes, block devices, symbolic links).
_CHANGE_FOLDERS = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """The version of Landlock that this system has; 0 for none."""
    if sys.platform != "linux":
        return 0
    try:
        call = _syscall(ctypes.CDLL(None))
        found = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except (OSError, AttributeError):
        return 0
    return max(0, int(found))


def _syscall(libc: ctypes.CDLL) -> ctypes._NamedFuncPointer:
    call = libc.syscall
    call.restype = ctypes.c_long
    return call


def restrict(folders: Iterable[str], files: Iterable[str] = ()) -> bool:
    """From now on this process may change only what lies in `folders`, and write to `files`.

    Returns False, with nothing changed, where that is not possible. To be called while there is
    one thread: it holds for the calling one and all that it starts.
    """
    supported = version()
    if not supported:
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        call = _syscall(libc)
        handled = _WRITE_FILE | _CHANGE_FOLDERS
        handled |= _REFER if supported >= 2 else 0
        handled |= _TRUNCATE if supported >= 3 else 0
        rules = _Ruleset(handled)
        size = ctypes.c_size_t(ctypes.sizeof(rules))
        number = call(_CREATE_RULESET, ctypes.byref(rules), size, ctypes.c_uint32(0))
        if number < 0:
            return False
        try:
            whole = [(path, handled) for path in folders]
            single = [(path, handled & (_WRITE_FILE | _TRUNCATE)) for path in files]
            for path, access in whole + single:
                _allow(call, number, path, access)
            if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
                return False
            return bool(call(_RESTRICT_SELF, number, ctypes.c_uint32(0)) == 0)
        finally:
            os.close(number)
    except (OSError, AttributeError):
        return False


def _allow(call: ctypes._NamedFuncPointer, ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _Beneath(access, parent)
        call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(parent)
