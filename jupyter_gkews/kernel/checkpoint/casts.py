"""Casts between floating-point types, of bytes: weights of a file as the process holds them.

Whoever uses a result compares its bytes or its hash; nothing is taken on trust. Needs torch or
NumPy, whichever the process has imported.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

#: dtype of safetensors -> (bytes, name in torch, name in NumPy or None)
FLOATS: dict[str, tuple[int, str, str | None]] = {
    "F64": (8, "float64", "float64"),
    "F32": (4, "float32", "float32"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, "bfloat16", None),
    "F8_E4M3": (1, "float8_e4m3fn", None),
    "F8_E5M2": (1, "float8_e5m2", None),
}
#: What a process may hold weights as that stand in a file in another type.
TARGETS = ("F32", "BF16", "F16", "F64")
#: Elements cast at a time.
_PART = 16384


def possible(source: str, target: str) -> bool:
    """Whether this process can cast so."""
    if source not in FLOATS or target not in FLOATS:
        return False
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "frombuffer"):
        return hasattr(torch, FLOATS[source][1])
    return "numpy" in sys.modules and None not in (FLOATS[source][2], FLOATS[target][2])


def cast(data: Any, source: str, target: str) -> Any:
    """The bytes (a buffer) of `data` (a writable buffer) cast element by element.

    Raises LookupError if neither torch nor NumPy is there to do it.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "frombuffer"):
        read = torch.frombuffer(data, dtype=getattr(torch, FLOATS[source][1]))
        made = torch.empty(read.numel(), dtype=getattr(torch, FLOATS[target][1]))
        # In parts that torch does without its own threads: those hang in a forked process.
        for start in range(0, read.numel(), _PART):
            made[start : start + _PART].copy_(read[start : start + _PART])
        array = (ctypes.c_char * (made.numel() * made.element_size())).from_address(made.data_ptr())
        array._tensor = made
        return memoryview(array).cast("B")
    numpy: Any = sys.modules.get("numpy")
    names = FLOATS[source][2], FLOATS[target][2]
    if numpy is None or None in names:
        raise LookupError(f"neither torch nor numpy is here to cast {source} to {target}")
    with numpy.errstate(all="ignore"):
        made = numpy.frombuffer(data, dtype=names[0]).astype(names[1])
    return memoryview(made.view(numpy.uint8)).cast("B")
