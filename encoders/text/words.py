"""Words of a text, folded; what is written without blanks as character n-grams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from operator import add

import numpy as np
import numpy.typing as npt

_KATAKANA = r"\u30a0-\u30ff\u31f0-\u31ff"
_HIRAGANA = r"\u3040-\u309f"
_HAN_HANGUL = (
    r"\u1100-\u11ff\uac00-\ud7af"  # Hangul
    r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_BIGRAMS = f"{_HIRAGANA}{_KATAKANA}{_HAN_HANGUL}"
_TRIGRAMS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer

_WITHOUT_BLANKS = re.compile(f"[{_BIGRAMS}{_TRIGRAMS}]")
_SCRIPT_RUN = re.compile(f"(?P<bigrams>[{_BIGRAMS}]+)|(?P<trigrams>[{_TRIGRAMS}]+)|(?P<word>[^{_BIGRAMS}{_TRIGRAMS}]+)")
_SIZES = {"bigrams": 2, "trigrams": 3, "word": 0}
_CUT = re.compile(
    f"(?P<katakana>[{_KATAKANA}]+)|(?P<pairs>[{_HIRAGANA}]+|[{_HAN_HANGUL}]+)|(?P<triples>[{_TRIGRAMS}]+)"
    f"|(?P<word>[^{_BIGRAMS}{_TRIGRAMS}]+)"
)
"""Parts of a word: one of Katakana mostly is a word of its own."""


_SOFT_HYPHEN = "\u00ad"


def folded(text: str, lang: str) -> str:
    """NFKC, soft hyphens left out, case folded by the language's rule: Turkish, Azerbaijani have an i without a dot."""
    text = text.replace(_SOFT_HYPHEN, "")
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
    return _words_and_places(text)[0]


@dataclass(frozen=True)
class Pieces:
    """The words of a text, so many at a time.

    Attributes:
        words: of the whole.
        ends: (1 + pieces,) where each piece begins among these, and where the last one ends.
        places: the same in characters: from 0 to the text's end.
    """

    words: Sequence[str]
    ends: Sequence[int]
    places: Sequence[int]


_NO_PIECES = Pieces([], [0], [0])


def pieces(text: str, lang: str, size: int) -> Pieces:
    """The words of a text in pieces of so many; of a few more where folding makes several of one."""
    if _SOFT_HYPHEN in text:
        return _pieces_without_soft_hyphens(text, lang, size)
    same = folded(text, lang)
    if _WITHOUT_BLANKS.search(same):
        return _pieces_without_blanks(text, same, lang, size)
    if not _is_in_place(text, same) and not _keeps_every_word(text):
        return _folded_by_piece(text, lang, size)
    found = word_pattern().findall(same)
    places = [0, *(piece.end() for piece in _piece_pattern(size).finditer(text))]
    return Pieces(found, [*range(0, len(found), size), len(found)], places) if found else _NO_PIECES


def _pieces_without_soft_hyphens(text: str, lang: str, size: int) -> Pieces:
    found = pieces(text.replace(_SOFT_HYPHEN, ""), lang, size)
    origins = [place for place, character in enumerate(text) if character != _SOFT_HYPHEN] + [len(text)]
    return Pieces(found.words, found.ends, [0, *(origins[place] for place in found.places[1:])])


def _is_in_place(text: str, same: str) -> bool:
    """Whether every character of a text stays where it is: NFKC changes nothing, and folding makes nothing longer."""
    return len(same) == len(text) and unicodedata.is_normalized("NFKC", text)


def _keeps_every_word(text: str) -> bool:
    return unicodedata.is_normalized("NFC", text) and all(map(_keeps_words, set(text)))


@cache
def _keeps_words(character: str) -> bool:
    """Whether words begin and end where they did after a character is folded: those with ß and … do, with ½ not."""
    kinds = {(one.isalnum(), unicodedata.category(one)[0] == "M") for one in (character, *folded(character, ""))}
    return len(kinds) == 1


def _folded_by_piece(text: str, lang: str, size: int) -> Pieces:
    found: list[str] = []
    ends, places = [0], [0]
    shape = "".join("x" if _folds_into_words(character) else character for character in text)
    for piece in _piece_pattern(size).finditer(shape):
        found += word_pattern().findall(folded(text[piece.start() : piece.end()], lang))
        ends.append(len(found))
        places.append(piece.end())
    return Pieces(found, ends, places)


@cache
def _folds_into_words(character: str) -> bool:
    """Whether a character that is none of a word's is one when it is folded, as ㎏ is."""
    return not word_pattern().match(character) and bool(word_pattern().search(folded(character, "")))


def _pieces_without_blanks(text: str, same: str, lang: str, size: int) -> Pieces:
    """A piece ends with a word, or inside one after a character."""
    found, starts = _words_and_places(same)
    if not found:
        return _NO_PIECES
    borders = starts[size::size]
    if not _is_in_place(text, same):
        borders = _origins(text, same, lang)[borders].tolist()
    return Pieces(found, [*range(0, len(found), size), len(found)], [0, *borders, len(text)])


def _origins(text: str, same: str, lang: str) -> npt.NDArray[np.intp]:
    """Which character of a text each one of the folded text comes from; nearly, where characters were composed."""
    lengths = [_folded_length(character, lang) for character in text]
    if sum(lengths) == len(same):
        return np.repeat(np.arange(len(text)), lengths)
    return np.arange(len(same)) * len(text) // len(same)


@cache
def _folded_length(character: str, lang: str) -> int:
    return len(folded(character, lang))


def _words_and_places(text: str) -> tuple[list[str], list[int]]:
    """Words of a folded text some of which is written without blanks, and where each begins."""
    found: list[str] = []
    places: list[int] = []
    for word in word_pattern().finditer(text):
        start, end = word.span()
        if not _WITHOUT_BLANKS.search(text, start, end):
            found.append(word.group())
            places.append(start)
            continue
        for part in _CUT.finditer(text, start, end):
            run = part.group()
            size = _GRAMS[part.lastgroup or "word"]
            if not size or len(run) <= size:
                found.append(run)
                places.append(part.start())
                continue
            pairs = map(add, run, run[1:])
            found += pairs if size == 2 else map(add, pairs, run[2:])
            places += range(part.start(), part.end() - size + 1)
    return found, places


_GRAMS = {"katakana": 0, "pairs": 2, "triples": 3, "word": 0}


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

RULES = f"""\
1. Soft hyphens (U+00AD) are taken out. In Turkish and Azerbaijani (tr, az) I becomes ı and İ becomes i. Then NFKC, then
   Unicode case folding, all languages.
2. Words are the matches of `{_WORD.format(marks="M")}`: letters and digits, with marks inside; M is every character of
   U+0300 to U+FFFF whose Unicode category begins with M.
3. A word with a character of `[{_BIGRAMS}{_TRIGRAMS}]` is cut into its longest runs of
   Katakana `[{_KATAKANA}]`, Hiragana `[{_HIRAGANA}]`, Han and Hangul `[{_HAN_HANGUL}]`,
   Thai, Lao, Burmese and Khmer `[{_TRIGRAMS}]`, and anything else.
   Runs of Hiragana and of Han and Hangul become overlapping pairs of characters, those of Thai and so on triples;
   runs of Katakana, of anything else, and shorter than that, stay whole."""
"""How ``words`` finds them, for those who read a model without this code."""
