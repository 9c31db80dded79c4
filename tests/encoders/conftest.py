"""A model folder with a density of sentences."""

from __future__ import annotations

import numpy as np
import pytest

from encoders.density import DensityWeights
from encoders.document import Document, FloatArray
from encoders.folder import ModelFolder
from encoders.lawdr import publish
from encoders.sentence import SentenceEncoder
from encoders.sentences import Sentences

BOILERPLATE = "All rights reserved."
CORPUS = [
    Document(
        str(number),
        "en",
        f"{BOILERPLATE} The river rose {number} metres in {1900 + number}. {BOILERPLATE} Farmers sold {number} goats.",
        f"News of day {number}",
    )
    for number in range(30)
]


@pytest.fixture(scope="session")
def sentence_vectors(default_folder: ModelFolder) -> FloatArray:
    """A vector a sentence of the corpus."""
    encoded = Sentences(SentenceEncoder(default_folder, device="cpu")).encode_documents(CORPUS)
    return np.concatenate([passages.unit_vectors() for passages in encoded.passages])


@pytest.fixture(scope="session")
def lawdr_folder(
    default_folder: ModelFolder, sentence_vectors: FloatArray, tmp_path_factory: pytest.TempPathFactory
) -> ModelFolder:
    """The default encoder with the density of the corpus's sentences."""
    density = DensityWeights.fit(sentence_vectors)
    return publish(default_folder, density, tmp_path_factory.mktemp("models") / "e5-lawdr")
