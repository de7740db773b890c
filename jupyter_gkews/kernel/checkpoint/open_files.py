"""Writes out what the open files of the process hold in memory. Closes none."""

from __future__ import annotations

import _io
import contextlib
import gc

#: What all files are in C. The classes of `io` would ask a metaclass of the user's for its hash.
_FILES = (_io._TextIOBase, _io._BufferedIOBase)


def flush_open_files() -> None:
    """Write out what the process's open files hold in memory."""
    for obj in gc.get_objects():
        # By type: isinstance() would wake lazy proxies of other packages.
        if issubclass(type(obj), _FILES):
            with contextlib.suppress(Exception):  # a broken file must not keep the others back
                if not obj.closed and obj.writable():
                    obj.flush()
