"""Checks answers of the running server against openapi.yaml. For the tests only."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

import jupyter_gkews

SPEC: dict[str, Any] = yaml.safe_load(
    (Path(jupyter_gkews.__file__).parent / "openapi.yaml").read_text()
)
METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> list[tuple[str, str]]:
    """Every (METHOD, path template) that is described."""
    return [(m.upper(), path) for path, item in SPEC["paths"].items() for m in item if m in METHODS]


def template_of(path: str) -> str:
    """The described path that a path of a request belongs to."""
    path = "/" + path.lstrip("/").split("?")[0]
    for template in sorted(SPEC["paths"], key=lambda t: t.count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return str(template)
    raise AssertionError(f"{path} is not described in openapi.yaml")


@cache
def _validator(method: str, template: str, status: int) -> Draft202012Validator:
    responses = SPEC["paths"][template][method.lower()]["responses"]
    response = responses.get(str(status))
    assert response is not None or status >= 400, f"{method} {template} -> {status} not described"
    response = response or responses["default"]
    while "$ref" in response:
        response = SPEC["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    schema = response["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": SPEC["components"]})


def check(method: str, path: str, status: int, value: Any) -> None:
    """Fail where an answer is not as openapi.yaml says."""
    errors = list(_validator(method, template_of(path), status).iter_errors(value))
    assert not errors, f"{method} {path} -> {status}: {errors[0].json_path}: {errors[0].message}"
