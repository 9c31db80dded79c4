"""Is a sentence written in a script of its language?"""

from __future__ import annotations

from functools import lru_cache

import langcodes
from fontTools import unicodedata
from langcodes.data_dicts import LIKELY_SUBTAGS

_FEWEST = 0.1
"""Share of letters in the language's script below which a sentence is no sentence of it: names stay in Latin."""
_TOGETHER = {
    "Hans": {"Hani"},
    "Hant": {"Hani"},
    "Hanb": {"Hani", "Bopo"},
    "Jpan": {"Hani", "Hira", "Kana"},
    "Kore": {"Hang", "Hani"},
}
"""Names of ISO 15924 that Unicode's characters don't have, and the scripts that they stand for."""
_OF_NO_SCRIPT = {"Zyyy", "Zinh", "Zzzz"}


def wrong_script(text: str, lang: str) -> bool:
    """Whether a sentence has letters and hardly one of a script that its language is written in, as CLDR has them."""
    scripts = [_script(character) for character in text if character.isalpha()]
    letters = [script for script in scripts if script not in _OF_NO_SCRIPT]
    languages_own = _scripts(lang)
    own = sum(script in languages_own for script in letters)
    return own < _FEWEST * len(letters)


@lru_cache(maxsize=512)
def _scripts(lang: str) -> frozenset[str]:
    """The one a tag names (``sr-Latn``); else all that the language has somewhere (``sr``: Cyrillic and Latin)."""
    language = langcodes.Language.get(lang)
    names = {language.script or language.maximize().script or ""}
    if not language.script:
        tags = [tag for tag in LIKELY_SUBTAGS if tag.startswith(f"{lang}-")]
        names |= {langcodes.Language.get(LIKELY_SUBTAGS[tag]).script or "" for tag in tags}
    return frozenset(script for name in names for script in _TOGETHER.get(name, {name}))


_script = lru_cache(maxsize=1 << 16)(unicodedata.script)
