"""Cut a document into segments that an encoder takes at once: windows of tokens, or sentences."""

import os
import re

import sentencex

from encoders.document import Document
from encoders.errors import importing

WINDOW = 128
"""Tokens of a window, special tokens and prefix included."""
_LONGEST_SENTENCE = 400
"""Characters after which a run without sentence marks (Lao, a list, a table) is cut at a blank."""
_THAI_PHRASE = 100
"""Characters of Thai, which has no sentence marks, before its last blank."""

_BLANK_BEFORE_STOP = re.compile(r"[^\S\x00-\x7f](?=\.)")
"""A blank beyond ASCII before a full stop: between an initial and the stop ``sentencex`` 1.0.32 panics at it."""

_BEGINNING = 2_000
"""Characters of a text among which the first sentence is looked for."""
_LONGEST_FIRST = 300
"""Maximum characters of a first sentence."""


def windows(tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Start and end of windows of ``size`` tokens that share ``overlap`` with the window before; none is in another."""
    ends = max(tokens - overlap, min(tokens, 1))  # a text that is shorter than the overlap has a window, too
    return [(start, min(start + size, tokens)) for start in range(0, ends, max(size - overlap, 1))]


def sentences(text: str, lang: str, *, trained: bool = False) -> list[tuple[int, int]]:
    """Start and end of each sentence in characters of the text, without surrounding blanks.

    A line break ends a sentence. ``sentencex`` applies the rules of the text's language, a related language or English.
    Longer sentences (Lao, a table) are cut at blanks, and so is Thai, which has no sentence marks. With ``trained`` the
    model ``crfcut`` of ``pythainlp`` finds the ends of Thai sentences. Raises MissingPart: the extra ``thai``.
    """
    spans = []
    start = 0
    for line in text.splitlines(keepends=True):
        position = start
        for sentence in _segmented(line, lang.split("-", maxsplit=1)[0], trained):
            for begin, end in cut_at_blanks(sentence, 1, _LONGEST_SENTENCE, " "):
                if stripped := sentence[begin:end].strip():
                    first = position + sentence.index(stripped, begin)
                    spans.append((first, first + len(stripped)))
            position += len(sentence)
        start += len(line)
    return spans


def first_sentence(document: Document) -> str:
    """The first sentence of a document's text, or the beginning of a long one; empty if the text is."""
    beginning = document.text[:_BEGINNING]
    return next((beginning[start:end][:_LONGEST_FIRST] for start, end in sentences(beginning, document.lang)), "")


def _segmented(line: str, lang: str, trained: bool) -> list[str]:
    """Cut a line into sentences, which together are as long as the line."""
    if lang != "th":
        return list(sentencex.segment(lang, _BLANK_BEFORE_STOP.sub(" ", line)))
    if not trained:
        return [line[start:end] for start, end in cut_at_blanks(line, 1, _THAI_PHRASE, " ")]
    for name in ("PYTHAINLP_READ_ONLY", "PYTHAINLP_OFFLINE"):  # pythainlp would make a folder in the user's home
        os.environ.setdefault(name, "1")
    with importing("thai", "Thai sentences need a trained model; install it"):
        from pythainlp.tokenize.crfcut import segment  # noqa: PLC0415 - the import takes half a second; only Thai needs it
    return list(segment(line))


def cut_at_blanks(text: str, shortest: int, longest: int, blanks: str) -> list[tuple[int, int]]:
    """Start and end of pieces of at most ``longest`` characters, cut before a blank if any is beyond ``shortest``."""
    pieces = []
    start = 0
    while len(text) - start > longest:
        cut = max(text.rfind(blank, start + shortest, start + longest) for blank in blanks)
        end = cut if cut > 0 else start + longest
        pieces.append((start, end))
        start = end
    return [*pieces, (start, len(text))]
