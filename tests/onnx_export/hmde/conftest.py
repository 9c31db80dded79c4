"""A small trainable encoder, and pages in three languages for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.document import Document
from onnx_export.parity import read_texts
from tests.onnx_export.conftest import SaveModel

LANGS = ("de", "en", "fr")


@pytest.fixture(scope="session")
def small_model(save_model: SaveModel) -> Path:
    """A Hugging Face folder."""
    return save_model("bert", "small")


@pytest.fixture(scope="session")
def pages() -> list[Document]:
    """Twenty concepts in two categories; a page is a few of the gate's texts, its title another."""
    texts = [text.text for text in read_texts()]
    return [
        Document(
            f"{lang}{number}",
            lang,
            "\n".join(texts[(7 * number + more + place) % len(texts)] for more in range(1 + number % 4)),
            texts[(5 * number + place) % len(texts)],
            {"concept": str(number), "category": ["odd" if number % 2 else "even"]},
        )
        for number in range(20)
        for place, lang in enumerate(LANGS)
    ]
