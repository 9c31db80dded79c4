"""Folded words of a text; scripts that are written without blanks give character n-grams."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from operator import add

import numpy as np

_KATAKANA = r"\u30a0-\u30ff\u31f0-\u31ff"
_HIRAGANA = r"\u3040-\u309f"
_HAN_HANGUL = (
    r"\u1100-\u11ff\uac00-\ud7af"  # Hangul
    r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_BIGRAMS = f"{_HIRAGANA}{_KATAKANA}{_HAN_HANGUL}"
_TRIGRAMS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer

_WITHOUT_BLANKS = re.compile(f"[{_BIGRAMS}{_TRIGRAMS}]")
_LONGEST_WORD = 60
"""Characters; a longer run, such as an address, is not taken for a word."""
_SIZES = {"bigrams": 2, "trigrams": 3, "word": 0}


@cache
def _script_run() -> re.Pattern[str]:
    """Matches a run of scripts with n-grams of one size; compiled at its first use, as a search need not."""
    return re.compile(f"(?P<bigrams>[{_BIGRAMS}]+)|(?P<trigrams>[{_TRIGRAMS}]+)|(?P<word>[^{_BIGRAMS}{_TRIGRAMS}]+)")


@cache
def _cut() -> re.Pattern[str]:
    """Matches a run of one script in a word; a run of Katakana mostly is a word."""
    return re.compile(
        f"(?P<katakana>[{_KATAKANA}]+)|(?P<pairs>[{_HIRAGANA}]+|[{_HAN_HANGUL}]+)|(?P<triples>[{_TRIGRAMS}]+)"
        f"|(?P<word>[^{_BIGRAMS}{_TRIGRAMS}]+)"
    )


_SOFT_HYPHEN = "\u00ad"
_IOTA_BELOW = "\u0345"
"""The only mark in NFKC that folds to a letter of a word."""


def folded(text: str, lang: str) -> str:
    """Case-folded text in NFKC without soft hyphens; Turkish and Azerbaijani have a dotless i."""
    text = text.replace(_SOFT_HYPHEN, "")
    if lang in {"az", "tr"}:
        text = text.replace("I", "ı").replace("İ", "i")
    return unicodedata.normalize("NFKC", text).casefold()


def word_around(text: str, position: int) -> tuple[int, int]:
    """Start and end of the word between blanks that a position is inside; the position twice if it cuts no word.

    It cuts none between words, at a sentence mark, in a script without blanks, or in a run too long for a word.
    """
    if not text[position - 1 : position].strip() or not text[position : position + 1].strip():
        return position, position  # the usual case, and the splits take ten times as long
    before = text[max(position - _LONGEST_WORD, 0) : position]
    after = text[position : position + _LONGEST_WORD]
    begin, end = re.split(r"\s", before)[-1], re.split(r"\s", after)[0]
    is_cut = begin[-1] not in ".!?" and len(begin + end) < _LONGEST_WORD
    if not is_cut or _WITHOUT_BLANKS.search(begin + end):
        return position, position
    return position - len(begin), position + len(end)


def runs(text: str) -> Iterator[tuple[str, int]]:
    """Yield words of a folded text, cut where the script changes, and the script's n-gram size (0 if it has blanks)."""
    matches = word_pattern().findall(text)
    if not _WITHOUT_BLANKS.search(text):
        yield from zip(matches, repeat(0))
        return
    for word in matches:
        for run in _script_run().finditer(word):
            yield run.group(), _SIZES[run.lastgroup or "word"]


def words(text: str, lang: str) -> list[str]:
    """Folded words of a text in order; scripts without blanks give n-grams, but Katakana and shorter runs are words."""
    text = folded(text, lang)
    if not _WITHOUT_BLANKS.search(text):
        return word_pattern().findall(text)
    return _words_and_starts(text)[0]


@dataclass(frozen=True)
class Pieces:
    """The words of a text in pieces."""

    words: Sequence[str]  # of the whole text
    ends: Sequence[int]  # (1 + pieces,) borders of the pieces as positions in ``words``
    places: Sequence[int]  # (1 + pieces,) borders of the pieces in characters, from 0 to the text's end


_NO_PIECES = Pieces([], [0], [0])


