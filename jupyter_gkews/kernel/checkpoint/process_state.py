"""What the process itself carries besides variables: folder, paths, environment, RNGs, filters.

Captures and applies; it never writes a value whose name looks like a secret.
"""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

from . import forked, library_state, rebuilders, shell_state, torch_process, zygote
from .rebuilders import figures, widgets

#: Names whose values are never written.
_SECRET = re.compile(
    r"secret|token|passw|pwd$|credential|api_?key|access_?key|private_?key|auth|_key$|^key$|_pat$",
    re.IGNORECASE,
)
#: Names that belong to a process or a terminal, not to the user's work.
_OWN = re.compile(
    r"^(JPY_|JUPYTER_GKEWS|PYTHONSTARTUP$|PWD$|OLDPWD$|SHLVL$|_$|CLICOLOR|FORCE_COLOR$|TERM$"
    r"|PAGER$|GIT_PAGER$|MPLBACKEND$|KMP_|LC_CTYPE$)"
)
_AT_IMPORT = dict(os.environ)


@dataclass
class Captured:
    """`state` goes into the manifest, `objects` into the graph, `rows` are for `survives`."""

    state: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    open_files: list[str] = field(default_factory=list)

    def row(self, what: str, fate: str, reason: str | None = None) -> None:
        """Add a row of `survives`: fate "kept", "rebuilt" or "lost"."""
        self.rows.append({"what": what, "fate": fate, "reason": reason})

    def tell_open_files(self, reopened: set[str]) -> None:
        """Rows for the open files, once it is known which of them the graph opens again."""
        again = [path for path in self.open_files if path in reopened]
        closed = [path for path in self.open_files if path not in reopened]
        if again:
            self.row("open files", "rebuilt", f"opened again at their position: {', '.join(again)}")
        if closed:
            text = f"they are closed, no variable opens them again: {', '.join(closed)}"
            self.row("other open files", "lost", text)


def capture() -> Captured:
    """The state of this process, now."""
    got = Captured()
    try:
        got.state["cwd"] = os.getcwd()
        got.row("working directory", "kept", got.state["cwd"])
    except OSError:
        got.row("working directory", "lost", "it has been deleted")
    got.state["sys_path"] = [entry for entry in sys.path if isinstance(entry, str)]
    got.state["prefixes"] = sorted({sys.prefix, sys.base_prefix})
    got.row("sys.path", "kept")
    _environ(got)
    _random(got)
    got.objects["warnings"] = list(warnings.filters)
    got.row("warnings filters", "kept")
    got.state["recursion_limit"] = limit = sys.getrecursionlimit()
    if limit != library_state.start.recursion_limit:
        got.row("recursion limit", "kept", str(limit))
    got.objects["libraries"] = library_state.capture(got.row)
    got.objects["torch"] = torch_process.capture()
    got.objects["figures"] = figures.capture()
    got.objects["widgets"] = widgets.capture()
    got.objects["shell"] = shell_state.capture(got.row)
    library_state.tell_what_is_not_kept(got.row)
    got.objects["rebuilders"] = rebuilders.capture(got.row, library_state.start.handlers)
    _running(got)
    return got


def initial_environ() -> dict[str, str]:
    """The environment that the process was started with."""
    try:
        with open("/proc/self/environ", "rb") as file:
            data = file.read()
    except OSError:
        return dict(_AT_IMPORT)
    found = {}
    for entry in data.split(b"\0"):
        name, sign, value = entry.partition(b"=")
        if sign:
            found[os.fsdecode(name)] = os.fsdecode(value)
    return found


def _environ(got: Captured) -> None:
    before, now = initial_environ(), dict(os.environ)
    changed, secrets = {}, []
    for name, value in now.items():
        if before.get(name) == value or _OWN.search(name):
            continue
        if _SECRET.search(name):
            secrets.append(name)
        else:
            changed[name] = value
    removed = [name for name in before if name not in now and not _OWN.search(name)]
    got.state["environ"] = {"set": changed, "removed": removed}
    if changed or removed:
        got.row("environment variables", "kept", ", ".join(sorted([*changed, *removed])))
    for name in sorted(secrets):
        got.row(
            f"environment variable {name}",
            "lost",
            "its name looks like a secret; values of secrets are never written: set it again",
        )


def _random(got: Captured) -> None:
    states: dict[str, Any] = {"random": random.getstate()}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        states["numpy"] = numpy_random.get_state(legacy=False)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        states["torch"] = torch.get_rng_state()
        cuda = getattr(torch, "cuda", None)
        if cuda is not None and cuda.is_available() and cuda.is_initialized():
            states["torch_cuda"] = cuda.get_rng_state_all()
    got.objects["rng"] = states
    got.row("random number generators", "kept", ", ".join(states))


