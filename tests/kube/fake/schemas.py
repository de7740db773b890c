"""Custom resources by their definitions: defaults, pruning, validation. The structural part of
OpenAPI v3 that our definitions use; a keyword that is not known here is refused, never ignored.
"""

from __future__ import annotations

import copy
import re
from datetime import datetime
from typing import Any

from .status import Json

_KNOWN = {
    "type", "properties", "required", "enum", "items", "additionalProperties", "default", "pattern",
    "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "format", "description",
    "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
}  # fmt: skip
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
_OPEN = "x-kubernetes-preserve-unknown-fields"


def check_definition(schema: Json, path: str = "") -> None:
    """Raise ValueError for what this module could not enforce."""
    unknown = set(schema) - _KNOWN
    if unknown:
        raise ValueError(f"{path or 'schema'}: {sorted(unknown)} is not known to the fake server")
    for name, inner in (schema.get("properties") or {}).items():
        check_definition(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            check_definition(schema[key], f"{path}.{key}")


def admit(schema: Json, found: Json) -> list[str]:
    """Prune and default `found` in place; the causes for which it is invalid."""
    for key in list(found):
        if key not in ("apiVersion", "kind", "metadata"):
            inner = (schema.get("properties") or {}).get(key)
            if inner is None and not schema.get(_OPEN):
                del found[key]
            elif inner is not None:
                _prune(inner, found[key])
                _default(inner, found[key])
    for key, inner in (schema.get("properties") or {}).items():
        if key not in found and "default" in inner:
            found[key] = copy.deepcopy(inner["default"])
    causes: list[str] = []
    _validate({**schema, "type": "object"}, found, "", causes)
    return causes


def _prune(schema: Json, value: Any) -> None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _prune(schema["items"], item)
    if not isinstance(value, dict):
        return
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    for key in list(value):
        if key in properties:
            _prune(properties[key], value[key])
        elif isinstance(extra, dict):
            _prune(extra, value[key])
        elif not extra and not schema.get(_OPEN):
            del value[key]


def _default(schema: Json, value: Any) -> None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _default(schema["items"], item)
    if isinstance(value, dict):
        for key, inner in (schema.get("properties") or {}).items():
            if "default" in inner and value.get(key) is None:
                value[key] = copy.deepcopy(inner["default"])
            if key in value:
                _default(inner, value[key])


def _validate(schema: Json, value: Any, path: str, causes: list[str]) -> None:
    where = path or "<nil>"
    kind = schema.get("type")
    if value is None and schema.get("nullable"):
        return
    if kind is not None:
        expected = _TYPES[kind]
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
            name = type(value).__name__
            name = {"str": "string", "int": "integer", "dict": "object", "list": "array",
                    "bool": "boolean", "NoneType": "null"}.get(name, name)  # fmt: skip
            causes.append(
                f'{where}: Invalid value: "{name}": {where} in body must be of type {kind}: '
                f'"{name}"'
            )
            return
    if "enum" in schema and value not in schema["enum"]:
        among = ", ".join(f'"{v}"' for v in schema["enum"])
        causes.append(f'{where}: Unsupported value: "{value}": supported values: {among}')
    if isinstance(value, str):
        _validate_text(schema, value, where, causes)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for key, wrong, words in (("minimum", lambda a, b: a < b, "greater"),
                                  ("maximum", lambda a, b: a > b, "less")):  # fmt: skip
            if key in schema and wrong(value, schema[key]):
                causes.append(
                    f"{where}: Invalid value: {value}: {where} in body should be {words} than or "
                    f"equal to {schema[key]}"
                )
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(schema.get("items"), dict):
                _validate(schema["items"], item, f"{path}[{index}]", causes)
    if isinstance(value, dict):
        for key in schema.get("required") or []:
            if key not in value:
                at = f"{path}.{key}" if path else key
                causes.append(f"{at}: Required value")
        extra = schema.get("additionalProperties")
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if key in (schema.get("properties") or {}):
                _validate(schema["properties"][key], item, at, causes)
            elif isinstance(extra, dict):
                _validate(extra, item, at, causes)


def _validate_text(schema: Json, value: str, where: str, causes: list[str]) -> None:
    wrong = []
    if len(value) < schema.get("minLength", 0):
        wrong.append(f"should be at least {schema['minLength']} chars long")
    if len(value) > schema.get("maxLength", len(value)):
        wrong.append(f"should be at most {schema['maxLength']} chars long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        wrong.append(f"should match '{schema['pattern']}'")
    if schema.get("format") == "date-time":
        try:
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            wrong.append(f'must be of type date-time: "{value}"')
    causes += [f'{where}: Invalid value: "{value}": {where} in body {words}' for words in wrong]
