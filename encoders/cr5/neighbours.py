"""Nearest words of a word: the columns of Φ, compared by cosine across languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.cr5.model import UNKNOWN, Cr5Model
from encoders.document import Int32Array, unit_rows
from encoders.errors import BadInput
from encoders.text.words import folded, words


@dataclass(frozen=True)
class Neighbours:
    """The nearest words of a word.

    Attributes:
        asked: the word as the user typed it.
        word: the folded word; a vocabulary may have it in several pieces.
        near: the nearest words of each language with their cosines, nearest first; the word itself is left out.
    """

    asked: str
    word: str
    lang: str
    near: Mapping[str, Sequence[tuple[str, float]]]


def neighbours(model: Cr5Model, asked: Sequence[str], k: int = 5) -> list[Neighbours]:
    """Find the ``k`` nearest words in each language, for each word in every language that has it.

    A word that a vocabulary has in several pieces, n-grams or words, is the sum of its known pieces.

    Words that no language has are left out.

    Raises:
        BadInput: no language has any of the words.
    """
    known = [word for text in asked for lang in model.vocabularies if (word := _known_word(model, text, lang))]
    if not known:
        unknown = ", ".join(map(repr, asked))
        raise BadInput(f"the model has no word {unknown} in any of its languages; ask for another")
    vectors = unit_rows(model.sums([word.rows for word in known]))
    near: list[dict[str, list[tuple[str, float]]]] = [{} for _ in known]
    for lang, first in model.firsts.items():  # one language at a time: its vectors are large
        vocabulary, rows = model.words_of(lang)
        for word, cosines, nearest in zip(known, vectors @ unit_rows(rows).T, near, strict=True):
            cosines[word.rows[(word.rows >= first) & (word.rows < first + len(vocabulary))] - first] = -np.inf
            best = np.argsort(-cosines, kind="stable")[:k].tolist()
            nearest[lang] = [(vocabulary[row], float(cosines[row])) for row in best if np.isfinite(cosines[row])]
    return [Neighbours(word.asked, word.word, word.lang, nearest) for word, nearest in zip(known, near, strict=True)]


@dataclass(frozen=True)
class _KnownWord:
    """A word that a language has, with the rows of its pieces in the table."""

    asked: str
    word: str
    lang: str
    rows: Int32Array


def _known_word(model: Cr5Model, text: str, lang: str) -> _KnownWord | None:
    rows = model.ids(words(text, lang), lang)
    rows = rows[rows != UNKNOWN]
    return _KnownWord(text, folded(text, lang).strip(), lang, rows) if len(rows) else None
