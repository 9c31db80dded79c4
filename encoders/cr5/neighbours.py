"""Words near a word: the columns of Φ, compared by cosine across languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.cr5.model import Cr5Model
from encoders.document import unit_rows
from encoders.errors import BadInput
from encoders.words import words


@dataclass(frozen=True)
class Neighbours:
    """What is near a word.

    Attributes:
        word: as the vocabulary has it.
        lang: the language whose word it is.
        near: the nearest words of each language with their cosines, nearest first; the word itself is left out.
    """

    word: str
    lang: str
    near: Mapping[str, Sequence[tuple[str, float]]]


def neighbours(model: Cr5Model, asked: Sequence[str], k: int = 5) -> list[Neighbours]:
    """The nearest words in each language, of each word in every language that has it.

    Args:
        model: whose words.
        asked: words.
        k: how many a language.

    Raises:
        BadInput: no language has a word.
    """
    vectors = {lang: unit_rows(model.words_of(lang)[1]) for lang in model.vocabularies}
    found = []
    for text in asked:
        holders = [(lang, word) for lang in model.vocabularies for word in _own(model, text, lang)]
        if not holders:
            raise BadInput(f"the model has no word {text!r} in any of its languages; ask for another")
        for lang, word in holders:
            own = vectors[lang][model.vocabularies[lang].index(word)]
            near = {}
            for other, rows in vectors.items():
                cosines = rows @ own
                order = np.argsort(-cosines, kind="stable")[: k + 1].tolist()
                some = [(model.vocabularies[other][row], float(cosines[row])) for row in order]
                near[other] = [one for one in some if (other, one[0]) != (lang, word)][:k]
            found.append(Neighbours(word, lang, near))
    return found


def _own(model: Cr5Model, text: str, lang: str) -> list[str]:
    """The word as a language's vocabulary has it; of several, as the n-grams of a longer one, none."""
    folded = words(text, lang)
    return folded if len(folded) == 1 and folded[0] in set(model.vocabularies[lang]) else []
