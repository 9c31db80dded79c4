"""Programs written for sentence-transformers or fastembed get the vectors that Dragoman stores and searches with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dragoman import BadInput, TextEncoder
from encoders.document import Document
from encoders.folder import ModelFolder
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.titled_windows import TitledWindows

TEXTS = ["Die Elbe trat über die Ufer.", "Labe se vylilo z břehů. " * 60, "flood"]


@pytest.fixture(scope="module")
def encoder(small: ModelFolder) -> TextEncoder:
    return TextEncoder(str(small.path), device="cpu")


def test_documents_are_encoded_as_they_are_indexed_and_queries_as_they_are_searched(
    encoder: TextEncoder, small: ModelFolder
) -> None:
    """Both with their prefix, which tells them apart."""
    ours = TitledWindows(SentenceEncoder(small, device="cpu"))
    documents = [Document(str(number), "und", text) for number, text in enumerate(TEXTS)]
    np.testing.assert_array_equal(encoder.encode(TEXTS), ours.encode_documents(documents).vectors)
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), ours.encode_queries(documents))
    assert not np.allclose(encoder.encode(TEXTS), encoder.encode_query(TEXTS))


def test_the_methods_of_both_libraries_agree(encoder: TextEncoder) -> None:
    vectors, queries = encoder.encode(TEXTS), encoder.encode_query(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, encoder.embedding_size) == (3, encoder.get_sentence_embedding_dimension())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for same in (encoder.encode_document(TEXTS, normalize_embeddings=True), list(encoder.embed(TEXTS))):
        np.testing.assert_array_equal(vectors, same)
    np.testing.assert_array_equal(vectors, list(encoder.passage_embed(TEXTS)))
    assert (vectors * encoder.encode(TEXTS, batch_size=1)).sum(axis=1).min() > 0.999  # int8 depends on the batch
    np.testing.assert_array_equal(queries, list(encoder.query_embed(TEXTS)))


def test_one_text_is_one_vector_and_none_are_no_rows(encoder: TextEncoder) -> None:
    np.testing.assert_array_equal(encoder.encode("flood"), encoder.encode(["flood"])[0])
    np.testing.assert_array_equal(encoder.encode_query("flood"), next(encoder.query_embed("flood")))
    assert encoder.encode([]).shape == encoder.encode_query([]).shape == (0, encoder.embedding_size)


def test_texts_of_a_generator_are_read_as_vectors_are_taken(encoder: TextEncoder) -> None:
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in TEXTS * 10:
            read.append(text)
            yield text

    next(encoder.embed(texts(), batch_size=2))
    assert len(read) == 2


def test_what_it_cannot_do_is_refused(encoder: TextEncoder) -> None:
    with pytest.raises(BadInput, match="batch_size is 0; give 1 or more"):
        encoder.encode(TEXTS, batch_size=0)
    with pytest.raises(BadInput, match="vectors have unit length; leave normalize_embeddings out"):
        encoder.encode(TEXTS, normalize_embeddings=False)
    with pytest.raises(BadInput, match="there is no encoder 'nothing'"):
        TextEncoder("nothing")
