"""What the process itself carries besides variables: folder, paths, environment, and, by modules
of their own, interpreter, random numbers, modules, libraries and IPython.

Captures and applies; it never writes a value whose name or form looks like a secret.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ...errors import GkewsError
from ..protocol import ENV_HASH_SEED
from . import (
    figure_state,
    interpreter_state,
    library_state,
    module_state,
    own_imports,
    patches,
    patching,
    random_state,
    rebuild,
    rebuilders,
    running,
    shell_state,
    start_state,
    torch_process,
    user_modules,
)
from .cell_made import cell_sources, named_in
from .paths import holders
from .placeholders import Lost
from .rebuilders import duckdb_databases, figures, widgets

#: Names whose values are never written.
_SECRET = re.compile(
    r"secret|token|passw|pwd$|credential|api_?key|access_?key|private_?key|auth|_key$|^key$|_pat$",
    re.IGNORECASE,
)
#: Values that are never written, whatever their name: an address with a password, known tokens.
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|^(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|AIza|eyJ)\w"
)
#: Names that belong to a process or a terminal, not to the user's work.
_OWN = re.compile(
    r"^(JPY_|JUPYTER_GKEWS|PYTHONSTARTUP$|PWD$|OLDPWD$|SHLVL$|_$|CLICOLOR"
    r"|FORCE_COLOR$|TERM$|PAGER$|GIT_PAGER$|MPLBACKEND$|KMP_|LC_CTYPE$)"
)
_AT_IMPORT = dict(os.environ)
#: A secret shorter than this is not looked for in the history: it would be found everywhere.
_SHORT_SECRET = 6
#: Names of objects in checkpoints written before modules were kept.
_OLD_NAMES = {"rng": "random numbers", "libraries": "library settings", "shell": "IPython"}
#: Losses are looked for in so many objects.
_LOOK_THROUGH = 500_000


@dataclass
class Captured:
    """`state` goes into the manifest, `objects` into the graph, `rows` are for `survives`;
    `modules` must be imported before all that is put back. `labels`: for each of `objects`, what
    it holds by names that a user knows, to tell losses by; `edited`: (what, why) of modules that
    come back with other code."""

    state: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    open_files: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    edited: list[tuple[str, str]] = field(default_factory=list)

    def row(self, what: str, fate: str, reason: str | None = None) -> None:
        """Add a row of `survives`: fate "kept", "rebuilt" or "lost"."""
        self.rows.append({"what": what, "fate": fate, "reason": reason})

    def tell(self, got: Any) -> None:
        """Rows for what is known once the graph is written (`got`: collect.Collected): which open
        files are opened again, and what in `objects` cannot be kept."""
        self.tell_open_files(got.writer.reopened)
        for name, notes in got.process_notes.items():
            for note in notes:
                self.row(name, "rebuilt", note)
        for name, text in self.edited:
            got.rebuilt.append({"name": name, "reason": text, "cell": None})
        if not got.losses:
            return
        # Loss by loss, as a variable may hold the same object, and have told of it.
        losses = [pair for pairs in got.process_losses.values() for pair in pairs]
        named = {label: value for labels in self.labels.values() for label, value in labels.items()}
        found = holders([*losses, *got.losses], named, _LOOK_THROUGH, got.writer.user_ns)
        told: set[int] = set()
        for parts in found.values():
            for path, loss in parts:
                told.add(id(loss))
                again = path in named and path in self.labels_of_modules()
                reason = "what the import of its module makes anew takes its place"
                text = f"{loss.short()}; {reason}" if again else loss.short()
                self._lose(got, path, text)
        for name, pairs in got.process_losses.items():
            for _, loss in pairs:
                if id(loss) not in told:
                    self._lose(got, f"a part of {name}", loss.short())

    def _lose(self, got: Any, what: str, reason: str) -> None:
        """A row, and the same in the result of the pause: cells have made it."""
        self.row(what, "lost", reason)
        got.lost.append({"name": what, "reason": reason, "cell": None})

    def labels_of_modules(self) -> set[str]:
        """The names in `labels` that are those of the user's own modules."""
        own = (name for name in self.labels if name.startswith("module "))
        return {label for name in own for label in self.labels[name]}

    def tell_open_files(self, reopened: set[str]) -> None:
        """Rows for the open files, once it is known which of them the graph opens again."""
        again = [path for path in self.open_files if path in reopened]
        closed = [path for path in self.open_files if path not in reopened]
        if again:
            self.row("open files", "rebuilt", f"opened again at their position: {', '.join(again)}")
        if closed:
            text = f"they are closed, no variable opens them again: {', '.join(closed)}"
            self.row("other open files", "lost", text)


