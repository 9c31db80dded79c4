"""Words of a text, folded; what is written without blanks as character n-grams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import repeat

_KATAKANA = r"\u30a0-\u30ff\u31f0-\u31ff"
_HIRAGANA = r"\u3040-\u309f"
_BIGRAMS = (
    r"\u1100-\u11ff\uac00-\ud7af"  # Hangul
    rf"{_HIRAGANA}{_KATAKANA}"
    r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_TRIGRAMS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer

_WITHOUT_BLANKS = re.compile(f"[{_BIGRAMS}{_TRIGRAMS}]")
_SCRIPT_RUN = re.compile(f"(?P<bigrams>[{_BIGRAMS}]+)|(?P<trigrams>[{_TRIGRAMS}]+)|(?P<word>[^{_BIGRAMS}{_TRIGRAMS}]+)")
_ANYTHING = re.compile(r".+", re.DOTALL)
_SIZES = {"bigrams": 2, "trigrams": 3, "word": 0}
_JAPANESE_RUN = re.compile(f"(?P<word>[{_KATAKANA}]+)|[{_HIRAGANA}]+|[^{_KATAKANA}{_HIRAGANA}]+")


def folded(text: str, lang: str) -> str:
    """NFKC, case folded by the language's rule: Turkish and Azerbaijani have an i without a dot."""
    if lang in {"az", "tr"}:
        text = text.replace("I", "ı").replace("İ", "i")
    return unicodedata.normalize("NFKC", text).casefold()


def runs(text: str) -> Iterator[tuple[str, int]]:
    """Words of a folded text in order, each cut where its script changes, with the size of that script's n-grams.

    Two characters of Han, Kana and Hangul, three of Thai, Lao, Khmer and Burmese; 0 where blanks end the words.
    """
    found = word_pattern().findall(text)
    if not _WITHOUT_BLANKS.search(text):
        yield from zip(found, repeat(0))
        return
    for word in found:
        for run in _SCRIPT_RUN.finditer(word):
            yield run.group(), _SIZES[run.lastgroup or "word"]


def words(text: str, lang: str) -> list[str]:
    """Words of a text, folded, in order; overlapping n-grams of what is written without blanks.

    A run shorter than its n-grams is a word, and so is one of Katakana, which mostly is one.
    """
    text = folded(text, lang)
    if not _WITHOUT_BLANKS.search(text):
        every: list[str] = word_pattern().findall(text)
        return every
    return [gram for run, size in runs(text) for gram in (_grams(run, size) if size else (run,))]


def pieces(text: str, lang: str, size: int) -> list[tuple[int, int, list[str]]]:
    """The words of a text, so many at a time: start and end in characters of each piece, and its words.

    Together they are the words of the whole; an end is the next one's start, and the last is the text's end.
    """
    if _WITHOUT_BLANKS.search(text):
        return _pieces_without_blanks(text, lang, size)
    return [
        (*found.span(), word_pattern().findall(folded(found.group(), lang)))
        for found in _piece_pattern(size).finditer(text)
    ]


def _pieces_without_blanks(text: str, lang: str, size: int) -> list[tuple[int, int, list[str]]]:
    """Word by word: a piece ends with a word, or inside one after a character."""
    found: list[str] = []
    starts: list[int] = []
    for word in word_pattern().finditer(text):
        inside = words(word.group(), lang)
        places = _places(folded(word.group(), lang))
        found += inside
        if len(places) == len(inside) and places[-1] < word.end() - word.start():
            starts += [word.start() + place for place in places]
        else:  # a character that is several when folded
            starts += [word.start()] * len(inside)
    ends = [*starts[size::size], len(text)]
    firsts = [0, *starts[size::size]]
    return [
        (start, end, found[at * size : (at + 1) * size])
        for at, (start, end) in enumerate(zip(firsts, ends, strict=True))
        if found
    ]


def _grams(run: str, size: int) -> Sequence[str]:
    return [gram for part, length in _parts(run, size) for gram in _cut(part.group(), length)]


def _places(word: str) -> list[int]:
    """Where the n-grams of a word begin."""
    return [
        run.start() + part.start() + place
        for run in _SCRIPT_RUN.finditer(word)
        for part, length in _parts(run.group(), _SIZES[run.lastgroup or "word"])
        for place in range(len(_cut(part.group(), length)))
    ]


def _parts(run: str, size: int) -> Iterator[tuple[re.Match[str], int]]:
    """A run of Katakana is a word; Hiragana and what is written in pairs of characters beside it are n-grams apart."""
    if size != 2:
        whole = _ANYTHING.fullmatch(run)
        yield from [(whole, size)] if whole else []
        return
    for part in _JAPANESE_RUN.finditer(run):
        yield part, 0 if part["word"] else size


def _cut(run: str, size: int) -> Sequence[str]:
    if not size or len(run) <= size:
        return (run,)
    return [run[start : start + size] for start in range(len(run) - size + 1)]


@cache
def word_pattern() -> re.Pattern[str]:
    """What a word is: letters and digits with the marks that stand on them."""
    return re.compile(_WORD.format(marks=_marks()))


@cache
def _piece_pattern(size: int) -> re.Pattern[str]:
    word = _WORD.format(marks=_marks())
    return re.compile(rf"[\W_]*+(?:{word}[\W_]*+){{1,{size}}}+")


@cache
def _marks() -> str:
    return "".join(mark for code in range(0x300, 0x10000) if unicodedata.category(mark := chr(code)).startswith("M"))


_WORD = r"[^\W_]++(?:[{marks}]++[^\W_]*+)*+"
