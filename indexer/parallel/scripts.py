"""Check whether a sentence is written in a script of its language."""

from functools import lru_cache

import langcodes
from fontTools import unicodedata
from langcodes.data_dicts import LIKELY_SUBTAGS

_MIN_SHARE = 0.1
"""Minimum share of letters in a script of the language; it is low because foreign names stay in Latin script."""
_COMBINED_SCRIPTS = {
    "Hans": {"Hani"},
    "Hant": {"Hani"},
    "Hanb": {"Hani", "Bopo"},
    "Jpan": {"Hani", "Hira", "Kana"},
    "Kore": {"Hang", "Hani"},
}
"""Script codes of ISO 15924 that no Unicode character has, and the scripts they combine."""
_NO_SCRIPT = {"Zyyy", "Zinh", "Zzzz"}


def wrong_script(text: str, lang: str) -> bool:
    """Whether a sentence has letters, but hardly any in a script of its language; the scripts are CLDR's."""
    scripts = [_script(character) for character in text if character.isalpha()]
    letter_scripts = [script for script in scripts if script not in _NO_SCRIPT]
    lang_scripts = _scripts(lang)
    matching = sum(script in lang_scripts for script in letter_scripts)
    return matching < _MIN_SHARE * len(letter_scripts)


@lru_cache(maxsize=512)
def _scripts(lang: str) -> frozenset[str]:
    """The script that a tag names (``sr-Latn``); else all scripts of the language (``sr``: Cyrillic and Latin)."""
    language = langcodes.Language.get(lang)
    names = {language.script or language.maximize().script or ""}
    if not language.script:
        tags = [tag for tag in LIKELY_SUBTAGS if tag.startswith(f"{lang}-")]
        names |= {langcodes.Language.get(LIKELY_SUBTAGS[tag]).script or "" for tag in tags}
    return frozenset(script for name in names for script in _COMBINED_SCRIPTS.get(name, {name}))


_script = lru_cache(maxsize=1 << 16)(unicodedata.script)
