"""Is a sentence written in the script of its language?"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import langcodes

_FEWEST = 0.1
"""Share of letters in the language's script below which a sentence is no sentence of it: names stay in Latin."""
_NAMES = {
    "Latn": ("LATIN",),
    "Cyrl": ("CYRILLIC",),
    "Grek": ("GREEK",),
    "Arab": ("ARABIC",),
    "Hebr": ("HEBREW",),
    "Deva": ("DEVANAGARI",),
    "Beng": ("BENGALI",),
    "Taml": ("TAMIL",),
    "Thai": ("THAI",),
    "Geor": ("GEORGIAN",),
    "Armn": ("ARMENIAN",),
    "Hans": ("CJK",),
    "Hant": ("CJK",),
    "Jpan": ("CJK", "HIRAGANA", "KATAKANA"),
    "Kore": ("HANGUL", "CJK"),
}
"""How the names of a script's letters in Unicode begin; a language of another script is not looked at."""


def wrong_script(text: str, lang: str) -> bool:
    """Whether a sentence has letters and hardly one of its language's script."""
    names = _names(lang)
    letters = [character for character in text if character.isalpha()]
    if not names or not letters:
        return False
    own = sum(_script(letter).startswith(names) for letter in letters)
    return own < _FEWEST * len(letters)


@lru_cache(maxsize=512)
def _names(lang: str) -> tuple[str, ...]:
    return _NAMES.get(langcodes.Language.get(lang).maximize().script or "", ())


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "")
