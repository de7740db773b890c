"""Label and field selectors: what a list or a watch is narrowed to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .status import Json, bad_request

Matches = Callable[[Json], bool]

#: Fields that can be selected by, besides name and namespace, as on the real server.
FIELDS = {
    "pods": {"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"},
    "events": {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
    },
}

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s!=,()]+)\s*(==|!=|=)\s*([^\s,]*)\s*$")
_HAS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")


def by_labels(selector: str) -> Matches:
    """What `labelSelector` says; raises Refused (400) if it cannot be read."""
    tests = [_label_test(part) for part in _split(selector)]
    return lambda found: all(test(found["metadata"].get("labels") or {}) for test in tests)


def by_fields(selector: str, plural: str) -> Matches:
    """What `fieldSelector` says; raises Refused (400) for a field that cannot be selected by."""
    tests = []
    for part in _split(selector):
        match = _EQUAL.match(part)
        if match is None:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        field, operator, value = match.groups()
        if field not in {"metadata.name", "metadata.namespace"} | FIELDS.get(plural, set()):
            raise bad_request(f"field label not supported: {field}")
        tests.append((field, operator != "!=", value))
    return lambda found: all((_field(found, f) == value) == equal for f, equal, value in tests)


def name_in(selector: str) -> str | None:
    """The one name that a field selector asks for: RBAC's resourceNames look at it."""
    for part in _split(selector):
        match = _EQUAL.match(part)
        if match and match[1] == "metadata.name" and match[2] != "!=":
            return match[3]
    return None


def _split(selector: str) -> list[str]:
    return [part for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label_test(part: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET.match(part):
        key, operator, values = match.groups()
        among = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in among
        return lambda labels: labels.get(key) not in among
    if match := _EQUAL.match(part):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _HAS.match(part):
        absent, key = match.groups()
        return lambda labels: (key in labels) != bool(absent)
    raise bad_request(f"unable to parse requirement: {part}")


def _field(found: Any, path: str) -> str:
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return "" if found is None else str(found)