def capture(user_ns: dict[str, Any] | None = None) -> Captured:
    """The state of this process, now. `user_ns`: the namespace of the cells."""
    got = Captured()
    if user_ns is None:
        user_ns = user_namespace()
    sources = cell_sources()
    _paths(got)
    _environ(got, sources)
    backend = figure_state.backend()
    if backend is not None:
        got.state["matplotlib_backend"] = backend
        got.row("Matplotlib's backend", "kept", backend)
    _modules(got, user_ns, sources)
    got.objects["random numbers"] = random_state.capture(got.row)
    calls = named_in(sources).calls
    sets = any(type(value) in (set, frozenset) for value in list(user_ns.values()))
    if "hash_seed" in got.state and sets:
        got.row(
            "order of sets",
            "rebuilt",
            "a set may hand out its elements in another order than before",
        )
    elif "hash_seed" not in got.state and (sets or "hash" in calls):
        got.row(
            "hash() of strings",
            "rebuilt",
            "a new process has another seed for it: a set of strings may be walked in another "
            "order, and numbers that hash() gave for strings do not match new ones",
        )
    got.objects["interpreter"] = interpreter_state.capture(got.row, user_ns, calls)
    got.row("warnings filters", "kept")
    libraries = library_state.capture(got.row)
    got.objects["library settings"] = libraries
    got.labels["library settings"] = library_state.labels(libraries)
    got.objects["torch"] = torch_process.capture()
    got.objects["figures"] = figures.capture()
    got.objects["widgets"] = widgets.capture()
    shell = shell_state.capture(got.row)
    got.objects["IPython"] = shell
    got.labels["IPython"] = shell_state.labels(shell)
    got.objects["rebuilders"] = rebuilders.capture(got.row, library_state.start.handlers)
    if "duckdb" in sys.modules:
        duckdb_databases.tell_default(got.row)
    got.open_files = running.tell(got.row, user_ns)
    return got


def user_namespace() -> dict[str, Any]:
    """The namespace of the cells: the shell's, or that of `__main__`."""
    shell = rebuild.shell()
    found: dict[str, Any] = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    return found


def _paths(got: Captured) -> None:
    try:
        got.state["cwd"] = os.getcwd()
        got.row("working directory", "kept", got.state["cwd"])
    except OSError:
        got.row("working directory", "lost", "it has been deleted")
    got.state["sys_path"] = [entry for entry in sys.path if isinstance(entry, str)]
    got.state["sys_path_start"] = list(start_state.sys_path)
    got.state["prefixes"] = sorted({sys.prefix, sys.base_prefix})
    other = [repr(entry) for entry in sys.path if not isinstance(entry, str)]
    added = [entry for entry in got.state["sys_path"] if entry not in start_state.sys_path]
    removed = [entry for entry in start_state.sys_path if entry not in sys.path]
    said = [*added, *(f"without {entry}" for entry in removed)]
    got.row("sys.path", "kept", ", ".join(map(repr, said)) or None)
    if other:
        text = f"no strings, so that Python passes them over: {', '.join(other)}"
        got.row("entries of sys.path", "lost", text)


def _modules(got: Captured, user_ns: dict[str, Any], sources: list[str]) -> None:
    made = user_modules.made_modules(user_ns, sources)
    if made:
        got.objects["modules made by cells"] = list(made.values())
        got.labels["modules made by cells"] = dict(made)
        got.row("modules made by cells", "kept", ", ".join(made))
    entries = user_modules.made_entries(sources)
    if entries:
        got.objects["entries of sys.modules"] = entries
        got.labels["entries of sys.modules"] = {
            f"sys.modules[{k!r}]": v for k, v in entries.items()
        }
        got.row("entries of sys.modules", "kept", ", ".join(entries))
    own = user_modules.own_modules()
    got.state["modules"] = own_imports.record(own)
    for name, module in own.items():
        state = module_state.take(name, module)
        got.objects[f"module {name}"] = state.to_graph()
        got.labels[f"module {name}"] = state.labels()
        got.modules.append(name)
        told = ", ".join(state.told())
        if module_state.was_edited(module, state.file):
            text = f"{state.file} was edited after its import: a resume runs what it holds then"
            got.edited.append((f"module {name}", text))
            got.row(f"module {name}", "rebuilt", text)
            continue
        text = f"imported again, then as it was: {told}" if told else "imported again"
        got.row(f"module {name}", "kept", text)
    changed = patches.take(user_ns, sources, {**own, **made})
    if changed.to_graph():
        got.objects["changes of libraries"] = changed.to_graph()
        got.labels["changes of libraries"] = changed.labels()
        got.modules += changed.modules()
        got.row("what cells changed in libraries", "kept", ", ".join(changed.told()))
    if changed.in_lists:
        text = f"objects of cells in lists of libraries: {', '.join(changed.in_lists)}"
        got.row(
            "registered with libraries", "lost", f"{text}; run the cell again that put them there"
        )


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


