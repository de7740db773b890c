"""Write, beside every catalogue (.po) of the package, the .json that JupyterLab reads.

With --check nothing is written; the exit status is 1 if a .json is not the compiled .po.
Translates nothing, and leaves out what is untranslated or marked fuzzy: that stays English.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from babel.messages.pofile import read_po

from jupyter_gkews import __version__

PACKAGE = Path(__file__).parents[1] / "jupyter_gkews"
#: Between the context and the English of a key, as in gettext's own binary catalogues.
CONTEXT_END = "\x04"


def compiled(source: Path) -> str:
    """The text of the .json for the catalogue `source`. ValueError if it cannot be parsed."""
    locale = source.parents[1].name
    with source.open("rb") as file:
        catalogue = read_po(file, locale=locale, domain=source.stem, abort_invalid=True)
    messages: dict[str, object] = {
        "": {
            "domain": source.stem,
            "language": locale.replace("_", "-"),
            "plural_forms": catalogue.plural_forms,
            "version": __version__,
        }
    }
    for message in catalogue:
        if not message.id or message.fuzzy:
            continue
        if isinstance(message.id, str):
            key, forms = message.id, [message.string]
        else:
            key, forms = message.id[0], list(message.string)
            if len(forms) == 1:
                # JupyterLab takes a list of one for a text without plural, and would show English.
                forms *= 2
        if all(forms):
            context = f"{message.context}{CONTEXT_END}" if message.context else ""
            messages[context + key] = forms
    return json.dumps(messages, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Compile, or check; 0 if every .json is the compiled .po now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    status = 0
    for source in sorted(PACKAGE.glob("locale/*/LC_MESSAGES/*.po")):
        text = compiled(source)
        target = source.with_suffix(".json")
        name = target.relative_to(PACKAGE.parent)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{name} is not the compiled {source.name}: run {Path(__file__).name}")
            status = 1
        else:
            target.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
