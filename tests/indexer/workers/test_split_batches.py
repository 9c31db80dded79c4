"""Vectors of a chunk that was halved around a document that can't be encoded are near to those of the whole chunk."""

import numpy as np
import pytest

from encoders.document import Document, Encoder
from indexer.indexing.reading import CHUNK_DOCUMENTS


@pytest.mark.parametrize(
    "documents", [pytest.param(8, marks=pytest.mark.parts), pytest.param(CHUNK_DOCUMENTS, marks=pytest.mark.long)]
)
def test_a_halved_chunk_s_vectors_are_those_of_the_whole_within_what_is_promised(
    encoder: Encoder, real_texts: list[Document], documents: int
) -> None:
    chunk = real_texts[:: len(real_texts) // documents][:documents]
    whole = _normed(encoder.encode_documents(chunk).vectors)
    first, last = 0, len(chunk)
    cosines = []
    while last - first > 1:  # the half with the first document, which is the poison, is halved again
        middle = (first + last) // 2
        part = _normed(encoder.encode_documents(chunk[middle:last]).vectors)
        cosines += list((part * whole[middle:last]).sum(axis=1))
        last = middle
    assert len(cosines) == len(chunk) - 1
    assert np.mean(cosines) >= 0.995
    assert min(cosines) >= 0.99


def _normed(vectors: np.ndarray) -> np.ndarray:
    normed: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normed
