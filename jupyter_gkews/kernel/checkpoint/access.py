"""Who may read and write a store: its owner alone. Repaired where it can be, else refused.

Whoever can write to a store's key can have code run in its owner's kernels. It never opens a
file to others, and never touches one of another user.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ...errors import GkewsError
from .manifest import read_key

_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def make_private(root: Path) -> None:
    """Let the folder be its owner's alone. Raises store_not_writable where that cannot be had: the
    folder of another user, a file system without permissions."""
    found = os.stat(root)
    if _foreign(found):
        if found.st_uid == 0 and not found.st_mode & 0o007:
            return  # an administrator's volume, for a group: in a container, ours alone
        raise _refused(root, "belongs to another user")
    if _open_after_closing(root, 0o700, _OTHERS):
        raise _refused(root, "can be read by others, and its file system has no permissions")


def trusted_key(root: Path) -> bytes | None:
    """The signing key, if no other user can have changed it; None if there is none, or none that
    is whole. Raises checkpoint_foreign_key for a key that others can write to."""
    path = root / "key"
    try:
        found = os.stat(path)
    except OSError:
        return None
    if stat.S_ISREG(found.st_mode) and (
        _foreign(found) or _open_after_closing(path, 0o600, _OTHERS_WRITE)
    ):
        raise GkewsError(
            "checkpoint_foreign_key",
            f"The signing key {path} can be written by other users: what it signed cannot be "
            "trusted.",
            "Nothing was loaded or written. Let the store belong to you alone (chmod -R go= on "
            "its folder), or set another store directory, on a disk that keeps permissions.",
        )
    return read_key(root)


def _foreign(found: os.stat_result) -> bool:
    mine = os.geteuid() if hasattr(os, "geteuid") else found.st_uid
    return mine != 0 and found.st_uid not in (mine, 0)


def _open_after_closing(path: Path, mode: int, bits: int) -> bool:
    """Whether others have these rights, also after an attempt to take them away."""
    if os.name != "posix" or not os.stat(path).st_mode & _OTHERS:
        return False
    try:
        os.chmod(path, mode)
    except OSError as error:
        if error.errno == errno.EROFS:
            return False  # nobody can change it
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS):
            raise
    return bool(os.stat(path).st_mode & bits)


def _refused(root: Path, why: str) -> GkewsError:
    return GkewsError(
        "store_not_writable",
        f"The checkpoint store {root} {why}.",
        "Nothing was written; the kernel and all earlier checkpoints are as they were. Set "
        "another store directory, one that is yours alone.",
    )