def pieces(text: str, lang: str, size: int) -> Pieces:
    """The words of a text in pieces of ``size`` words; of a few more where folding makes several words of one."""
    if _SOFT_HYPHEN in text:
        cut = pieces(text.replace(_SOFT_HYPHEN, ""), lang, size)
        origins = [position for position, character in enumerate(text) if character != _SOFT_HYPHEN] + [len(text)]
        return Pieces(cut.words, cut.ends, [0, *(origins[position] for position in cut.places[1:])])
    folded_text = folded(text, lang)
    if _WITHOUT_BLANKS.search(folded_text):
        return _pieces_without_blanks(text, folded_text, lang, size)
    if not _is_in_place(text, folded_text):
        keeps_every_word = unicodedata.is_normalized("NFC", text) and all(map(_keeps_words, set(text)))
        if not keeps_every_word:
            return _folded_by_piece(text, lang, size)
    if not (text_words := word_pattern().findall(folded_text)):
        return _NO_PIECES
    borders = [0, *(piece.end() for piece in _piece_pattern(size).finditer(text))]
    return Pieces(text_words, [*range(0, len(text_words), size), len(text_words)], borders)


def _is_in_place(text: str, folded_text: str) -> bool:
    """Whether folding keeps all positions and borders of words; an iota below other letters would become a letter."""
    return len(folded_text) == len(text) and unicodedata.is_normalized("NFKC", text) and _IOTA_BELOW not in text


@cache
def _keeps_words(character: str) -> bool:
    """Whether folding a character keeps the borders of words: ß and … keep them, ½ does not."""
    kinds = {
        (letter.isalnum(), unicodedata.category(letter)[0] == "M") for letter in (character, *folded(character, ""))
    }
    return len(kinds) == 1


def _folded_by_piece(text: str, lang: str, size: int) -> Pieces:
    text_words: list[str] = []
    ends, borders = [0], [0]
    shape = "".join("x" if _folds_into_words(character) else character for character in text)
    for piece in _piece_pattern(size).finditer(shape):
        text_words += word_pattern().findall(folded(text[piece.start() : piece.end()], lang))
        ends.append(len(text_words))
        borders.append(piece.end())
    return Pieces(text_words, ends, borders)


@cache
def _folds_into_words(character: str) -> bool:
    """Whether a character outside words becomes part of a word when folded, as ㎏ does."""
    return not word_pattern().match(character) and bool(word_pattern().search(folded(character, "")))


def _pieces_without_blanks(text: str, folded_text: str, lang: str, size: int) -> Pieces:
    """Pieces of a text with scripts without blanks; a piece may end inside a word, between two characters."""
    text_words, starts = _words_and_starts(folded_text)
    if not text_words:
        return _NO_PIECES
    borders = starts[size::size]
    if not _is_in_place(text, folded_text):
        origins = np.repeat(np.arange(len(text)), [_folded_length(character, lang) for character in text])
        if len(origins) != len(folded_text):  # characters were composed: the places are approximate
            origins = np.arange(len(folded_text)) * len(text) // len(folded_text)
        borders = origins[borders].tolist()
    return Pieces(text_words, [*range(0, len(text_words), size), len(text_words)], [0, *borders, len(text)])


@cache
def _folded_length(character: str, lang: str) -> int:
    return len(folded(character, lang))


def _words_and_starts(text: str) -> tuple[list[str], list[int]]:
    """Words and n-grams of a folded text that has scripts without blanks, and the position where each begins."""
    grams: list[str] = []
    starts: list[int] = []
    for word in word_pattern().finditer(text):
        start, end = word.span()
        if not _WITHOUT_BLANKS.search(text, start, end):
            grams.append(word.group())
            starts.append(start)
            continue
        for part in _cut().finditer(text, start, end):
            run = part.group()
            size = _GRAMS[part.lastgroup or "word"]
            if not size or len(run) <= size:
                grams.append(run)
                starts.append(part.start())
                continue
            pairs = map(add, run, run[1:])
            grams += pairs if size == 2 else map(add, pairs, run[2:])
            starts += range(part.start(), part.end() - size + 1)
    return grams, starts


_GRAMS = {"katakana": 0, "pairs": 2, "triples": 3, "word": 0}


@cache
def word_pattern() -> re.Pattern[str]:
    """Pattern of a word: letters and digits with their combining marks."""
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
   A run of Hiragana, or of Han and Hangul, becomes overlapping pairs of characters; a run of Thai, Lao, Burmese and
   Khmer becomes overlapping triples. A run of Katakana or of anything else stays whole, and so does a run no longer
   than its pair or triple."""
"""The rules of ``words`` for readers of a model who do not have this code."""
