"""Finds every string that the labextension and its settings schema hand to a translator.

Reads the sources themselves, so that a string cannot be forgotten in a list. Never guesses: a
call whose text is no plain literal is an error, since no catalogue can hold it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from jupyterlab_server.translation_utils import DEFAULT_SCHEMA_SELECTORS

_CALL = re.compile(r"\.\s*(__|_n|_p|_np|gettext|ngettext|pgettext|npgettext)\(")
_SPACE = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.S)
_LITERAL = re.compile(r"""'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)"|`((?:\\.|[^`\\$])*)`""", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.S)

#: How many leading arguments of a call are text: context, singular, plural.
_SHAPES = {
    "__": ("id",),
    "gettext": ("id",),
    "_n": ("id", "plural"),
    "ngettext": ("id", "plural"),
    "_p": ("context", "id"),
    "pgettext": ("context", "id"),
    "_np": ("context", "id", "plural"),
    "npgettext": ("context", "id", "plural"),
}


class Text(NamedTuple):
    """One translatable string: its context, its English, its English plural."""

    context: str | None
    id: str
    plural: str | None


def _unescape(body: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "ux" and len(code) > 1:
            return chr(int(code[1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r", "\n": ""}.get(code, code)

    return _ESCAPE.sub(one, body)


def _argument(source: str, at: int) -> tuple[str, int]:
    """The literal, or the sum of literals, that begins at `at`; and where the next one begins."""
    parts = []
    while True:
        space = _SPACE.match(source, at)
        assert space
        literal = _LITERAL.match(source, space.end())
        if not literal:
            line = source.count("\n", 0, at) + 1
            raise ValueError(f"line {line}: no plain string: {source[at : at + 60]!r}")
        parts.append(_unescape(next(body for body in literal.groups() if body is not None)))
        space = _SPACE.match(source, literal.end())
        assert space
        at = space.end() + 1
        if source[space.end()] != "+":
            return "".join(parts), at


def texts_of_source(source: str) -> list[Text]:
    """Every string that a TypeScript source translates, in order."""
    found = []
    for call in _CALL.finditer(source):
        at = call.end()
        fields: dict[str, str] = {}
        for field in _SHAPES[call[1]]:
            fields[field], at = _argument(source, at)
        found.append(Text(fields.get("context"), fields["id"], fields.get("plural")))
    return found


def texts_of_schema(schema: dict[str, Any]) -> list[Text]:
    """Every string of a settings schema that JupyterLab translates, with JupyterLab's context."""
    selectors = [
        (re.compile(f"^/{selector}$"), context)
        for selector, context in DEFAULT_SCHEMA_SELECTORS.items()
    ]
    found = []

    def walk(node: Any, path: str) -> None:
        if isinstance(node, str):
            context = next((ctx for regex, ctx in selectors if regex.match(path)), None)
            if context:
                found.append(Text(context, node, None))
        elif isinstance(node, dict):
            for key, value in node.items():
                walk(value, f"{path}/{key}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                walk(value, f"{path}/{index}")

    walk(schema, "")
    return found


def all_texts(root: Path) -> dict[Text, str]:
    """Every translatable string of the checkout at `root`, with the first file that has it."""
    found: dict[Text, str] = {}
    for path in sorted((root / "labextension" / "src").rglob("*.ts*")):
        try:
            texts = texts_of_source(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path.name}, {error}") from None
        for text in texts:
            found.setdefault(text, path.relative_to(root).as_posix())
    for path in sorted((root / "schema").glob("*.json")):
        for text in texts_of_schema(json.loads(path.read_text(encoding="utf-8"))):
            found.setdefault(text, path.relative_to(root).as_posix())
    return found
