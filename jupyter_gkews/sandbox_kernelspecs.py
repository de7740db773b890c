"""Says where kernels are picked that those in sandboxes cannot start here, and why.

Changes what this server lists, in the instance of its kernelspec manager; no file, and no start.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROVISIONER = "gkews-gvisor"

WhyNot = Callable[[], str | None]


class WhyNoSandbox:
    """Why no sandbox can be made here, each time it is asked: what is seen at once, and what a
    try, made once in the background, has shown since."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._try: asyncio.Future[str | None] | None = None

    def __call__(self) -> str | None:
        """One sentence or more; None while nothing speaks against it."""
        from .engines.gvisor.runsc import Runsc, probe

        runsc = Runsc(self._store / "sandboxes")
        why_not = runsc.why_not()
        if why_not is not None:
            self._try = None  # what was tried may have changed when this is mended
        elif self._try is None:
            self._try = asyncio.get_running_loop().run_in_executor(None, probe, runsc)
        elif self._try.done():
            return self._try.result()
        return why_not


def say_why_not(kernelspecs: Any, why_not: WhyNot) -> None:
    """Let `get_all_specs` name, beside each such kernel, the sentence of `why_not`.

    `display_name` gets it, which the launcher and the kernel picker show; the whole of it stands
    in `metadata.gkews.why_not`.
    """
    original = kernelspecs.get_all_specs

    def get_all_specs() -> Any:
        found = original()
        if isinstance(found, dict):
            ours = [entry["spec"] for entry in found.values() if _is_sandboxed(entry.get("spec"))]
            sentence = why_not() if ours else None
            for spec in ours if sentence else ():
                first = re.split(r"(?<=[.:])\s", str(sentence))[0].rstrip(".:")
                spec["display_name"] = f"{spec['display_name']} - cannot start here: {first}"
                spec["metadata"] = {**spec["metadata"], "gkews": {"why_not": sentence}}
        return found

    kernelspecs.get_all_specs = get_all_specs


def _is_sandboxed(spec: Any) -> bool:
    metadata = spec.get("metadata") if isinstance(spec, dict) else None
    provisioner = (metadata or {}).get("kernel_provisioner") or {}
    return provisioner.get("provisioner_name") == PROVISIONER
