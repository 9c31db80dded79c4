"""Words near a word: the columns of Φ, compared by cosine across languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.cr5.model import UNKNOWN, Cr5Model
from encoders.document import unit_rows
from encoders.errors import BadInput
from encoders.text.words import folded, words


@dataclass(frozen=True)
class Neighbours:
    """What is near a word.

    Attributes:
        asked: the word as it was asked for.
        word: folded, as the vocabulary has it if it is one word there.
        lang: the language whose word it is.
        near: the nearest words of each language with their cosines, nearest first; the word itself is left out.
    """

    asked: str
    word: str
    lang: str
    near: Mapping[str, Sequence[tuple[str, float]]]


def neighbours(model: Cr5Model, asked: Sequence[str], k: int = 5) -> list[Neighbours]:
    """The nearest words in each language, of each word in every language that has it.

    What the vocabularies have in several pieces, as n-grams or words, is the sum of those that are there.

    Args:
        model: whose words.
        asked: words.
        k: how many a language.

    Returns:
        those of words that a language has; others are left out.

    Raises:
        BadInput: no language has any of the words.
    """
    held = [one for text in asked for lang in model.vocabularies if (one := _held(model, text, lang))]
    if not held:
        said = ", ".join(map(repr, asked))
        raise BadInput(f"the model has no word {said} in any of its languages; ask for another")
    vectors = unit_rows(model.sums([one.rows for one in held]))
    near: list[dict[str, list[tuple[str, float]]]] = [{} for _ in held]
    for lang, first in model.firsts.items():  # one at a time: its vectors are large
        own, rows = model.words_of(lang)
        for one, cosines, found in zip(held, vectors @ unit_rows(rows).T, near, strict=True):
            cosines[one.rows[(one.rows >= first) & (one.rows < first + len(own))] - first] = -np.inf
            best = np.argsort(-cosines, kind="stable")[:k].tolist()
            found[lang] = [(own[row], float(cosines[row])) for row in best if np.isfinite(cosines[row])]
    return [Neighbours(one.asked, one.word, one.lang, found) for one, found in zip(held, near, strict=True)]


@dataclass(frozen=True)
class _Held:
    """A word that a language has: the rows of its pieces in the table."""

    asked: str
    word: str
    lang: str
    rows: npt.NDArray[np.int32]


def _held(model: Cr5Model, text: str, lang: str) -> _Held | None:
    rows = model.ids(words(text, lang), lang)
    rows = rows[rows != UNKNOWN]
    return _Held(text, folded(text, lang).strip(), lang, rows) if len(rows) else None
