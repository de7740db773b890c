"""Merge patches (RFC 7386) and JSON patches (RFC 6902), as an API server applies them."""

from __future__ import annotations

import copy
from typing import Any

from .status import Refused, bad_request


def merge(target: Any, patch: Any) -> Any:
    """A new value: `patch` merged into `target`; null takes a key away."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def json_patch(target: Any, steps: Any) -> Any:
    """A new value: `steps` done one by one. Raises Refused: 400 if it is none, 422 if one fails."""
    if not isinstance(steps, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value")
    found = copy.deepcopy(target)
    for step in steps:
        try:
            found = _step(found, step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _failed(f"{step.get('op')} operation does not apply: {error}") from error
    return found


def _failed(message: str) -> Refused:
    return Refused(
        422, "Invalid", f"the server rejected our request due to an error in our request: {message}"
    )


def _step(found: Any, step: dict[str, Any]) -> Any:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in step["path"].split("/")[1:]]
    if not keys:
        if step["op"] == "test" and found != step["value"]:
            raise ValueError("the value differs")
        return copy.deepcopy(step["value"]) if step["op"] in ("add", "replace") else found
    holder = found
    for key in keys[:-1]:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    last: Any = keys[-1]
    if isinstance(holder, list):
        last = len(holder) if last == "-" else int(last)
    if step["op"] == "test":
        now = holder.get(last) if isinstance(holder, dict) else holder[last]
        if now != step.get("value"):
            raise ValueError("the value differs")
    elif step["op"] == "remove":
        del holder[last]
    elif step["op"] == "add" and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(step["value"]))
    elif step["op"] in ("add", "replace"):
        if step["op"] == "replace" and isinstance(holder, dict) and last not in holder:
            raise KeyError(last)
        holder[last] = copy.deepcopy(step["value"])
    else:
        raise ValueError(f"{step['op']} is not known")
    return found
