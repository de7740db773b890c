"""Whether an image can be restored here: what was there when it was taken, compared with now.

runsc itself says no more than "no such file" when a restore fails, so what can be known before is
looked for before. Changes nothing, and tries nothing.
"""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import GkewsError
from ..base import Inside
from .runsc import Runsc

#: Features of x86 processors that programs use themselves, as /proc/cpuinfo names them; the other
#: flags tell of the kernel, of virtualization and of repairs, and differ between equal processors.
_USED = re.compile(
    r"mmx(ext)?|3dnow\w*|sse\w*|pni|ssse3|fma4?|xop|tbm|lwp|avx\w*|amx_\w+|aes|pclmulqdq|v?aes|gfni|"
    r"vpclmulqdq|sha\w*|sm3|sm4|popcnt|abm|bmi[12]|adx|f16c|rdrand|rdseed|movbe|movdir\w+|cx16|cx8|"
    r"cmov|lahf_lm|fxsr\w*|x?save\w*|xgetbv1|erms|fsrm|fzrm|fsrs|fsrc|fsgsbase|rdtscp|rdpid|clflush\w*|"
    r"clwb|cldemote|serialize|waitpkg|pku|ospke|rtm|hle|prefetch\w*|enqcmd|hreset|syscall|lm|fpu|"
    r"cmpccxadd|ibt|user_shstk"
)
#: Named in a message at most.
SHOWN = 5


def environment(runsc: Runsc, inside: Inside | None = None) -> dict[str, Any]:
    """What of this machine an image is tied to, and what is told of it besides: {"runsc",
    "machine", "kernel", "cpu": [features]}, with `inside` also {"python"}."""
    found: dict[str, Any] = {
        "runsc": runsc.version,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cpu": list(features()),
    }
    if inside is not None and inside.holds.get("python"):
        found["python"] = inside.holds["python"]
    return found


@functools.cache
def features() -> tuple[str, ...]:
    """The features of this machine's processor that programs may use, sorted; of ARM all that
    Linux names. Empty where it names none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    return features_in(text)


def features_in(cpuinfo: str) -> tuple[str, ...]:
    """The features in the text of a /proc/cpuinfo; those that all its processors have."""
    common: set[str] | None = None
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() not in ("flags", "Features"):
            continue
        here = set(value.split())
        if name.strip() == "flags":
            here = {flag for flag in here if _USED.fullmatch(flag)}
        common = here if common is None else common & here
    return tuple(sorted(common or ()))


def needs(inside: Inside, binds: Iterable[str]) -> dict[str, Any]:
    """What must be there at a restore: {"open": [path], "folders": [path], "binds": [path]}. (What
    is mapped must be as it was, too: needed_files.)"""
    there = [path for path in inside.needs.get("open", ()) if os.path.exists(path)]
    folders = [path for path in inside.needs.get("folders", ()) if os.path.isdir(path)]
    return {"open": there, "folders": folders, "binds": sorted(set(binds))}


def unfit(
    taken: dict[str, Any], needed: dict[str, Any], runsc: Runsc, mounted: list[str]
) -> GkewsError | None:
    """`snapshot_incompatible` if an image with this environment and these needs cannot be restored
    here, into a sandbox that has these folders `mounted`; None if nothing is known against it."""
    return (
        _other_machine(taken, environment(runsc))
        or _other_mounts(needed, mounted)
        or _other_folders(needed)
        or _other_files(needed)
    )


def _other_machine(taken: dict[str, Any], now: dict[str, Any]) -> GkewsError | None:
    if taken.get("runsc") != now["runsc"]:
        return _incompatible(
            f"The snapshot was taken with runsc {taken.get('runsc')}, and here is "
            f"{'runsc ' + now['runsc'] if now['runsc'] else 'none'}: an image can only be restored "
            "by the version that took it.",
            f"Install runsc {taken.get('runsc')} again.",
        )
    if taken.get("machine") != now["machine"]:
        return _incompatible(
            f"The snapshot was taken on a processor of the kind {taken.get('machine')}, and this "
            f"one is {now['machine']}."
        )
    missing = sorted(set(taken.get("cpu") or ()) - set(now["cpu"]))
    if missing:
        return _incompatible(
            "This machine's processor lacks features of the one on which the snapshot was taken, "
            f"and the process may use them: {_some(missing)}.",
            "Resume on a machine that has them.",
        )
    return None


def _other_mounts(needed: dict[str, Any], mounted: list[str]) -> GkewsError | None:
    if not mounted:
        return _incompatible(
            "What the sandbox was made of (its bundle, beside the image in the store) is gone.", ""
        )
    missing = sorted(set(needed.get("binds") or ()) - set(mounted))
    if missing:
        return _incompatible(
            "The sandbox had folders mounted when the snapshot was taken that it would not have "
            f"now: {_some(missing)}.",
            "Mount them again.",
        )
    return None


def _other_folders(needed: dict[str, Any]) -> GkewsError | None:
    gone = [path for path in needed.get("binds") or () if not os.path.isdir(path)]
    if gone:
        return _incompatible(
            f"The sandbox had folders mounted that are gone: {_some(gone)}.",
            "Bring them back and resume again.",
        )
    gone = [path for path in needed.get("folders") or () if not os.path.isdir(path)]
    if gone:
        return _incompatible(
            f"The process works in folders that are gone: {_some(gone)}.",
            "Bring them back and resume again.",
        )
    return None


def _other_files(needed: dict[str, Any]) -> GkewsError | None:
    gone = [path for path in needed.get("open") or () if not os.path.exists(path)]
    if gone:
        return _incompatible(
            f"The process has files open that are gone: {_some(gone)}.",
            "Bring them back, if only empty, and resume again.",
        )
    return None


def _incompatible(message: str, fix: str = "Resume where it was taken.") -> GkewsError:
    """What is there besides the image, the lifecycle adds to the hint."""
    return GkewsError("snapshot_incompatible", message, fix)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
