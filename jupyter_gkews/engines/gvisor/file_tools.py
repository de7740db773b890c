"""`ls` and `stat` for sandboxes of an old runsc, which refuses a flag that they ask files with.

Writes a folder with scripts that start the real programs with a library of a few instructions,
which leaves the flag out (there are no automounts in a sandbox). Nothing else ever loads it.
"""

from __future__ import annotations

import platform
import shutil
import struct
from pathlib import Path

#: GNU coreutils that ask by statx with AT_NO_AUTOMOUNT.
PROGRAMS = ("ls", "dir", "vdir", "stat")
#: statx(dirfd, path, flags, mask, buffer) as syscall(332, dirfd, path, flags & ~0x800, mask,
#: buffer), for x86-64: the arguments move by one register, then a jump through the table below.
CODE = bytes.fromhex(
    "4d89c1"  # mov r9, r8
    "4989c8"  # mov r8, rcx
    "4889d1"  # mov rcx, rdx
    "81e1fff7ffff"  # and ecx, ~0x800
    "4889f2"  # mov rdx, rsi
    "4863f7"  # movsxd rsi, edi
    "bf4c010000"  # mov edi, 332
    "31c0"  # xor eax, eax
    "ff25"  # jmp [rip + ...]
)


def write(folder: Path, path: str) -> Path | None:
    """Write the scripts into `folder`; None where they would be of no use. `path`: where the
    programs are looked for."""
    if platform.machine() != "x86_64":
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / "statx.so"
    library.write_bytes(shared_object())
    for name in PROGRAMS:
        program = shutil.which(name, path=path)
        if program is not None:
            script = folder / name
            script.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec {program} "$@"\n')
            script.chmod(0o700)
    return folder


def shared_object() -> bytes:
    """The library: one segment with one function, `statx`, that calls libc's `syscall`.

    Laid out as the ELF specification and its x86-64 supplement say.
    """
    names = b"\0statx\0syscall\0"
    at, parts = 64 + 3 * 56, {}  # behind the header and three program headers
    for part, nbytes in (
        ("symbols", 3 * 24),
        ("names", len(names)),
        ("hash", 6 * 4),
        ("relocation", 24),
        ("dynamic", 9 * 16),
        ("table", 8),
        ("code", len(CODE) + 4),
    ):
        at = -(-at // 8) * 8
        parts[part] = at
        at += nbytes
    found = bytearray(at)

    def put(place: int, layout: str, *values: object) -> None:
        struct.pack_into("<" + layout, found, place, *values)

    put(0, "16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    loaded, dynamic, stack = 1, 2, 0x6474E551
    put(64, "IIQQQQQQ", loaded, 7, 0, 0, 0, at, at, 4096)
    place, nbytes = parts["dynamic"], 9 * 16
    put(120, "IIQQQQQQ", dynamic, 6, place, place, place, nbytes, nbytes, 8)
    put(176, "IIQQQQQQ", stack, 6, 0, 0, 0, 0, 0, 16)
    # symbol 1 is ours (a function, in a section that is not 0), symbol 2 is libc's
    put(parts["symbols"] + 24, "IBBHQQ", 1, 0x12, 0, 1, parts["code"], len(CODE) + 4)
    put(parts["symbols"] + 48, "IBBHQQ", 7, 0x12, 0, 0, 0, 0)
    found[parts["names"] : parts["names"] + len(names)] = names
    put(parts["hash"], "6I", 1, 3, 1, 0, 2, 0)  # one bucket: 1, then 2
    put(parts["relocation"], "QQq", parts["table"], (2 << 32) | 6, 0)  # its address, of symbol 2
    entries = [
        (4, parts["hash"]),
        (5, parts["names"]),
        (6, parts["symbols"]),
        (10, len(names)),
        (11, 24),
        (7, parts["relocation"]),
        (8, 24),
        (9, 24),
        (0, 0),
    ]
    for number, entry in enumerate(entries):
        put(parts["dynamic"] + 16 * number, "QQ", *entry)
    end = parts["code"] + len(CODE) + 4
    found[parts["code"] : end] = CODE + struct.pack("<i", parts["table"] - end)
    return bytes(found)
