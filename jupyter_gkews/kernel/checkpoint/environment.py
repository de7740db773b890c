"""What a checkpoint was made with, what is here now, and what the difference may break.

Runs in the kernel, in the server, and on its own (`python -c <this file> present`), so that an
interpreter can be asked that has nothing of ours. Standard library only. It imports no package
and starts no GPU: versions are read from the names of folders.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from typing import Any

#: A RECORD larger than this (bytes) is not read to learn what a distribution contains.
_MAX_RECORD = 4 << 20
_SCANNED: dict[str, Any] = {}
#: Packages that the server brings to every kernel, whatever its environment has.
_COME_ALONG = ("jupyter_gkews", "cloudpickle")


def capture() -> dict[str, Any]:
    """What this process runs with; "packages": the distributions of all imported modules, by
    name; "modules": top-level module -> its distribution, where the names differ."""
    tops = {}
    for name, module in list(sys.modules.items()):
        if (
            isinstance(name, str)
            and "." not in name
            and name not in _standard()
            and _folder_of(module)
        ):
            tops[name] = module
    packages: dict[str, str] = {}
    modules: dict[str, str] = {}
    for name, module in tops.items():
        found = _distribution_of(name, _folder_of(module) or "")
        version = found[1] if found else getattr(module, "__version__", None)
        if not isinstance(version, str):
            continue
        distribution = found[0] if found else name
        packages[distribution] = version
        if distribution != name:
            modules[name] = distribution
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    gpus: list[str] = []
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        gpus = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    version = getattr(getattr(torch, "version", None), "cuda", None)
    return {
        **_python(),
        "packages": packages,
        "modules": modules,
        "gpus": gpus,
        "cuda": version if isinstance(version, str) else None,
    }


def present() -> dict[str, Any]:
    """What this interpreter could run with: all installed distributions; GPUs that the driver
    shows (their models), whether or not they are free."""
    packages: dict[str, str] = {}
    cuda = None
    for folder in sys.path:
        for name, version, _ in _scan(folder or os.getcwd()):
            packages.setdefault(name, version)
        if cuda is None:
            cuda = _cuda_of_torch(folder)
    return {**_python(), "packages": packages, "gpus": _gpus(), "cuda": cuda}


def _python() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "system": platform.system(),
        "machine": platform.machine(),
    }


def _standard() -> Any:
    names = getattr(sys, "stdlib_module_names", None)  # Python 3.10
    return names if names is not None else _Standard()


class _Standard:
    """The modules of the standard library, where Python does not list them: by their folder."""

    def __contains__(self, name: object) -> bool:
        module = sys.modules.get(str(name))
        folder = _folder_of(module)
        return folder is None or folder == os.path.dirname(os.__file__) or "lib-dynload" in folder


def _folder_of(module: Any) -> str | None:
    """The folder in which a top-level module or package lies; None for built-in ones."""
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if not isinstance(origin, str) or not os.path.isabs(origin):
        return None
    folder = os.path.dirname(origin)
    return os.path.dirname(folder) if getattr(spec, "submodule_search_locations", None) else folder


def _scan(folder: str) -> list[Any]:
    """(name, version, path of its metadata) of the distributions in a folder, kept while it is
    not changed."""
    try:
        changed = os.stat(folder).st_mtime_ns
        known = _SCANNED.get(folder)
        if known is not None and known[0] == changed:
            return list(known[1])
        found = []
        for entry in os.listdir(folder):
            if entry.endswith(".dist-info") and "-" in entry:
                name, _, version = entry[: -len(".dist-info")].partition("-")
                found.append((normalized(name), version, os.path.join(folder, entry)))
    except OSError:
        return []
    _SCANNED[folder] = (changed, found)
    return found


def _distribution_of(top: str, folder: str) -> Any:
    """(name, version) of the distribution that a top-level module in `folder` comes from."""
    scanned = _scan(folder)
    for name, version, _ in scanned:
        if name == normalized(top):
            return name, version
    for name, version, path in scanned:
        if top in _tops(path):
            return name, version
    return None


def _tops(path: str) -> Any:
    """Top-level names of a distribution, from its metadata."""
    known = _SCANNED.get(path)
    if known is None:
        known = frozenset(_read_tops(path))
        _SCANNED[path] = known
    return known


def _read_tops(path: str) -> Iterable[str]:
    try:
        with open(os.path.join(path, "top_level.txt"), encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        pass
    try:
        record = os.path.join(path, "RECORD")
        if os.path.getsize(record) > _MAX_RECORD:
            return ()
        with open(record, encoding="utf-8") as file:
            firsts = {line.split(",", 1)[0].split("/", 1)[0] for line in file}
    except (OSError, UnicodeDecodeError):
        return ()
    return {re.sub(r"\.py$|\..*\.so$|\.so$|\.pyd$", "", first) for first in firsts}


def normalized(name: str) -> str:
    """A distribution's name as packaging compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _gpus() -> list[str]:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "none"):
        return []
    found = []
    try:
        for entry in sorted(os.listdir("/proc/driver/nvidia/gpus")):
            name = "a GPU"
            with open(f"/proc/driver/nvidia/gpus/{entry}/information", encoding="utf-8") as file:
                for line in file:
                    if line.startswith("Model:"):
                        name = line.split(":", 1)[1].strip()
            found.append(name)
    except OSError:
        return found
    return found


