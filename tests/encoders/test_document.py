"""Documents, vectors and ids."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from encoders.document import Document, FloatArray, int8_rows, short_hash, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import load_graph
from encoders.machine.placement import CPU
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.phrases import counted, first_line
from encoders.top_scores import largest

_MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 24)),
    elements=st.floats(-1, 1, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6),
)


@given(_MATRICES)
def test_unit_rows_have_norm_one_and_zero_rows_stay_zero(matrix: FloatArray) -> None:
    norms = np.linalg.norm(unit_rows(matrix), axis=1)
    empty = ~matrix.any(axis=1)
    np.testing.assert_allclose(norms, np.where(empty, 0, 1), atol=1e-5)


@given(_MATRICES)
def test_int8_rows_keep_the_direction(matrix: FloatArray) -> None:
    unit = unit_rows(matrix)
    back = unit_rows(int8_rows(unit).astype(np.float32))
    cosines = (unit * back).sum(axis=1)
    assert (cosines[matrix.any(axis=1)] > 0.999).all()


def test_the_title_is_part_of_what_is_encoded_and_of_the_hash() -> None:
    plain = Document("1", "en", "text")
    titled = Document("1", "en", "text", title="Title")
    assert plain.content == "text"
    assert titled.content == "Title\ntext"
    assert plain.text_hash != titled.text_hash
    assert plain.text_hash != Document("1", "de", "text").text_hash
    assert plain.text_hash == Document("2", "en", "text", fields={"label": "x"}).text_hash


def test_hashes_see_where_one_part_ends() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")
    assert len(short_hash("a")) == 16


@pytest.mark.parametrize("k", [1, 5, 60, 70])
def test_the_highest_cosines_are_those_of_a_stable_order(k: int) -> None:
    cosines = np.random.default_rng(0).integers(-5, 5, 60).astype(np.float32)
    cosines[::7] = -np.inf
    assert largest(cosines, k).tolist() == np.argsort(-cosines, kind="stable")[:k].tolist()


TEXTS = [Document(str(at), "en", text) for at, text in enumerate(["The river rose. Goats swam over it.", "Bread.", ""])]


def test_they_have_the_directions_of_the_unit_vectors_and_lengths_of_their_own(small: ModelFolder) -> None:
    plain, raw = (
        Sentences(SentenceEncoder(small, device="cpu", unnormalised=unnormalised)).sentence_vectors(TEXTS)
        for unnormalised in (False, True)
    )
    assert [len(rows) for rows in raw] == [len(rows) for rows in plain] == [2, 1, 0]
    units, lengths = np.concatenate(plain), np.linalg.norm(np.concatenate(raw), axis=1)
    np.testing.assert_allclose(unit_rows(np.concatenate(raw)), units, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-5)
    assert np.ptp(lengths) > 0.01
    assert lengths.max() < 4 * lengths.min()  # the mean of the tokens, not the sum


def test_sentences_read_together_fill_the_model(small: ModelFolder) -> None:
    sentence = SentenceEncoder(small, device="cpu")
    text = Document("1", "en", "The river rose and rose. " * 60)
    alone, together = (Sentences(sentence, together=joined).encode_documents([text]) for joined in (False, True))
    assert len(alone.passages[0].offsets) == 60
    assert 1 < len(together.passages[0].offsets) < 20
    assert together.passages[0].offsets[0, 0] == 0
    tokens = [len(sentence.tokenizer.tokenize([text.text[a:b]])[0]) for a, b in together.passages[0].offsets]
    assert max(tokens) <= sentence.segment_limit
    assert Sentences(sentence, together=True).spec.model != Sentences(sentence).spec.model


def test_a_graph_that_ends_otherwise_is_refused(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 4])
    result = onnx.helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, [None, 4])
    node = onnx.helper.make_node("Relu", ["x"], ["vectors"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [value], [result])), tmp_path / "m.onnx")
    with pytest.raises(BadInput, match="does not end with vectors divided by their length"):
        load_graph(tmp_path / "m.onnx", CPU, unnormalised=True)
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(BadInput, match="can't be read"):
        load_graph(tmp_path / "m.onnx", CPU, unnormalised=True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("1 document", (1, "document")),
        ("0 documents", (0, "document")),
        ("12,345 documents", (12_345, "document")),
        ("1 query", (1, "query", "queries")),
        ("2 queries", (2, "query", "queries")),
    ],
)
def test_one_is_not_several(said: str, words: tuple[int, str]) -> None:
    assert counted(*words) == said


@pytest.mark.parametrize(
    ("message", "expected"), [("one\ntwo", "one"), ("\n one \n", "one"), ("", "OSError"), ("x" * 400, "x" * 300)]
)
def test_of_an_error_the_first_line_is_told(message: str, expected: str) -> None:
    assert first_line(OSError(message)) == expected
