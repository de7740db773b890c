"""json as it was when the kernel started: cells may put functions of their own into that module.

Imported before the first cell runs; it holds nothing else.
"""

from __future__ import annotations

from json import dump, dumps, loads

__all__ = ["dump", "dumps", "loads"]
