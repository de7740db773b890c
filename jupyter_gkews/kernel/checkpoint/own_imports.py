"""Imports modules again: the user's own ones from the very files that they came from.

What a checkpoint records of them (record) and how that is used (found_again). Where the file is
gone, the recorded source takes its place. It puts nothing into the modules but their code.
"""

from __future__ import annotations

import base64
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import marshal
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from .collector import collector_put_off
from .user_modules import module_dict

_LOADERS = (
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
)
#: Most bytes of source that are recorded: of one module, and of all.
_ONE, _ALL = 1 << 20, 16 << 20
#: Bytes before the code in a file of bytecode (PEP 552).
_HEADER = 16
#: How errors of native code tell that they may not write.
_REFUSALS = ("readonly database", "read-only", "permission denied", "not permitted")


def record(modules: Mapping[str, types.ModuleType]) -> dict[str, dict[str, Any]]:
    """What a checkpoint has to know of the user's own modules to import them again, by name:
    {"file", "package" (its folders, or None), "source" or "code" (base64, and its "magic")}."""
    found: dict[str, dict[str, Any]] = {}
    left = _ALL
    for name, module in modules.items():
        namespace = module_dict(module) or {}
        if type(namespace.get("__loader__")) not in _LOADERS:
            continue  # made by an importer of somebody's, which knows how
        folders = namespace.get("__path__")
        package = [str(each) for each in folders] if folders is not None else None
        path = os.path.abspath(str(namespace["__file__"]))
        row: dict[str, Any] = {"file": path, "package": package, **_code_of(path, namespace)}
        left -= len(row.get("source", row.get("code", "")))
        found[name] = row if left > 0 else {"file": path, "package": package}
    return found


def _code_of(path: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The source, from the file or from what tracebacks know of it; else the bytecode."""
    if not path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        try:
            with open(path, "rb") as file:
                return {"source": importlib.util.decode_source(file.read(_ONE))}
        except (OSError, ValueError, SyntaxError):
            known: Any = linecache.cache.get(path, ())
            if len(known) == 4 and known[2]:
                return {"source": "".join(known[2])}
    try:
        with open(str(namespace.get("__cached__")), "rb") as file:
            data = file.read(_ONE)
    except OSError:
        return {}
    if data[:4] != importlib.util.MAGIC_NUMBER:
        return {}
    code = base64.b64encode(data[_HEADER:]).decode("ascii")
    return {"code": code, "magic": data[:4].hex()}


class _Recorded(importlib.abc.Loader):
    """Runs the code of a module whose file is gone."""

    def __init__(self, path: str, source: str | None, code: bytes | None) -> None:
        self._path, self._source, self._code = path, source, code

    def create_module(self, spec: Any) -> None:
        """A plain module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """As the import of the file would."""
        module.__file__ = self._path
        if self._source is None:
            exec(marshal.loads(self._code or b""), vars(module))
            return
        lines = self._source.splitlines(keepends=True)
        linecache.cache[self._path] = (len(self._source), None, lines, self._path)
        exec(compile(self._source, self._path, "exec", dont_inherit=True), vars(module))

    def get_source(self, _name: str) -> str | None:
        """For tracebacks and inspect."""
        return self._source


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what was recorded, where it was; `notes` says by module what is not as it was."""

    def __init__(self, recorded: Mapping[str, Mapping[str, Any]], held: Iterable[str]) -> None:
        self._recorded = recorded
        self._held = frozenset(held)
        self._asking = False
        self.notes: dict[str, str] = {}

    def knows(self, name: str) -> bool:
        """Whether the module is one of the user's own."""
        return name in self._recorded

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """The module's own file; what else has its name, if that is gone; what was recorded."""
        if fullname in self._held:
            raise ImportError(
                "its import changes files, and that could not be held back in the test load",
                name=fullname,
            )
        row = self._recorded.get(fullname)
        if row is None or self._asking:
            return None
        file, package = str(row["file"]), row.get("package")
        if os.path.isfile(file):
            return _spec_of(fullname, file, package)
        self._asking = True
        try:
            other = importlib.util.find_spec(fullname)
        except (ImportError, ValueError, AttributeError):
            other = None
        finally:
            self._asking = False
        if other is not None and other.origin and other.loader is not None:
            self.notes[fullname] = f"{file} is gone: it is imported from {other.origin}"
            return other
        source, code = row.get("source"), None
        if source is None and row.get("magic") == importlib.util.MAGIC_NUMBER.hex():
            code = base64.b64decode(str(row.get("code", "")))
        if source is None and code is None:
            return None
        what = "source" if source is not None else "code"
        self.notes[fullname] = f"{file} is gone: its {what} of the pause takes its place"
        spec = importlib.util.spec_from_loader(
            fullname, _Recorded(file, source, code), origin=file, is_package=package is not None
        )
        if spec is not None and package is not None:
            spec.submodule_search_locations = list(package)
        return spec


def _spec_of(name: str, file: str, package: list[str] | None) -> Any:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)
    if spec is None:  # a file of source with an ending of its own
        loader = importlib.machinery.SourceFileLoader(name, file)
        spec = importlib.util.spec_from_file_location(
            name, file, loader=loader, submodule_search_locations=package
        )
    return spec


@contextmanager
def found_again(
    recorded: Mapping[str, Mapping[str, Any]], held: Iterable[str] = ()
) -> Iterator[dict[str, str]]:
    """Within this block, imports find the user's own modules as they were recorded; those in
    `held` are refused. Gives the notes: by module, what is not as it was."""
    finder = _Finder(recorded, held)
    sys.meta_path.insert(0, finder)
    try:
        yield finder.notes
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def import_modules(names: Iterable[str]) -> dict[str, BaseException]:
    """Import what can be imported, in order; returns why for those that cannot."""
    missing: dict[str, BaseException] = {}
    finder = _finder()
    for name in names:
        if name in sys.modules:
            continue
        # what the user's own modules do when they are imported may leave much to collect
        own = finder is not None and finder.knows(name)
        try:
            try:
                with nullcontext() if own else collector_put_off():
                    importlib.import_module(name)
            except ModuleNotFoundError as error:
                if not _load_alone(name, error):
                    raise
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            # What needs it is lost when it is met, with this import's own error as the reason.
            missing[name] = error
    return missing


def _finder() -> _Finder | None:
    return next((each for each in sys.meta_path if type(each) is _Finder), None)


def _load_alone(name: str, error: ModuleNotFoundError) -> bool:
    """Load a recorded module whose name begins with a package that is none."""
    finder = _finder()
    if finder is None or error.name is None or not name.startswith(f"{error.name}."):
        return False
    spec = finder.find_spec(name, None)
    if spec is None:
        return False
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return True


def refused_to_write(error: BaseException | None) -> bool:
    """Whether an import failed because it may not change files here."""
    while error is not None:
        text = str(error).lower()
        if isinstance(error, PermissionError) or any(each in text for each in _REFUSALS):
            return True
        error = error.__cause__ or error.__context__
    return False
