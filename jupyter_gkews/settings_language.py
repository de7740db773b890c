"""The texts of our page in JupyterLab's settings, in the user's language.

JupyterLab translates a settings schema on the server, and looks for the texts in its language packs
only; this lets it find those that come with this package. The frontend's own texts need none of
this: JupyterLab sends it our catalogue. Never loads JupyterLab where it is not loaded.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

DOMAIN = "jupyter_gkews"
CATALOGUES = Path(__file__).parent / "locale"


def catalogue(locale: str) -> dict[str, list[str]]:
    """The translations for `locale` (`ko_KR`): by key, the forms. Empty if there are none."""
    for folder in CATALOGUES.iterdir():
        if folder.name.lower() == locale.lower():
            text = (folder / "LC_MESSAGES" / f"{DOMAIN}.json").read_text(encoding="utf-8")
            return {key: forms for key, forms in json.loads(text).items() if key}
    return {}


def translate_settings(log: logging.Logger) -> None:
    """Have JupyterLab translate our settings; without effect where JupyterLab is not loaded."""
    utilities = sys.modules.get("jupyterlab_server.translation_utils")
    if utilities is None:
        return

    class SettingsTexts(utilities.TranslationBundle):  # type: ignore[name-defined,misc]
        """Our catalogue first, then the language pack."""

        def update_locale(self, locale_: str) -> None:
            super().update_locale(locale_)
            self._ours = catalogue(locale_)

        def pgettext(self, msgctxt: str, msgid: str) -> str:
            forms = self._ours.get(f"{msgctxt}\x04{msgid}")
            return forms[0] if forms else str(super().pgettext(msgctxt, msgid))

    try:
        translator = utilities.translator
        translator._TRANSLATORS[DOMAIN] = SettingsTexts(DOMAIN, translator._LOCALE)
    except (AttributeError, OSError, ValueError) as error:
        # English settings are no reason to have no kernels.
        log.warning("The settings of jupyter-gkews stay in English: %s", error)