def _running(got: Captured) -> None:
    """Rows for what ends with the process. Looking only."""
    main = threading.main_thread()
    named = [
        thread.name
        for thread in threading.enumerate()
        if thread is not main and not thread.daemon and thread.is_alive()
    ]
    if named:
        got.row("running threads", "lost", f"threads end with the process: {', '.join(named)}")
    children = _children()
    if children:
        text = f"child processes end with the kernel: {', '.join(children)}"
        got.row("child processes", "lost", text)
    sockets, got.open_files = _descriptors()
    if sockets:
        got.row("network connections", "lost", f"{sockets} open to the outside; they are closed")


def _children() -> list[str]:
    found = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                pids = file.read().split()
            for pid in pids:
                if int(pid) in zygote.PIDS or int(pid) in forked.AT_WORK:
                    continue
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    found.append(f"{file.read().strip()} ({pid})")
    except OSError:
        return found
    return found


def _descriptors() -> tuple[int, list[str]]:
    """(established TCP connections that leave this machine, regular files open for the user)."""
    inodes, files = set(), []
    # Where the standard streams go is the work of whoever started the kernel (the server's log).
    streams = {os.path.realpath(f"/proc/self/fd/{number}") for number in range(3)}
    try:
        for number in os.listdir("/proc/self/fd"):
            if number in ("0", "1", "2"):
                continue
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
            elif (
                target.startswith("/")
                and target not in streams
                and os.path.isfile(target)
                and _is_users(target)
            ):
                files.append(target)
    except OSError:
        return 0, []
    return len(inodes & _outside_connections()), sorted(set(files))


def _is_users(path: str) -> bool:
    hidden = ("/proc/", "/dev/", "/sys/", "/memfd:", "/usr/", "/lib", "/etc/")
    if path.startswith(hidden) or path.endswith((".so", ".pyc", "history.sqlite")):
        return False
    return "site-packages" not in path and "history.sqlite" not in path


def _outside_connections() -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{table}", encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            remote = fields[2].split(":")[0]
            local = (remote.endswith("7F") and len(remote) == 8) or remote.endswith("0100007F")
            if fields[3] == "01" and not local and set(remote) != {"0"}:
                found.add(fields[9])
    return found


def apply_paths(state: dict[str, Any]) -> list[str]:
    """Working directory, sys.path and environment, before anything is imported.

    Returns sentences about what could not be applied.
    """
    problems = []
    environ = state.get("environ", {})
    os.environ.update(environ.get("set", {}))
    for name in environ.get("removed", ()):
        os.environ.pop(name, None)
    cwd = state.get("cwd")
    if cwd is not None:
        try:
            os.chdir(cwd)
        except OSError as error:
            problems.append(f"the working directory {cwd} could not be entered: {error.strerror}")
    saved = state.get("sys_path")
    if saved is not None:
        prefixes = state.get("prefixes", [])
        if prefixes != sorted({sys.prefix, sys.base_prefix}):
            # Another Python (a newer image): its own folders stay, only the user's are added.
            own = tuple(os.path.join(prefix, "") for prefix in prefixes)
            saved = [entry for entry in saved if not entry.startswith(own)]
        sys.path[:] = saved + [entry for entry in sys.path if entry not in saved]
    return problems


def apply_objects(state: dict[str, Any], objects: dict[str, Any]) -> list[str]:
    """Random number generators, warnings filters and limits, after everything is loaded."""
    problems = []
    rng = objects.get("rng") or {}
    torch: Any = sys.modules.get("torch")
    setters: dict[str, Callable[[Any], Any]] = {
        "random": lambda value: random.setstate(value),
        "numpy": lambda value: sys.modules["numpy.random"].set_state(value),
        "torch": lambda value: torch.set_rng_state(value),
        "torch_cuda": lambda value: torch.cuda.set_rng_state_all(value),
    }
    for name, value in rng.items():
        if name == "torch_cuda" and not (torch is not None and torch.cuda.is_available()):
            problems.append("the state of the GPU's random number generator: there is no GPU here")
            continue
        try:
            setters[name](value)
        except Exception as error:
            problems.append(f"the state of the random number generator of {name}: {error}")
    filters = objects.get("warnings")
    if isinstance(filters, list):
        warnings.resetwarnings()  # also drops what the module has cached about them
        live: Any = warnings.filters
        live[:] = filters
    limit = state.get("recursion_limit")
    if isinstance(limit, int):
        sys.setrecursionlimit(limit)
    libraries = objects.get("libraries")
    if isinstance(libraries, dict):
        problems += library_state.apply(libraries)
    shell = objects.get("shell")
    if isinstance(shell, dict):
        problems += shell_state.apply(shell)
    problems += rebuilders.put_back(objects.get("rebuilders"))
    torch_process.apply(objects.get("torch"))
    figures.apply(objects.get("figures"))
    problems += widgets.apply(objects.get("widgets"))
    return problems
