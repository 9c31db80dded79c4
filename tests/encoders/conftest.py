"""Model folders with a density of sentences, and a small encoder where the default one proves nothing more."""

import numpy as np
import pytest

from encoders.document import Document, FloatArray
from encoders.folder.model_folder import ModelFolder
from encoders.methods.density import DensityWeights
from encoders.methods.lawdr_method import publish
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from tests.conftest import opened_once

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
def sentence(default_folder: ModelFolder) -> SentenceEncoder:
    return opened_once(default_folder)


def vectors_of(sentence: SentenceEncoder) -> FloatArray:
    encoded = Sentences(sentence).encode_documents(CORPUS)
    return np.concatenate([passages.without_title().unit_vectors() for passages in encoded.passages])


@pytest.fixture(scope="session")
def sentence_vectors(sentence: SentenceEncoder) -> FloatArray:
    return vectors_of(sentence)


@pytest.fixture(scope="session")
def small_lawdr(small: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    density = DensityWeights.fit(vectors_of(SentenceEncoder(small, device="cpu")))
    return publish(small, density, tmp_path_factory.mktemp("models") / "small-lawdr")


@pytest.fixture(scope="session")
def lawdr_folder(
    default_folder: ModelFolder, sentence_vectors: FloatArray, tmp_path_factory: pytest.TempPathFactory
) -> ModelFolder:
    density = DensityWeights.fit(sentence_vectors)
    return publish(default_folder, density, tmp_path_factory.mktemp("models") / "e5-lawdr")