def _environ(got: Captured, sources: list[str]) -> None:
    before, now = initial_environ(), dict(os.environ)
    seed = before.get("PYTHONHASHSEED", "")
    if seed.isdigit() and not sys.flags.ignore_environment:
        got.state["hash_seed"] = int(seed)
    if seed and before.get(ENV_HASH_SEED) == seed:
        del before["PYTHONHASHSEED"]  # the server's, and taken out since
    changed, secrets = {}, []
    for name, value in now.items():
        if before.get(name) == value or _OWN.search(name):
            continue
        if _SECRET.search(name) or _SECRET_VALUE.search(value):
            secrets.append(name)
        else:
            changed[name] = value
    removed = [name for name in before if name not in now and not _OWN.search(name)]
    got.state["environ"] = {"set": changed, "removed": removed}
    if changed or removed:
        said = [*changed, *(f"{name} (deleted)" for name in removed)]
        got.row("environment variables", "kept", ", ".join(sorted(said)))
    for name in sorted(secrets):
        why = "its name looks like a secret" if _SECRET.search(name) else "it looks like a secret"
        reason = f"{why}; values of secrets are never written: set it again"
        value = now[name]
        if len(value) >= _SHORT_SECRET and any(value in source for source in sources):
            reason += (
                ". A cell holds the value as it was typed: the history (In), which is kept, "
                "and the notebook have it, too"
            )
        got.row(f"environment variable {name}", "lost", reason)


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
    _apply_sys_path(state)
    return problems


def _apply_sys_path(state: Mapping[str, Any]) -> None:
    saved = state.get("sys_path")
    if saved is None:
        return
    removed = {entry for entry in state.get("sys_path_start", ()) if entry not in saved}
    prefixes = state.get("prefixes", [])
    if prefixes != sorted({sys.prefix, sys.base_prefix}):
        # Another Python (a newer image): its own folders stay, only the user's are added.
        own = tuple(os.path.join(prefix, "") for prefix in prefixes)
        saved = [entry for entry in saved if not entry.startswith(own)]
    sys.path[:] = saved + [entry for entry in sys.path if entry not in {*saved, *removed}]


def apply_before_loading(state: dict[str, Any]) -> list[str]:
    """What objects need while they are loaded: the place of figures. After the imports."""
    backend = state.get("matplotlib_backend")
    problem = figure_state.choose_backend(backend) if isinstance(backend, str) else None
    return [problem] if problem else []


def apply_objects(state: dict[str, Any], objects: dict[str, Any]) -> list[str]:
    """What `capture` took, after everything is loaded. Returns sentences about what could not be
    put back."""
    problems: list[str] = []

    def attempt(what: str, put: Callable[..., Any], *args: Any) -> None:
        """One part that cannot be read here loses only itself."""
        try:
            problems.extend(put(*args) or ())
        except (GkewsError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            problems.append(f"{what}: {type(error).__name__}: {str(error)[:200]}")

    objects = {_OLD_NAMES.get(name, name): value for name, value in objects.items()}
    if isinstance(objects.get("warnings"), list):
        objects.setdefault("interpreter", {"warnings": objects["warnings"]})
    for name, value in objects.items():
        if name.startswith("module ") and isinstance(value, dict):
            attempt(name, module_state.put, value)
    entries = objects.get("entries of sys.modules")
    if isinstance(entries, dict):
        for name, value in entries.items():
            if not isinstance(value, Lost):
                sys.modules.setdefault(name, value)
    changes = objects.get("changes of libraries")
    if isinstance(changes, dict):
        attempt("changes of libraries", patching.put, changes)
    libraries = objects.get("library settings")
    if isinstance(libraries, dict):
        attempt("library settings", library_state.apply, libraries)
    shell = objects.get("IPython")
    if isinstance(shell, dict):
        attempt("IPython", shell_state.apply, shell)
    attempt("rebuilders", rebuilders.put_back, objects.get("rebuilders"))
    attempt("torch", torch_process.apply, objects.get("torch"))
    attempt("figures", figures.apply, objects.get("figures"))
    attempt("widgets", widgets.apply, objects.get("widgets"))
    interpreter = objects.get("interpreter")
    if isinstance(interpreter, dict):
        attempt("interpreter", interpreter_state.apply, interpreter)
    # Imports and extensions may have changed sys.path, or drawn numbers: these two come last.
    _apply_sys_path(state)
    attempt("random numbers", random_state.apply, objects.get("random numbers") or {})
    return problems
