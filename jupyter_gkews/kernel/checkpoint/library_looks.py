"""How objects of numpy, torch, pandas and tqdm look to a fingerprint.

Only of what the process has imported: it imports nothing itself, copies no memory, and runs no
code of the user's.
"""

from __future__ import annotations

import sys
from typing import Any

from .looks import Look, by_text, digest
from .places import look_at_array, look_at_tensor


def _array(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    look_at_array(prints, obj, cls is sys.modules["numpy"].ndarray)


def _scalar(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, obj.dtype.str)
    if obj.dtype.hasobject:
        return
    prints.say(obj.tobytes().hex() if obj.nbytes < 64 else digest(obj.tobytes()))


def _tensor(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, obj.is_inference())
    look_at_tensor(prints, obj, sys.modules["torch"])


def _nn_module(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, obj.__dict__.get("training"))
    for part in ("_modules", "_buffers", "_parameters"):
        found = obj.__dict__.get(part) or {}
        prints.say(part, len(found))
        for name, value in reversed(list(found.items())):
            prints.then(str(name), value)


def _optimizer(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__)
    prints.then(obj.param_groups)
    prints.then_mapping(obj.state)


def _frame(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, obj.shape)
    manager = obj._mgr
    for block in reversed(manager.blocks):
        prints.say(block.mgr_locs.as_array.tolist() if len(manager.blocks) < 1000 else "many")
        prints.then(block.values)
    for axis in manager.axes:
        prints.then(axis)


def _index(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, len(obj), obj.dtype, *map(str, obj.names))
    if cls.__name__ == "RangeIndex":
        prints.say(obj.start, obj.stop, obj.step)
        return  # asked for its data, it makes an array of them, and keeps it
    data = getattr(obj, "_data", None) if cls.__name__ != "MultiIndex" else None
    if data is not None:
        prints.then(data)


def _extension_array(prints: Any, obj: Any, cls: type) -> None:
    prints.say(cls.__qualname__, len(obj), obj.dtype)
    for name in ("_ndarray", "_data", "_mask"):
        part = obj.__dict__.get(name) if hasattr(obj, "__dict__") else None
        part = getattr(obj, name, None) if part is None else part
        if type(part).__name__ == "ndarray":
            prints.then(part)


def _bar(prints: Any, obj: Any, cls: type) -> None:
    """tqdm's: which class it is, and what it holds, depends on whether there is a notebook."""
    prints.say("a progress bar", *(obj.__dict__.get(name) for name in ("n", "total", "desc")))


def of_library(cls: type) -> Look | None:
    """How objects of a class of these libraries look; None of all others."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "generic"):
        if issubclass(cls, numpy.ndarray):
            return Look(_array)
        if issubclass(cls, numpy.generic):
            return Look(_scalar)
        if issubclass(cls, numpy.dtype):
            return Look(by_text)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "optim"):
        if issubclass(cls, torch.Tensor):
            return Look(_tensor)
        if issubclass(cls, torch.nn.Module):
            return Look(_nn_module)
        if issubclass(cls, torch.optim.Optimizer):
            return Look(_optimizer)
        if cls in (torch.dtype, torch.device, torch.Size, torch.layout):
            return Look(by_text)
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and hasattr(pandas, "api"):
        if cls in (pandas.DataFrame, pandas.Series):
            return Look(_frame)
        if issubclass(cls, pandas.Index):
            return Look(_index)
        if issubclass(cls, pandas.api.extensions.ExtensionArray):
            return Look(_extension_array)
    bars: Any = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if bars is not None and issubclass(cls, bars):
        return Look(_bar)
    return None
