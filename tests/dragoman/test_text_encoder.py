"""Programs written for sentence-transformers or fastembed get the vectors that Dragoman stores and searches with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman import BadInput, TextEncoder
from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods import lawdr_method
from encoders.methods.density import DensityWeights
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.token_windows import TitledWindows
from onnx_export import cr5_folder

TEXTS = ["Die Elbe trat über die Ufer.", "Labe se vylilo z břehů. " * 60, "flood"]


@pytest.fixture(scope="module")
def encoder(small: ModelFolder) -> TextEncoder:
    return TextEncoder(small.path, device="cpu")


def test_documents_are_encoded_as_indexed_and_queries_as_searched(encoder: TextEncoder, small: ModelFolder) -> None:
    """Both with their prefix, which tells them apart."""
    ours = TitledWindows(SentenceEncoder(small, device="cpu"))
    documents = [Document(str(number), "und", text) for number, text in enumerate(TEXTS)]
    np.testing.assert_array_equal(encoder.encode(TEXTS), ours.encode_documents(documents).vectors)
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), ours.encode_queries(documents))
    assert not np.allclose(encoder.encode(TEXTS), encoder.encode_query(TEXTS))


def test_an_encoder_that_was_trained_for_a_method_encodes_by_that_method(small: ModelFolder, tmp_path: Path) -> None:
    sentences = [Document("", "und", f"The river rose {number} metres.") for number in range(30)]
    vectors = TitledWindows(SentenceEncoder(small, device="cpu")).encode_documents(sentences).vectors
    folder = lawdr_method.publish(small, DensityWeights.fit(vectors), tmp_path / "my-lawdr")
    assert default_method(folder) == "lawdr"
    text = "All rights reserved. Die Elbe trat über die Ufer. All rights reserved."
    expected = open_encoder(folder, device="cpu").encode_documents([Document("", "und", text)]).vectors
    np.testing.assert_array_equal(TextEncoder(str(folder.path), device="cpu").encode([text]), expected)


def test_the_methods_of_both_libraries_agree_in_their_usual_calls(encoder: TextEncoder) -> None:
    vectors, queries = encoder.encode(TEXTS), encoder.encode_query(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, encoder.embedding_size) == (3, encoder.get_sentence_embedding_dimension())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS, batch_size=1), atol=1e-5)
    usual: dict[str, Any] = {"show_progress_bar": False, "convert_to_numpy": True, "normalize_embeddings": True}
    for same in (
        encoder.encode(TEXTS, batch_size=8, **usual),
        encoder.encode_document(TEXTS, batch_size=8, **usual),
        list(encoder.embed(TEXTS, batch_size=8, parallel=None)),
        list(encoder.passage_embed(TEXTS, 8, None)),
    ):
        np.testing.assert_array_equal(vectors, same)
    np.testing.assert_array_equal(queries, encoder.encode_query(TEXTS, **usual))
    np.testing.assert_array_equal(queries, list(encoder.query_embed(TEXTS)))


def test_one_text_is_one_vector_none_are_no_rows_and_no_words_are_zeros(encoder: TextEncoder) -> None:
    np.testing.assert_array_equal(encoder.encode("flood"), encoder.encode(["flood"])[0])
    np.testing.assert_array_equal(encoder.encode_query("flood"), next(encoder.query_embed("flood")))
    assert encoder.encode([]).shape == encoder.encode_query([]).shape == (0, encoder.embedding_size)
    assert not encoder.encode(["flood", "", " \n"])[1:].any()


def test_texts_of_a_generator_are_read_as_vectors_are_taken(encoder: TextEncoder) -> None:
    texts = iter(TEXTS * 10)
    next(encoder.embed(texts, batch_size=2))
    assert len(list(texts)) == 28


def test_what_it_cannot_do_is_refused(encoder: TextEncoder, small: ModelFolder, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="batch_size is 0; give 1 or more"):
        encoder.encode(TEXTS, batch_size=0)
    with pytest.raises(BadInput, match="vectors have unit length; leave normalize_embeddings out"):
        encoder.encode(TEXTS, normalize_embeddings=False)
    for name in ("convert_to_numpy", "normalize_embeddings", "batch_size"):
        for encode in (encoder.encode, encoder.encode_query):
            with pytest.raises(BadInput, match=name):
                encode("flood", **{name: 0})  # type: ignore[arg-type]
    model = Cr5Model({"de": ["fluss"], "en": ["river"]}, Table(np.eye(3, 2, -1, dtype=np.float32)), dim=2)
    words = cr5_folder.publish(model, tmp_path / "words", "fp32", {}).path
    for model_name, sentence in (
        ("nothing", "there is no encoder 'nothing'"),
        (f"{small.path} + {small.path}", "names several encoders; make a TextEncoder of each"),
        (str(words), "words' encodes words of known languages and no texts; name another encoder"),
    ):
        with pytest.raises(BadInput, match=sentence):
            TextEncoder(model_name)


@pytest.mark.parametrize("name", ["encode", "encode_query", "embed", "query_embed"])
def test_a_value_that_is_no_text_is_refused(encoder: TextEncoder, name: str) -> None:
    def call(texts: Any) -> None:
        list(getattr(encoder, name)(texts))

    for value, kind in ((None, "NoneType"), (float("nan"), "float"), (b"flood", "bytes")):
        with pytest.raises(BadInput, match=f"text 3 is no string; it is {kind}"):
            call(["flood", "river", value])
    with pytest.raises(BadInput, match="text 1 is no string; it is float"):
        call(float("nan"))
    with pytest.raises(BadInput, match="text 2 has half of a surrogate pair"):
        call(["flood", "fl\ud800od"])