def _cuda_of_torch(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "torch", "version.py"), encoding="utf-8") as file:
            found = re.search(r"^cuda\b[^=]*=\s*'([^']+)'", file.read(), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return None
    return found.group(1) if found else None


# ---- comparison ----


def differences(
    made: dict[str, Any],
    here: dict[str, Any],
    modules: Iterable[str],
    hashes: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """What a load `here` of a checkpoint that was `made` elsewhere may break.

    `modules`: those that the checkpoint's objects come from; `hashes`: the algorithms that name
    its graph and chunks, and compress the graph. Rows {"what", "made", "here", "means",
    "severity"}: "loses" (something will not be there), "may_lose", "note". Nothing here is a
    reason to refuse a load.
    """
    found: list[dict[str, Any]] = []

    def tell(what: str, then: Any, now: Any, severity: str, means: str) -> None:
        found.append({"what": what, "made": then, "here": now, "means": means,
                      "severity": severity})  # fmt: skip

    _compare_python(made, here, tell)
    _compare_packages(made, here, modules, tell)
    had, has = made.get("gpus") or [], here.get("gpus") or []
    if had and not has:
        tell("GPU", _list(had), None, "may_lose",
             "What was on the GPU comes back in memory, if the settings allow it; else the load "
             "is refused.")  # fmt: skip
    elif had and has and sorted(had) != sorted(has):
        tell("GPU", _list(had), _list(has), "note", "Tensors go to the GPUs that are here.")
    if made.get("cuda") and here.get("packages", {}).get("torch") and not here.get("cuda"):
        tell("CUDA", made["cuda"], None, "may_lose",
             "The PyTorch that is here has no CUDA: tensors come back in memory.")  # fmt: skip
    installed = here.get("packages") or {}
    zstd = {"zstandard", "pyarrow"}.intersection(installed) or _version(here) >= (3, 14)
    if "zstd" in set(hashes) and not zstd:
        tell("zstandard", "used", None, "loses",
             "The checkpoint is compressed, and is not loaded until the package zstandard is "
             "installed in this environment.")  # fmt: skip
    if "blake3" in set(hashes) and "blake3" not in installed:
        tell("blake3", "used", None, "loses",
             "The checkpoint cannot be checked, and is not loaded, until the package blake3 is "
             "installed in this environment.")  # fmt: skip
    order = {"loses": 0, "may_lose": 1, "note": 2}
    return sorted(found, key=lambda row: order[row["severity"]])


def _version(here: dict[str, Any]) -> tuple[int, ...]:
    """(3, 14) of an environment."""
    parts = str(here.get("python") or "").split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _compare_python(made: dict[str, Any], here: dict[str, Any], tell: Any) -> None:
    then, now = str(made.get("python") or ""), str(here.get("python") or "")
    if made.get("implementation") and made["implementation"] != here.get("implementation"):
        tell("implementation of Python", made["implementation"], here.get("implementation"),
             "may_lose", "Objects of one implementation may not load in another.")  # fmt: skip
    elif then and then.split(".")[:2] != now.split(".")[:2]:
        tell("Python", then, now, "may_lose",
             "Functions and classes of cells are compiled again from their source; one whose "
             "source is not known is lost.")  # fmt: skip
    elif then and then != now:
        tell("Python", then, now, "note", "Nothing is known to break.")
    for key, what, means in (
        ("system", "operating system", "Paths and open files may not be there."),
        ("machine", "kind of processor", "What was compiled for the other one is lost."),
    ):
        if made.get(key) and here.get(key) and made[key] != here[key]:
            tell(what, made[key], here[key], "may_lose", means)


def _compare_packages(
    made: dict[str, Any], here: dict[str, Any], modules: Iterable[str], tell: Any
) -> None:
    packages = {normalized(name): version for name, version in (made.get("packages") or {}).items()}
    installed = {normalized(k): v for k, v in (here.get("packages") or {}).items()}
    needed: dict[str, list[str]] = {}
    for name in modules:
        top = name.split(".")[0]
        if top in _COME_ALONG:
            continue
        distribution = normalized((made.get("modules") or {}).get(top, top))
        if distribution in packages and top not in needed.setdefault(distribution, []):
            needed[distribution].append(top)
    for distribution, tops in sorted(needed.items()):
        then, now = packages[distribution], installed.get(distribution)
        if now is None:
            tell(distribution, then, None, "loses",
                 f"It is not installed here: objects of {_list(tops)} are lost.")  # fmt: skip
        elif then != now:
            major = then.split(".")[0] != now.split(".")[0]
            tell(distribution, then, now, "may_lose" if major else "note",
                 f"Objects of {_list(tops)} load as the version that is here understands them"
                 + ("; what it cannot load is lost and named." if major else "."))  # fmt: skip


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)


if __name__ == "__main__" and sys.argv[1:] == ["present"]:
    print(json.dumps(present()))
