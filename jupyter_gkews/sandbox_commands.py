"""The commands of `jupyter gkews` around kernels in sandboxes: install one, see what is missing.

They need no running server, and start no kernel.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import GkewsError
from .server_client import Server
from .tables import print_json, table


def add_to(add: Callable[..., Any]) -> None:
    """Add the commands to the command line; `add(name, command, help, *parents)`."""
    command = add(
        "install-kernel", install_kernel, 'install "Python 3 (pausable)", a kernel in a sandbox'
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this environment")
    command.add_argument("--name", default=None, help="the kernelspec's name: python3-pausable")
    command.add_argument("--display-name", default=None, help="the name that users see")
    command.add_argument(
        "--if-possible", action="store_true", help="install nothing where it could not be started"
    )
    command.set_defaults(alone=True)
    command = add("doctor", doctor, "say what works on this machine, and what is missing")
    command.set_defaults(alone=True)


def install_kernel(options: argparse.Namespace, among: list[Server]) -> None:
    """Write the kernelspec of this environment's Python."""
    del among
    from .engines.gvisor import kernelspec

    why_not = _sandboxes()["why_not"]
    if why_not and options.if_possible:
        if options.json:
            print_json({"path": None, "why_not": why_not})
        else:
            print(f"Nothing was installed: {why_not}")
        return
    if options.sys_prefix:
        kernels = Path(sys.prefix) / "share" / "jupyter" / "kernels"
    else:
        from jupyter_core.paths import jupyter_data_dir

        kernels = Path(jupyter_data_dir()) / "kernels"
    about = {"display_name": options.display_name} if options.display_name else {}
    try:
        folder = kernelspec.write(kernels, name=options.name or kernelspec.NAME, **about)
    except OSError as error:
        raise GkewsError(
            "store_not_writable",
            f"The kernelspec cannot be written: {error}",
            "Nothing was changed. Choose --user or --sys-prefix, whichever is yours.",
        ) from error
    if options.json:
        print_json({"path": str(folder), "why_not": why_not})
        return
    print(f"Installed {folder}.")
    if why_not:
        print(f"It cannot be started here yet: {why_not}")


def doctor(options: argparse.Namespace, among: list[Server]) -> None:
    """Print what this machine can do."""
    del among
    checks = [_python(), _hashes(), _sandboxes()]
    if options.json:
        print_json({"checks": checks})
        return
    rows = [(c["what"], "yes" if c["works"] else "no", c["why_not"] or c["detail"]) for c in checks]
    print(table(("what", "works", ""), rows))


def _python() -> dict[str, Any]:
    return {
        "what": "checkpoints",
        "works": sys.platform != "win32",
        "why_not": "pausing does not work on Windows yet" if sys.platform == "win32" else None,
        "detail": f"Python {platform.python_version()} on {platform.platform()}",
    }


def _hashes() -> dict[str, Any]:
    from importlib.util import find_spec

    missing = [name for name in ("blake3", "xxhash") if find_spec(name) is None]
    return {
        "what": "fast hashes",
        "works": not missing,
        "why_not": f"{' and '.join(missing)} cannot be imported here" if missing else None,
        "detail": f"blake3 and xxhash, {os.cpu_count()} cores",
    }


def _sandboxes() -> dict[str, Any]:
    from .engines.gvisor.runsc import Runsc, probe

    runsc = Runsc(Path(os.devnull))
    why_not = runsc.why_not() or probe(runsc)
    return {
        "what": "process snapshots (gVisor)",
        "works": why_not is None,
        "why_not": why_not,
        "detail": f"runsc {runsc.version}" if runsc.binary else "",
    }
