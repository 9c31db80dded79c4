"""Small made-up languages: a concept is three words of its own in each, among words that say nothing."""

from collections.abc import Sequence

import numpy as np
import pytest

from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import Document


def corpus(langs: Sequence[str], topics: int = 8, each: int = 6, seed: int = 0) -> list[Document]:
    """Documents of concepts about a topic each, translated into every language."""
    chance = np.random.default_rng(seed)
    documents = []
    for number in range(topics * each):
        topic = number % topics
        for lang in langs:
            words = [f"{lang}{topic}x{part}" for part in range(5)]
            words += [f"{lang}fill{part}" for part in chance.integers(0, 20, 12)]
            text, fields = " ".join(chance.permutation(words)), {"concept": str(number)}
            documents.append(Document(f"{lang}{number}", lang, text, fields=fields))
    return documents


@pytest.fixture(scope="package")
def trained() -> Cr5:
    return Cr5(Cr5Settings(dimensions=8, ridge=0.3)).fit(corpus(["de", "en", "fr"]))
