"""Pages paired by their addresses: equal ones, once what names a language is taken out (the baseline of WMT16)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit

_NAMES = {
    "en": "english anglais englisch eng en gb us uk e",
    "fr": "french francais français franzoesisch fra fre fr f",
}
_REGIONS = {"en": "us uk gb ca au ie in nz za en", "fr": "fr ca be ch lu"}
_LANGUAGE_KEYS = re.compile(r"^(?:\w*lang(?:uage|ue)?|\w*locale|hl)$", re.IGNORECASE)


def match_urls(first: Iterable[str], second: Iterable[str], langs: tuple[str, str]) -> list[tuple[str, str]]:
    """Pairs of URLs that are the same but for their language, each URL in one pair at most.

    A page may name its language where the other names none. Of several that are the same, the first by the alphabet
    count.

    Args:
        first: URLs of pages in one language.
        second: of pages in the other.
        langs: the two languages.
    """
    sides = [_by_key(sorted(set(urls)), langs) for urls in (first, second)]
    pairs = []
    for key, urls in sides[0].items():
        pairs += [(a, b) for a, b in zip(urls, sides[1].get(key, []), strict=False) if a != b]
    return pairs


def _by_key(urls: list[str], langs: tuple[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for url in urls:
        found.setdefault(neutral(url, langs), []).append(url)
    return found


def neutral(url: str, langs: tuple[str, str]) -> str:
    """A URL without scheme, fragment and whatever names one of the languages, in its path or its query."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    marks = _marks(langs)
    segments = [_stripped(segment, marks) for segment in parts.path.split("/")]
    path = "/".join(segment for segment in segments if segment)
    query = [
        (key, rest)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _LANGUAGE_KEYS.match(key) and ((rest := _stripped(value, marks)) or not value)
    ]
    return f"{parts.hostname or ''}/{path}?{urlencode(query)}"


def _stripped(text: str, marks: re.Pattern[str]) -> str:
    return marks.sub("", text).strip("-_.")


@lru_cache
def _marks(langs: tuple[str, str]) -> re.Pattern[str]:
    """A language's name or code between marks that are no letters, with the mark before it."""
    names = []
    for lang in langs:
        names += _NAMES.get(lang, lang).split()
        names += [f"{lang}[-_]{region}" for region in _REGIONS.get(lang, lang).split()]
    longest_first = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(rf"(?:^|[-_.])(?:{longest_first})(?![a-zA-Z0-9])", re.IGNORECASE)
