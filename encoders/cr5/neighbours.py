"""Nearest words of a word: the columns of Φ, compared by cosine across languages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.cr5.cr5_model import UNKNOWN, Cr5Model
from encoders.document import Int32Array, unit_rows
from encoders.errors import BadInput
from encoders.text.words import folded
from encoders.text.words import words as words_of
from encoders.top_scores import largest


@dataclass(frozen=True)
class Neighbours:
    """The nearest words of a word."""

    asked: str  # the word as the user typed it
    word: str  # the folded word; a vocabulary may have it in several pieces
    lang: str
    near: dict[str, list[tuple[str, float]]]  # by language, other words and cosines, nearest first


def neighbours(model: Cr5Model, asked: Sequence[str], k: int = 5) -> list[Neighbours]:
    """Find the ``k`` nearest words in each language, for each word in every language that has it.

    A word that a vocabulary has in several pieces, n-grams or words, is the sum of its known pieces. Words that no
    language has are left out. Raises BadInput: no language has any of the words.
    """
    known = [pair for text in asked for lang in model.vocabularies if (pair := _known_word(model, text, lang))]
    if not known:
        unknown = ", ".join(map(repr, asked))
        raise BadInput(f"the model has no word {unknown} in any of its languages; ask for another")
    vectors = unit_rows(model.sums([pieces for _, pieces in known]))
    for lang, first in model.firsts.items():  # one language at a time: its vectors are large
        vocabulary, rows = model.words_of(lang)
        for (word, pieces), cosines in zip(known, vectors @ unit_rows(rows).T, strict=True):
            cosines[pieces[(pieces >= first) & (pieces < first + len(vocabulary))] - first] = -np.inf
            best = largest(cosines, k).tolist()
            word.near[lang] = [(vocabulary[row], float(cosines[row])) for row in best if np.isfinite(cosines[row])]
    return [word for word, _ in known]


_AT_ONCE = 256
"""Words whose cosines with a vocabulary are computed at once."""


def nearest_words(model: Cr5Model, words: Sequence[str], lang: str, other: str, k: int) -> dict[str, dict[str, float]]:
    """The ``k`` nearest words in another language with cosines above 0, for each folded word that ``lang`` has."""
    lang, other = model.language(lang) or lang, model.language(other) or other
    distinct = list(dict.fromkeys(words))
    rows = model.ids(distinct, lang)
    known = np.flatnonzero(rows != UNKNOWN).tolist()
    vocabulary, vectors = model.words_of(other)
    vectors = unit_rows(vectors)
    nearest: dict[str, dict[str, float]] = {}
    for start in range(0, len(known), _AT_ONCE):
        block = known[start : start + _AT_ONCE]
        for position, cosines in zip(block, unit_rows(model.table.take(rows[block])) @ vectors.T, strict=True):
            best = largest(cosines, k).tolist()
            nearest[distinct[position]] = {vocabulary[row]: float(cosines[row]) for row in best if cosines[row] > 0}
    return nearest


def _known_word(model: Cr5Model, text: str, lang: str) -> tuple[Neighbours, Int32Array] | None:
    """A word that a language has, its neighbours not yet found, and the rows of its pieces in the table."""
    rows = model.ids(words_of(text, lang), lang)
    rows = rows[rows != UNKNOWN]
    return (Neighbours(text, folded(text, lang).strip(), lang, {}), rows) if len(rows) else None
