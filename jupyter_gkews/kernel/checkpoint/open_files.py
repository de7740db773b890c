"""Writes out what the open files of the process hold in memory. Closes none."""

from __future__ import annotations

import contextlib
import gc
import io


def flush_open_files() -> None:
    """Write out what the process's open files hold in memory."""
    files: dict[type, bool] = {}  # asked once of each type: there may be a million objects
    for obj in gc.get_objects():
        # By type: isinstance() would wake lazy proxies of other packages.
        cls = type(obj)
        try:
            is_file = files[cls]
        except KeyError:
            is_file = files[cls] = issubclass(cls, (io.TextIOBase, io.BufferedIOBase))
        if is_file:
            with contextlib.suppress(Exception):  # a broken file must not keep the others back
                if not obj.closed and obj.writable():
                    obj.flush()
