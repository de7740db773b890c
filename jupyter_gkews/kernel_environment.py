"""What the environment of a kernel is, also of one that does not run: its Python is asked.

Starts that interpreter for a moment, with nothing of ours in it; never a kernel. Where the
command of a kernelspec is no Python (a wrapper), a running kernel of it must have said which it
is, else nothing is known.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

#: Seconds that an interpreter may take to say what it has.
TIMEOUT_S = 20.0
_PYTHON = re.compile(r"python[\d.]*(\.exe)?")


def interpreter(argv: list[str]) -> str | None:
    """The Python that the command of a kernelspec starts; None if that is not to be seen."""
    if not argv:
        return None
    if argv[0] in ("python", f"python{sys.version_info[0]}",
                   f"python{sys.version_info[0]}.{sys.version_info[1]}"):  # fmt: skip
        return sys.executable  # as jupyter_client starts it
    return argv[0] if _PYTHON.fullmatch(os.path.basename(argv[0])) else None


async def ask(python: str, env: dict[str, str]) -> dict[str, Any] | None:
    """What `python` has installed (environment.present); None if it does not say so in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-c",
            _asked(),
            "present",
            env={**os.environ, **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),  # nothing of the folder's may be imported
        )
    except (OSError, ValueError):
        return None
    try:
        out, _ = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
        answer = json.loads(out)
    except (asyncio.TimeoutError, ValueError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answer if isinstance(answer, dict) else None


@functools.lru_cache(maxsize=1)
def _asked() -> str:
    path = Path(__file__).parent / "kernel" / "checkpoint" / "environment.py"
    return path.read_text(encoding="utf-8")
