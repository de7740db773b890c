"""What the documentation promises is compared with the code: reasons, traits, settings, links."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from jupyter_gkews import __version__
from jupyter_gkews.app import GkewsApp
from jupyter_gkews.errors import REASONS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def rows_of(document: Path) -> list[list[str]]:
    """The cells of every table row whose first cell is code, without the backticks there."""
    rows = []
    for line in document.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            rows.append([cells[0].strip("`"), *cells[1:]])
    return rows


def test_every_reason_is_documented_with_its_status_and_what_to_do() -> None:
    rows = rows_of(DOCS / "errors.md")
    assert {row[0]: int(row[1]) for row in rows} == REASONS
    for row in rows:
        assert len(row) == 5, row[0]
        assert all(row[2:]), f"{row[0]} leaves a cell empty"


def test_every_trait_is_documented_with_its_default() -> None:
    documented = {
        row[0].removeprefix("GkewsApp."): row[1]
        for row in rows_of(DOCS / "configuration.md")
        if row[0].startswith("GkewsApp.")
    }
    traits = GkewsApp.class_own_traits(config=True)
    assert set(documented) == set(traits)
    for name, trait in traits.items():
        if name != "store_dir":  # computed: `gkews` in the Jupyter data directory
            assert documented[name] == f"`{trait.default()!r}`", name


def test_every_setting_of_the_frontend_is_documented_with_its_default() -> None:
    schema = json.loads((ROOT / "schema" / "plugin.json").read_text(encoding="utf-8"))
    rows = {row[0]: row[1] for row in rows_of(DOCS / "configuration.md")}
    for name, setting in schema["properties"].items():
        assert rows.get(name) == f"`{json.dumps(setting['default'])}`", name


def test_every_route_is_in_the_overview_of_the_rest_interface() -> None:
    text = (DOCS / "rest.md").read_text(encoding="utf-8")
    description = yaml.safe_load(
        (ROOT / "jupyter_gkews" / "openapi.yaml").read_text(encoding="utf-8")
    )
    for path in description["paths"]:
        short = re.sub(r"\{\w+\}", "{id}", path)
        assert f"{short}`" in text, path


def test_every_field_of_a_request_is_in_the_overview_of_the_rest_interface() -> None:
    rows = {row[0]: row[1] for row in rows_of(DOCS / "rest.md")}
    description = yaml.safe_load(
        (ROOT / "jupyter_gkews" / "openapi.yaml").read_text(encoding="utf-8")
    )
    seen = 0
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if method == "parameters" or "requestBody" not in operation:
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = description["components"]["schemas"][schema["$ref"].split("/")[-1]]
            short = re.sub(r"\{\w+\}", "{id}", path)
            route = f"{method.upper()} {short}"
            for field in schema["properties"]:
                assert f'"{field}"' in rows[route], (route, field)
                seen += 1
    assert seen > 10


@pytest.mark.parametrize(
    "document", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda path: path.name
)
def test_links_into_the_repository_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    for target in [*targets, *re.findall(r'\bsrc(?:set)?="([^"]+)"', text)]:
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_the_versions_agree() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    openapi = yaml.safe_load((ROOT / "jupyter_gkews" / "openapi.yaml").read_text(encoding="utf-8"))
    assert package["version"] == __version__ == openapi["info"]["version"]
