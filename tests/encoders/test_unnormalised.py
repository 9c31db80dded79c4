"""Vectors before they are scaled to unit length."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from encoders.document import Document, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import load_graph
from encoders.machine.placement import CPU
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences

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
