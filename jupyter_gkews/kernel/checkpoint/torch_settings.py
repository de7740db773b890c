"""Settings of PyTorch: default dtype and device, threads, grad mode, determinism, backends.

Only what differs from a new process, save for what PyTorch chooses by itself and tells nowhere.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from .library_settings import Rule, State

#: Flags of torch.backends by path, and what a new process has.
_FLAGS: dict[str, Any] = {
    "cudnn.enabled": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
    "cudnn.allow_tf32": True,
    "cuda.matmul.allow_tf32": False,
    "cuda.matmul.allow_fp16_reduced_precision_reduction": True,
    "cuda.matmul.allow_bf16_reduced_precision_reduction": True,
    "mkldnn.enabled": True,
}
_SDP = ("flash", "mem_efficient", "math", "cudnn")
_PRINT = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def _take(torch: Any) -> State:
    state: State = {}
    if torch.get_default_dtype() is not torch.float32:
        state["default_dtype"] = str(torch.get_default_dtype()).rsplit(".", 1)[-1]
    device = str(torch.get_default_device()) if hasattr(torch, "get_default_device") else "cpu"
    if device != "cpu":
        state["default_device"] = device
    if not torch.is_grad_enabled():
        state["grad_enabled"] = False
    if torch.are_deterministic_algorithms_enabled():
        warn = torch.is_deterministic_algorithms_warn_only_enabled()
        state["deterministic_algorithms"] = "warn only" if warn else "on"
    if torch.is_anomaly_enabled():
        state["anomaly_detection"] = (
            "on" if torch.is_anomaly_check_nan_enabled() else "no NaN check"
        )
    if torch.is_warn_always_enabled():
        state["warn_always"] = True
    precision = _matmul_precision(torch)
    if precision not in (None, "highest"):
        state["float32_matmul_precision"] = precision
    if _flushes_denormal(torch):
        state["flush_denormal"] = True
    options = sys.modules["torch._tensor_str"].PRINT_OPTS
    for name, value in _PRINT.items():
        if getattr(options, name, value) != value:
            state[f"printoptions {name}"] = getattr(options, name)
    for device in ("cpu", "cuda"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if torch.is_autocast_enabled(device):
                dtype = str(torch.get_autocast_dtype(device)).rsplit(".", 1)[-1]
                state[f"autocast {device}"] = dtype
    for path, value in _backend_flags(torch):
        if path == "cuda.matmul.allow_tf32" and precision != "highest":
            continue  # one of the two says the same as the other
        if value != _FLAGS[path]:
            state[f"backends {path}"] = value
    for name in _SDP:
        enabled = getattr(torch.backends.cuda, f"{name}_sdp_enabled", None)
        if enabled is not None and not enabled():
            state[f"{name}_sdp"] = False
    # What torch would choose by itself is not told anywhere: so always, with what it hangs on.
    state["num_threads"] = torch.get_num_threads()
    state["_interop_threads"] = torch.get_num_interop_threads()
    return state


def _matmul_precision(torch: Any) -> str | None:
    """None where cells have set it by newer ways that it does not tell of."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return None


def _backend_flags(torch: Any) -> Iterator[tuple[str, Any]]:
    for path in _FLAGS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                owner: Any = torch.backends
                for step in path.split("."):
                    owner = getattr(owner, step)
        except (AttributeError, RuntimeError):  # another version, a build without it
            continue
        yield path, owner


def _flushes_denormal(torch: Any) -> bool:
    """torch tells it nowhere: a number that is only there while it does not."""
    tiny = torch.tensor([5e-324], dtype=torch.float64, device="cpu")
    return bool((tiny * 1.0 == 0).item())


def _put(torch: Any, state: State) -> None:
    failed = []
    for name, value in state.items():
        try:
            _put_one(torch, name, value)
        except Exception as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise ValueError("; ".join(failed))


def _put_one(torch: Any, name: str, value: Any) -> None:
    kind, _, rest = name.partition(" ")
    if name == "default_dtype":
        torch.set_default_dtype(getattr(torch, value))
    elif name == "default_device":
        torch.empty(0, device=value)  # raises where it is not there
        torch.set_default_device(value)
    elif name == "grad_enabled":
        torch.set_grad_enabled(value)
    elif name == "deterministic_algorithms":
        torch.use_deterministic_algorithms(True, warn_only=value == "warn only")
    elif name == "anomaly_detection":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.autograd.set_detect_anomaly(True, check_nan=value == "on")
    elif name == "warn_always":
        torch.set_warn_always(True)
    elif name == "float32_matmul_precision":
        torch.set_float32_matmul_precision(value)
    elif name == "flush_denormal":
        torch.set_flush_denormal(True)
    elif kind == "printoptions":
        setattr(sys.modules["torch._tensor_str"].PRINT_OPTS, rest, value)
    elif kind == "autocast":
        torch.set_autocast_dtype(rest, getattr(torch, value))
        torch.set_autocast_enabled(rest, True)
    elif kind == "backends":
        owner: Any = torch.backends
        *steps, last = rest.split(".")
        for step in steps:
            owner = getattr(owner, step)
        setattr(owner, last, value)
    elif name.endswith("_sdp"):
        getattr(torch.backends.cuda, f"enable_{name}")(False)
    elif name == "num_threads" and torch.get_num_threads() != value:
        if value > (os.cpu_count() or 1):
            raise ValueError(f"{value} threads are more than the processors here")
        torch.set_num_threads(value)
    elif name == "_interop_threads" and torch.get_num_interop_threads() != value:
        torch.set_num_interop_threads(min(value, os.cpu_count() or 1))


RULE: Rule = ("PyTorch settings", _take, _put)
