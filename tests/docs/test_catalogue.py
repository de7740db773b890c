"""The Korean catalogue is whole, says the same as the English, and JupyterLab serves it."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.pofile import read_po
from catalogue_sources import Text, all_texts, texts_of_source
from jupyterlab_server.translation_utils import get_language_pack, translator

from jupyter_gkews import __version__
from jupyter_gkews.settings_language import DOMAIN, catalogue, translate_settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "jupyter_gkews" / "locale" / "ko_KR" / "LC_MESSAGES" / "jupyter_gkews.po"
SCRIPT = ROOT / "scripts" / "compile_catalogue.py"
TEXTS = all_texts(ROOT)
#: Korean says these with a sign where English has a word.
SAID_WITH_SIGNS = {"%1 of %2 %3", "%1 on %2"}


@pytest.fixture(scope="module")
def messages() -> dict[Text, Message]:
    """The entries of the .po, by context and English."""
    with SOURCE.open("rb") as file:
        entries = [message for message in read_po(file, locale="ko_KR") if message.id]
    ids = [(m.id, None) if isinstance(m.id, str) else m.id for m in entries]
    return {
        Text(entry.context, singular, plural): entry
        for entry, (singular, plural) in zip(entries, ids, strict=True)
    }


def forms_of(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string)


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"%\d+", text))


@pytest.fixture
def korean_settings() -> Iterator[None]:
    """JupyterLab's translator in Korean with our settings; as it was before, afterwards."""
    locale, bundles = translator._LOCALE, dict(translator._TRANSLATORS)
    translate_settings(logging.getLogger(__name__))
    translator.set_locale("ko_KR")
    yield
    translator._TRANSLATORS.clear()
    translator._TRANSLATORS.update(bundles)
    translator.set_locale(locale)


def test_the_search_for_texts_reads_every_way_to_write_one() -> None:
    source = r"""
      // this.trans is not called here
      trans.__('It\'s \u2019');  trans.__(
        "one " + // half
          'two'
      );
      trans
        ._n('One file', `%1 files`, n); this._trans._p('menu', 'Kernel', x);
    """
    assert texts_of_source(source) == [
        Text(None, "It's ’", None),
        Text(None, "one two", None),
        Text(None, "One file", "%1 files"),
        Text("menu", "Kernel", None),
    ]


@pytest.mark.parametrize("call", ["trans.__(label)", "trans.__(`${n} left`)", "t._n('a', b, 1)"])
def test_a_text_that_no_catalogue_can_hold_is_an_error(call: str) -> None:
    with pytest.raises(ValueError, match="no plain string"):
        texts_of_source(call)


def test_both_the_frontend_and_its_settings_are_searched() -> None:
    sources = {Path(place).name for place in TEXTS.values()}
    assert {"toolbar.tsx", "wording.ts", "panel.tsx", "dialog.tsx", "plugin.json"} <= sources
    assert len(TEXTS) > 150


def test_every_text_is_translated_and_none_is_left_over(messages: dict[Text, Message]) -> None:
    missing = [text for text in TEXTS if text not in messages]
    assert not missing, f"add these to {SOURCE.name}: {missing}"
    left_over = [text for text in messages if text not in TEXTS]
    assert not left_over, f"nothing says these any more: {left_over}"
    untranslated = [t for t, m in messages.items() if m.fuzzy or not all(forms_of(m))]
    assert not untranslated


def test_the_translations_are_in_korean(messages: dict[Text, Message]) -> None:
    same = [
        text.id
        for text, message in messages.items()
        # A text of placeholders and signs alone has nothing to translate.
        if re.search(r"[A-Za-z]{2}", re.sub(r"%\d+", "", text.id))
        and text.id not in SAID_WITH_SIGNS
        and not all(re.search("[가-힣]", form) for form in forms_of(message))
    ]
    assert not same


def test_the_placeholders_are_those_of_the_english(messages: dict[Text, Message]) -> None:
    different = [
        (text.plural or text.id, form)
        for text, message in messages.items()
        for form in forms_of(message)
        if placeholders(form) != placeholders(text.plural or text.id)
    ]
    assert not different


def test_the_json_is_the_compiled_catalogue() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_untranslated_or_doubtful_text_is_not_compiled(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("compile_catalogue", SCRIPT)
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    source = tmp_path / "ko_KR" / "LC_MESSAGES" / "jupyter_gkews.po"
    source.parent.mkdir(parents=True)
    source.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
        'msgid "Size"\nmsgstr "크기"\n\n'
        'msgid "Where"\nmsgstr ""\n\n'
        '#, fuzzy\nmsgid "Fate"\nmsgstr "운명"\n\n'
        'msgctxt "settings"\nmsgid "Size"\nmsgstr "용량"\n',
        encoding="utf-8",
    )
    compiled = json.loads(script.compiled(source))
    assert compiled.pop("")["plural_forms"] == "nplurals=1; plural=0;"
    assert compiled == {"Size": ["크기"], "settings\x04Size": ["용량"]}


def test_jupyterlab_serves_the_catalogue_with_its_korean_language_pack() -> None:
    pack, message = get_language_pack("ko_KR")
    assert not message
    assert "jupyterlab" in pack, "the language pack itself"
    served = pack[DOMAIN]
    assert served[""]["language"] == "ko-KR"
    assert served[""]["version"] == __version__
    assert served["Pause"] == ["일시 중지"]
    assert len(served) == len(TEXTS) + 1


def test_a_text_with_a_plural_has_the_two_forms_that_jupyterlab_wants() -> None:
    pack, _ = get_language_pack("ko_KR")
    plural = {text.id for text in TEXTS if text.plural}
    assert plural
    for key, forms in pack[DOMAIN].items():
        if key:
            assert len(forms) == (2 if key in plural else 1), key


@pytest.mark.usefixtures("korean_settings")
def test_jupyterlab_translates_the_settings() -> None:
    schema = json.loads((ROOT / "schema" / "plugin.json").read_text(encoding="utf-8"))
    translated = translator.translate_schema(schema)
    assert translated["title"] == "일시 중지 및 재개"
    assert translated["jupyter.lab.setting-icon-label"] == "일시 중지 및 재개"
    for setting in translated["properties"].values():
        assert re.search("[가-힣]", setting["title"])
        assert re.search("[가-힣]", setting["description"])


@pytest.mark.usefixtures("korean_settings")
def test_the_settings_follow_a_change_of_the_language() -> None:
    translator.set_locale("fr_FR")
    assert translator.load(DOMAIN).pgettext("settings", "Show notifications") == (
        "Show notifications"
    )
    translator.set_locale("ko_KR")
    assert translator.load(DOMAIN).pgettext("settings", "Show notifications") == "알림 표시"


def test_a_language_without_a_catalogue_has_no_translations() -> None:
    assert catalogue("fr_FR") == {}
    assert catalogue("KO_kr") == catalogue("ko_KR") != {}
