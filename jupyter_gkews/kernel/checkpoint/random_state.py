"""The random number generators that belong to the process: read, and set to where they stood.

Generators that variables hold are objects like others. It never draws a number.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Mapping
from typing import Any, Callable

AddRow = Callable[[str, str, "str | None"], None]


def capture(add_row: AddRow) -> dict[str, Any]:
    """The states, by library; one row for all that are kept."""
    states: dict[str, Any] = {"random": random.getstate()}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        state = numpy_random.get_state(legacy=False)
        states["numpy"] = state
        if state.get("bit_generator") != "MT19937":  # np.random.set_bit_generator
            states["numpy_generator"] = numpy_random.get_bit_generator()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        states["torch"] = torch.get_rng_state()
        for name in ("cuda", "xpu", "mps"):
            if _in_use(getattr(torch, name, None), name):
                device = getattr(torch, name)
                read = getattr(device, "get_rng_state_all", None) or device.get_rng_state
                states[f"torch_{name}"] = read()
    names = [name for name in states if name != "numpy_generator"]
    add_row("random number generators", "kept", ", ".join(names))
    for name, what in (("tensorflow", "TensorFlow"), ("cupy", "CuPy"), ("mxnet", "MXNet")):
        if name in sys.modules:
            add_row(
                f"random numbers of {what}", "lost", "its state is not kept: set the seed again"
            )
    return states


def _in_use(device: Any, name: str) -> bool:
    if device is None:
        return False
    try:
        if name == "mps":
            return bool(sys.modules["torch"].backends.mps.is_available())
        return bool(device.is_available() and device.is_initialized())
    except Exception:  # a torch built without it
        return False


def _put_numpy_generator(generator: Any) -> None:
    importlib.import_module("numpy.random").set_bit_generator(generator)


def apply(states: Mapping[str, Any]) -> list[str]:
    """Put the generators back where they stood. Returns sentences about what could not be."""
    problems = []
    torch: Any = sys.modules.get("torch")
    setters: dict[str, Callable[[Any], Any]] = {
        "random": lambda value: random.setstate(value),
        "numpy_generator": _put_numpy_generator,
        "numpy": lambda value: importlib.import_module("numpy.random").set_state(value),
        "torch": lambda value: torch.set_rng_state(value),
    }
    for name in sorted(states, key=lambda name: name != "numpy_generator"):
        value = states[name]
        device = name.partition("_")[2]
        try:
            if name.startswith("torch_"):
                if not _available(torch, device):
                    problems.append(
                        "the state of the GPU's random number generator: there is no GPU here"
                    )
                    continue
                module = getattr(torch, device)
                (getattr(module, "set_rng_state_all", None) or module.set_rng_state)(value)
            else:
                setters[name](value)
        except Exception as error:
            problems.append(f"the state of the random number generator of {name}: {error}")
    return problems


def _available(torch: Any, device: str) -> bool:
    try:
        if device == "mps":
            return bool(torch.backends.mps.is_available())
        return bool(getattr(torch, device).is_available())
    except Exception:
        return False
